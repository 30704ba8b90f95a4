"""Length, novelty, ROUGE-L and features.

These scores look at surfaces only. A detector that does not beat the simplest of them has not been
shown to detect anything, so every report carries those.

These look like scores, so that one pass computes them beside the detectors, and are not registered:
nothing is calibrated on them.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.scores.base import NO_CONTENT_WORD, Detector, Embedding, Valued, angles, joined
from calibrail.text import words

NO_WORD: Final = "the response holds no word"
TOO_MANY_WORDS: Final = (
    f"response and contexts hold too many words to compare (more than {words.MOST_PAIRS:,} pairs)"
)

#: Answers whose sources stay taken apart, of each kind of score.
KEPT: Final = 8

#: Letters by which two forms of a word are recognised as one: "measured", "measurement".
STEM: Final = 6
#: What a known word takes away from a stretch of novel ones.
KNOWN: Final = 0.5
#: Words with which answers speak of their sources: new in nearly every answer, and no claim.
FRAME: Final = re.compile(words.patterns("words")["frame"])


class Length(Detector):
    """Characters of the response."""

    name = "length"
    requires = ("response",)

    def value(self, example: Example) -> float:
        """Return the number of characters."""
        return float(len("".join(getattr(example, self.requires[0]))))


class Unmatched(Detector):
    """Base: the share of the response's pieces of a kind that neither contexts nor question hold.

    The unmatched pieces are the evidence.
    """

    #: What finds the pieces of a text, and why a response without any is undefined.
    pieces: ClassVar[Callable[[str], Sequence[words.Piece]]]
    nothing: ClassVar[str]
    #: Whether their number is the value, not their share.
    counts = False

    def value(self, example: Example) -> Valued | str:
        """Return the share in [0, 1], or the number of a score that counts."""
        stated = type(self).pieces(example.response)
        if not stated:
            return self.nothing
        known = _known(type(self).known, _sources(example))
        items = [
            {"text": example.response[start:end], "start": start, "end": end}
            for text, start, end in stated
            if text not in known
        ]
        n = 1 if self.counts else len(stated)
        return len(items) / n, {"kind": "words", "items": items}

    @classmethod
    def known(cls, text: str) -> Iterable[str]:
        """Return what a piece may match in a source."""
        return (piece.text for piece in cls.pieces(text))


class Novelty(Unmatched):
    """Share of the response's content words that neither contexts nor question hold."""

    name = "novelty"
    versions = (("words", words.words_version),)
    pieces = words.content_words
    nothing = NO_CONTENT_WORD


class NovelCount(Novelty):
    """Number of the response's content words that neither contexts nor question hold."""

    name = "novel_count"
    counts = True


class Numbers(Unmatched):
    """Share of the response's numbers, normalised, that neither contexts nor question hold."""

    name = "numbers"
    versions = (("numbers", partial(words.rules_version, "numbers")),)
    pieces = words.numbers
    nothing = "the response holds no number"


class Entities(Unmatched):
    """Share of the response's capitalised names that neither contexts nor question hold."""

    name = "entities"
    versions = (("words", words.words_version), ("names", partial(words.rules_version, "names")))
    pieces = words.names
    nothing = "the response holds no capitalised name"

    @classmethod
    def known(cls, text: str) -> Iterable[str]:
        """Return all words: a name may stand in the question in lower case."""
        return (word.text.removesuffix("'s") for word in words.words(text))


class RougeL(Detector):
    """1 - ROUGE-L precision of the response against the joined contexts.

    Precision is the longest common subsequence of words over the response's words (Lin, 2004).
    """

    name = "rouge_l"
    versions = (("words", words.words_version), ("pairs", "calibrail-pairs/1"))

    def value(self, example: Example) -> Valued | str:
        """Return one minus the precision, in [0, 1]; undefined above `MOST_PAIRS` of words."""
        response = [word.text for word in words.words(example.response)]
        context = [word.text for text in example.contexts for word in words.words(text)]
        if not response:
            return NO_WORD
        if len(response) * len(context) > words.MOST_PAIRS:
            return TOO_MANY_WORDS
        return 1.0 - words.lcs_length(response, context) / len(response)


