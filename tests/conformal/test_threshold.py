from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import betabinom

from calibrail.conformal import (
    GUARANTEES,
    Calibration,
    calibrate_clusters,
    calibrate_threshold,
    coverage_band,
    flags,
    rank,
)
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.options import Promise
from calibrail.options.fields import cli_spelling

finite = st.floats(allow_nan=False, allow_infinity=False)
score_arrays = hnp.arrays(np.float64, st.integers(1, 60), elements=finite)
tied_arrays = hnp.arrays(np.float64, st.integers(1, 60), elements=st.sampled_from([0.0, 0.5, 1.0]))
either = st.one_of(score_arrays, tied_arrays)
shares = st.floats(0.02, 0.98)


@given(either, shares)
def test_threshold_is_the_highest_score_that_misses_few_enough(
    scores: np.ndarray[Any, Any], alpha: float
) -> None:
    for guarantee in GUARANTEES:
        k = rank(len(scores), alpha, guarantee)
        if k == 0:
            with pytest.raises(TooFewExamplesError):
                calibrate_threshold(scores, Promise(alpha, guarantee))
            continue
        threshold = calibrate_threshold(scores, Promise(alpha, guarantee)).threshold
        assert np.count_nonzero(scores < threshold) <= k - 1
        assert np.count_nonzero(scores <= threshold) >= k


@given(either, shares, either, st.sampled_from([0.0, 1e-6, 0.25]))
def test_p_at_most_alpha_is_the_decision_to_pass(
    scores: np.ndarray[Any, Any], alpha: float, values: np.ndarray[Any, Any], tolerance: float
) -> None:
    calibration = calibrate_threshold(scores, Promise(alpha, allow_flag_all=True))
    queries = np.concatenate([values, scores, scores - tolerance])
    passed = ~calibration.flags(queries, tolerance)
    assert np.array_equal(calibration.p_value(queries, tolerance) <= alpha, passed)


@given(
    hnp.arrays(
        np.float64, st.integers(8, 60), elements=st.one_of(st.just(math.nan), st.floats(-9, 9))
    ),
    st.sampled_from(["flag", "review", "pass"]),
    st.floats(0.12, 0.98),
)
def test_undefined_scores_count_as_the_policy_says(
    scores: np.ndarray[Any, Any], undefined: Any, alpha: float
) -> None:
    stand_in = -1e9 if undefined == "pass" else 1e9
    filled = np.where(np.isnan(scores), stand_in, scores)
    expected = calibrate_threshold(filled, Promise(alpha))
    if expected.threshold == stand_in:
        with pytest.raises(InputError, match="undefined"):
            calibrate_threshold(scores, Promise(alpha, undefined=undefined))
        return
    found = calibrate_threshold(scores, Promise(alpha, undefined=undefined))
    assert found.threshold == expected.threshold
    assert found.n_undefined == np.isnan(scores).sum()
    queries = np.linspace(-9, 9, 19)
    assert np.array_equal(found.p_value(queries), expected.p_value(queries))
    assert np.array_equal(found.flags(scores), expected.flags(filled))


def test_the_callers_array_is_neither_changed_nor_kept() -> None:
    scores = np.array([3.0, 1.0, 2.0])
    calibration = calibrate_threshold(scores, Promise(0.5))
    assert scores.tolist() == [3.0, 1.0, 2.0]
    scores[:] = 9.0
    assert calibration.scores.tolist() == [1.0, 2.0, 3.0]


def test_too_few_examples_name_the_minimum() -> None:
    with pytest.raises(TooFewExamplesError, match="at least 45 are needed") as caught:
        calibrate_threshold(np.arange(44.0), Promise(0.05, "pac", 0.1))
    assert caught.value.minimum_n == 45
    with pytest.raises(TooFewExamplesError, match="at least 19 are needed"):
        calibrate_threshold([], Promise(0.05))
    accepted = calibrate_threshold(np.arange(18.0), Promise(0.05, allow_flag_all=True))
    assert accepted.flag_all and accepted.threshold == -math.inf and accepted.rank == 0
    assert accepted.flags([-1e300, math.nan]).all()


