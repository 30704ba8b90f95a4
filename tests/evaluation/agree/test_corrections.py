"""Do corrected rates hold: by error rates where the judge errs alike, by PPI++ wherever it errs?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from calibrail.evaluation.judge_agreement import corrected_rates, rogan_gladen
from tests.evaluation.agree.tables import (
    ALONE,
    BOTH,
    RUNS,
    SLACK,
    bias_within,
    corrected,
    estimates,
    files,
    held,
    law,
    made,
    powered,
    rows_of,
)

METHODS = ("rogan_gladen", "prediction_powered")


def test_an_interval_keeps_a_width_where_all_or_none_are_seen() -> None:
    caught = made((((60, 10), (6, 4)), ((0, 8), (0, 42))), ALONE)
    measure = corrected_rates(caught)["coverage"].prediction_powered.measure
    assert measure.lower < 0.97 and measure.upper == 1.0
    # A judge that never erred where people looked may err elsewhere.
    never = made((((40, 10), (0, 0)), ((0, 0), (2, 8))), ALONE)
    for rate in corrected_rates(never).values():
        for method in (rate.rogan_gladen, rate.prediction_powered):
            exact = rate.human_only.measure
            assert (method.measure.upper - method.measure.lower) / (exact.upper - exact.lower) > 0.2


def test_rogan_gladen_is_right_where_the_judge_errs_alike_and_only_there() -> None:
    alike, along = law(0.3, 0.7, 0.2, 0.9, 0.9), law(0.3, 0.7, 0.2, 0.9, 0.9, (0.04, 0.0))
    found = estimates(corrected, files(alike, 2000, 18000, RUNS // 2, seed=2))
    bias, noise = bias_within(found, 0.7)
    # A ratio is off by about its squared standard error.
    assert abs(bias) <= noise + found[:, 0].var()
    binomial = 4 * math.sqrt(0.95 * 0.05 / len(found))
    assert abs(held(found, 0.7) - 0.95) <= SLACK + binomial
    # P(judge, flag | faithful) is 0.04 higher: 0.04 * 0.7 / (0.3 * 0.8) too much.
    broken = estimates(corrected, files(along, 2000, 18000, RUNS // 2, seed=3))
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
    assert corrected(made(BOTH, ALONE)).measure.estimate == pytest.approx(coverage)
    assert corrected(made(BOTH, ALONE).turned()).measure.estimate == pytest.approx(fpr)


@pytest.mark.parametrize(
    ("human", "judge", "along", "shown"),
    [
        (1000, (0.9, 0.85), (0.0, 0.0), None),
        (400, (0.9, 0.85), (0.05, 0.02), "errs_together"),
        (400, (0.9, 0.85), (0.0, 0.05), "errs_together"),
        # They err on other answers than the detector: that is refuted, too.
        (4000, (0.9, 0.85), (-0.02, 0.0), "errs_together"),
        (200, (0.9, 0.85), (0.0, 0.0), "too_few_to_tell"),
        (200, (0.9, 0.85), (0.02, 0.0), "too_few_to_tell"),
        # Where a judge never errs, its errors move nothing.
        (300, (1.0, 1.0), (0.0, 0.0), None),
    ],
)
def test_rates_by_error_rates_need_labels_that_bear_out_what_they_assume(
    human: int, judge: tuple[float, float], along: tuple[float, float], shown: str | None
) -> None:
    cells = law(0.3, 0.8, 0.25, *judge, along)
    both, alone = (np.round(part).astype(int) for part in (cells * human, cells.sum(axis=0) * 3000))
    rates = corrected_rates(made(both, alone))
    assert {rates[name].rogan_gladen.measure.reason for name in ("coverage", "fpr")} == {shown}
    for rate in rates.values():
        assert rate.prediction_powered.measure.estimate is not None
    # Flags have no part in the share of hallucinated answers.
    assert rates["prevalence"].rogan_gladen.measure.estimate is not None


def test_a_judge_that_knows_nothing_is_not_corrected() -> None:
    coin = made((((20, 10), (20, 10)), ((10, 20), (10, 20))), ALONE)
    rates = corrected_rates(coin)
    for rate in rates.values():
        found = rate.rogan_gladen
        assert found.measure.estimate is None
        assert found.measure.reason == "uninformative" and found.values["gain"] == 0.0
    inverted = made((((1, 1), (30, 20)), ((20, 30), (1, 1))), ALONE)
    assert corrected_rates(inverted)["fpr"].rogan_gladen.measure.estimate is None
    # With 3 of 3 the difference could be chance: hardly a value is ruled out.
    few = made((((3, 0), (0, 0)), ((0, 0), (0, 3))), ALONE)
    measure = corrected_rates(few)["prevalence"].rogan_gladen.measure
    assert measure.lower == 0.0 and measure.upper > 0.7


def test_a_denominator_next_to_zero_is_refused() -> None:
    """The judge calls as many hallucinated as its false alarms alone explain."""
    both = np.array((((170, 10), (18, 2)), ((0, 0), (2, 8))))
    found = corrected(made(both, ((1700, 100), (160, 20))))
    assert found.measure.reason == "class_near_zero"
    barely = corrected(made(both, ((1650, 100), (210, 40))))
    assert 280 / 2210 > 20 / 200
    assert barely.measure.lower < 0.3 and barely.measure.upper == 1.0


def test_values_outside_the_unit_interval_are_cut_off_and_said_to_be() -> None:
    along = np.round(law(0.3, 0.9, 0.2, 0.9, 0.9, (0.02, 0.0)) * 400).astype(int)
    found = corrected(made(along, along.sum(axis=0) * 9))
    assert found.measure.estimate == pytest.approx(0.9 + 0.02 * 0.7 / 0.24, abs=0.01)
    assert found.measure.upper == 1.0
    assert found.clipped == ()
    farther = np.round(law(0.3, 0.9, 0.2, 0.9, 0.9, (0.045, 0.0)) * 400).astype(int)
    found = corrected(made(farther, farther.sum(axis=0) * 9))
    assert found.measure.estimate == 1.0 and found.clipped == ("estimate",)
    many = np.round(law(0.3, 0.9, 0.2, 0.9, 0.9, (0.08, 0.0)) * 40000).astype(int)
    found = corrected(made(many, many.sum(axis=0) * 9))
    assert found.measure.estimate is None and found.clipped == ()
    assert found.measure.reason == "outside" and found.values["share"] > 1.0


@pytest.mark.parametrize("along", [(0.0, 0.0), (0.03, 0.02)])
@pytest.mark.parametrize("turned", [False, True])
def test_prediction_powered_intervals_hold_whatever_the_judge_errs_with(
    along: tuple[float, float], turned: bool
) -> None:
    cells = law(0.3, 0.85, 0.2, 0.9, 0.85, along)
    drawn = files(cells, 300, 3000, RUNS, seed=1)
    found = estimates(lambda counts: powered(counts.turned() if turned else counts), drawn)
    truth = 0.2 if turned else 0.85
    noise = 4 * math.sqrt(0.95 * 0.05 / RUNS)
    assert 0.95 - SLACK - noise <= held(found, truth) <= 0.95 + SLACK + noise


@pytest.mark.parametrize(
    ("quality", "narrower"), [((0.95, 0.97), 0.75), ((0.5, 0.5), 1.005), ((0.2, 0.2), 1.005)]
)
def test_a_judge_narrows_the_interval_or_does_no_harm(
    quality: tuple[float, float], narrower: float
) -> None:
    """Without rows that the judge alone labelled, the same formula is the human Wald interval."""
    cells = law(0.4, 0.7, 0.3, *quality)
    drawn = list(files(cells, 400, 4000, 300, seed=5))
    human = estimates(powered, (made(counts.both) for counts in drawn))
    found = estimates(powered, iter(drawn))
    ratio = (found[:, 2] - found[:, 1]) / (human[:, 2] - human[:, 1])
    assert np.mean(ratio) <= narrower
    # The rate itself moves, and with it the variance that belongs to it.
    assert ratio.max() <= 1.1


@pytest.mark.parametrize("name", ["prevalence", "coverage", "fpr"])
def test_prediction_powered_row_by_row(name: Any) -> None:
    """The PPI++ estimating equation and variance, written out on rows instead of counts."""
    counts = made(BOTH, ALONE)
    rows = rows_of(counts)
    has = ~np.isnan(rows["y"])
    y, j, f = rows["y"], rows["j"], rows["f"]
    if name == "fpr":
        y, j = 1 - y, 1 - j
    above = {"y": y, "j": j} if name == "prevalence" else {"y": y * f, "j": j * f}
    ones = np.ones_like(j)
    below = {"y": ones, "j": ones} if name == "prevalence" else {"y": y, "j": j}
    n, rest = has.sum(), (~has).sum()
    pilot = above["y"][has].mean() / below["y"][has].mean()
    mine, its = (above[key] - pilot * below[key] for key in "yj")
    covariance = np.cov(mine[has], its[has], ddof=0)[0, 1]
    weight = covariance / ((1 + n / rest) * its.var())
    assert 0 < weight < 1
    means = [
        part["y"][has].mean() + weight * (part["j"][~has].mean() - part["j"][has].mean())
        for part in (above, below)
    ]
    rate = means[0] / means[1]
    found = corrected_rates(counts, 0.9)[name].prediction_powered
    assert found.weight == pytest.approx(weight)
    assert found.measure.estimate == pytest.approx(rate)
    assert found.measure.lower < rate < found.measure.upper


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize(
    ("prevalence", "judge"), [(0.05, (0.9, 0.9)), (0.5, (1.0, 0.8)), (0.3, (0.6, 0.6))]
)
def test_intervals_hold_with_few_human_labels(
    n: int, prevalence: float, judge: tuple[float, float]
) -> None:
    """Normal intervals held in 0.68 to 0.9 of such files."""
    truth = {"prevalence": prevalence, "coverage": 0.9, "fpr": 0.2}
    wrong = dict.fromkeys([(name, method) for name in truth for method in METHODS], 0)
    runs = 60
    for counts in files(law(prevalence, 0.9, 0.2, *judge), n, 2000, runs, seed=n):
        for name, rate in corrected_rates(counts).items():
            turned = counts.turned() if name == "fpr" else counts
            by_errors = rogan_gladen(turned, 0.95, flagged=name != "prevalence")
            for method, found in zip(METHODS, (by_errors, rate.prediction_powered), strict=True):
                measure = found.measure
                if measure.estimate is not None:
                    wrong[name, method] += not measure.lower <= truth[name] <= measure.upper
    assert max(wrong.values()) <= binom.isf(1e-4, runs, 0.05)
