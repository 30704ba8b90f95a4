"""What must be remembered of each example to describe a whole file in one pass?"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.diagnosis import GroupSizes, TextLengths
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.sketches import Sketcher, Sketches
from calibrail.data.splits import group_numbers

UNLABELLED: Final = -1


@dataclass(frozen=True, slots=True)
class Survey:
    """The memory of one pass over n examples: about 250 bytes each, and no text.

    Parameters
    ----------
    labels : ndarray of int8, shape (n,)
        0, 1, or -1 without a label.
    groups, ids : sequences of length n
        As in the examples.
    chars, words : ndarray of int64, shape (n, 3)
        Sizes of question, contexts and response.
    chunks : ndarray of int64, shape (n,)
        Number of context chunks.
    texts : ndarray of uint64, shape (n,)
        Hash of all texts; 0 for an example without any.
    columns : mapping of str to ndarray of float64, shape (n,)
        Further columns that hold only numbers; NaN without a value.
    empty_columns : tuple of str
        Further columns without any value.
    sketches : Sketches
        For near-duplicates.
    """

    labels: NDArray[np.int8]
    groups: Sequence[str | None]
    ids: Sequence[str]
    chars: NDArray[np.int64]
    words: NDArray[np.int64]
    chunks: NDArray[np.int64]
    texts: NDArray[np.uint64]
    columns: dict[str, NDArray[np.float64]]
    empty_columns: tuple[str, ...]
    sketches: Sketches


class Surveyor:
    """Takes examples one by one and makes a `Survey` of them.

    Parameters
    ----------
    columns : sequence of str
        The further columns that the examples carry.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._labels = array("b")
        self._sizes = array("Q")
        self._texts = array("Q")
        self._groups: list[str | None] = []
        self._ids: list[str] = []
        self._columns = {name: array("d") for name in columns}
        self._textual: set[str] = set()
        self._sketcher = Sketcher()

    def add(self, example: Example) -> None:
        """Remember one example."""
        self._labels.append(UNLABELLED if example.label is None else example.label)
        self._groups.append(example.group)
        self._ids.append(example.id)
        texts = ((example.question,), example.contexts, (example.response,))
        self._sizes.extend(sum(map(len, parts)) for parts in texts)
        self._sizes.extend(sum(len(part.split()) for part in parts) for parts in texts)
        self._sizes.append(len(example.contexts))
        worded = bool(example.question or example.response or example.contexts)
        self._texts.append(int(example.digest(), 16) if worded else 0)
        for name, values in self._columns.items():
            value = example.columns.get(name)
            if isinstance(value, str):
                self._textual.add(name)
            values.append(value if isinstance(value, float) else float("nan"))
        self._sketcher.add(example)

    def finish(self) -> Survey:
        """Return what was remembered."""
        sizes = np.array(self._sizes, dtype=np.int64).reshape(-1, 7)
        columns = {
            name: np.array(values, dtype=np.float64)
            for name, values in self._columns.items()
            if name not in self._textual
        }
        empty = tuple(name for name, values in columns.items() if np.isnan(values).all())
        return Survey(
            labels=np.array(self._labels, dtype=np.int8),
            groups=self._groups,
            ids=self._ids,
            chars=sizes[:, :3],
            words=sizes[:, 3:6],
            chunks=sizes[:, 6],
            texts=np.array(self._texts, dtype=np.uint64),
            columns={name: values for name, values in columns.items() if name not in empty},
            empty_columns=empty,
            sketches=self._sketcher.finish(),
        )


def text_lengths(survey: Survey) -> tuple[TextLengths, ...]:
    """Return the sizes of question, contexts and response."""
    lengths = []
    for i, field in enumerate(TEXT_FIELDS):
        there = survey.chars[:, i] > 0
        chars, words = survey.chars[there, i], survey.words[there, i]
        n = int(there.sum())
        quantiles = (*median_and_p95(chars), *median_and_p95(words))
        lengths.append(TextLengths(field, n, len(there) - n, *quantiles))
    return tuple(lengths)


def median_and_p95(values: NDArray[np.int64]) -> tuple[float, float]:
    """Return the median and the 95th percentile, NaN without values."""
    if not values.size:
        return float("nan"), float("nan")
    median, p95 = np.quantile(values, (0.5, 0.95))
    return float(median), float(p95)


def group_sizes(survey: Survey) -> GroupSizes:
    """Return how many groups there are, how large, and how many hold both classes."""
    grouped = np.array([group is not None for group in survey.groups], dtype=bool)
    if not grouped.any():
        return GroupSizes(0, len(grouped), 0, 0)
    named = [group for group in survey.groups if group is not None]
    numbers = group_numbers(named, len(named))
    n = int(numbers.max()) + 1
    of_class = [np.bincount(numbers[survey.labels[grouped] == k], minlength=n) for k in (0, 1)]
    mixed = int(np.count_nonzero((of_class[0] > 0) & (of_class[1] > 0)))
    return GroupSizes(n, int((~grouped).sum()), int(np.bincount(numbers).max()), mixed)


def repeats(survey: Survey) -> tuple[int, int]:
    """Return (examples with the texts of an earlier one, different texts with both labels)."""
    worded = survey.texts != 0
    texts, inverse = np.unique(survey.texts[worded], return_inverse=True)
    labels = survey.labels[worded]
    of_class = [np.bincount(inverse[labels == k], minlength=len(texts)) for k in (0, 1)]
    both = np.count_nonzero((of_class[0] > 0) & (of_class[1] > 0))
    return int(worded.sum()) - len(texts), int(both)