def test_a_refusal_under_pass_says_that_the_promise_counts_it() -> None:
    scores = np.append(np.arange(90.0), np.full(10, np.nan))
    with pytest.raises(InputError, match=r"10 of 100 are undefined .* promise counts this refusal"):
        calibrate_threshold(scores, Promise(0.1, undefined="pass"))


def test_flagging_everything_cannot_pass_undefined_scores() -> None:
    with pytest.raises(InputError, match="undefined must be 'flag' or 'review'"):
        calibrate_threshold(np.arange(5.0), Promise(0.05, undefined="pass", allow_flag_all=True))


def test_json_round_trip() -> None:
    scores = np.append(np.random.default_rng(1).normal(size=60), [math.nan, math.nan])
    for made in (
        calibrate_threshold(scores, Promise(0.1)),
        calibrate_threshold(scores, Promise(0.1, "pac", 0.2, "review")),
        calibrate_threshold(scores, Promise(0.1, "anytime", 0.2, "review")),
        calibrate_threshold(scores, Promise(0.1, "paper", undefined="pass")),
        calibrate_threshold(scores, Promise(0.001, allow_flag_all=True)),
    ):
        text = json.dumps(made.to_dict(), allow_nan=False)
        again = Calibration.from_dict(json.loads(text))
        assert again.to_dict() == made.to_dict()
        assert again.threshold == made.threshold


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", 0.25),
        ("rank", 3),
        ("n", 61),
        ("alpha", 0.2),
        ("flag_all", True),
        ("n_undefined", 5),
        ("delta", 0.1),
        ("scores", [3.0, 1.0, 2.0] * 20),
    ],
)
def test_a_calibration_that_contradicts_itself_is_refused(field: str, value: object) -> None:
    content = {**calibrate_threshold(np.arange(60.0), Promise(0.1)).to_dict(), field: value}
    with pytest.raises(InputError):
        Calibration.from_dict(content)
    del content[field]
    with pytest.raises(InputError, match=field):
        Calibration.from_dict(content)


def test_flags_and_p_values_refuse_what_has_no_answer() -> None:
    calibration = calibrate_threshold(np.arange(20.0), Promise(0.1))
    with pytest.raises(InputError, match="values must not hold NaN"):
        calibration.p_value([math.nan])
    with pytest.raises(InputError, match="values must not hold NaN"):
        flags([1.0, math.nan], 0.5)
    with pytest.raises(InputError, match="threshold must be a number"):
        flags([1.0], math.nan)
    for tolerance in (-1e-9, math.nan, math.inf):
        with pytest.raises(InputError, match="tolerance must be finite"):
            flags([1.0], 0.5, tolerance)
    assert flags([1.7e308], 0.5, 1.7e308).all()
    assert flags([], 0.5).shape == (0,)


def test_too_few_examples_say_how_many_are_missing() -> None:
    for promise, level, least in (
        (Promise(0.1), "alpha = 0.1", 9),
        (Promise(0.1, "pac", 0.05), "alpha = 0.1, delta = 0.05", 29),
    ):
        with pytest.raises(TooFewExamplesError) as caught:
            calibrate_threshold([1.0], promise)
        kind = promise.settled().guarantee
        assert str(caught.value).startswith(
            f"1 hallucinated calibration answers are too few for the {kind} "
            f"guarantee at {level}: at least {least} are needed. Label {least - 1} more"
        )


@pytest.mark.parametrize(
    ("n", "alpha", "able"), [(6, 0.2, False), (10, 0.2, True), (20, 0.1, True)]
)
def test_an_average_is_named_where_half_of_too_few_are_enough_for_it(
    n: int, alpha: float, able: bool
) -> None:
    promise, scores = Promise(alpha, "pac", 0.025), np.arange(float(n))
    for make in (
        lambda: calibrate_threshold(scores, promise),
        lambda: calibrate_clusters(scores, np.arange(n), promise),
    ):
        with pytest.raises(TooFewExamplesError) as caught, cli_spelling():
            make()
        assert ("promise an average (--guarantee marginal)" in str(caught.value)) == able
    if able:
        calibrate_threshold(scores[: n // 2], Promise(alpha, "marginal"))


def test_a_calibration_without_numbers_is_not_read() -> None:
    content = calibrate_threshold(range(30), Promise(0.1)).to_dict()
    with pytest.raises(InputError, match="scores must"):
        Calibration.from_dict({**content, "scores": ["a"]})


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
