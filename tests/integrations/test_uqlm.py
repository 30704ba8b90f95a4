"""Are the results of uqlm answers with columns? Their shape is all that is needed of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import calibrail
from calibrail.errors import InputError
from calibrail.integrations.uqlm import answers, detector
from tests.integrations.pages import run_page
from tests.integrations.scenario import Scenario


class UQResult:
    """What `BlackBoxUQ.score` of uqlm 0.6 returns."""

    def __init__(self, result: dict[str, Any]) -> None:
        data = result["data"]
        self.data = {"prompts": data.pop("prompts"), **data} if "prompts" in data else data
        self.metadata = result.get("metadata")
        self.result_dict = result


def result(n: int = 4, **further: Any) -> dict[str, Any]:
    data = {
        "responses": [f"Answer {row}." for row in range(n)],
        "sampled_responses": [[f"Answer {row}!", "Another."] for row in range(n)],
        "prompts": [f"Question {row}?" for row in range(n)],
        "noncontradiction": [row / n for row in range(n)],
        "semantic_negentropy": [None, *[0.5] * (n - 1)],
        "scorers_used": ["noncontradiction"],
        **further,
    }
    return {"data": data, "metadata": {"num_responses": 2}}


@pytest.mark.parametrize("through", [lambda x: x, lambda x: json.loads(json.dumps(x)), UQResult])
def test_every_confidence_is_a_column(through: Any) -> None:
    found = answers(through(result()), labels=[0, 1, None, 0])
    assert [item.question for item in found][:2] == ["Question 0?", "Question 1?"]
    assert found[1].response == "Answer 1."
    assert found[1].samples == ("Answer 1!", "Another.")
    assert found[1].columns == {"noncontradiction": 0.25, "semantic_negentropy": 0.5}
    assert [item.label for item in found] == [0, 1, None, 0]
    scores = detector("noncontradiction").score(found)
    assert scores.values.tolist() == [-row / 4 for row in range(4)]


def test_a_result_is_calibrated() -> None:
    found = answers(result(80), labels=[int(row < 40) for row in range(80)])
    run = calibrail.calibrate(found, detector("noncontradiction"), alpha=0.2, baselines=False)
    assert run.report.test.auroc.estimate == 1.0


@pytest.mark.parametrize(
    ("given", "labels"), [({"data": {}}, None), ({}, None), (result(), [1]), (result(0), None)]
)
def test_what_is_no_result_is_refused(given: dict[str, Any], labels: Any) -> None:
    with pytest.raises(InputError, match="a uqlm result holds"):
        answers(given, labels)


def test_the_page_runs(scenario: Scenario, tmp_path: Any) -> None:
    labels = [int(row < 40) for row in range(80)]
    names = run_page("uqlm", scenario, tmp_path, result=UQResult(result(80)), labels=labels)
    assert names["run"].report.test.auroc.estimate == 1.0
