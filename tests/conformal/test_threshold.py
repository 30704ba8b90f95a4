from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrail.conformal import Calibration, calibrate, flags, p_values
from calibrail.errors import InputError, TooFewExamplesError

SCORES = arrays(np.float64, st.integers(1, 200), elements=st.floats(-1e6, 1e6, width=32))
ALPHAS = st.integers(10, 900).map(lambda k: k / 1000)


@given(SCORES, ALPHAS)
def test_at_most_the_allowed_number_is_missed(scores: np.ndarray, alpha: float) -> None:
    try:
        calibration = calibrate(scores, alpha)
    except TooFewExamplesError as error:
        assert len(scores) < error.minimum_n
        return
    missed = int((~calibration.flags(scores)).sum())
    # Ties only ever lower the number of misses.
    assert missed <= calibration.rank - 1
    assert calibration.threshold == np.sort(scores)[calibration.rank - 1]


@given(SCORES, SCORES, ALPHAS, st.sampled_from([0.0, 1e-6, 0.5]))
def test_a_small_p_value_is_the_same_decision_as_passing(
    scores: np.ndarray, fresh: np.ndarray, alpha: float, tolerance: float
) -> None:
    assume(len(scores) * alpha + alpha >= 1)
    try:
        calibration = calibrate(scores, alpha)
    except TooFewExamplesError:
        return
    passed = ~calibration.flags(fresh, tolerance)
    small = calibration.p_value(fresh, tolerance) <= alpha
    assert np.array_equal(passed, small)


@given(SCORES, ALPHAS)
def test_an_increasing_transform_changes_no_decision(scores: np.ndarray, alpha: float) -> None:
    moved = np.arctan(scores / 1e5)
    assume(len(np.unique(moved)) == len(np.unique(scores)))
    try:
        first, second = calibrate(scores, alpha), calibrate(moved, alpha)
    except TooFewExamplesError:
        return
    assert np.array_equal(first.flags(scores), second.flags(moved))


@pytest.mark.parametrize("policy", ["flag", "review", "pass"])
def test_undefined_scores_sort_by_policy(policy: str) -> None:
    scores = np.append(np.arange(1.0, 20.0), [np.nan] * 3)
    calibration = calibrate(scores, 0.2, undefined=policy)  # type: ignore[arg-type]
    assert calibration.n == 22
    assert calibration.rank == 4
    ordered = np.sort(np.where(np.isnan(scores), -np.inf if policy == "pass" else np.inf, scores))
    assert calibration.threshold == ordered[3]
    assert calibration.flags([np.nan]).tolist() == [policy != "pass"]
    assert calibration.p_value([2.0])[0] == (1 + int((ordered <= 2.0).sum())) / 23


def test_a_threshold_that_would_be_undefined_is_refused() -> None:
    scores = np.append(np.arange(1.0, 10.0), [np.nan] * 30)
    with pytest.raises(InputError, match="30 of 39 are undefined"):
        calibrate(scores, 0.5)
    with pytest.raises(InputError, match="use undefined='flag'"):
        calibrate(scores, 0.5, undefined="pass")


def test_too_few_examples_or_everything_is_flagged() -> None:
    with pytest.raises(TooFewExamplesError, match="at least 19") as caught:
        calibrate(np.arange(18.0), 0.05)
    assert caught.value.minimum_n == 19
    everything = calibrate(np.arange(18.0), 0.05, allow_flag_all=True)
    assert everything.flag_all
    assert everything.flags([-1e300]).all()
    assert everything.to_dict()["threshold"] is None
    assert Calibration.from_dict(everything.to_dict()).flag_all


def test_a_calibration_survives_its_dictionary_exactly() -> None:
    first = calibrate(np.random.default_rng(0).normal(size=77), 0.1, "pac", 0.05)
    again = Calibration.from_dict(first.to_dict())
    assert again.to_dict() == first.to_dict()
    assert again.threshold == first.threshold


@pytest.mark.parametrize(
    ("key", "value"), [("threshold", 0.5), ("rank", 3), ("n", 78), ("flag_all", True)]
)
def test_a_calibration_that_contradicts_itself_is_refused(key: str, value: object) -> None:
    content = calibrate(np.random.default_rng(0).normal(size=77), 0.1).to_dict()
    with pytest.raises(InputError, match=r"contradicts itself|scores"):
        Calibration.from_dict({**content, key: value})


def test_the_scores_cannot_be_changed() -> None:
    calibration = calibrate(np.arange(30.0), 0.1)
    with pytest.raises(ValueError, match="read-only"):
        calibration.scores[0] = 9.0


def test_the_callers_array_is_left_alone() -> None:
    scores = np.array([3.0, 1.0, 2.0] * 10)
    calibrate(scores, 0.2)
    assert scores.tolist() == [3.0, 1.0, 2.0] * 10


@pytest.mark.parametrize("bad", [[np.inf], [-np.inf, 1.0], [[1.0]], ["a"]])
def test_scores_that_are_none_are_named(bad: object) -> None:
    with pytest.raises(InputError, match="scores must"):
        calibrate(bad, 0.5)  # type: ignore[arg-type]


def test_all_scores_equal_flag_that_value() -> None:
    calibration = calibrate(np.full(50, 0.3), 0.1)
    assert calibration.threshold == 0.3
    assert calibration.flags([0.3, 0.2999]).tolist() == [True, False]


def test_p_values_agree_with_crepes_where_nothing_is_tied() -> None:
    from crepes.base import p_values_batch

    rng = np.random.default_rng(0)
    scores, fresh = np.sort(rng.normal(size=99)), rng.normal(size=50)
    # crepes counts calibration scores that are at least as large, for scores that are large where
    # an example is strange; a harmless look is a small score here, so both are negated.
    expected = p_values_batch(-scores, -fresh, smoothing=False)
    assert p_values(scores, fresh) == pytest.approx(expected, abs=1e-12)


def test_flags_refuses_what_it_cannot_decide() -> None:
    with pytest.raises(InputError, match="NaN"):
        flags([np.nan], 0.5)
    with pytest.raises(InputError, match="threshold must"):
        flags([0.1], float("nan"))
    with pytest.raises(InputError, match="tolerance must"):
        flags([0.1], 0.5, -1.0)


def test_many_values_are_looked_up_like_few() -> None:
    rng = np.random.default_rng(1)
    scores, fresh = np.sort(rng.integers(0, 50, 500) / 7), rng.integers(0, 50, 10_000) / 7
    together = p_values(scores, fresh)
    singly = np.concatenate([p_values(scores, fresh[i : i + 100]) for i in range(0, 10_000, 100)])
    assert np.array_equal(together, singly)
