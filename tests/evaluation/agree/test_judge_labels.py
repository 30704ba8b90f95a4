"""Are labels counted right, and rows that are no random sample noticed?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import fisher_exact

from calibrail.evaluation.judge_agreement import alike_tests, sample_tests
from tests.evaluation.agree.tables import ALONE, BOTH, made


def test_rows_chosen_for_people_and_errors_that_follow_the_flag_show() -> None:
    random, (judge, flag) = made(BOTH, ALONE), sample_tests(made(BOTH, ALONE))
    assert not judge.differs and not flag.differs
    table = [[68, 52], [620, 350]]
    assert judge.p_value == pytest.approx(fisher_exact(table).pvalue)
    assert judge.rows["human_labelled"] == {"count": 52, "n": 120}
    assert judge.rows["others"] == {"count": 350, "n": 970}
    flagged_only = made(np.array(BOTH) * [[[0, 3]]], ALONE)
    assert [test.differs for test in sample_tests(flagged_only)] == [True, True]
    hallucinated, faithful = alike_tests(random)
    assert hallucinated.p_value == pytest.approx(fisher_exact([[5, 35], [3, 7]]).pvalue)
    assert faithful.p_value == pytest.approx(fisher_exact([[10, 4], [50, 6]]).pvalue)
    assert not faithful.differs
    assert alike_tests(made(np.array(BOTH) * 5, ALONE))[1].differs
    everyone = sample_tests(made(BOTH))[0]
    assert everyone.p_value is None and everyone.reason == "no_others"
