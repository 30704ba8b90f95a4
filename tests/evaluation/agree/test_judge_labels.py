"""Are labels counted right, and rows that are no random sample noticed?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import fisher_exact

from calibrail.evaluation.judge_agreement import sample_tests
from tests.evaluation.agree.tables import ALONE, BOTH, made


def test_rows_chosen_for_people_show() -> None:
    judge, flag = sample_tests(made(BOTH, ALONE))
    assert not judge["differs"] and not flag["differs"]
    table = [[68, 52], [620, 350]]
    assert judge["p_value"] == pytest.approx(fisher_exact(table).pvalue)
    assert judge["human_labelled"] == {"count": 52, "n": 120}
    assert judge["others"] == {"count": 350, "n": 970}
    flagged_only = made(np.array(BOTH) * [[[0, 3]]], ALONE)
    assert [test["differs"] for test in sample_tests(flagged_only)] == [True, True]
    everyone = sample_tests(made(BOTH))[0]
    assert everyone["p_value"] is None and everyone["reason"] == "no_others"
