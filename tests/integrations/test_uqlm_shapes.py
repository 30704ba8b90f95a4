"""Are the results of uqlm answers with columns? Their shape is all that is needed of it.

uqlm wants another numpy than calibrail on Python 3.11, and its own scorers run in an environment of
their own (``test_uqlm.py``). Results here are made up as theirs are: means are numbers of numpy,
what its calibrator adds are arrays, and prompts are gone from what ``to_dict()`` returns.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
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

    def to_dict(self) -> dict[str, Any]:
        return self.result_dict


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


@pytest.mark.parametrize(
    "column",
    [
        [np.float64(row / 4) for row in range(4)],
        [np.float32(row / 4) for row in range(4)],
        [0, np.float32(0.25), np.float64(0.5), 0.75],
        np.arange(4) / 4,
    ],
)
def test_numbers_of_numpy_are_scores(column: Any) -> None:
    given = UQResult(result(exact_match=column, judge_1=[np.nan, np.int64(1), 0.5, None]))
    found = answers(given, labels=np.array([0, 1, 1, 0]))
    assert [item.columns["exact_match"] for item in found] == [0, 0.25, 0.5, 0.75]
    assert [item.columns["judge_1"] for item in found] == [None, 1, 0.5, None]
    # Nothing of numpy is left.
    assert json.dumps([[dict(item.columns), item.label] for item in found])


def test_a_dictionary_without_its_prompts_is_read() -> None:
    given = UQResult(result())
    assert [item.question for item in answers(given.to_dict())] == [""] * 4
    assert answers(given)[1].question == "Question 1?"


def test_a_result_is_calibrated() -> None:
    found = answers(result(80), labels=[int(row < 40) for row in range(80)])
    run = calibrail.calibrate(found, detector("noncontradiction"), alpha=0.2, baselines=False)
    assert run.report.test.auroc.estimate == 1.0


@pytest.mark.parametrize(
    ("given", "labels"),
    [({"data": {}}, None), ({}, None), (result(), [1]), (result(), []), (result(0), None)],
)
def test_what_is_no_result_is_refused(given: dict[str, Any], labels: Any) -> None:
    with pytest.raises(InputError, match="a uqlm result holds"):
        answers(given, labels)


def test_the_page_runs(scenario: Scenario, tmp_path: Any) -> None:
    labels = [int(row < 40) for row in range(80)]
    given = UQResult(result(80, noncontradiction=[np.float32(row / 80) for row in range(80)]))
    names = run_page("uqlm", scenario, tmp_path, result=given, labels=labels)
    assert names["rows"] == answers(given, labels)
    assert names["rows"][7].question == "Question 7?"
    assert names["run"].report.test.auroc.estimate == 1.0
