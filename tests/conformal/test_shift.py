from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calibrail.conformal import calibrate_threshold, calibrate_weighted
from calibrail.errors import InputError
from calibrail.options import Promise

CHECK = settings(max_examples=40, deadline=None)

#: Scores with small whole weights, at least one of them above 0.
EXAMPLES = st.lists(
    st.tuples(st.integers(-20, 20), st.integers(0, 6)), min_size=1, max_size=40
).filter(lambda pairs: any(weight for _, weight in pairs))
ALPHAS = st.sampled_from([0.05, 0.1, 0.3, 0.5])
QUERIES = np.arange(-21.0, 22.0)


def _split(examples: list[tuple[int, int]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    scores, weights = np.array(examples, dtype=np.float64).T
    return scores, weights


@CHECK
@given(EXAMPLES, ALPHAS, st.integers(1, 9))
def test_p_values_are_shares_of_the_weight(
    examples: list[tuple[int, int]], alpha: float, own: int
) -> None:
    scores, weights = _split(examples)
    made = calibrate_weighted(scores, weights, alpha)
    expected = [(own + weights[scores <= value].sum()) / (own + weights.sum()) for value in QUERIES]
    found = made.p_value(QUERIES, np.full(len(QUERIES), own))
    assert found == pytest.approx(expected, rel=1e-12)
    assert ((found > 0.0) & (found <= 1.0)).all() and (np.diff(found) >= 0).all()
    assert np.array_equal(made.flags(QUERIES, np.full(len(QUERIES), own)), found > alpha)


@CHECK
@given(EXAMPLES, ALPHAS)
def test_a_weight_is_as_good_as_that_many_copies(
    examples: list[tuple[int, int]], alpha: float
) -> None:
    scores, weights = _split(examples)
    made = calibrate_weighted(scores, weights, alpha)
    copies = calibrate_threshold(
        np.repeat(scores, weights.astype(int)), Promise(alpha, allow_flag_all=True)
    )
    found = made.p_value(QUERIES, np.ones(len(QUERIES)))
    assert found == pytest.approx(copies.p_value(QUERIES), rel=1e-12)


@CHECK
@given(EXAMPLES, ALPHAS, st.integers(1, 40))
@example([(6, 3), (-7, 5), (-17, 4)], 0.5, 5)  # a p-value of alpha up to rounding
def test_the_threshold_is_where_flags_begin(
    examples: list[tuple[int, int]], alpha: float, own: int
) -> None:
    made = calibrate_weighted(*_split(examples), alpha)
    threshold = made.threshold(own)
    flagged = made.flags(QUERIES, np.full(len(QUERIES), own))
    assert np.array_equal(flagged, threshold <= QUERIES)
    assert threshold >= made.threshold(own + 1)
    assert made.threshold() == made.threshold(float(made.weights.mean()))


@CHECK
@given(EXAMPLES)
def test_the_effective_size_lies_between_one_and_the_examples_with_weight(
    examples: list[tuple[int, int]],
) -> None:
    _, weights = _split(examples)
    found = calibrate_weighted(*_split(examples), 0.1).effective_n
    assert found == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert 1.0 - 1e-12 <= found <= np.count_nonzero(weights) + 1e-9


def test_known_weights_keep_the_promise_that_plain_calibration_breaks() -> None:
    """Scores follow a feature that is rare in calibration and common in production."""
    rng, runs, n, alpha = np.random.default_rng(0), 2500, 60, 0.1
    missed = np.zeros(2)
    for _ in range(runs):
        # P(x = 1) is 0.3 when calibrating and 0.8 in production; hard answers score lower.
        hard = rng.random(n) < 0.3
        scores = rng.normal(size=n) - 1.5 * hard
        weights = np.where(hard, 0.8 / 0.3, 0.2 / 0.7)
        new = rng.random() < 0.8
        value, own = rng.normal() - 1.5 * new, 0.8 / 0.3 if new else 0.2 / 0.7
        missed[0] += not calibrate_weighted(scores, weights, alpha).flags([value], [own])[0]
        missed[1] += not calibrate_threshold(scores, Promise(alpha)).flags([value])[0]
    margin = 4 * math.sqrt(alpha * (1 - alpha) / runs)
    assert missed[0] / runs <= alpha + margin and missed[0] / runs >= alpha / 2
    assert missed[1] / runs > alpha + margin


def test_an_answer_like_nothing_labelled_is_always_flagged() -> None:
    made = calibrate_weighted([1.0, 2.0, 3.0], [1.0, 1.0, 1.0], 0.3)
    assert made.threshold(10.0) == -math.inf
    assert made.flags([-1e300], [10.0]).all()
    # A weight of 0 says that production never asks such a question: it adds nothing.
    assert made.p_value([0.0, 1.5, 9.0], [0.0] * 3) == pytest.approx([0.0, 1 / 3, 1.0])


def test_tolerance_serves_a_near_tie() -> None:
    made = calibrate_weighted([1.0, 2.0, 3.0, 4.0], [1.0] * 4, 0.4)
    assert made.flags([1.5], [1.0]).tolist() == [False]
    assert made.flags([1.5], [1.0], tolerance=0.5).tolist() == [True]


@pytest.mark.parametrize("base", [1e-300, 1.0, 1e300])
@pytest.mark.parametrize("own", [0.0, 1.0, 1e10, 1e300, 1.7e308])
def test_no_nan_escapes_whatever_the_finite_weights(base: float, own: float) -> None:
    made = calibrate_weighted([1.0, 2.0, 3.0], [base, base / 2, base], 0.3)
    p = made.p_value([0.0, 2.0, 3.0], [own] * 3)
    assert np.isfinite(p).all() and (p >= 0.0).all() and (p <= 1.0).all()
    assert p[-1] == 1.0 and made.flags([3.0], [own]).all()
    assert not math.isnan(made.threshold(own)) and made.threshold() in (1.0, -math.inf)
    assert 1.0 <= made.effective_n <= 3.0


def test_weights_whose_sum_no_float_can_hold_still_have_a_threshold() -> None:
    made = calibrate_weighted([1.0, 2.0, 3.0], [1.7e308] * 3, 0.3)
    assert made.p_value([2.0], [1.7e308])[0] == pytest.approx(3 / 4)
    assert made.threshold() == made.threshold(1.7e308) == 1.0


def test_bad_answers_are_named() -> None:
    made = calibrate_weighted([1.0, 2.0], [1.0, 1.0], 0.4)
    for method in (made.p_value, made.flags):
        with pytest.raises(InputError, match="values must not hold NaN"):
            method([math.nan], [1.0])
        with pytest.raises(InputError, match="weights must have 2 entries"):
            method([1.0, 2.0], [1.0])
        with pytest.raises(InputError, match="weights must be finite"):
            method([1.0], [math.nan])
        with pytest.raises(InputError, match="tolerance must be finite"):
            method([1.0], [1.0], math.nan)
    for weight in (math.nan, -1.0, math.inf, "x"):
        with pytest.raises(InputError, match="weight must"):
            made.threshold(weight)  # type: ignore[arg-type]
