"""Is the lot of many answers that of each of them?"""

from __future__ import annotations

import numpy as np
import pytest

from calibrail.pipelines import independence
from tests.memory import peak_bytes


def test_lots_are_the_same_however_many_are_drawn_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng, n = np.random.default_rng(0), 20
    digests = rng.integers(0, 2**64, n, dtype=np.uint64)
    values, labels = rng.normal(size=n), rng.integers(0, 2, n).astype(np.int8)
    values[3] = np.nan
    expected = [
        independence.tie_break_key(*row)
        for row in zip(digests.tolist(), values, labels.tolist(), strict=True)
    ]
    for size in (1, 7, n, 100):
        monkeypatch.setattr(independence, "_AT_A_TIME", size)
        assert independence.tie_break_keys(digests, values, labels).tolist() == expected


def test_lots_of_many_answers_hold_no_python_object_each() -> None:
    n = 200_000
    digests, values, labels = np.arange(n, dtype=np.uint64), np.zeros(n), np.zeros(n, np.int8)
    assert peak_bytes(lambda: independence.tie_break_keys(digests, values, labels)) < 40 * n


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
