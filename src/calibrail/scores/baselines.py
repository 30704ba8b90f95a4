"""How far does one get without reading for meaning?

These scores look at surfaces only. A detector that does not beat them has not been shown to detect
anything, so every report carries them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calibrail.data.example import Example
from calibrail.scores.base import JSON, Scores
from calibrail.scores.undefined import each
from calibrail.text.lcs import lcs_length
from calibrail.text.names import NAMES_VERSION, names
from calibrail.text.numbers import NUMBERS_VERSION, numbers
from calibrail.text.words import WORDS_VERSION, content_words, words


class Surface:
    """Base of the baselines: exact arithmetic, no parameters."""

    name = ""
    requires: tuple[str, ...] = ("contexts", "response")
    tolerance = 0.0

    @property
    def params(self) -> Mapping[str, JSON]:
        """Baselines have none."""
        return {}

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the version of the word splitting."""
        return {"words": WORDS_VERSION}

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one value per example."""
        return each(examples, self.requires, self.value)

    def value(self, example: Example) -> float | str:
        """Return the value, or why there is none."""
        raise AssertionError(f"{type(self).__name__} defines no value")


class Length(Surface):
    """Characters of the response."""

    name = "length"
    requires = ("response",)

    def fingerprint(self) -> Mapping[str, JSON]:
        """Nothing beyond the response matters."""
        return {}

    def value(self, example: Example) -> float | str:
        """Return the number of characters."""
        return float(len(example.response))


class NovelCount(Surface):
    """Number of the response's content words that neither contexts nor question hold."""

    name = "novel_count"

    def value(self, example: Example) -> float | str:
        """Return the number of novel content words."""
        counted = _novel(example)
        return counted if isinstance(counted, str) else float(counted[0])


class Novelty(Surface):
    """Share of the response's content words that neither contexts nor question hold."""

    name = "novelty"

    def value(self, example: Example) -> float | str:
        """Return the share in [0, 1]."""
        counted = _novel(example)
        return counted if isinstance(counted, str) else counted[0] / counted[1]


class RougeL(Surface):
    """1 - ROUGE-L precision of the response against the joined contexts.

    Precision is the longest common subsequence of words over the response's words (Lin, 2004).
    """

    name = "rouge_l"

    def value(self, example: Example) -> float | str:
        """Return one minus the precision, in [0, 1]."""
        response = [word.text for word in words(example.response)]
        if not response:
            return "the response holds no word"
        context = [word.text for chunk in example.contexts for word in words(chunk)]
        return 1.0 - lcs_length(response, context) / len(response)


class Numbers(Surface):
    """Share of the response's numbers, normalised, that neither contexts nor question hold."""

    name = "numbers"

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the version of the number splitting."""
        return {"numbers": NUMBERS_VERSION}

    def value(self, example: Example) -> float | str:
        """Return the share in [0, 1]."""
        found = numbers(example.response)
        if not found:
            return "the response holds no number"
        known = {number for text in _sources(example) for number in numbers(text)}
        return sum(number not in known for number in found) / len(found)


class Entities(Surface):
    """Share of the response's capitalised names that neither contexts nor question hold."""

    name = "entities"

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the versions of the word splitting and of the names."""
        return {"words": WORDS_VERSION, "names": NAMES_VERSION}

    def value(self, example: Example) -> float | str:
        """Return the share in [0, 1]."""
        found = names(example.response)
        if not found:
            return "the response holds no capitalised name"
        # A name may stand in the question in lower case, so any word there can support it.
        known = {word.text.removesuffix("'s") for text in _sources(example) for word in words(text)}
        return sum(name not in known for name in found) / len(found)


def _sources(example: Example) -> tuple[str, ...]:
    return (*example.contexts, example.question)


def _novel(example: Example) -> tuple[int, int] | str:
    response = [word.text for word in content_words(example.response)]
    if not response:
        return "the response holds no content word"
    known = {word.text for text in _sources(example) for word in content_words(text)}
    return sum(word not in known for word in response), len(response)
