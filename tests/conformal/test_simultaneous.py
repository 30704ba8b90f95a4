from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import betaincinv
from statsmodels.distributions.empirical_distribution import _conf_set

from benchmarks.validity.bands import METHODS, simultaneous_band
from calibrail.conformal import attainable_coverages, flags
from calibrail.conformal.bounds import (
    _below,
    controlled_ranks,
    interval,
    local_level,
    lower_bounds,
)

CHECK = settings(max_examples=25, deadline=None)

SCORES = hnp.arrays(np.int64, st.integers(1, 40), elements=st.integers(-50, 50))
LEVELS = st.floats(0.05, 0.995)


def by_integration(edges: list[Fraction]) -> Fraction:
    """Return P(U_(c) >= edge_c for all c), the n-fold integral of a polynomial, exactly.

    The ordered points have density n! on x_1 < ... < x_n, so the innermost integral is over x_1
    from edge_1 to x_2, the next one over x_2 from edge_2 to x_3, and so on up to 1.
    """
    inner = [Fraction(1)]
    for edge in edges:
        rising = [Fraction(0), *(c / (power + 1) for power, c in enumerate(inner))]
        rising[0] = -sum((c * edge**power for power, c in enumerate(rising)), Fraction(0))
        inner = rising
    return math.factorial(len(edges)) * sum(inner, Fraction(0))


def by_recursion(edges: list[Fraction]) -> Fraction:
    """Return the same probability by Bolshev's recursion, O(n^2) exact operations.

    Mirrored, U_(i) <= b_i must hold. If it first fails at i = k + 1, then k of the points keep
    the first k limits and all the others lie above b_{k+1}.
    """
    limits = [1 - edge for edge in reversed(edges)]
    kept = [Fraction(1)]
    for n in range(1, len(limits) + 1):
        failed = (math.comb(n, k) * kept[k] * (1 - limits[k]) ** (n - k) for k in range(n))
        kept.append(1 - sum(failed, Fraction(0)))
    return kept[-1]


def _edges(n: int, gamma: float) -> list[Fraction]:
    ranks = np.arange(1, n + 1)
    return [Fraction(float(edge)) for edge in betaincinv(ranks, n + 1 - ranks, gamma)]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("error", [0.4, 0.1, 0.025, 0.001])
def test_the_local_level_of_few_scores_by_direct_integration(n: int, error: float) -> None:
    edges = _edges(n, local_level(n, error))
    crossed = float(1 - by_integration(edges))
    assert float(by_recursion(edges)) == pytest.approx(1 - crossed, abs=1e-15)
    assert error * (1 - 0.006) <= crossed <= error * (1 + 1e-9)


@pytest.mark.parametrize("n", [7, 20, 45, 60])
@pytest.mark.parametrize("error", [0.25, 0.025])
def test_the_local_level_uses_the_error_up_and_no_more(n: int, error: float) -> None:
    crossed = float(1 - by_recursion(_edges(n, local_level(n, error))))
    assert error * (1 - 0.006) <= crossed <= error * (1 + 1e-9)


@CHECK
@given(st.sets(st.integers(1, 999), min_size=1, max_size=12))
def test_the_crossing_probability_of_any_edges_is_exact(thousandths: set[int]) -> None:
    edges = np.array(sorted(thousandths)) / 1000
    n = len(edges)
    expected = float(by_recursion([Fraction(float(edge)) for edge in edges]))
    assert _below(np.arange(1, n + 1), edges, n) == pytest.approx(expected, abs=1e-12)


def test_leaving_ranks_out_controls_the_others_exactly() -> None:
    """A rank that is not controlled has the edge of the controlled one below it."""
    ranks, edges, n = np.array([2, 5, 6]), np.array([0.1, 0.25, 0.6]), 8
    full = [Fraction(0), *[Fraction(0.1)] * 3, Fraction(0.25), *[Fraction(0.6)] * 3]
    expected = float(by_recursion(full))
    assert _below(ranks, edges, n) == pytest.approx(expected, abs=1e-12)


@CHECK
@given(SCORES, LEVELS, st.sampled_from(METHODS))
def test_the_band_is_finite_ordered_and_around_the_share(
    scores: np.ndarray[Any, Any], level: float, method: Any
) -> None:
    band = simultaneous_band(scores, level, method)
    assert band.thresholds.tolist() == sorted(set(scores.tolist()))
    for threshold, share in zip(band.thresholds, band.share, strict=True):
        assert share == np.mean(scores >= threshold)
    assert (band.lower >= 0.0).all() and (band.upper <= 1.0).all()
    assert (band.lower <= band.share).all() and (band.share <= band.upper).all()
    assert (np.diff(band.lower) <= 0.0).all() and (np.diff(band.upper) <= 0.0).all()


@CHECK
@given(SCORES, LEVELS)
def test_berk_jones_contains_every_pointwise_interval(
    scores: np.ndarray[Any, Any], level: float
) -> None:
    band = simultaneous_band(scores, level)
    counts = np.rint(band.share * len(scores))
    lower, upper = interval(counts, len(scores), level)
    assert (band.lower <= lower + 1e-12).all() and (upper <= band.upper + 1e-12).all()


