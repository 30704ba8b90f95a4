"""Are numbers that occur again counted?"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from calibrail.data.example import n_repeated


@pytest.mark.parametrize("most", [1, 3, 40, 2**63])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 30])
def test_numbers_that_occur_again_are_counted(n: int, most: int) -> None:
    for seed in range(20):
        numbers = np.random.default_rng(seed).integers(0, most, n, dtype=np.uint64)
        expected = sum(count for count in Counter(numbers.tolist()).values() if count > 1)
        assert n_repeated(numbers) == expected
