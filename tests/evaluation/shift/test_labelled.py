"""Is what a test says about the promise its own law's, and corrected over all tests?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import betabinom

from calibrail.data.splits import CALIBRATION, TEST
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.shift import drift, judge_drift
from calibrail.options import Promise


def test_the_p_value_is_the_beta_binomial_tail() -> None:
    values = np.r_[np.arange(1.0, 100.0), np.full(6, 0.5), np.full(14, 50.0)]
    split = np.repeat([CALIBRATION, TEST], [99, 20]).astype(np.int8)
    sample = Sample(values, np.ones(119, dtype=np.int8), split)
    item = drift(sample, {}, Promise(alpha=0.1))
    # Rank 10 of 99; 6 of 20 are missed.
    assert item["rank"] == 10 and item["coverage"]["count"] == 14
    assert item["p_value"] == pytest.approx(sum(betabinom.pmf(k, 20, 10, 90) for k in range(6, 21)))


def test_holm_corrects_over_all_tests_and_few_answers_say_nothing() -> None:
    def item(p: float, n: int = 50) -> dict[str, Any]:
        share = {"n": n, "upper": 0.5}
        return {"p_value": p, "coverage": share, "weighted": None}

    found = [item(0.03), item(0.01), item(0.2), item(1e-9, n=5)]
    found = judge_drift(found, 0.1, 0.95)
    assert [i["adjusted_p"] for i in found] == [pytest.approx(0.06), pytest.approx(0.03), 0.2, None]
    assert [i["finding"] for i in found] == ["consistent", "broken", "consistent", "too few"]


def test_only_a_broken_promise_is_repaired_and_only_by_what_the_scores_decide() -> None:
    def item(p: float, caught: int, upper: float, unlike: int = 0) -> dict[str, Any]:
        weighted = {
            "coverage": {"count": caught, "n": 50, "upper": upper},
            "unlike": {"hallucinated": unlike, "faithful": 0},
        }
        return {"p_value": p, "coverage": {"n": 50, "upper": 0.5}, "weighted": weighted}

    results = [
        item(1e-6, 45, 0.96),
        item(1e-6, 44, 0.95),
        item(1e-6, 38, 0.86),
        item(1e-6, 49, 0.99, unlike=40),
        item(1e-6, 49, 0.99, unlike=41),
        item(0.9, 50, 1.0),
        {**item(1e-6, 0, 0.0), "weighted": None},
    ]
    judged = [one["repair"] for one in judge_drift(results, 0.1, 0.95)]
    assert judged == ["repaired", "open", "not repaired", "repaired", "unlike", None, None]