@pytest.mark.parametrize("n", [1500, 20_000])
def test_many_scores_are_still_no_narrower_than_pointwise_and_no_wider_than_needed(n: int) -> None:
    assert len(controlled_ranks(n)) < n
    band = simultaneous_band(np.arange(float(n)), 0.95)
    lower, upper = interval(np.arange(n, 0, -1), n, 0.95)
    assert (band.lower <= lower).all() and (upper <= band.upper).all()
    near = band.share >= 0.95
    dkw = simultaneous_band(np.arange(float(n)), 0.95, "dkw")
    assert (band.lower[near] >= dkw.lower[near]).all()


@CHECK
@given(SCORES, LEVELS, st.sampled_from(METHODS))
def test_the_band_between_and_beyond_the_scores(
    scores: np.ndarray[Any, Any], level: float, method: Any
) -> None:
    band = simultaneous_band(scores, level, method)
    share, lower, upper = band.at(band.thresholds)
    assert np.array_equal(share, band.share)
    assert np.array_equal(lower, band.lower) and np.array_equal(upper, band.upper)
    wanted = np.concatenate([band.thresholds - 0.5, [-math.inf, math.inf]])
    share, lower, upper = band.at(wanted)
    assert share.tolist() == [np.mean(scores >= threshold) for threshold in wanted]
    assert (lower <= share).all() and (share <= upper).all()
    assert lower[-1] == 0.0 < upper[-1] and lower[-2] == band.lower[0]


def test_dkw_is_the_confidence_set_of_statsmodels_in_the_inside() -> None:
    """statsmodels bounds P(S <= s), this bounds P(S >= t): the complement, with the same margin."""
    scores = np.random.default_rng(0).normal(size=50)
    band = simultaneous_band(scores, 0.95, "dkw")
    lower, upper = _conf_set(1.0 - band.share, alpha=0.05)
    assert 1.0 - upper == pytest.approx(band.lower, abs=1e-12)
    assert 1.0 - lower == pytest.approx(band.upper, abs=1e-12)


@pytest.mark.parametrize("values", [None, 10])
@pytest.mark.parametrize("method", METHODS)
def test_simulated_bands_break_no_more_often_than_stated(values: int | None, method: Any) -> None:
    rng, runs, n, level = np.random.default_rng(5), 2000, 20, 0.8
    scores = rng.uniform(size=(runs, n))
    if values:
        scores = np.floor(scores * values) / values
    # Each set of counts has one band, so the bands of all counts are made once.
    band = simultaneous_band(np.arange(float(n)), level, method)
    lower, upper = band.lower[::-1], band.upper[::-1]
    none = band.at([math.inf])
    lower, upper = np.append(none[1], lower), np.append(none[2], upper)
    thresholds = np.arange(values) / values if values else None
    broken = np.zeros((2, runs), dtype=bool)
    for run, drawn in enumerate(scores):
        wanted = np.sort(drawn) if thresholds is None else thresholds
        counts = np.array([np.count_nonzero(drawn >= threshold) for threshold in wanted])
        truth = 1.0 - wanted
        broken[0, run] = (lower[counts] > truth).any()
        # Just above a score, one fewer reaches the threshold, and the truth is the same.
        broken[1, run] = (upper[counts - (values is None)] < truth).any()
    error = (1 - level) / 2
    margin = 4 * math.sqrt(error * (1 - error) / runs)
    assert (broken.mean(axis=1) <= error + margin).all()
    if method == "berk-jones" and values is None:
        assert (broken.mean(axis=1) >= error * 0.99 - margin).all()


def test_lower_bounds_of_all_counts_at_once() -> None:
    bounds = lower_bounds(np.arange(21), 20, 0.05)
    assert bounds[0] == 0.0 and (np.diff(bounds) > 0).all() and bounds[-1] < 1.0
    ranks = np.arange(1, 21)
    assert np.array_equal(bounds[1:], betaincinv(ranks, 21 - ranks, local_level(20, 0.05)))


def test_one_score_and_equal_scores_have_a_band() -> None:
    one = simultaneous_band([3.0], 0.9)
    assert one.lower[0] == pytest.approx(0.05, rel=0.006) and one.upper[0] == 1.0
    equal = simultaneous_band([3.0] * 50, 0.9)
    assert equal.thresholds.tolist() == [3.0] and equal.share.tolist() == [1.0]
    assert 0.8 < equal.lower[0] < 1.0


def test_extreme_levels_stay_finite_and_ordered() -> None:
    for level in (1e-9, 1 - 1e-12):
        for method in METHODS:
            band = simultaneous_band(np.arange(60.0), level, method)
            ends = np.stack([band.lower, band.share, band.upper])
            assert np.isfinite(ends).all() and (np.diff(ends, axis=0) >= 0).all()


EXTREME_SCORES = hnp.arrays(
    np.float64, st.integers(1, 40), elements=st.sampled_from([-1.5, 0.0, 0.25, 1.0, 1e300])
)


@CHECK
@given(EXTREME_SCORES)
def test_each_coverage_is_the_share_that_its_threshold_flags(scores: np.ndarray[Any, Any]) -> None:
    thresholds, coverages = attainable_coverages(scores)
    assert thresholds.tolist() == sorted(set(scores.tolist()))
    for threshold, coverage in zip(thresholds, coverages, strict=True):
        assert coverage == np.count_nonzero(flags(scores, threshold)) / len(scores)
    assert coverages[0] == 1.0 and (np.diff(coverages) < 0).all() and coverages[-1] > 0.0


def test_a_constant_score_reaches_full_coverage_alone() -> None:
    thresholds, coverages = attainable_coverages([7] * 5)
    assert thresholds.tolist() == [7.0] and coverages.tolist() == [1.0]
