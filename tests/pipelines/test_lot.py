"""Is the lot of many answers that of each of them?"""

from __future__ import annotations

import numpy as np

from calibrail.pipelines import independence


def test_the_lots_of_many_answers_are_those_of_each() -> None:
    rng, n = np.random.default_rng(0), 20
    digests = rng.integers(0, 2**64, n, dtype=np.uint64)
    values, labels = rng.normal(size=n), rng.integers(0, 2, n).astype(np.int8)
    values[3] = np.nan
    rows = zip(digests.tolist(), values, labels.tolist(), strict=True)
    expected = [independence.tie_break_key(*row) for row in rows]
    assert independence.tie_break_keys(digests, values, labels).tolist() == expected


def test_last_digits_that_differ_between_machines_draw_the_same_answers() -> None:
    rng = np.random.default_rng(0)
    digests = rng.integers(0, 2**63, 200).astype(np.uint64)
    values, labels = rng.normal(size=200), rng.integers(0, 2, 200).astype(np.int8)
    moved = values + rng.uniform(-1e-8, 1e-8, 200)
    assert (
        independence.tie_break_keys(digests, values, labels, 1e-6)
        == independence.tie_break_keys(digests, moved, labels, 1e-6)
    ).all()
    assert len(np.unique(independence.tie_break_keys(digests, values, labels, 1e-6))) == 200
    # What is exact tells answers with the same texts apart.
    same = np.zeros(200, np.uint64)
    assert len(np.unique(independence.tie_break_keys(same, values, labels))) == 200
