"""Are detectors compared at the same coverage, those with few values where they can stand?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from calibrail.evaluation.compare.candidate import Candidate
from calibrail.evaluation.compare.matched import matched_coverage
from tests.evaluation.compare.candidates import Field, candidate


def matched(field: Field, *others: Candidate, draws: int = 1000, seed: int = 0) -> dict[str, Any]:
    made = field.candidates(seed=seed)
    return matched_coverage(replace(made, members=(*made, *others)), 0.9, draws=draws)


def judge(field: Field, share: float, name: str = "judge") -> Candidate:
    """A yes/no judge that catches a share of the hallucinations."""
    values = (field.columns["d0"] > norm.ppf(1.0 - share) + 1.5).astype(float)
    return candidate(name, field.sample().with_scores(values))


def test_every_detector_catches_the_same_share() -> None:
    field = Field(3, 400, 400, np.random.default_rng(0))
    found = matched(field)
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
    found = matched(field, yes_no)
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
    shares = {"j0": 0.66, "j1": 0.68, "j2": 0.45}
    found = matched(field, *(judge(field, share, name) for name, share in shares.items()))
    assert [level["set_by"] for level in found["levels"]] == [None, "j0", "j2"]


def test_intervals_hold_the_truth_with_a_threshold_of_their_own() -> None:
    rng = np.random.default_rng(3)
    truth = float(norm.sf(norm.ppf(0.1) + 1.5))
    runs, held = 150, 0
    for seed in range(runs):
        field = Field(1, 200, 200, rng)
        (level,) = matched(field, draws=200, seed=seed)["levels"]
        fpr = level["rows"][0]["fpr"]
        held += fpr["lower"] <= truth <= fpr["upper"]
    assert held >= binom.ppf(0.001, runs, 0.93)


def test_a_missing_class_and_a_useless_score_are_no_error() -> None:
    field = Field(1, 100, 100, np.random.default_rng(4))
    useless = candidate("useless", field.sample().with_scores(np.zeros(200)))
    found = matched_coverage(replace(field.candidates(), members=(useless,)), 0.9)
    assert found["levels"][0]["rows"][0]["fpr"]["estimate"] == 1.0
    field.codes[:] = 1
    assert matched(field)["levels"] == []
