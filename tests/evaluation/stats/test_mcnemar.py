"""Is the test of discordant decisions exact, and does it count groups?"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from calibrail.evaluation.stats.tests import mcnemar


def decisions(both: int, first: int, second: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    one = np.repeat([True, True, False, False], [both, first, second, neither])
    two = np.repeat([True, False, True, False], [both, first, second, neither])
    return one, two


@pytest.mark.parametrize("counts", [(5, 9, 2, 30), (0, 1, 0, 0), (3, 4, 4, 3), (1, 0, 40, 700)])
def test_alone_it_is_the_exact_test(counts: tuple[int, int, int, int]) -> None:
    one, two = decisions(*counts)
    test = mcnemar(one, two, np.arange(len(one)))
    table = [[counts[0], counts[1]], [counts[2], counts[3]]]
    assert test.p_value == pytest.approx(statsmodels_mcnemar(table, exact=True).pvalue)
    assert (test.only_first, test.only_second) == counts[1:3]
    assert test.method == "mcnemar-exact"


def test_groups_are_flipped_whole() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 9, size=40)
    one, two = rng.random(40) < 0.6, rng.random(40) < 0.3
    surplus = np.bincount(groups, weights=one.astype(int) - two.astype(int), minlength=9)
    sums = np.array([np.dot(signs, surplus) for signs in product((-1, 1), repeat=9)])
    expected = np.mean(np.abs(sums) >= abs(surplus.sum()))
    test = mcnemar(one, two, groups)
    assert test.p_value == pytest.approx(expected)
    assert test.method == "mcnemar-groups-flipped"


def test_answers_that_agree_with_their_group_add_no_evidence() -> None:
    one, two = decisions(0, 20, 4, 100)
    alone = mcnemar(one, two, np.arange(len(one)))
    # Every answer four times: as if independent, the p-value would fall by orders of magnitude.
    copied = mcnemar(np.repeat(one, 4), np.repeat(two, 4), np.repeat(np.arange(len(one)), 4))
    assert copied.p_value == pytest.approx(alone.p_value)


def test_many_discordant_answers_have_a_normal_limit() -> None:
    one, two = decisions(0, 2600, 2400, 10)
    groups = np.arange(len(one)) // 2
    exact = binomtest(1300, 2500).pvalue  # pairs of equal answers: flipping them is one coin
    assert mcnemar(one, two, groups).p_value == pytest.approx(exact, rel=0.002)


def test_nothing_to_tell_apart_is_no_evidence() -> None:
    same = np.array([True, False, True])
    assert mcnemar(same, same, np.arange(3)).p_value == 1.0
    assert mcnemar(same, same, np.zeros(3)).p_value == 1.0
    empty = np.zeros(0, dtype=bool)
    assert mcnemar(empty, empty, np.zeros(0)).p_value == 1.0
