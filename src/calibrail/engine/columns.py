"""How does a table come of scores that other programs wrote, without an object for each row?"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from calibrail.data.coded import Coded
from calibrail.data.columnar import Block
from calibrail.data.names import TextsOfBlocks
from calibrail.scores.column import Column
from calibrail.scores.reasons import Reasons
from calibrail.scores.registry import key_of, scale_of
from calibrail.scores.table import ScoreTable

#: Rows of a column that are stored together while it grows.
_CHUNK: Final = 1 << 23


class Growing:
    """A column of which more and more rows are known; as a whole it is never held twice.

    >>> column = Growing(np.int8)
    >>> column.add(np.array([1, 0], np.int8))
    >>> column.finish()
    array([1, 0], dtype=int8)
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype, self._n, self._filled = dtype, 0, 0
        self._chunks: list[NDArray[Any]] = []

    def add(self, values: NDArray[Any]) -> None:
        """Add the next rows."""
        while len(values):
            if not self._chunks or self._filled == len(self._chunks[-1]):
                # Pages that are not written yet take no memory.
                size = max(len(values), min(self._n, _CHUNK))
                self._chunks.append(np.empty(size, self._dtype))
                self._filled = 0
            rest = self._chunks[-1][self._filled :]
            part, values = values[: len(rest)], values[len(rest) :]
            rest[: len(part)] = part
            self._filled += len(part)
            self._n += len(part)

    def finish(self) -> NDArray[Any]:
        """Return all rows; none can be added after."""
        whole, start = np.empty(self._n, self._dtype), 0
        self._chunks.reverse()
        while self._chunks:
            # Each is let go of before the next one is copied.
            part = self._chunks.pop()[: self._n - start]
            whole[start : start + len(part)] = part
            start += len(part)
        return whole


def table_of_columns(
    blocks: Iterable[Block],
    scores: Sequence[Column],
    *,
    keep: Sequence[str] = (),
    progress: Callable[[int], None] | None = None,
) -> ScoreTable:
    """Return what `score_examples` would of the same rows, from blocks of them.

    Parameters
    ----------
    blocks : iterable of Block
        Consumed once.
    scores : sequence of Column
        Columns of the blocks; each may be named once.
    keep, progress : optional
        As `score_examples` takes them.
    """
    n, keys = 0, [key_of(score) for score in scores]
    ids, groups = TextsOfBlocks(), TextsOfBlocks()
    labels, digests = Growing(np.int8), Growing(np.uint64)
    columns = {key: Growing(np.float64) for key in keys}
    reasons = {key: Reasons() for key in keys}
    values_of: dict[str, Sequence[Any]] = dict.fromkeys(keep, ())
    codes = {name: Growing(np.int32) for name in keep}
    for block in blocks:
        ids.add(block.ids)
        groups.add(block.groups)
        labels.add(block.labels)
        digests.add(block.digests)
        for key, score in zip(keys, scores, strict=True):
            values, undefined = score.values_of(block.numbers[score.column])
            columns[key].add(values)
            for why, rows in undefined.items():
                reasons[key].add(rows + n, why)
        for name in keep:
            # The values so far, which grow from block to block.
            values_of[name] = block.kept[name].values
            codes[name].add(block.kept[name].codes)
        n += len(block)
        if progress is not None:
            progress(n)
    return ScoreTable(
        ids=ids.finish(),
        groups=groups.finish(),
        labels=labels.finish(),
        columns={key: part.finish() for key, part in columns.items()},
        reasons=reasons,
        digests=digests.finish(),
        kept={name: Coded(values_of[name], codes[name].finish()) for name in keep},
        scales=dict(zip(keys, map(scale_of, scores), strict=True)),
    )
