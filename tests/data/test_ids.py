"""Is the set of seen ids exact, and small?"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

from calibrail.data.example import SeenIds, n_repeated


def test_every_id_is_new_once() -> None:
    seen = SeenIds()
    names = [f"id-{i}" for i in range(10_000)]
    assert all(seen.add(name) for name in names)
    assert not any(seen.add(name) for name in names)
    assert len(seen) == 10_000
    assert seen.add("\ud800") and not seen.add("\ud800")


def test_an_id_takes_at_most_24_bytes() -> None:
    seen = SeenIds()
    for i in range(50_000):
        seen.add(str(i))
    assert sys.getsizeof(seen._slots) <= 24 * 50_000


@pytest.mark.parametrize("most", [1, 3, 40, 2**63])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 30])
def test_numbers_that_occur_again_are_counted(n: int, most: int) -> None:
    for seed in range(20):
        numbers = np.random.default_rng(seed).integers(0, most, n, dtype=np.uint64)
        expected = sum(count for count in Counter(numbers.tolist()).values() if count > 1)
        assert n_repeated(numbers) == expected
