"""What is measured of an answer so that a detector can be judged by it, but is no detector?

These look like scores, so that one pass computes them beside the detectors, and are not registered:
nothing is calibrated on them.
"""

from collections.abc import Iterable
from typing import Final

from calibrail.data.example import Example
from calibrail.scores.detector import Detector, Embedding, angles, joined
from calibrail.text.words import WORDS_VERSION, content_words


class QuestionLength(Detector):
    """Characters of the question."""

    name = "question_length"
    requires = ("question",)

    def value(self, example: Example) -> float:
        """Return the number of characters."""
        return float(len(example.question))


class ContextLength(Detector):
    """Characters of all contexts."""

    name = "context_length"
    requires = ("contexts",)

    def value(self, example: Example) -> float:
        """Return the number of characters."""
        return float(sum(map(len, example.contexts)))


class QuestionWords(Detector):
    """Number of the response's content words that the question holds."""

    name = "question_words"
    requires = ("question", "response")
    versions = (("words", WORDS_VERSION),)

    def value(self, example: Example) -> float:
        """Return the number of repeated words; a response without content words repeats none."""
        known = {word.text for word in content_words(example.question)}
        return float(sum(word.text in known for word in content_words(example.response)))


class Angle(Embedding):
    """Angle between the embeddings of two of question, context and response, in radians.

    The context is the chunks joined by newlines, as for ``sgi``.

    Parameters
    ----------
    model, revision, prompt, dtype
        See ``Embedding``.
    """

    def inputs(self, example: Example) -> Iterable[str]:
        """Return both texts."""
        return (
            joined(example) if field == "contexts" else str(getattr(example, field))
            for field in self.requires
        )

    def value(self, example: Example) -> float:
        """Return the angle."""
        left, right = self.encoder.sentences(list(self.inputs(example)))
        return float(angles(left[None], right[None])[0])


class QuestionContext(Angle):
    """theta(q, c): the room that a question leaves between itself and its context."""

    name = "theta_qc"
    requires = ("question", "contexts")


class ResponseQuestion(Angle):
    """theta(r, q)."""

    name = "theta_rq"
    requires = ("response", "question")


class ResponseContext(Angle):
    """theta(r, c)."""

    name = "theta_rc"
    requires = ("response", "contexts")


#: The three sides of the triangle.
ANGLES: Final = (QuestionContext, ResponseQuestion, ResponseContext)
