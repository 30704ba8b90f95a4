from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom
from statsmodels.stats.proportion import proportion_confint

from calibrail.conformal import (
    Counts,
    attainable_coverages,
    calibrate_threshold,
    clopper_pearson,
    coverage_band,
    joint_certificate,
)
from calibrail.errors import InputError
from calibrail.settings import Promise, Requirement
from tests.conformal.counted import certify, certify_joint

COUNTS = st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS, st.floats(0.5, 0.999))
def test_clopper_pearson_agrees_with_statsmodels(counts: tuple[int, int], level: float) -> None:
    count, n = counts
    lower, upper = clopper_pearson(count, n, level)
    expected = proportion_confint(count, n, alpha=1 - level, method="beta")
    # statsmodels gives NaN-free ends at 0 and n as well; both are exact there.
    assert (lower, upper) == pytest.approx(expected, abs=1e-9)
    assert 0.0 <= lower <= count / n <= upper <= 1.0


def test_no_trial_bounds_nothing() -> None:
    assert clopper_pearson(0, 0, 0.95) == (0.0, 1.0)


@pytest.mark.parametrize(("k", "n", "m"), [(1, 19, 50), (5, 100, 200), (25, 500, 500), (3, 30, 1)])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_band_agrees_with_scipy(k: int, n: int, m: int, level: float) -> None:
    oracle = betabinom(m, n + 1 - k, k)
    tail = (1 - level) / 2
    assert coverage_band((k, n), m, level) == (oracle.ppf(tail), oracle.ppf(1 - tail))


@given(COUNTS, COUNTS, st.floats(0.5, 0.99), st.floats(0.01, 0.5), st.floats(0.6, 0.99))
def test_a_certificate_is_ordered_finite_and_consistent(
    hits: tuple[int, int],
    alarms: tuple[int, int],
    required: float,
    limit: float,
    level: float,
) -> None:
    made = certify(*hits, *alarms, required, limit, level)
    for bound in (made.coverage, made.fpr):
        assert 0.0 <= bound.lower <= bound.upper <= 1.0
    expected = "inconclusive"
    if made.coverage.upper < required or made.fpr.lower > limit:
        expected = "rejected"
    elif made.coverage.lower >= required and made.fpr.upper <= limit:
        expected = "certified"
    assert made.verdict == expected
    if made.verdict != "inconclusive":
        assert dict(made.needed) == {"hallucinated": 0, "faithful": 0}


@pytest.mark.parametrize(
    ("hits", "alarms"), [((28, 30), (2, 40)), ((88, 100), (11, 100)), ((95, 100), (0, 5))]
)
def test_the_number_that_is_needed_suffices_and_half_of_it_does_not(
    hits: tuple[int, int], alarms: tuple[int, int]
) -> None:
    required, limit, level = 0.9, 0.1, 0.95
    made = certify(*hits, *alarms, required, limit, level)
    assert made.verdict == "inconclusive"
    further = made.needed["hallucinated"]
    assert further is not None
    rate = hits[0] / hits[1]
    if further:
        for share, settles in ((1.0, True), (0.5, False)):
            n = hits[1] + int(further * share)
            count = int(np.floor(rate * n)) if rate > required else int(np.ceil(rate * n))
            lower, upper = clopper_pearson(count, n, level)
            assert (lower >= required or upper < required) == settles


def test_a_rate_on_the_requirement_is_never_settled() -> None:
    made = certify(90, 100, 0, 1000, 0.9, 0.1, 0.95)
    assert made.needed["hallucinated"] is None


def test_without_a_limit_nothing_is_certified() -> None:
    made = certify(100, 100, 0, 100, 0.5, None, 0.95)
    assert made.verdict == "inconclusive"
    assert "--max-fpr" in made.reason
    assert certify(10, 100, 0, 100, 0.5, None, 0.95).verdict == "rejected"


def test_a_pac_threshold_brings_its_coverage_along() -> None:
    rng = np.random.default_rng(0)
    calibration = calibrate_threshold(rng.normal(size=300), Promise(0.1, "pac", 0.05))
    made = certify_joint(calibration, 30, 33, 10, 300, 0.1, 0.9)
    assert made.verdict == "certified"
    assert made.confidence == pytest.approx(0.9)
    assert certify(30, 33, 10, 300, 0.9, 0.1, 0.9).verdict == "inconclusive"
    assert certify_joint(calibration, 10, 33, 10, 300, 0.1, 0.9).verdict == "rejected"
    with pytest.raises(InputError, match="pac"):
        certify_joint(
            calibrate_threshold(rng.normal(size=300), Promise(0.1)), 30, 33, 10, 300, 0.1, 0.9
        )


def test_what_coverage_still_needs_is_said_without_a_limit_on_alarms() -> None:
    needed = certify(90, 100, 0, 100, 0.88, None, 0.95).needed
    limited = certify(90, 100, 0, 100, 0.88, 0.5, 0.95).needed
    assert needed["hallucinated"] == limited["hallucinated"] > 0
    assert needed["faithful"] is None


def test_a_threshold_that_flags_everything_proves_nothing() -> None:
    everything = calibrate_threshold([1.0], Promise(0.1, "pac", 0.1, allow_flag_all=True))
    assert everything.flag_all
    with pytest.raises(InputError, match="got one that flags everything"):
        certify_joint(everything, 30, 33, 10, 300, 0.1, 0.9)


def test_a_yes_no_judge_reaches_two_coverages() -> None:
    thresholds, coverages = attainable_coverages([1.0] * 67 + [0.0] * 33)
    assert thresholds.tolist() == [0.0, 1.0]
    assert coverages == pytest.approx([1.0, 0.67])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((5, 3, 0, 1, 0.9, 0.1, 0.95), "caught"),
        ((1, 3, 2, 1, 0.9, 0.1, 0.95), "false_alarms"),
        ((1, 3, 0, 1, 1.9, 0.1, 0.95), "min_coverage"),
        ((1, 3, 0, 1, 0.9, -0.1, 0.95), "max_fpr"),
        ((1, 3, 0, 1, 0.9, 0.1, 1.0), "confidence"),
        ((1.5, 3, 0, 1, 0.9, 0.1, 0.9), "caught"),
    ],
)
def test_arguments_outside_their_domain_are_named(arguments: tuple[float, ...], name: str) -> None:
    with pytest.raises(InputError, match=name):
        certify(*arguments)


@pytest.mark.parametrize("required", [0.9 + 1e-9, 1.0])
def test_no_more_coverage_is_proven_than_the_threshold_aims_at(required: float) -> None:
    calibration = calibrate_threshold(range(60), Promise(0.1, "pac", 0.1))
    with pytest.raises(InputError, match=r"min_coverage must be at most the 0\.9 that"):
        joint_certificate(calibration, Counts(9, 10, 1, 10), Requirement(0.5, required, 0.9))
