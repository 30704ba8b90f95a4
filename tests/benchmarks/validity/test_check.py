from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.validity import Check, Observation, failures
from benchmarks.validity.check import MeanCheck, Setting, pooled


def check(
    failed: int, probability: float = 0.1, promised: float = 0.1, exact: bool = True
) -> Check:
    return Check(
        "p", "continuous", 30, 0.1, 1000, failed, promised, probability=probability, exact=exact
    )


def test_limits_hold_all_but_the_error() -> None:
    least, most = check(100).limits(0.01)
    failed = binom(1000, 0.1)
    assert failed.cdf(least - 1) < 0.005 <= failed.cdf(least)
    assert failed.sf(most) <= 0.005 < failed.sf(most - 1)


def test_an_upper_limit_leaves_the_whole_error_to_one_side() -> None:
    least, most = check(0, exact=False).limits(0.01)
    assert least == 0
    assert binom(1000, 0.1).sf(most) <= 0.01 < binom(1000, 0.1).sf(most - 1)


@pytest.mark.parametrize(("failed", "exact"), [(140, True), (60, True), (140, False)])
def test_a_count_that_chance_does_not_explain_fails(failed: int, exact: bool) -> None:
    wrong = check(failed, exact=exact)
    assert failures([check(100), wrong], 1e-3) == (wrong,)


def test_fewer_failures_than_allowed_are_no_failure_of_an_upper_limit() -> None:
    assert failures([check(0, exact=False)]) == ()


def test_a_known_probability_above_the_promise_fails_whatever_was_seen() -> None:
    assert not check(110, probability=0.11).holds(1e-3)
    assert check(90, probability=0.09).holds(1e-3)


def test_the_error_is_shared_by_all_checks() -> None:
    edge = check(check(0).limits(1e-3 / 50)[1])
    assert failures([edge] * 50, 1e-3) == ()
    assert failures([edge], 1e-3) == (edge,)


def test_an_exact_probability_counts_as_exact_for_continuous_scores_alone() -> None:
    failed = np.array([True, False, True])
    for kind, exact in (("continuous", True), ("tied", False)):
        made = Setting(kind, 30, 0.1, 3).check("p", failed, 0.5, exact=0.4)  # type: ignore[arg-type]
        assert (made.failed, made.probability, made.exact) == (2, 0.4, exact)


def test_random_numbers_depend_on_everything_that_names_a_setting() -> None:
    settings = [
        Setting("continuous", 30, 0.1, 5),
        Setting("tied", 30, 0.1, 5),
        Setting("continuous", 31, 0.1, 5),
        Setting("continuous", 30, 0.2, 5),
        Setting("continuous", 30, 0.1, 5, seed=1),
    ]
    firsts = {setting.rng(name).random() for setting in settings for name in ("a", "b")}
    assert len(firsts) == 2 * len(settings)
    assert settings[0].rng("a").random() == settings[0].rng("a").random()


def test_an_observation_has_a_rate_with_its_interval() -> None:
    seen = Observation("naive", "continuous", 30, 0.1, 100, 7, 0.1)
    assert seen.rate == 0.07
    assert [round(end, 4) for end in seen.interval(0.95)] == [0.0286, 0.1389]


def test_a_mean_may_lie_above_what_is_promised_as_far_as_chance_explains() -> None:
    at = Setting("continuous", 10, 0.1, 4)
    near = at.mean("mean", [0.05, 0.1, 0.15, 0.2], 0.1, design="near")
    assert near.rate == pytest.approx(0.125)
    assert near.holds(0.01) and not near.holds(0.49)
    assert near.interval()[0] < 0.125 < near.interval()[1]
    far = at.mean("mean", [0.3, 0.3, 0.3, 0.31], 0.1)
    assert failures([near, far], 0.02) == (far,)


def test_checks_of_several_lots_are_one_check_of_all_runs() -> None:
    lots = [Setting("continuous", 30, 0.1, runs, seed) for seed, runs in enumerate((10, 10, 7))]
    rates = [np.random.default_rng(at.seed).random(at.runs) for at in lots]
    made = [at.mean("m", values, 0.5, design="d") for at, values in zip(lots, rates, strict=True)]
    counts = [at.check("c", values < 0.4, 0.4) for at, values in zip(lots, rates, strict=True)]
    whole = Setting("continuous", 30, 0.1, 27)
    together = np.concatenate(rates)
    mean, count = pooled([made[0], counts[0], *made[1:], *counts[1:]])
    assert count == whole.check("c", together < 0.4, 0.4)
    expected = whole.mean("m", together, 0.5, design="d")
    assert isinstance(mean, MeanCheck) and mean.runs == 27
    assert (mean.rate, mean.error) == pytest.approx((expected.rate, expected.error))
