"""Do corrected rates hold: exactly by error rates, and by PPI++ wherever the judge errs?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from calibrail.conformal import bounds
from calibrail.evaluation.judge_agreement import LabelCounts, corrected_rates
from tests.evaluation.agree.tables import (
    ALONE,
    BOTH,
    RUNS,
    SLACK,
    by_errors,
    estimates,
    files,
    held,
    law,
    made,
    powered,
)


def test_an_interval_keeps_a_width_where_all_or_none_are_seen() -> None:
    caught = made((((60, 10), (6, 4)), ((0, 8), (0, 42))), ALONE)
    measure = corrected_rates(caught)["coverage"]["prediction_powered"]
    assert measure.lower < 0.97 and measure.upper == 1.0
    # A judge that never erred where people looked may err elsewhere.
    never = made((((40, 10), (0, 0)), ((0, 0), (2, 8))), ALONE)
    for rate in corrected_rates(never).values():
        for found in rate.values():
            assert found.upper - found.lower > 0.05


@pytest.mark.parametrize(
    ("prevalence", "judge"),
    [(0.05, (0.9, 0.9)), (0.5, (1.0, 0.8)), (0.3, (0.6, 0.6)), (0.2, (0.2, 0.8)), (0.3, (1, 1))],
)
def test_rogan_gladen_is_right_whatever_the_judge_is_like(
    prevalence: float, judge: tuple[float, float]
) -> None:
    drawn = files(law(prevalence, 0, 0, *judge), 40, 400, RUNS, seed=2)
    measures = [by_errors(counts) for counts in drawn]
    wrong = [m for m in measures if m.lower is not None and not m.lower <= prevalence <= m.upper]
    assert len(wrong) <= binom.isf(1e-4, RUNS, 0.05)


def test_rogan_gladen_holds_where_people_label_by_class() -> None:
    """Of 100 hallucinated answers people label 90, of 900 faithful ones 45."""
    rng, truth, runs, wrong = np.random.default_rng(4), 0.1, 150, 0
    for _ in range(runs):
        of_class = rng.multinomial(1000, (0.9 * truth, 0.1 * truth, 0.05 * 0.9, 0.95 * 0.9))
        called = rng.binomial(of_class, (0.8, 0.8, 0.1, 0.1))
        cells = np.zeros((3, 3, 2), np.int64)
        for row, at in ((1, [0]), (0, [2]), (2, [1, 3])):
            count = called[at].sum()
            cells[row, :2, 0] = of_class[at].sum() - count, count
        found = by_errors(LabelCounts(cells, decided=False))
        wrong += found.lower is not None and not found.lower <= truth <= found.upper
    assert wrong <= binom.isf(1e-4, runs, 0.05)


def test_rogan_gladen_is_not_much_wider_than_labels_alone() -> None:
    drawn = list(files(law(0.1, 0, 0, 0.9, 0.9), 300, 1700, 40, seed=5))
    alone = [bounds.interval(counts.both[1].sum(), 300, 0.95) for counts in drawn]
    wide = [found.upper - found.lower for found in map(by_errors, drawn)]
    assert np.median(wide) < 1.5 * np.median([upper - lower for lower, upper in alone])


def test_rogan_gladen_by_hand() -> None:
    rates = corrected_rates(made(BOTH, ALONE))
    specificity, sensitivity, n = 60 / 70, 42 / 50, 1090
    prevalence = (402 / n + specificity - 1) / (sensitivity + specificity - 1)
    assert rates["prevalence"]["rogan_gladen"].estimate == pytest.approx(prevalence)
    # Judge and detector err on the same answers: nothing is said of their rates by errors alone.
    assert set(rates["coverage"]) == set(rates["fpr"]) == {"prediction_powered"}


def test_a_judge_that_knows_nothing_is_not_corrected() -> None:
    coin = made((((20, 10), (20, 10)), ((10, 20), (10, 20))), ALONE)
    found = by_errors(coin)
    assert found.reason == "judge_uninformative:0.00"
    # With 3 of 3 the difference could be chance: nothing is ruled out.
    few = by_errors(made((((3, 0), (0, 0)), ((0, 0), (0, 3))), ALONE))
    assert (few.lower, few.upper) == (0.0, 1.0)


def test_values_outside_the_unit_interval_are_cut_off_and_said_to_be() -> None:
    both = np.array((((170, 10), (18, 2)), ((0, 0), (2, 8))))
    found = by_errors(made(both, ((1700, 100), (100, 20))))
    assert found.estimate == 0.0 == found.lower < found.upper
    found = by_errors(made(both, ((170000, 10000), (1000, 200))))
    assert found.reason == "rate_outside:-0.10"


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


def test_prediction_powered_by_hand() -> None:
    """What people say of each judge label and flag, weighted by how many answers have it."""
    rates = corrected_rates(made(BOTH, ALONE))
    # Rows of each judge label, and what people say of those that they have labelled.
    prevalence = (688 * 8 / 68 + 402 * 42 / 52) / 1090
    assert rates["prevalence"]["prediction_powered"].estimate == pytest.approx(prevalence)
    flagged = 135 * 5 / 15 + 299 * 35 / 39
    passed = 553 * 3 / 53 + 103 * 7 / 13
    coverage = rates["coverage"]["prediction_powered"]
    assert coverage.estimate == pytest.approx(flagged / (flagged + passed))
    assert coverage.lower < coverage.estimate < coverage.upper
    alarms = 434 - flagged
    fpr = rates["fpr"]["prediction_powered"]
    assert fpr.estimate == pytest.approx(alarms / (1090 - flagged - passed))


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize(
    ("prevalence", "judge"), [(0.05, (0.9, 0.9)), (0.5, (1.0, 0.8)), (0.3, (0.6, 0.6))]
)
def test_intervals_hold_with_few_human_labels(
    n: int, prevalence: float, judge: tuple[float, float]
) -> None:
    """Normal intervals held in 0.68 to 0.9 of such files."""
    truth = {"prevalence": prevalence, "coverage": 0.9, "fpr": 0.2}
    wrong = dict.fromkeys(truth, 0)
    runs = 60
    for counts in files(law(prevalence, 0.9, 0.2, *judge), n, 2000, runs, seed=n):
        for name, rate in corrected_rates(counts).items():
            measure = rate["prediction_powered"]
            if measure.estimate is not None:
                wrong[name] += not measure.lower <= truth[name] <= measure.upper
    assert max(wrong.values()) <= binom.isf(1e-4, runs, 0.05)
