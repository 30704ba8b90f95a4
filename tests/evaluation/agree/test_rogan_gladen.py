"""Is the correction by error rates right where the judge errs alike, and only there?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from calibrail.evaluation.agree.corrected_rates import corrected_rates
from calibrail.evaluation.agree.rate_estimate import agresti_coull
from tests.evaluation.agree.tables import (
    ALONE,
    BOTH,
    RUNS,
    SLACK,
    bias_within,
    estimates,
    files,
    held,
    law,
    made,
    powered,
    rogan_gladen,
)


def test_rogan_gladen_is_right_where_the_judge_errs_alike_and_only_there() -> None:
    alike, along = law(0.3, 0.7, 0.2, 0.9, 0.9), law(0.3, 0.7, 0.2, 0.9, 0.9, (0.04, 0.0))
    found = estimates(rogan_gladen, files(alike, 2000, 18000, RUNS // 2, seed=2))
    bias, noise = bias_within(found, 0.7)
    # A ratio is off by about its squared standard error.
    assert abs(bias) <= noise + found[:, 0].var()
    binomial = 4 * math.sqrt(0.95 * 0.05 / len(found))
    assert abs(held(found, 0.7) - 0.95) <= SLACK + binomial
    # P(judge, flag | faithful) is 0.04 higher: 0.04 * 0.7 / (0.3 * 0.8) too much.
    broken = estimates(rogan_gladen, files(along, 2000, 18000, RUNS // 2, seed=3))
    assert bias_within(broken, 0.7)[0] == pytest.approx(0.04 * 0.7 / (0.3 * 0.8), abs=0.01)
    assert held(broken, 0.7) < 0.1
    still = estimates(powered, files(along, 2000, 18000, RUNS // 2, seed=3))
    bias, noise = bias_within(still, 0.7)
    assert abs(bias) <= noise + still[:, 0].var()
    assert abs(held(still, 0.7) - 0.95) <= SLACK + binomial


def test_rogan_gladen_by_hand() -> None:
    rates = corrected_rates(made(BOTH, ALONE))
    specificity, sensitivity, n = 60 / 70, 42 / 50, 1090
    called, flagged, joint = 402 / n, (10 + 4 + 5 + 35 + 380) / n, 299 / n
    prevalence = (called + specificity - 1) / (sensitivity + specificity - 1)
    assert rates["prevalence"].rogan_gladen.measure.estimate == pytest.approx(prevalence)

    def of_flagged(among: float, total: float) -> float:
        return (among + (specificity - 1) * total) / (sensitivity + specificity - 1)

    both = of_flagged(joint, flagged)
    coverage, fpr = both / prevalence, (flagged - both) / (1 - prevalence)
    assert rates["coverage"].rogan_gladen.measure.estimate == pytest.approx(coverage)
    assert rates["fpr"].rogan_gladen.measure.estimate == pytest.approx(fpr)


@pytest.mark.parametrize("name", ["prevalence", "coverage", "fpr"])
def test_the_variance_of_rogan_gladen_is_that_of_the_multinomial(name: Any) -> None:
    """The gradient by differences, with the covariance of all cells: no formula in common."""
    counts = made(BOTH, ALONE)
    shares = np.concatenate([counts.both.ravel(), counts.judge_alone.ravel()]).astype(float)
    n = shares.sum()
    shares /= n

    def estimate(p: np.ndarray) -> float:
        both, alone = p[:8].reshape(2, 2, 2), p[8:].reshape(2, 2)
        called = both[:, 1].sum(axis=1) / both.sum(axis=(1, 2))
        rows = both.sum(axis=0) + alone
        gain = called[1] - called[0]
        prevalence = (rows[1].sum() / rows.sum() - called[0]) / gain
        hit = (rows[1, 1] - called[0] * rows[:, 1].sum()) / gain / rows.sum()
        false = rows[:, 1].sum() / rows.sum() - hit
        shares = {"coverage": hit / prevalence, "fpr": false / (1 - prevalence)}
        return prevalence if name == "prevalence" else shares[name]

    step = 1e-6
    gradient = [
        (estimate(shares + move) - estimate(shares - move)) / (2 * step)
        for move in step * np.eye(12)
    ]
    spread = np.diag(shares) - np.outer(shares, shares)
    variance = float(np.array(gradient) @ spread @ np.array(gradient)) / n
    measure = corrected_rates(counts)[name].rogan_gladen.measure
    half = measure.estimate - measure.lower  # the upper end may be cut off
    # The error rates have two successes and failures more: 10 of 70, and 42 of 50.
    faithful, hallucinated = agresti_coull(10, 70), agresti_coull(42, 50)
    assert faithful > 0 and hallucinated > 0
    rate, gain = measure.estimate, 42 / 50 - 10 / 70
    called, flagged = 402 / 1090, 434 / 1090
    more = {
        "prevalence": ((1 - rate) ** 2 * faithful + rate**2 * hallucinated) / gain**2,
        "coverage": (rate - flagged) ** 2 * faithful / (called - 10 / 70) ** 2,
        "fpr": (rate - flagged) ** 2 * hallucinated / (42 / 50 - called) ** 2,
    }[name]
    assert half == pytest.approx(norm.ppf(0.975) * math.sqrt(variance + more), rel=1e-5)


def test_a_judge_that_knows_nothing_is_not_corrected() -> None:
    coin = made((((20, 10), (20, 10)), ((10, 20), (10, 20))), ALONE)
    rates = corrected_rates(coin)
    for rate in rates.values():
        found = rate.rogan_gladen
        assert found.measure.estimate is None
        assert "sensitivity + specificity - 1 is 0.00, not clearly above 0" in str(
            found.measure.reason
        )
    inverted = made((((1, 1), (30, 20)), ((20, 30), (1, 1))), ALONE)
    assert corrected_rates(inverted)["fpr"].rogan_gladen.measure.estimate is None
    # With 3 of 3 the difference could be chance: one-sided p = 1/20 > 0.025.
    few = made((((3, 0), (0, 0)), ((0, 0), (0, 3))), ALONE)
    assert "p = 0.05" in str(corrected_rates(few)["prevalence"].rogan_gladen.measure.reason)


def test_a_denominator_next_to_zero_is_refused() -> None:
    """The judge calls as many hallucinated as its false alarms alone explain."""
    both = np.array((((170, 10), (18, 2)), ((0, 0), (2, 8))))
    found = corrected_rates(made(both, ((1700, 100), (160, 20))))["coverage"].rogan_gladen
    assert "share of hallucinated answers is not clearly above 0" in str(found.measure.reason)
    barely = corrected_rates(made(both, ((1650, 100), (210, 40))))["coverage"].rogan_gladen
    assert 280 / 2210 > 20 / 200 and barely.measure.reason == found.measure.reason
    one = corrected_rates(made((((50, 50), (5, 5)), ((0, 0), (0, 1))), ALONE))["coverage"]
    assert "divides by is not clearly above 0" in str(one.prediction_powered.measure.reason)


def test_values_outside_the_unit_interval_are_cut_off_and_said_to_be() -> None:
    along = np.round(law(0.3, 0.9, 0.2, 0.9, 0.9, (0.02, 0.0)) * 400).astype(int)
    found = corrected_rates(made(along, along.sum(axis=0) * 9))["coverage"].rogan_gladen
    assert found.measure.estimate == pytest.approx(0.9 + 0.02 * 0.7 / 0.24, abs=0.01)
    assert found.measure.upper == 1.0
    assert found.clipped == ("upper",)
    farther = np.round(law(0.3, 0.9, 0.2, 0.9, 0.9, (0.045, 0.0)) * 400).astype(int)
    found = corrected_rates(made(farther, farther.sum(axis=0) * 9))["coverage"].rogan_gladen
    assert found.measure.estimate == 1.0 and found.clipped == ("estimate", "upper")
    many = np.round(law(0.3, 0.9, 0.2, 0.9, 0.9, (0.08, 0.0)) * 40000).astype(int)
    found = corrected_rates(made(many, many.sum(axis=0) * 9))["coverage"].rogan_gladen
    assert found.measure.estimate is None and found.clipped == ()
    assert "whole interval lies outside [0, 1]" in str(found.measure.reason)
