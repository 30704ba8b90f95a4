"""What must be remembered of each example to describe a whole file in one pass?"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.diagnosis import GroupSizes, TextLengths
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.sketches import Sketcher
from calibrail.data.splits import group_numbers

UNLABELLED: Final = -1

# Where an answer stands in its own contexts.
_QUOTE: Final = 1
_COPY: Final = 2


class Survey:
    """The memory of one pass over n examples: about 250 bytes each, and no text.

    Parameters
    ----------
    examples : iterable of Example
        Read once.
    columns : sequence of str
        The further columns that the examples carry.

    Attributes
    ----------
    labels : ndarray of int8, shape (n,)
        0, 1, or -1 without a label.
    groups, ids : lists of length n
        As in the examples.
    chars, words : ndarray of int64, shape (n, 3)
        Sizes of question, contexts and response.
    chunks : ndarray of int64, shape (n,)
        Number of context chunks.
    digests : ndarray of uint64, shape (n,)
        What tells examples apart: see `Example.digest`.
    texts : ndarray of uint64, shape (n,)
        Digest of all texts; 0 for an example without any.
    columns : mapping of str to ndarray of float64, shape (n,)
        Further columns that hold only numbers; NaN without a value.
    empty_columns : tuple of str
        Further columns without any value.
    copies, quotes : ndarray of bool, shape (n,)
        Answers that are one of their own contexts, and that stand word for word in them.
    sketches : Sketches
        For near-duplicates.
    """

    def __init__(self, examples: Iterable[Example], columns: Sequence[str]) -> None:
        labels, all_sizes, digests, copied = array("b"), array("Q"), array("Q"), array("b")
        numbers = {name: array("d") for name in columns}
        textual, sketcher = set(), Sketcher()
        self.groups: list[str | None] = []
        self.ids: list[str] = []
        for example in examples:
            labels.append(UNLABELLED if example.label is None else example.label)
            self.groups.append(example.group)
            self.ids.append(example.id)
            texts = ((example.question,), example.contexts, (example.response,))
            all_sizes.extend(sum(map(len, parts)) for parts in texts)
            all_sizes.extend(sum(len(part.split()) for part in parts) for parts in texts)
            all_sizes.append(len(example.contexts))
            copied.append(_copied(example))
            digests.append(int(example.digest(), 16))
            for name, values in numbers.items():
                value = example.columns.get(name)
                if isinstance(value, str):
                    textual.add(name)
                values.append(value if isinstance(value, float) else float("nan"))
            sketcher.add(example)
        self.labels = np.array(labels, dtype=np.int8)
        places = np.array(copied, dtype=np.int8)
        self.copies, self.quotes = places == _COPY, places > 0
        sizes = np.array(all_sizes, dtype=np.int64).reshape(-1, 7)
        self.chars, self.words, self.chunks = sizes[:, :3], sizes[:, 3:6], sizes[:, 6]
        self.digests = np.array(digests, dtype=np.uint64)
        self.texts = np.where((self.chars > 0).any(axis=1), self.digests, np.uint64(0))
        self.columns = {
            name: np.array(values) for name, values in numbers.items() if name not in textual
        }
        self.empty_columns = tuple(
            name for name, values in self.columns.items() if np.isnan(values).all()
        )
        for name in self.empty_columns:
            del self.columns[name]
        self.sketches = sketcher.finish()


def _copied(example: Example) -> int:
    """Return whether the answer is one of its contexts, stands in one, or neither."""
    answer = _folded(example.response)
    chunks = [_folded(chunk) for chunk in example.contexts] if answer else []
    if answer in chunks:
        return _COPY
    return _QUOTE if any(answer in chunk for chunk in chunks) else 0


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def by_class(flags: NDArray[np.bool_], labels: NDArray[np.int8]) -> dict[str, int]:
    """Return how many answers of each class are marked."""
    return {
        name: int(np.count_nonzero(flags & (labels == label)))
        for name, label in (("faithful", 0), ("hallucinated", 1))
    }


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
    numbers = group_numbers(survey.groups, len(grouped))[grouped]
    sizes = np.unique(numbers, return_counts=True)[1]
    mixed = _in_both_classes(numbers, survey.labels[grouped])
    return GroupSizes(len(sizes), int((~grouped).sum()), int(sizes.max(initial=0)), mixed)


def repeats(survey: Survey) -> tuple[int, int]:
    """Return (examples with the texts of an earlier one, different texts with both labels)."""
    worded = survey.texts != 0
    texts = survey.texts[worded]
    return len(texts) - len(np.unique(texts)), _in_both_classes(texts, survey.labels[worded])


def _in_both_classes(values: NDArray[Any], labels: NDArray[np.int8]) -> int:
    return int(np.intersect1d(values[labels == 0], values[labels == 1]).size)
