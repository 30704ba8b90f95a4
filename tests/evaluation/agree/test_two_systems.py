"""Do intervals of the difference of two systems hold, whatever the judge is like?"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, multinomial

from calibrail.evaluation.judge_agreement import SAMPLE_LEVEL, drawing_test
from calibrail.evaluation.stats.tests import difference_by_bets, exact_difference, paired_units

Floats = NDArray[np.float64]


@pytest.mark.parametrize(("difference", "n"), [(0.0, 16), (0.1, 16), (-0.3, 12)])
def test_the_exact_end_errs_with_its_tail_at_most(difference: float, n: int) -> None:
    """All outcomes are counted, over shares of questions on which the systems differ."""
    outcomes = [(b, c) for b, c in product(range(n + 1), repeat=2) if b + c <= n]
    missed = [pair for pair in outcomes if exact_difference(*pair, n, 0.9).upper < difference]
    errors = []
    for of_second in np.linspace(max(0.0, -difference), (1.0 - difference) / 2.0, 15):
        shares = of_second + difference, of_second, 1.0 - 2.0 * of_second - difference
        cells = np.array([(b, c, n - b - c) for b, c in missed]).reshape(-1, 3)
        errors.append(multinomial.pmf(cells, n, np.maximum(shares, 0.0)).sum())
    assert 0.02 < max(errors) <= 0.05


def test_the_exact_interval_is_turned_with_the_systems_and_near_the_test_of_mcnemar() -> None:
    one, other = exact_difference(4, 15, 80, 0.95), exact_difference(15, 4, 80, 0.95)
    assert one == pytest.approx([-other.upper, -other.lower])
    assert one.upper < 0.0 and binomtest(4, 19, 0.5, alternative="less").pvalue < 0.025
    assert exact_difference(0, 0, 100, 0.95).upper == pytest.approx(1 - 0.025**0.01, abs=2e-4)
    assert exact_difference(30, 0, 30, 0.95).upper == 1.0


def drawn(
    rng: np.random.Generator, n: int, rates: tuple[float, float], right: float
) -> tuple[Floats, Floats]:
    """Return what people and a judge say of A less what they say of B."""
    people = rng.random((n, 2)) < rates
    judge = people ^ (rng.random((n, 2)) >= right)
    return people[:, 0] * 1.0 - people[:, 1], judge[:, 0] * 1.0 - judge[:, 1]


@pytest.mark.parametrize("right", [1.0, 0.8, 0.0])
@pytest.mark.parametrize("design", ["sample", "groups", "probabilities"])
def test_bets_hold_whatever_the_judge_is_like(design: str, right: float) -> None:
    """Labels of 40 questions of 400; groups are larger where A is worse."""
    rng, runs, held = np.random.default_rng(7), 50, 0
    for _ in range(runs):
        human, judge = drawn(rng, 400, (0.2, 0.2), right)
        group: NDArray[np.int64] = rng.permutation(400)
        chance, labelled = None, rng.permutation(400) < 40
        if design == "groups":
            group = rng.permutation(200)[np.repeat(np.arange(200), 2)]
            human, judge = np.repeat(human[::2], 2), np.repeat(judge[::2], 2)
            labelled = np.repeat(rng.permutation(200) < 20, 2)
        if design == "probabilities":
            chance = np.where(judge != 0.0, 0.5, 0.05)
            labelled = rng.random(400) < chance
        units = paired_units(np.where(labelled, human, np.nan), judge, group, chance)
        interval = difference_by_bets(units, 0.9)
        held += interval.lower <= 0.0 <= interval.upper
    assert held >= 0.9 * runs - 3.0 * np.sqrt(0.09 * runs)


def test_a_good_judge_narrows_the_interval_and_a_useless_one_hardly_widens_it() -> None:
    rng, widths = np.random.default_rng(1), dict[Any, list[float]]()
    for _ in range(4):
        for right in (0.97, 0.5):
            human, judge = drawn(rng, 4000, (0.3, 0.4), right)
            human[300:] = np.nan
            for name, says in ((right, judge), ("alone", 0.0 * judge)):
                units = paired_units(human, says, np.arange(4000))
                widths.setdefault(name, []).append(difference_by_bets(units, 0.95).width)
    good, useless, alone = (np.mean(widths[name]) for name in (0.97, 0.5, "alone"))
    assert good < 0.75 * alone and useless < 1.06 * alone


def test_a_sample_that_was_drawn_where_the_judge_sees_a_difference_is_weighed() -> None:
    """Labels where the judge tells the systems apart are ten times as many."""
    rng = np.random.default_rng(3)
    human, judge = drawn(rng, 20_000, (0.3, 0.1), 0.8)
    chance = np.where(judge > 0.0, 0.5, 0.05)
    human = np.where(rng.random(20_000) < chance, human, np.nan)
    lots = rng.permutation(20_000)
    weighed, taken = paired_units(human, judge, lots, chance), paired_units(human, judge, lots)
    assert abs(weighed.estimate - 0.2) < 0.02 and abs(taken.estimate - 0.2) > 0.08


def test_few_groups_without_labels_leave_the_judge_out() -> None:
    human = np.array([1.0, -1.0, 0.0, np.nan])
    units = paired_units(human, np.array([1.0, -1.0, 0.0, 1.0]), np.arange(4))
    assert units.judge.tolist() == [0.0, 0.0, 0.0] and units.rows.tolist() == [1.0, 1.0, 1.0]
    assert units.human.tolist() == [1.0, -1.0, 0.0] and units.estimate == 0.0


def test_a_limit_that_is_asked_for_is_tried() -> None:
    human = np.array([0.0, -1.0, 0.0, 0.0] * 60)
    units, limit = paired_units(human, np.zeros(240), np.arange(240)), -0.17003
    without, within = difference_by_bets(units, 0.95), difference_by_bets(units, 0.95, limit)
    assert within.lower == without.lower and within.upper in (without.upper, limit)


def test_probabilities_as_stated_are_rarely_doubted_and_wrong_ones_soon() -> None:
    """However unequal they are: the binomial test at their mean bounds the tails."""
    rng, runs = np.random.default_rng(4), 4000
    chance = np.repeat([0.02, 0.5, 1.0], [60, 30, 30])
    for q in (chance, np.full(120, 0.3)):
        tests = [drawing_test(rng.random(120) < q, q) for _ in range(runs)]
        doubted = sum(test["differs"] for test in tests)
        assert doubted <= SAMPLE_LEVEL * runs + 3.0 * np.sqrt(SAMPLE_LEVEL * runs)
    test = drawing_test(np.arange(120) < 60, np.full(120, 0.3))
    assert test["differs"] and test["p_value"] == pytest.approx(
        2.0 * binomtest(60, 120, 0.3, "greater").pvalue
    )
    few = drawing_test(np.arange(120) < 12, np.full(120, 0.3))
    assert few["p_value"] == pytest.approx(2.0 * binomtest(12, 120, 0.3, "less").pvalue)
    assert drawing_test(np.full(5, True), np.ones(5))["p_value"] == 1.0
