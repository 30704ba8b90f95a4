"""Is agreement measured as its oracles measure it, and its interval as theory says?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, f
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.proportion import proportion_confint

from calibrail.evaluation.judge_agreement import agreement, asymmetry, kappa
from tests.evaluation.agree.tables import ALONE, counted, made


@pytest.mark.parametrize("table", [((60, 10), (8, 42)), ((9, 4), (4, 3)), ((0, 7), (9, 1))])
def test_agreement_agrees_with_its_oracles(table: Any) -> None:
    both = np.array(table)
    human, judge = np.repeat(CELLS, both.ravel(), axis=0).T
    found = agreement(counted(human, judge), 0.9)
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
        (oracle.kappa_low, oracle.kappa_upp), abs=5e-4
    )
    small = np.array([[20, 0], [5, 3]])
    found, critical = kappa(small), f.ppf(0.95, 1, 25)
    # Wherever the likelihood ratio does not reject, and a little beyond.
    for end in (found.lower, found.upper):
        assert critical - 1e-3 <= likelihood_drop(small, float(end)) < 3 * critical
    perfect = kappa(np.array([[70, 0], [0, 30]]))
    assert perfect.estimate == perfect.upper == 1.0
    assert likelihood_drop(np.array([[70, 0], [0, 30]]), float(perfect.lower)) > f.ppf(0.95, 1, 97)
    assert kappa(np.array([[2, 0], [0, 1]])).lower == -1.0
    never = kappa(np.array([[90, 0], [10, 0]]))
    assert never.estimate == 0.0 and -0.1 < never.lower < 0 < never.upper < 0.5


@pytest.mark.parametrize(
    ("n", "rates", "value"),
    [(10, (0.5, 0.5), 0.0), (50, (0.2, 0.2), 0.9)],
)
def test_the_interval_of_kappa_holds_with_few_answers(
    n: int, rates: tuple[float, float], value: float
) -> None:
    """The likelihood ratio alone, against chi-squared, held in 0.87 to 0.92 of such tables."""
    a, b = rates
    excess = value * (a * (1 - b) + b * (1 - a)) / 2
    cells = [(1 - a) * (1 - b) + excess, (1 - a) * b - excess, a * (1 - b) - excess, a * b + excess]
    drawn = np.random.default_rng(n).multinomial(n, cells, size=60)
    wrong = 0
    for table, times in zip(*np.unique(drawn, axis=0, return_counts=True), strict=True):
        found = kappa(table.reshape(2, 2))
        if found.estimate is not None:
            wrong += times * (found.lies_above(value) or found.lies_below(value))
    assert wrong <= binom.isf(1e-4, 60, 0.05)


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
    assert none.p_value is None and none.reason == "no_disagreement"


def test_nothing_to_compare_is_said_and_not_made_up() -> None:
    found = agreement(made(np.zeros((2, 2, 2), int), ALONE))
    assert found.agreement.estimate is None and found.kappa.reason == "no_row"
    same = agreement(counted([0, 0, 0], [0, 0, 0]))
    assert same.kappa.reason == "one_label"
    assert same.sensitivity.estimate is None and same.specificity.estimate == 1.0


def test_kappa_of_rare_cells_has_the_ends_of_a_finer_search() -> None:
    """The reference: the same search with 161 steps and 14 rounds."""
    table = np.array([[0, 93_714], [274_510, 12]])
    for confidence, ends in ((0.5, (-0.612708, -0.610239)), (0.95, (-0.615065, -0.607888))):
        measure = kappa(table, confidence)
        assert (measure.lower, measure.upper) == pytest.approx(ends, abs=2e-6)
