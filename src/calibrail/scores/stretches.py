"""Which stretch of the answer departs most from its sources?"""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.scores.base import JSON, NO_CONTENT_WORD, Valued
from calibrail.scores.baselines import Surface, sources
from calibrail.text.words import WORDS_VERSION, Word, content_words, words

STRETCHES_VERSION: Final = "calibrail-stretches/1"

#: Letters by which two forms of a word are recognised as one: "measured", "measurement".
STEM: Final = 6
#: What a known word takes away from a stretch of novel ones.
KNOWN: Final = 0.5
#: Words with which answers speak of their sources: new in nearly every answer, and no claim.
FRAME: Final = re.compile(
    "answer|based|context|documents?|given|information|mentioned|passages?|provided|question"
    "|sources?|text"
)


class Stretch(Surface):
    """Base of the scores that look for one stretch of words; no model, no parameters."""

    versions: ClassVar[Mapping[str, JSON]] = {
        "words": WORDS_VERSION,
        "stretches": STRETCHES_VERSION,
    }

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

    def weigh(self, example: Example) -> tuple[list[Word], NDArray[np.float64]] | str:
        """Return the words with their weights, or why there are none."""
        raise AssertionError(f"{type(self).__name__} weighs nothing")


class NovelStretch(Stretch):
    """Heaviest run of content words, novel ones counting 1 and known ones -0.5.

    A word is known if question or contexts hold one with the same first six letters. At least 0;
    a whole invented clause weighs more than as many new words here and there.
    """

    name = "novel_stretch"

    def weigh(self, example: Example) -> tuple[list[Word], NDArray[np.float64]] | str:
        """Return content words with 1 for novel and -0.5 for known ones."""
        spans = content_words(example.response)
        if not spans:
            return NO_CONTENT_WORD
        known = {word.text[:STEM] for text in sources(example) for word in content_words(text)}
        novel = [word.text[:STEM] not in known and not FRAME.fullmatch(word.text) for word in spans]
        return spans, np.where(novel, 1.0, -KNOWN)


class NovelRun(Stretch):
    """Heaviest run of words, copied ones counting -1 and all others 1.

    A word is copied if it stands in three words in a row that a chunk or the question holds too. At
    least 0; high where the answer says much in words of its own.
    """

    name = "novel_run"

    def weigh(self, example: Example) -> tuple[list[Word], NDArray[np.float64]] | str:
        """Return all words with -1 for copied ones and 1 for the others."""
        spans = words(example.response)
        if not spans:
            return "the response holds no word"
        known = {gram for text in sources(example) for gram in _trigrams(words(text))}
        copied = np.zeros(len(spans), dtype=bool)
        for first, gram in enumerate(_trigrams(spans)):
            if gram in known:
                copied[first : first + 3] = True
        return spans, np.where(copied, -1.0, 1.0)


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


def _trigrams(spans: Sequence[Word]) -> list[tuple[str, str, str]]:
    texts = [word.text for word in spans]
    return list(zip(texts, texts[1:], texts[2:], strict=False))