class WordScore(Detector):
    """Base of the scores that look for one stretch of words; no model, no parameters."""

    versions = (("words", words.words_version), ("stretches", "calibrail-stretches/1"))

    def value(self, example: Example) -> Valued | str:
        """Return the weight of the heaviest stretch, which is the evidence."""
        weighed = self.weigh(example)
        if isinstance(weighed, str):
            return weighed
        places, weights = weighed
        value, first, last = heaviest(weights)
        items = []
        if last > first:
            start, end = places[first].start, places[last - 1].end
            items = [{"text": example.response[start:end], "start": start, "end": end}]
        return value, {"kind": "stretch", "items": items}

    def weigh(self, example: Example) -> tuple[list[words.Piece], NDArray[np.float64]] | str:
        """Return the words with their weights, or why there are none."""
        raise AssertionError(f"{type(self).__name__} weighs nothing")


class NovelStretch(WordScore):
    """Heaviest run of content words, novel ones counting 1 and known ones -0.5.

    A word is known if question or contexts hold one with the same first six letters. At least 0;
    a whole invented clause weighs more than as many new words here and there. It was designed
    while looking at 458 answers of RAGTruth QA: what it reaches on those is no result.
    """

    name = "novel_stretch"

    def weigh(self, example: Example) -> tuple[list[words.Piece], NDArray[np.float64]] | str:
        """Return content words with 1 for novel and -0.5 for known ones."""
        spans = words.content_words(example.response)
        known = _known(_stems, _sources(example))
        novel = [word.text[:STEM] not in known and not FRAME.fullmatch(word.text) for word in spans]
        return (spans, np.where(novel, 1.0, -KNOWN)) if spans else NO_CONTENT_WORD


class NovelRun(WordScore):
    """Heaviest run of words, copied ones counting -1 and all others 1.

    A word is copied if it stands in three words in a row that a chunk or the question holds too. At
    least 0; high where the answer says much in words of its own. It was designed while looking at
    458 answers of RAGTruth QA: what it reaches on those is no result.
    """

    name = "novel_run"

    def weigh(self, example: Example) -> tuple[list[words.Piece], NDArray[np.float64]] | str:
        """Return all words with -1 for copied ones and 1 for the others."""
        spans = words.words(example.response)
        known = _known(_trigrams, _sources(example))
        weights = np.ones(len(spans))
        for first, gram in enumerate(_trigrams(example.response)):
            if gram in known:
                weights[first : first + 3] = -1.0
        return (spans, weights) if spans else NO_WORD


def heaviest(weights: NDArray[np.float64]) -> tuple[float, int, int]:
    """Return the largest sum of consecutive weights, at least 0, and where it starts and ends.

    >>> heaviest(np.array([1.0, -0.5, 1.0, -2.0, 1.0]))
    (1.5, 0, 3)
    """
    best, first, last = 0.0, 0, 0
    total, start = 0.0, 0
    for index, weight in enumerate(weights.tolist()):
        if total <= 0.0:
            total, start = 0.0, index
        total += weight
        if total > best:
            best, first, last = total, start, index + 1
    return best, first, last


def _sources(example: Example) -> tuple[str, ...]:
    """Return the texts that may support an answer: the chunks and the question."""
    return (*example.contexts, example.question)


# All sentences of an answer have the same sources, which are taken apart once.
@words.remembered(KEPT)
def _known(read: Callable[[str], Iterable[Any]], sources: tuple[str, ...]) -> frozenset[Any]:
    return frozenset(piece for text in sources for piece in read(text))


def _stems(text: str) -> Iterable[str]:
    return (word.text[:STEM] for word in words.content_words(text))


def _trigrams(text: str) -> Iterable[tuple[str, ...]]:
    texts = [word.text for word in words.words(text)]
    return zip(texts, texts[1:], texts[2:], strict=False)


class QuestionLength(Length):
    """Characters of the question."""

    name = "question_length"
    requires = ("question",)


class ContextLength(Length):
    """Characters of all contexts."""

    name = "context_length"
    requires = ("contexts",)


class QuestionWords(Detector):
    """Number of the response's content words that the question holds."""

    name = "question_words"
    requires = ("question", "response")
    versions = (("words", words.words_version),)

    def value(self, example: Example) -> float:
        """Return the number of repeated words; a response without content words repeats none."""
        known = {word.text for word in words.content_words(example.question)}
        return float(sum(word.text in known for word in words.content_words(example.response)))


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
