"""How often did each bin occur, block after block, in little memory however long ago?

Recent rows are counted in blocks of 16; of older ones every two neighbours are merged, again and
again, so that a block is never longer than an eighth of the rows since it began (an exponential
histogram: Datar, Gionis, Indyk and Motwani, 2002), and their number grows as the logarithm of the
rows.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

import numpy as np

from calibrail.conformal.validation import Floats, Ints

#: Rows of the shortest blocks, which begin where the row's number is a multiple of it.
BASE: Final = 16
#: Blocks that stay as they are on each level, and those that are awaited before any are merged.
_KEPT: Final = 16
_MERGED: Final = 8


class Blocks(NamedTuple):
    """Blocks of rows in their order.

    Attributes
    ----------
    row : ndarray of int64, shape (blocks,)
        Number of the first row.
    time : ndarray of float64, shape (blocks,)
        Its time; NaN where it is not known.
    counts : ndarray of int64, shape (blocks, features, bins)
        Values in each bin.
    totals : ndarray of float64, shape (blocks, features)
        Sums of the values.
    """

    row: Ints
    time: Floats
    counts: Ints
    totals: Floats

    def part(self, which: slice) -> "Blocks":
        """Return some of them."""
        return Blocks(self.row[which], self.time[which], self.counts[which], self.totals[which])

    def merged(self) -> "Blocks":
        """Return every two neighbours as one."""
        counts, totals = self.counts, self.totals
        return Blocks(
            self.row[::2], self.time[::2], counts[::2] + counts[1::2], totals[::2] + totals[1::2]
        )

    @classmethod
    def joined(cls, parts: "list[Blocks]") -> "Blocks":
        """Return several as one."""
        return cls(*(np.concatenate(values) for values in zip(*parts, strict=True)))


class History:
    """Counts of all rows of a reference and of what was compared with it.

    Parameters
    ----------
    reference : Blocks
        One block: what was counted before.
    """

    def __init__(self, reference: Blocks) -> None:
        self.reference = reference
        #: From the shortest blocks, which are the latest, to the longest.
        self._levels = [reference.part(slice(0, 0))]

    def add(self, blocks: Blocks) -> None:
        """Add blocks that come after all others."""
        for level, before in enumerate(self._levels):
            held = Blocks.joined([before, blocks])
            if len(held.row) < _KEPT + _MERGED:
                self._levels[level] = held
                return
            # An even number: a merged block begins where one of them did.
            many = (len(held.row) - _KEPT) // 2 * 2
            self._levels[level] = held.part(slice(many, None))
            blocks = held.part(slice(0, many)).merged()
        self._levels.append(blocks)

    def blocks(self) -> Blocks:
        """Return all blocks, the reference first."""
        return Blocks.joined([self.reference, *reversed(self._levels)])

    def to_dict(self, sizes: list[int]) -> dict[str, Any]:
        """Return what ``from_dict`` reads; feature i has ``sizes[i]`` bins."""
        return {
            "reference": _written(self.reference, sizes),
            "levels": [_written(level, sizes) for level in self._levels],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], bins: int, sizes: list[int]) -> Self:
        """Rebuild it; every feature has room for ``bins`` bins."""
        history = cls(_read(content["reference"], bins, sizes))
        history._levels = [_read(level, bins, sizes) for level in content["levels"]]
        return history


def _written(blocks: Blocks, sizes: list[int]) -> dict[str, Any]:
    return {
        "row": blocks.row.tolist(),
        "time": [None if np.isnan(time) else time for time in blocks.time.tolist()],
        "counts": [
            [int(k) for feature, n in zip(block, sizes, strict=True) for k in feature[:n]]
            for block in blocks.counts
        ],
        "totals": blocks.totals.tolist(),
    }


def _read(content: Mapping[str, Any], bins: int, sizes: list[int]) -> Blocks:
    n = len(content["row"])
    counts = np.zeros((n, len(sizes), bins), np.int64)
    held = np.array(content["counts"], np.int64).reshape(n, sum(sizes))
    for at, (size, end) in enumerate(zip(sizes, np.cumsum(sizes), strict=True)):
        counts[:, at, :size] = held[:, end - size : end]
    return Blocks(
        np.array(content["row"], np.int64),
        np.array(content["time"], np.float64),
        counts,
        np.array(content["totals"], np.float64).reshape(n, len(sizes)),
    )
