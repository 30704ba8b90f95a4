"""Does every target of the sweep keep the rule of a single calibration?"""

from __future__ import annotations

import numpy as np
import pytest

from calibrail.conformal import calibrate_threshold, minimum_n
from calibrail.evaluation.compare import ALPHAS, alpha_sweep
from calibrail.evaluation.scored_answers import Sample
from calibrail.options import Promise
from tests.evaluation.compare.candidates import Field


def samples(field: Field) -> dict[str, Sample]:
    return {name: field.sample(name) for name in field.columns}


def test_each_entry_is_a_calibration_of_its_own() -> None:
    field = Field(2, 300, 300, np.random.default_rng(0))
    found = alpha_sweep(samples(field), Promise(), baselines=("d1",))
    assert [entry["alpha"] for entry in found] == list(ALPHAS)
    source = (field.codes == 1) & (field.labels == 1)
    test = field.codes == 2
    for entry in found:
        for row in entry["rows"]:
            made = calibrate_threshold(field.columns[row["name"]][source], Promise(entry["alpha"]))
            assert (row["threshold"], entry["rank"]) == (made.threshold, made.rank)
            flagged = made.flags(field.columns[row["name"]])
            caught = flagged[test & (field.labels == 1)]
            assert row["coverage"]["count"] == int(caught.sum())
            assert row["fpr"]["count"] == int(flagged[test & (field.labels == 0)].sum())
            assert row["baseline"] is (row["name"] == "d1")
    costs = [entry["rows"][0]["fpr"]["count"] for entry in found]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
def test_what_cannot_be_promised_is_said(guarantee: str) -> None:
    field = Field(1, 120, 100, np.random.default_rng(1))
    found = alpha_sweep(samples(field), Promise(guarantee=guarantee))
    for entry in found:
        assert entry["n"] == 60
        assert entry["minimum_n"] == minimum_n(entry["alpha"], guarantee)
        assert bool(entry["rank"]) == (entry["minimum_n"] <= 60) == bool(entry["rows"])
    assert {bool(entry["rank"]) for entry in found} == {True, False}


def test_a_score_that_is_undefined_has_its_reason() -> None:
    field = Field(1, 200, 100, np.random.default_rng(2))
    field.columns["never"] = np.full(300, np.nan)
    found = alpha_sweep(samples(field), Promise(), alphas=(0.1,))
    rows = {row["name"]: row for row in found[0]["rows"]}
    assert rows["never"]["fpr"] is None
    assert "undefined" in rows["never"]["reason"]
    assert rows["d0"]["reason"] is None


def test_a_promise_that_counts_groups_needs_groups() -> None:
    field = Field(1, 600, 100, np.random.default_rng(3), size=25)
    found = alpha_sweep(samples(field), Promise(clustered=True), alphas=(0.05, 0.1))
    assert [(entry["n"], entry["minimum_n"], entry["rank"]) for entry in found] == [
        (12, 19, 0),
        (12, 9, 1),
    ]
    assert {entry["counted"] for entry in found} == {"groups"}
    assert [len(entry["rows"]) for entry in found] == [0, 1]
    assert found[1]["rows"][0]["threshold"] is not None
