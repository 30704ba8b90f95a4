"""How far does one get without reading for meaning?

These scores look at surfaces only. A detector that does not beat them has not been shown to detect
anything, so every report carries them.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from calibrail.data.example import Example
from calibrail.scores.base import JSON, NO_CONTENT_WORD, Valued
from calibrail.scores.detector import Detector
from calibrail.text.lcs import lcs_length
from calibrail.text.names import NAMES_VERSION, Name, name_spans
from calibrail.text.numbers import NUMBERS_VERSION, Number, number_spans, numbers
from calibrail.text.words import WORDS_VERSION, Word, content_words, words


class Surface(Detector):
    """Base of the baselines: exact arithmetic, no parameters."""

    versions: ClassVar[Mapping[str, JSON]] = {"words": WORDS_VERSION}


class Length(Surface):
    """Characters of the response."""

    name = "length"
    requires = ("response",)
    versions: ClassVar[Mapping[str, JSON]] = {}

    def value(self, example: Example) -> float:
        """Return the number of characters."""
        return float(len(example.response))


class NovelCount(Surface):
    """Number of the response's content words that neither contexts nor question hold."""

    name = "novel_count"

    def value(self, example: Example) -> Valued | str:
        """Return the number of novel content words, which are the evidence."""
        novel, n = _novel(example)
        return (float(len(novel)), _words(example, novel)) if n else NO_CONTENT_WORD


class Novelty(Surface):
    """Share of the response's content words that neither contexts nor question hold."""

    name = "novelty"

    def value(self, example: Example) -> Valued | str:
        """Return the share in [0, 1]; the novel words are the evidence."""
        novel, n = _novel(example)
        return (len(novel) / n, _words(example, novel)) if n else NO_CONTENT_WORD


class RougeL(Surface):
    """1 - ROUGE-L precision of the response against the joined contexts.

    Precision is the longest common subsequence of words over the response's words (Lin, 2004).
    """

    name = "rouge_l"

    def value(self, example: Example) -> Valued | str:
        """Return one minus the precision, in [0, 1]."""
        response = [word.text for word in words(example.response)]
        if not response:
            return "the response holds no word"
        context = [word.text for chunk in example.contexts for word in words(chunk)]
        return 1.0 - lcs_length(response, context) / len(response)


class Numbers(Surface):
    """Share of the response's numbers, normalised, that neither contexts nor question hold."""

    name = "numbers"
    versions: ClassVar[Mapping[str, JSON]] = {"numbers": NUMBERS_VERSION}

    def value(self, example: Example) -> Valued | str:
        """Return the share in [0, 1]; the unmatched numbers are the evidence."""
        stated = number_spans(example.response)
        if not stated:
            return "the response holds no number"
        known = {number for text in sources(example) for number in numbers(text)}
        unmatched = [number for number in stated if number.text not in known]
        return len(unmatched) / len(stated), _words(example, unmatched)


class Entities(Surface):
    """Share of the response's capitalised names that neither contexts nor question hold."""

    name = "entities"
    versions: ClassVar[Mapping[str, JSON]] = {"words": WORDS_VERSION, "names": NAMES_VERSION}

    def value(self, example: Example) -> Valued | str:
        """Return the share in [0, 1]; the unmatched names are the evidence."""
        names = name_spans(example.response)
        if not names:
            return "the response holds no capitalised name"
        # A name may stand in the question in lower case, so any word there can support it.
        known = {word.text.removesuffix("'s") for text in sources(example) for word in words(text)}
        unmatched = [name for name in names if name.text not in known]
        return len(unmatched) / len(names), _words(example, unmatched)


def sources(example: Example) -> tuple[str, ...]:
    """Return the texts that may support an answer: the chunks and the question."""
    return (*example.contexts, example.question)


def _novel(example: Example) -> tuple[list[Word], int]:
    """Return the novel content words and how many content words there are."""
    response = content_words(example.response)
    known = {word.text for text in sources(example) for word in content_words(text)}
    return [word for word in response if word.text not in known], len(response)


def _words(example: Example, places: Sequence[Word | Number | Name]) -> Mapping[str, JSON]:
    """Return pieces of the response as evidence, as they are written there."""
    items = [
        {"text": example.response[place.start : place.end], "start": place.start, "end": place.end}
        for place in places
    ]
    return {"kind": "words", "items": items}
