"""Does a history of any length keep all counts, in little memory, and finer where it is recent?"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from calibrail.monitoring.history import BASE, Blocks, History


def blocks(row: int, n: int, counts: np.ndarray) -> Blocks:
    rows = row + BASE * np.arange(n)
    return Blocks(rows, rows * 60.0, counts, sums(counts))


def sums(counts: np.ndarray) -> np.ndarray:
    """Return the totals of two features, of which one has three bins and the other two."""
    return np.add.reduceat(counts, [0, 3], axis=1).astype(float)


def test_all_counts_are_kept_and_recent_blocks_are_short() -> None:
    rng = np.random.default_rng(0)
    first = replace(blocks(0, 1, np.ones((1, 5), np.int64)), time=np.array([math.nan]))
    history, total, row = History(first), np.ones(5, np.int64), 1_000
    for n in rng.integers(1, 33, 3_000):
        counts = rng.integers(0, 9, (n, 5))
        history.add(blocks(row, int(n), counts))
        total += counts.sum(axis=0)
        row += int(n) * BASE
    held = history.blocks()
    np.testing.assert_array_equal(held.counts.sum(axis=0), total)
    np.testing.assert_array_equal(sums(held.counts), held.totals)
    assert len(held.row) < 400
    starts = np.append(held.row[1:], row)
    assert starts[0] == 1_000 and (np.diff(starts) > 0).all()
    np.testing.assert_array_equal(held.time[1:], held.row[1:] * 60.0)
    # A block is at most an eighth of what came after its beginning, or as short as can be.
    lengths, since = np.diff(starts), row - starts[:-1]
    assert ((lengths <= since / 8) | (lengths == BASE)).all()
    again = History.from_dict(history.to_dict()).blocks()
    for name in ("row", "time", "counts", "totals"):
        np.testing.assert_array_equal(getattr(again, name), getattr(held, name))
