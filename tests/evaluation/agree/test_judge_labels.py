"""Are labels counted right, and rows that are no random sample noticed?"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import fisher_exact

from calibrail.errors import InputError
from calibrail.evaluation.agree.corrected_rates import corrected_rates
from calibrail.evaluation.agree.judge_labels import (
    LabelCounts,
    alike_tests,
    count_labels,
    sample_tests,
)
from calibrail.evaluation.agree.judge_vs_human import agreement
from tests.evaluation.agree.tables import ALONE, BOTH, made


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
