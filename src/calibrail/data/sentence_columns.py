"""Which columns hold a number for each sentence, and of which answers can they not be used?"""

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.by_sentence import listed, require_judgeable, sentence_examples, sentences_of
from calibrail.data.example import Example
from calibrail.data.given_sentences import NAMED, given_in, label_key_of
from calibrail.data.paths import value_at
from calibrail.data.rows import FieldError

_UNDEFINED: Final = math.nan


def cells_of_sentences(rows: Sequence[Mapping[str, object]], column: str | None) -> tuple[str, ...]:
    """Return what the sentences that rows list say of themselves, text, place and label apart.

    >>> cells_of_sentences([{"s": [{"text": "It rained.", "label": 0, "nli": 0.2}]}], "s")
    ('nli',)
    """
    values = [] if column is None else [value_at(row, column) for row in rows]
    names = dict.fromkeys(
        name for value in values for item in given_in(value, None) or () for name in item.columns
    )
    passed_over = {*NAMED, *map(label_key_of, values)}
    return tuple(name for name in names if name not in passed_over)


class SentenceColumns:
    """The numbers that columns hold for the sentences of a whole file, as a score reads them.

    Parameters
    ----------
    names : sequence of str
        The columns that answers and their sentences carry.

    Attributes
    ----------
    set_aside : dict of str to int
        Answers of which a column lists another number of values than they have sentences; they
        cannot be used with it.
    labels : array of int
        1 for each unsupported sentence, 0 for a supported one.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.set_aside = dict.fromkeys(names, 0)
        self.labels = array("b")
        self._numbers = {name: array("d") for name in names}
        self._usable = {name: array("b") for name in names}
        self._of_sentences: set[str] = set()

    def add(self, example: Example, labels: Sequence[int | None]) -> None:
        """Take the cells of an answer, whose sentences have these labels."""
        n = len(labels)
        self.labels.extend(int(label == 1) for label in labels)
        own = {name for item in sentences_of(example) for name in item.columns}
        sentences: list[Example] | None = None
        for name, numbers in self._numbers.items():
            cell, usable = example.columns.get(name), True
            if listed(cell) is None and name not in own:
                numbers.extend([_number(cell)] * n)
                self._usable[name].extend([1] * n)
                continue
            self._of_sentences.add(name)
            try:
                require_judgeable(example, (name,))
            except FieldError:
                self.set_aside[name] += 1
                usable = False
            sentences = sentences or sentence_examples(example)
            numbers.extend(_number(item.columns.get(name)) for item in sentences)
            self._usable[name].extend([usable] * n)

    def values(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int8]]]:
        """Return the numbers of each column and the labels beside them, of the answers it is for.

        Columns that say nothing of single sentences, or hold no number, are left out; NaN stands
        for a sentence without a number.
        """
        labels, result = np.array(self.labels, dtype=np.int8), {}
        for name in (name for name in self._numbers if name in self._of_sentences):
            usable = np.array(self._usable[name], dtype=bool)
            numbers = np.array(self._numbers[name], dtype=np.float64)[usable]
            if not np.isnan(numbers).all():
                result[name] = numbers, labels[usable]
        return result


def _number(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else _UNDEFINED
