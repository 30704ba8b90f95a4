from __future__ import annotations

import numpy as np

from calibrail.models.batches import BATCH_TOKENS, batches, blocks


def test_batches_hold_similar_lengths_within_the_limit() -> None:
    lengths = [int(n) for n in np.random.default_rng(0).integers(1, 600, 500)]
    found = list(batches(lengths))
    assert sorted(index for batch in found for index in batch) == list(range(500))
    assert all(max(lengths[i] for i in batch) * len(batch) <= BATCH_TOKENS for batch in found)
    assert sum(max(lengths[i] for i in b) * len(b) for b in found) < 1.1 * sum(lengths)
    assert [len(b) for b in batches([3, 3, 3], lambda length: 2)] == [2, 1]
    assert [len(b) for b in batches([10**6, 10**6])] == [1, 1]
    assert list(batches([])) == []


def test_blocks_keep_the_order_and_both_limits() -> None:
    words = ["one", "two", "threethree", "six", "x", "y", "z"]
    assert list(blocks(words, len, 3, 6)) == [
        ["one", "two"],
        ["threethree"],
        ["six", "x", "y"],
        ["z"],
    ]
    assert list(blocks([], len, 3, 6)) == []
