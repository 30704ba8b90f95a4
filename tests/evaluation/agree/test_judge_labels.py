"""Are a judge's errors measured and corrected as theory says, and is nothing ever made up?"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2, fisher_exact, norm
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.proportion import proportion_confint

from calibrail.errors import InputError
from calibrail.evaluation.agree.corrected_rates import corrected_rates, trusted
from calibrail.evaluation.agree.judge_labels import (
    LabelCounts,
    alike_tests,
    count_labels,
    sample_tests,
)
from calibrail.evaluation.agree.judge_vs_human import agreement, asymmetry, kappa
from calibrail.evaluation.agree.prediction_powered import prediction_powered_share
from calibrail.evaluation.agree.rate_estimate import RateEstimate, agresti_coull
from calibrail.evaluation.agree.rogan_gladen import rogan_gladen_share

NAMES = ("hallucinated", "faithful")

#: Runs of a simulation; a share of them is known to within four standard errors.
RUNS = 1000

#: By how much an asymptotic 95 % interval may miss its level at a few hundred human labels.
SLACK = 0.015


def law(
    prevalence: float,
    coverage: float,
    fpr: float,
    sensitivity: float,
    specificity: float,
    along: tuple[float, float] = (0.0, 0.0),
) -> np.ndarray:
    """Return P(human label, judge label, flag); ``along`` is the covariance of judge and flag
    among faithful and among hallucinated answers."""
    cells = np.zeros((2, 2, 2))
    classes = ((1 - prevalence, fpr, 1 - specificity), (prevalence, coverage, sensitivity))
    for label, (weight, flagged, called) in enumerate(classes):
        product = np.outer([1 - called, called], [1 - flagged, flagged])
        cells[label] = weight * (product + along[label] * np.array([[1, -1], [-1, 1]]))
    assert cells.min() >= -1e-12
    return np.maximum(cells, 0.0)


def files(cells: np.ndarray, n: int, n_alone: int, runs: int, seed: int) -> Iterator[LabelCounts]:
    """Draw files with n rows that people label, and others that the judge alone does."""
    rng = np.random.default_rng(seed)
    both = rng.multinomial(n, cells.ravel(), size=runs).reshape(runs, 2, 2, 2)
    alone = rng.multinomial(n_alone, cells.sum(axis=0).ravel(), size=runs).reshape(runs, 2, 2)
    for drawn in zip(both, alone, strict=True):
        yield made(*drawn)


def made(both: Any, alone: Any = ((0, 0), (0, 0))) -> LabelCounts:
    cells = np.zeros((3, 3, 2), np.int64)
    cells[:2, :2], cells[2, :2] = both, alone
    return LabelCounts(cells)


def estimates(
    found: Callable[[LabelCounts], RateEstimate], drawn: Iterator[LabelCounts]
) -> np.ndarray:
    """Return estimate, lower and upper end of every file."""
    measures = [found(counts).measure for counts in drawn]
    assert all(measure.estimate is not None for measure in measures)
    return np.array([(m.estimate, m.lower, m.upper) for m in measures], dtype=float)


def rogan_gladen(counts: LabelCounts) -> RateEstimate:
    return rogan_gladen_share(counts, 0.95, NAMES)


def powered(counts: LabelCounts) -> RateEstimate:
    return prediction_powered_share(counts, 0.95, NAMES)


def judge_only(counts: LabelCounts) -> RateEstimate:
    return corrected_rates(counts)["coverage"].judge_only


def held(found: np.ndarray, truth: float) -> float:
    return float(np.mean((found[:, 1] <= truth) & (truth <= found[:, 2])))


def bias_within(found: np.ndarray, truth: float) -> tuple[float, float]:
    """Return the mean error, and four of its standard errors."""
    errors = found[:, 0] - truth
    return float(errors.mean()), 4 * float(errors.std()) / math.sqrt(len(errors))


# Simulations


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


def test_the_judge_alone_is_surely_wrong() -> None:
    cells = law(0.3, 0.9, 0.2, 0.9, 0.9)
    found = estimates(judge_only, files(cells, 200, 3000, 200, seed=4))
    expected = (0.27 * 0.9 + 0.07 * 0.2) / 0.34
    assert found[:, 0].mean() == pytest.approx(expected, abs=0.01) and expected < 0.76
    assert held(found, 0.9) == 0.0


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


# Hand-worked tables and oracles

BOTH = (((50, 10), (6, 4)), ((3, 5), (7, 35)))  # human, judge, flag
ALONE = ((500, 120), (90, 260))


def rows_of(counts: LabelCounts) -> dict[str, np.ndarray]:
    """Return one entry a row: human label (NaN for none), judge label, flag."""
    index = np.argwhere(counts.cells[:, :2] >= 0)
    rows = np.repeat(index, counts.cells[:, :2].ravel(), axis=0).astype(float)
    return {"y": np.where(rows[:, 0] == 2, np.nan, rows[:, 0]), "j": rows[:, 1], "f": rows[:, 2]}


def test_human_only_and_judge_only_are_exact_counts() -> None:
    cells = made(BOTH, ALONE).cells.copy()
    cells[1, 2] = (2, 3)  # hallucinated, says a person; no judge label
    rates = corrected_rates(LabelCounts(cells), 0.9)
    human, judge = rates["coverage"].human_only, rates["coverage"].judge_only
    assert (human.n_human, judge.n_judge) == (55, 402)
    expected = (
        (human, 43, 55),
        (judge, 299, 402),
        (rates["fpr"].human_only, 14, 70),
        (rates["fpr"].judge_only, 135, 688),
        (rates["prevalence"].judge_only, 402, 1090),
        (rates["prevalence"].human_only, 55, 125),
    )
    for found, count, n in expected:
        ends = proportion_confint(count, n, alpha=0.1, method="beta")
        assert found.measure.estimate == pytest.approx(count / n)
        assert (found.measure.lower, found.measure.upper) == pytest.approx(ends, abs=1e-9)
    for name, rate in rates.items():
        for method in ("rogan_gladen", "prediction_powered"):
            without = corrected_rates(made(BOTH, ALONE), 0.9)[name]
            assert getattr(rate, method) == getattr(without, method)


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
    mine, its = (above[key] - rate * below[key] for key in "yj")
    variance = np.var(mine[has] - weight * its[has], ddof=1) / n
    variance += weight**2 * np.var(its[~has], ddof=1) / rest
    hits, trials = above["y"][has].sum(), below["y"][has].sum()
    total = variance / means[1] ** 2 + agresti_coull(hits, trials)
    found = corrected_rates(counts, 0.9)[name].prediction_powered
    half = norm.ppf(0.95) * math.sqrt(total)
    assert found.weight == pytest.approx(weight)
    assert (found.measure.estimate, found.measure.lower, found.measure.upper) == pytest.approx(
        (rate, rate - half, rate + half)
    )


def test_agresti_coull_is_what_two_more_of_each_add() -> None:
    assert agresti_coull(19, 20) == pytest.approx((21 / 24) * (3 / 24) / 24 - 0.95 * 0.05 / 20)
    assert agresti_coull(50, 100) == 0.0
    # All caught: a normal interval alone would have no width.
    caught = made((((60, 10), (6, 4)), ((0, 8), (0, 42))), ALONE)
    measure = corrected_rates(caught)["coverage"].prediction_powered.measure
    assert measure.lower < 0.97 and measure.upper == 1.0


# When nothing can be said, and when it should not be relied on


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


def test_too_few_human_labels_are_named_with_how_many_would_do() -> None:
    rates = corrected_rates(made((((50, 10), (6, 4)), ((1, 1), (7, 41))), ALONE))
    fine = rates["coverage"].prediction_powered
    few = made((((50, 10), (6, 4)), ((1, 10), (1, 38))), ALONE)
    assert fine.caution is None and fine.n_needed is None
    tuned = corrected_rates(few)["coverage"].prediction_powered
    assert tuned.n_needed == 300  # 2 missed of 120 rows; 5 are wanted
    assert "only 2 of the 120 rows with both labels are hallucinated and passed" in str(
        tuned.caution
    )
    none = corrected_rates(made((((50, 10), (6, 4)), ((0, 10), (0, 40))), ALONE))["coverage"]
    assert none.prediction_powered.n_needed == 200  # below 3 of 120, by the rule of three
    assert "200 human labels or more" in str(none.prediction_powered.caution)
    small = corrected_rates(made((((15, 4), (2, 1)), ((3, 5), (7, 35))), ALONE))
    assert small["coverage"].rogan_gladen.n_needed == math.ceil(30 * 72 / 22)
    assert small["fpr"].rogan_gladen.n_needed is None


def test_what_to_trust() -> None:
    rates = corrected_rates(made(BOTH, ALONE))
    chosen = trusted(rates)
    assert {trust.method for trust in chosen.values()} == {"prediction_powered"}
    exact, tuned = rates["fpr"].human_only.measure, rates["fpr"].prediction_powered.measure
    gained = 1 - (tuned.upper - tuned.lower) / (exact.upper - exact.lower)
    assert f"{100 * gained:.1f}% narrower" in chosen["fpr"].reason
    assert {trust.method for trust in trusted(rates, "they were flagged").values()} == {None}
    few = trusted(corrected_rates(made((((50, 10), (6, 4)), ((1, 10), (1, 38))), ALONE)))
    assert few["coverage"].method == "human_only" and "only 2 of" in few["coverage"].reason
    # Most human labels stand where the judge has none: the corrections cannot use them.
    cells = made(BOTH, ALONE).cells.copy()
    cells[:2, 2] = (900, 100), (100, 400)
    wider = trusted(corrected_rates(LabelCounts(cells)))["coverage"]
    assert wider.method == "human_only" and "do not make it narrower" in wider.reason
    one_class = trusted(corrected_rates(made((((50, 10), (6, 4)), ((0, 0), (0, 0))), ALONE)))
    assert one_class["coverage"].method is None
    assert one_class["coverage"].reason == "people call no answer hallucinated"


def test_rows_chosen_for_people_and_errors_that_follow_the_flag_show() -> None:
    random, (judge, flag) = made(BOTH, ALONE), sample_tests(made(BOTH, ALONE))
    assert not judge.differs and not flag.differs
    table = [[68, 52], [620, 350]]
    assert judge.p_value == pytest.approx(fisher_exact(table).pvalue)
    assert (judge.first_count, judge.first_n) == (52, 120)
    assert (judge.second_count, judge.second_n) == (350, 970)
    flagged_only = made(np.array(BOTH) * [[[0, 3]]], ALONE)
    assert [test.differs for test in sample_tests(flagged_only)] == [True, True]
    hallucinated, faithful = alike_tests(random)
    assert hallucinated.p_value == pytest.approx(fisher_exact([[5, 35], [3, 7]]).pvalue)
    assert faithful.p_value == pytest.approx(fisher_exact([[10, 4], [50, 6]]).pvalue)
    assert not faithful.differs
    assert alike_tests(made(np.array(BOTH) * 5, ALONE))[1].differs
    everyone = sample_tests(made(BOTH))[0]
    assert everyone.p_value is None and everyone.reason == "no row has a judge label alone"


# Agreement


@pytest.mark.parametrize("table", [((60, 10), (8, 42)), ((9, 4), (4, 3)), ((0, 7), (9, 1))])
def test_agreement_agrees_with_its_oracles(table: Any) -> None:
    both = np.array(table)
    human, judge = np.repeat(CELLS, both.ravel(), axis=0).T
    found = agreement(count_labels(human, judge), 0.9)
    assert found.kappa.estimate == pytest.approx(cohen_kappa_score(human, judge))
    assert found.kappa.estimate == pytest.approx(cohens_kappa(both).kappa)
    for bound, count, n in (
        (found.agreement, both[0, 0] + both[1, 1], both.sum()),
        (found.sensitivity, both[1, 1], both[1].sum()),
        (found.specificity, both[0, 0], both[0].sum()),
    ):
        ends = proportion_confint(count, n, alpha=0.1, method="beta")
        assert (bound.count, bound.n) == (count, n)
        assert (bound.lower, bound.upper) == pytest.approx(np.nan_to_num(ends, nan=0.0), abs=1e-9)
    assert found.asymmetry.p_value == pytest.approx(mcnemar(both, exact=True).pvalue)
    assert found.table["faithful_hallucinated"] == both[0, 1]


CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))


def test_the_interval_of_kappa_in_large_and_in_small_tables() -> None:
    large = np.array([[6000, 500], [400, 3100]])
    found, oracle = kappa(large), cohens_kappa(large)
    assert (found.lower, found.upper) == pytest.approx(
        (oracle.kappa_low, oracle.kappa_upp), abs=3e-4
    )
    small = np.array([[20, 0], [5, 3]])
    found = kappa(small)
    for end in (found.lower, found.upper):
        assert likelihood_drop(small, float(end)) == pytest.approx(chi2.ppf(0.95, 1), abs=1e-3)
    perfect = kappa(np.array([[70, 0], [0, 30]]))
    assert perfect.estimate == perfect.upper == 1.0
    assert likelihood_drop(np.array([[70, 0], [0, 30]]), float(perfect.lower)) == pytest.approx(
        chi2.ppf(0.95, 1), abs=1e-3
    )
    never = kappa(np.array([[90, 0], [10, 0]]))
    assert never.estimate == 0.0 and -0.1 < never.lower < 0 < never.upper < 0.4


def likelihood_drop(table: np.ndarray, value: float) -> float:
    """Return the likelihood ratio statistic of a kappa by brute force over both label rates."""
    low, high, top = np.zeros(2), np.ones(2), -np.inf
    for _ in range(3):
        # Once everywhere, and then between the neighbours of the best pair so far.
        a, b = (np.linspace(*ends, 302)[1:-1] for ends in zip(low, high, strict=True))
        agree, first, second = np.outer(a, b), np.outer(a, 1 - b), np.outer(1 - a, b)
        excess = value * (first + second) / 2
        cells = [np.outer(1 - a, 1 - b) + excess, second - excess, first - excess, agree + excess]
        logs = sum(
            count * np.log(np.maximum(cell, 1e-300))
            for count, cell in zip(table.ravel(), cells, strict=True)
        )
        logs = np.where(np.min(cells, axis=0) >= 0, logs, -np.inf)
        best = np.unravel_index(np.argmax(logs), logs.shape)
        top, step = max(top, float(logs[best])), (high - low) / 301
        centre = np.array([a[best[0]], b[best[1]]])
        low, high = np.maximum(centre - step, 0.0), np.minimum(centre + step, 1.0)
    shares = table[table > 0] / table.sum()
    return 2 * (float(np.sum(table[table > 0] * np.log(shares))) - top)


def test_which_way_the_judge_leans() -> None:
    assert asymmetry(9, 1).direction == "too often"
    assert asymmetry(1, 9).direction == "too rarely"
    assert asymmetry(9, 1, 0.99).direction == "not shown"  # p = 0.0215
    assert asymmetry(5, 4).direction == "not shown"
    none = asymmetry(0, 0)
    assert none.p_value is None and none.reason == "judge and people never disagree"


def test_nothing_to_compare_is_said_and_not_made_up() -> None:
    found = agreement(made(np.zeros((2, 2, 2), int), ALONE)).to_dict()
    assert found["agreement"]["estimate"] is None
    assert found["agreement"]["reason"] == "no answer has both labels"
    assert found["kappa"]["reason"] == "no answer has both labels"
    same = agreement(count_labels([0, 0, 0], [0, 0, 0])).to_dict()
    assert same["kappa"]["reason"] == "judge and people give every answer the same label"
    assert same["sensitivity"]["reason"] is not None and same["specificity"]["reason"] is None


@settings(max_examples=60, deadline=None)
@given(arrays(np.int64, (3, 3, 2), elements=st.integers(0, 8)), st.booleans())
def test_no_table_gives_nan_or_an_interval_without_its_estimate(
    cells: np.ndarray, decided: bool
) -> None:
    if not decided:
        cells[..., 1] = 0
    counts = LabelCounts(cells, decided)
    rates = corrected_rates(counts)
    assert set(rates) == ({"prevalence", "coverage", "fpr"} if decided else {"prevalence"})
    for rate in rates.values():
        for _, found in rate:
            measure = found.measure
            assert (measure.estimate is None) == (measure.reason is not None)
            if measure.estimate is not None:
                assert 0 <= measure.lower <= measure.estimate <= measure.upper <= 1
                assert measure.lower < measure.upper
            assert (found.caution is None) == (found.n_needed is None)
    tests = [test.to_dict() for test in (*sample_tests(counts), *alike_tests(counts))]
    chosen = [trust.to_dict() for trust in trusted(rates).values()]
    json.dumps([{k: r.to_dict() for k, r in rates.items()}, tests, chosen], allow_nan=False)


@settings(max_examples=15, deadline=None)
@given(arrays(np.int64, (2, 2), elements=st.integers(0, 12)))
def test_kappa_lies_within_its_interval(table: np.ndarray) -> None:
    found = kappa(table)
    if found.estimate is not None:
        assert -1 <= found.lower <= found.estimate <= found.upper <= 1
        assert found.lower < found.upper


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: count_labels([2], [0]), "human must hold 1"),
        (lambda: count_labels([0], [math.nan]), "judge must hold 1"),
        (lambda: count_labels([0], [0, 1]), "one length; got 1, 2"),
        (lambda: count_labels([0], [0], [3]), "flagged must hold true and false"),
        (lambda: LabelCounts(np.zeros((2, 2), int)), r"shape \(3, 3, 2\)"),
        (lambda: LabelCounts(np.full((3, 3, 2), -1)), "must not be negative"),
        (lambda: LabelCounts(np.ones((3, 3, 2), int), False), "no flagged row"),
        (lambda: corrected_rates(made(BOTH), 1.0), r"confidence must lie in \(0, 1\)"),
        (lambda: agreement(made(BOTH), 0.0), r"confidence must lie in \(0, 1\)"),
    ],
)
def test_refusals(call: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()
