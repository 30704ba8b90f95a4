"""Are detectors compared at the same coverage, those with few values where they can stand?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from calibrail.evaluation.compare import matched_coverage
from calibrail.evaluation.winner import Candidate
from tests.evaluation.compare.candidates import Field, candidate


def matched(field: Field, *others: Candidate, target: float = 0.9) -> dict[str, Any]:
    made = field.candidates()
    return matched_coverage(replace(made, members=(*made, *others)), target)


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


@pytest.mark.parametrize(
    ("alpha", "n_hallucinated", "n_faithful", "size"),
    [(0.1, 200, 200, 1), (0.1, 120, 600, 1), (0.05, 160, 160, 1), (0.1, 300, 300, 3)],
)
def test_intervals_hold_the_truth_with_a_threshold_of_their_own(
    alpha: float, n_hallucinated: int, n_faithful: int, size: int
) -> None:
    """Half of the answers test; a bootstrap of 60 and 300 at 0.05 held the truth in 0.88."""
    rng = np.random.default_rng(3)
    truth = float(norm.sf(norm.ppf(alpha) + 1.5))
    runs, held = 150, 0
    for _ in range(runs):
        field = Field(1, n_hallucinated, n_faithful, rng, size=size, alike=0.8 if size > 1 else 0.0)
        (level,) = matched(field, target=1.0 - alpha)["levels"]
        fpr = level["rows"][0]["fpr"]
        assert fpr["lower"] <= fpr["estimate"] <= fpr["upper"]
        held += fpr["lower"] <= truth <= fpr["upper"]
    assert held >= binom.ppf(0.001, runs, 0.95)


def test_too_few_answers_bound_from_below_only() -> None:
    """With 60 hallucinated answers the lowest lies above the 5 % quantile too often: 0.95^60."""
    field = Field(1, 120, 300, np.random.default_rng(5))
    (level,) = matched(field, target=0.95)["levels"]
    fpr = level["rows"][0]["fpr"]
    assert fpr["upper"] is None and 0.0 < fpr["lower"] <= fpr["estimate"]
    assert fpr["reason"] == "few_to_miss:72"
    enough = Field(1, 144, 300, np.random.default_rng(5))
    assert matched(enough, target=0.95)["levels"][0]["rows"][0]["fpr"]["upper"] is not None


def test_a_missing_class_and_a_useless_score_are_no_error() -> None:
    field = Field(1, 100, 100, np.random.default_rng(4))
    useless = candidate("useless", field.sample().with_scores(np.zeros(200)))
    found = matched_coverage(replace(field.candidates(), members=(useless,)), 0.9)
    assert found["levels"][0]["rows"][0]["fpr"]["estimate"] == 1.0
    field.codes[:] = 1
    assert matched(field)["levels"] == []
