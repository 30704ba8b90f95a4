from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom

from calibrail.conformal import calibrate_clusters, calibrate_threshold, coverage_band
from calibrail.errors import InputError
from calibrail.settings import Promise

CHECK = settings(max_examples=30, deadline=None)

RANKS = st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n)))


@CHECK
@given(RANKS, st.integers(0, 400), st.floats(0.05, 0.999))
def test_the_ends_are_quantiles_of_scipys_beta_binomial(
    place: tuple[int, int], m: int, level: float
) -> None:
    k, n = place
    oracle, tail = betabinom(m, n + 1 - k, k), (1 - level) / 2
    lowest, highest = coverage_band(place, m, level)
    assert 0 <= lowest <= highest <= m
    # Quantile by its definition, with room for the rounding of either side's sums.
    assert oracle.cdf(lowest) >= tail - 1e-9
    assert lowest == 0 or oracle.cdf(lowest - 1) < tail + 1e-9
    assert oracle.cdf(highest) >= 1 - tail - 1e-9
    assert highest == 0 or oracle.cdf(highest - 1) < 1 - tail + 1e-9


@CHECK
@given(RANKS, st.integers(0, 400), st.floats(0.05, 0.999), st.floats(0.05, 0.999))
def test_the_band_widens_with_confidence(
    place: tuple[int, int], m: int, one: float, other: float
) -> None:
    narrow, wide = (coverage_band(place, m, level) for level in sorted((one, other)))
    assert wide[0] <= narrow[0] <= narrow[1] <= wide[1]


def test_a_calibration_stands_for_its_rank_and_n_whatever_its_scale() -> None:
    scores = np.random.default_rng(0).normal(size=100)
    made = calibrate_threshold(scores, Promise(0.05))
    expected = coverage_band((made.rank, 100), 200, 0.95)
    assert coverage_band(made, 200, 0.95) == expected
    assert (
        coverage_band(calibrate_threshold(np.exp(scores[::-1]), Promise(0.05)), 200, 0.95)
        == expected
    )
    clustered = calibrate_clusters(scores, np.arange(100), Promise(0.05))
    assert coverage_band(clustered, 200, 0.95) == expected


def test_flagging_everything_catches_everything() -> None:
    made = calibrate_threshold([1.0, 2.0], Promise(0.05, allow_flag_all=True))
    assert coverage_band(made, 30, 0.9) == (30, 30)


def test_simulated_counts_fall_outside_no_more_often_than_the_band_allows() -> None:
    rng, runs, n, m, alpha, level = np.random.default_rng(1), 4000, 39, 60, 0.1, 0.9
    k = calibrate_threshold(np.arange(float(n)), Promise(alpha)).rank
    lowest, highest = coverage_band((k, n), m, level)
    thresholds = np.sort(rng.uniform(size=(runs, n)), axis=1)[:, k - 1]
    caught = rng.binomial(m, 1.0 - thresholds)
    # Each tail holds at most 5 %; four standard errors of a binomial share of all runs.
    allowed = 0.05 + 4 * math.sqrt(0.05 * 0.95 / runs)
    assert np.mean(caught < lowest) <= allowed and np.mean(caught > highest) <= allowed
    # And the band is no wider than it has to be: one step inside, the tail is too large.
    assert np.mean(caught <= lowest) >= 0.05 - 4 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0, 10), 5, 0.9), "rank must be at least 1"),
        (((11, 10), 5, 0.9), "rank must be at most n = 10"),
        (((1.0, 10), 5, 0.9), "rank must be a whole number"),
        (((1, -1), 5, 0.9), "n must be at least 0"),
        (((1, 10), -1, 0.9), "m must be at least 0"),
        (((1, 10), 2.5, 0.9), "m must be a whole number"),
        (((1, 10), 5, 1.0), r"confidence must lie in \(0, 1\)"),
        (((1, 10), 5, math.nan), r"confidence must lie in \(0, 1\)"),
    ],
)
def test_bad_input_is_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        coverage_band(*arguments)
