"""Are detectors compared at the same coverage, those with few values where they can stand?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from calibrail.conformal import calibrate_threshold
from calibrail.evaluation.compare.candidate import Contender
from calibrail.evaluation.compare.matched import matched_coverage
from calibrail.settings import Promise
from tests.evaluation.compare.candidates import Field


def matched(field: Field, contenders: list[Contender], **options: Any) -> dict[str, Any]:
    test = field.codes == 2
    return matched_coverage(contenders, 0.9, test, field.labels, field.groups, **options)


def judge(field: Field, share: float) -> Contender:
    """A yes/no judge that catches a share of the hallucinations."""
    values = (field.columns["d0"] > norm.ppf(1.0 - share) + 1.5).astype(float)
    source = (field.codes == 1) & (field.labels == 1)
    made = calibrate_threshold(values[source], Promise(0.1))
    return Contender.of("judge", values, field.labels, field.codes, made)


def test_every_detector_catches_the_same_share() -> None:
    field = Field(3, 400, 400, np.random.default_rng(0))
    found = matched(field, field.contenders())
    (level,) = found["levels"]
    assert (level["coverage"], level["set_by"], level["missed"]) == (0.9, None, 20)
    for row in level["rows"]:
        assert row["attained"]["count"] == 180
        values, test = field.columns[row["name"]], field.codes == 2
        edge = np.sort(values[test & (field.labels == 1)])[20]
        assert row["threshold"] == edge
        faithful = values[test & (field.labels == 0)]
        assert row["fpr"]["estimate"] == pytest.approx(np.mean(faithful >= edge))
        assert row["fpr"]["lower"] < row["fpr"]["estimate"] < row["fpr"]["upper"]
    costs = [row["fpr"]["estimate"] for row in level["rows"]]
    assert costs == sorted(costs)
    assert found["attainable"] == []


def test_a_judge_is_compared_where_it_can_stand() -> None:
    field = Field(2, 400, 400, np.random.default_rng(1))
    yes_no = judge(field, 2 / 3)
    found = matched(field, [*field.contenders(), yes_no])
    target, below = found["levels"]
    test = field.codes == 2
    caught = float(np.mean(yes_no.ranked[test & (field.labels == 1)]))
    assert below["set_by"] == "judge"
    assert below["coverage"] == pytest.approx(caught)
    at_target = {row["name"]: row for row in target["rows"]}
    assert at_target["judge"]["attained"]["estimate"] == 1.0
    assert at_target["judge"]["fpr"]["estimate"] == 1.0
    there = {row["name"]: row for row in below["rows"]}
    assert there["judge"]["attained"]["estimate"] == pytest.approx(caught)
    assert there["judge"]["fpr"]["upper"] < 0.5  # its one threshold stays where it is
    for name in ("d0", "d1"):
        assert there[name]["attained"]["count"] == there["judge"]["attained"]["count"]
    (listed,) = found["attainable"]
    assert [at["coverage"]["estimate"] for at in listed["at"]] == pytest.approx([1.0, caught])


def test_near_reaches_are_one_level() -> None:
    field = Field(1, 400, 400, np.random.default_rng(2))
    judges = [judge(field, share) for share in (0.66, 0.68, 0.45)]
    renamed = [
        Contender(f"j{i}", False, j.calibration, j.ranked, j.decided, j.flagged, j.source)
        for i, j in enumerate(judges)
    ]
    found = matched(field, [*field.contenders(), *renamed])
    assert [level["set_by"] for level in found["levels"]] == [None, "j0", "j2"]


def test_intervals_hold_the_truth_with_a_threshold_of_their_own() -> None:
    rng = np.random.default_rng(3)
    truth = float(norm.sf(norm.ppf(0.1) + 1.5))
    runs, held = 150, 0
    for seed in range(runs):
        field = Field(1, 200, 200, rng)
        (level,) = matched(field, field.contenders(), draws=200, seed=seed)["levels"]
        fpr = level["rows"][0]["fpr"]
        held += fpr["lower"] <= truth <= fpr["upper"]
    assert held >= binom.ppf(0.001, runs, 0.93)


def test_a_missing_class_and_a_useless_score_are_no_error() -> None:
    field = Field(1, 100, 100, np.random.default_rng(4))
    constant = np.zeros(200)
    made = calibrate_threshold(constant[(field.codes == 1) & (field.labels == 1)], Promise(0.1))
    useless = Contender.of("useless", constant, field.labels, field.codes, made)
    found = matched(field, [useless])
    assert found["levels"][0]["rows"][0]["fpr"]["estimate"] == 1.0
    nothing = matched_coverage(
        field.contenders(), 0.9, np.zeros(200, dtype=bool), field.labels, field.groups
    )
    assert nothing["levels"] == []
