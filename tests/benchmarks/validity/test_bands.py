from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, kstwo

from benchmarks.validity.bands import simultaneous_band
from benchmarks.validity.thresholds import escape


def test_one_number_escapes_as_often_as_its_interval_says() -> None:
    assert escape(np.array([0.2]), np.array([0.7])) == pytest.approx(0.5)


@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_equal_margins_agree_with_kolmogorov_and_smirnov(n: int) -> None:
    margin = 1.2 / np.sqrt(n)
    ranks = np.arange(1, n + 1)
    lower, upper = ranks / n - margin, (ranks - 1) / n + margin
    expected = float(kstwo.sf(margin, n))
    assert escape(np.maximum(lower, 0.0), np.minimum(upper, 1.0)) == pytest.approx(expected)


def test_any_other_bounds_agree_with_simulation() -> None:
    n, runs = 12, 40_000
    ranks = np.arange(1, n + 1)
    lower, upper = (ranks / (n + 1)) ** 2 * 0.8, np.minimum(1.0, (ranks / n) ** 0.5 * 1.1)
    drawn = np.sort(np.random.default_rng(0).random((runs, n)), axis=1)
    count = np.count_nonzero(((drawn < lower) | (drawn > upper)).any(axis=1))
    p = escape(lower, upper)
    assert binom.ppf(1e-6, runs, p) <= count <= binom.isf(1e-6, runs, p)


@pytest.mark.parametrize("n", [19, 100, 300])
def test_the_berk_jones_band_uses_up_its_error_on_each_side(n: int) -> None:
    band = simultaneous_band(np.arange(float(n)), 0.9)
    lower = escape(band.lower[::-1], np.ones(n))
    assert 0.05 * 0.99 <= lower <= 0.05 + 1e-9
