"""What is measured of an answer so that a detector can be judged by it, but is no detector?

These look like scores, so that one pass computes them beside the detectors, and are not registered:
nothing is calibrated on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from calibrail.data.example import Example
from calibrail.scores.base import JSON, Demand, Scores, Valued, prepare
from calibrail.scores.baselines import Surface
from calibrail.scores.geometry import joined
from calibrail.scores.neural import Embedding, angles
from calibrail.text.words import WORDS_VERSION, content_words


class QuestionLength(Surface):
    """Characters of the question."""

    name = "question_length"
    requires = ("question",)

    def fingerprint(self) -> Mapping[str, JSON]:
        """Nothing beyond the question matters."""
        return {}

    def value(self, example: Example) -> Valued | str:
        """Return the number of characters."""
        return float(len(example.question))


class ContextLength(Surface):
    """Characters of all contexts."""

    name = "context_length"
    requires = ("contexts",)

    def fingerprint(self) -> Mapping[str, JSON]:
        """Nothing beyond the contexts matters."""
        return {}

    def value(self, example: Example) -> Valued | str:
        """Return the number of characters."""
        return float(sum(map(len, example.contexts)))


class QuestionWords(Surface):
    """Number of the response's content words that the question holds."""

    name = "question_words"
    requires = ("question", "response")

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the version of the word splitting."""
        return {"words": WORDS_VERSION}

    def value(self, example: Example) -> Valued | str:
        """Return the number of repeated words; a response without content words repeats none."""
        known = {word.text for word in content_words(example.question)}
        return float(sum(word.text in known for word in content_words(example.response)))


class Angle(Embedding):
    """Angle between the embeddings of two of question, context and response, in radians.

    The context is the chunks joined by newlines, as for ``sgi``.

    Parameters
    ----------
    **encoder
        ``model``, ``revision``, ``prompt``, ``dtype``; see ``Embedding``.
    """

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return the angles; undefined where a text is missing."""
        values, positions, reasons = self.usable(examples)
        if positions:
            prepare(self.demands(examples))
            sides = [
                self.encoder.sentences([_text(examples[i], field) for i in positions])
                for field in self.requires
            ]
            values[np.array(positions)] = angles(*sides)
        return Scores(values, reasons)

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return both texts of every example that has them."""
        _, positions, _ = self.usable(examples)
        texts = dict.fromkeys(_text(examples[i], f) for i in positions for f in self.requires)
        return (Demand(self.encoder, (tuple(texts),)),) if texts else ()


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


def _text(example: Example, field: str) -> str:
    return joined(example) if field == "contexts" else str(getattr(example, field))
