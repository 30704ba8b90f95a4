"""Which promises can a score with ties keep?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrail.conformal import calibrate_threshold
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.sections import attainable
from calibrail.options import Promise


def offered(hallucinated: list[float], faithful: list[float], alpha: float, **how: object):  # type: ignore[no-untyped-def]
    calibration = calibrate_threshold(np.array(hallucinated), Promise(alpha, **how))  # type: ignore[arg-type]
    values = np.array(hallucinated + faithful)
    labels = np.array([1] * len(hallucinated) + [0] * len(faithful), dtype=np.int8)
    codes = np.full(len(values), 2, dtype=np.int8)
    return attainable(calibration, Sample(values, labels, codes), 0.95)


def test_a_verdict_has_two_thresholds_and_nothing_between() -> None:
    section = offered([0.0] * 33 + [1.0] * 66, [0.0] * 90 + [1.0] * 10, 0.05)
    assert [step["threshold"] for step in section["steps"]] == [0.0, 1.0]
    # 33 lie below 1: allowed from alpha = 34/100 on. None lies below 0: 1/100.
    assert [step["promise"] for step in section["steps"]] == pytest.approx([0.99, 0.66])
    assert [step["fpr"]["estimate"] for step in section["steps"]] == [1.0, 0.1]
    assert not section["is_attainable"]


def test_a_target_that_a_threshold_meets_is_attainable() -> None:
    section = offered([0.0] * 33 + [1.0] * 66, [0.0] * 90 + [1.0] * 10, 0.35)
    assert section["is_attainable"] and section["steps"][1]["is_used"]


@pytest.mark.parametrize("kind", ["pac", "anytime"])
def test_the_promise_of_this_threshold_is_the_largest_that_its_rank_allows(kind: Any) -> None:
    from calibrail.conformal.threshold import rank

    section = offered([0.0] * 33 + [1.0] * 66, [0.0] * 50, 0.5, guarantee=kind, delta=0.1)
    alpha = 1.0 - section["steps"][1]["promise"]
    assert rank(99, alpha + 1e-4, kind, 0.1) >= 34 > rank(99, alpha - 1e-4, kind, 0.1)


def test_many_values_with_most_answers_at_one_leave_a_gap() -> None:
    rng = np.random.default_rng(0)
    spread = (-1.0 - rng.random(30)).tolist()
    section = offered(spread + [0.0] * 60 + [1.0] * 200, [0.0] * 80 + [-1.5] * 20, 0.15)
    assert section is not None and not section["is_attainable"]
    used = next(step for step in section["steps"] if step["is_used"])
    assert used["threshold"] == 0.0 and used["promise"] == pytest.approx(1 - 31 / 291)


def test_a_continuous_score_offers_everything() -> None:
    rng = np.random.default_rng(0)
    for alpha in (0.05, 0.1, 0.3):
        section = offered(rng.normal(size=300).tolist(), rng.normal(size=100).tolist(), alpha)
        assert section is None
