"""Does Phoenix label every answer of a data frame with the guardrail's outcome?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("phoenix")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from phoenix.evals import async_evaluate_dataframe, bind_evaluator, evaluate_dataframe  # noqa: E402

from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.phoenix import CalibrailEvaluator  # noqa: E402
from tests.integrations.pages import run_page  # noqa: E402
from tests.integrations.scenario import WHY, Scenario  # noqa: E402


def frame(scenario: Scenario) -> pd.DataFrame:
    answers = [scenario.faithful, scenario.doubtful, scenario.made_up]
    return pd.DataFrame(
        {
            "input": [scenario.question] * 3,
            "output": answers,
            "context": [list(scenario.contexts)] * 3,
            "id": [7, 8, 9],
        }
    )


def rated(data: pd.DataFrame, evaluator: Any, *, at_once: bool = False) -> pd.DataFrame:
    """Return what Phoenix's own runner makes of a data frame."""
    options: dict[str, Any] = {"hide_tqdm_bar": True, "exit_on_error": False, "max_retries": 0}
    if at_once:
        return asyncio.run(
            async_evaluate_dataframe(dataframe=data, evaluators=[evaluator], **options)
        )
    return evaluate_dataframe(dataframe=data, evaluators=[evaluator], **options)


@pytest.mark.parametrize("at_once", [False, True])
def test_the_label_is_the_outcome(scenario: Scenario, at_once: bool) -> None:
    scores = rated(frame(scenario), CalibrailEvaluator(scenario.file), at_once=at_once)
    scores = scores["calibrail_score"]
    assert [row["label"] for row in scores] == ["pass", "review", "flag"]
    assert [row["score"] for row in scores] == [1.0, 0.0, 0.0]
    assert [row["metadata"]["id"] for row in scores] == ["7", "8", "9"]
    decision = scenario.guardrail().check(
        question=scenario.question, contexts=scenario.contexts, response=scenario.made_up
    )
    kept = scores[2]
    assert kept["metadata"]["p_value"] == decision.p_value
    assert kept["metadata"]["guardrail"] == scenario.guardrail().config.digest
    assert kept["explanation"] == decision.reason
    assert (kept["kind"], kept["direction"]) == ("code", "maximize")


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_detector_that_fails_leaves_it_to_the_policy(
    scenario: Scenario, policy: Literal["error", "flag", "review"], at_once: bool
) -> None:
    evaluator = CalibrailEvaluator(scenario.failing(policy), name="held")
    for row in rated(frame(scenario), evaluator, at_once=at_once)["held_score"]:
        assert row["label"] == policy
        assert row.get("score") == (None if policy == "error" else 0.0)
        assert WHY in row["explanation"]


def test_columns_of_other_names_are_bound(scenario: Scenario) -> None:
    data = frame(scenario).rename(columns={"input": "query", "output": "answer", "context": "docs"})
    data["docs"] = [np.array(scenario.contexts, dtype=object)] * 3
    gate = Gate(scenario.file)
    names = {"input": "query", "output": "answer", "context": "docs"}
    bound = bind_evaluator(evaluator=CalibrailEvaluator(gate), input_mapping=names)
    assert bound.gate is gate
    labels = [row["label"] for row in rated(data, bound)["calibrail_score"]]
    assert labels == ["pass", "review", "flag"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"output": None}, "output"),
        ({"context": 3}, "context"),
    ],
    ids=["no_answer", "no_texts"],
)
def test_a_row_without_texts_is_failed_and_the_rest_kept(
    scenario: Scenario, change: dict[str, Any], complaint: str
) -> None:
    data = frame(scenario).astype(object)
    for name, value in change.items():
        data.at[0, name] = value
    result = rated(data, CalibrailEvaluator(scenario.file))
    assert result["calibrail_score"][0] is None
    details = result["calibrail_execution_details"][0]
    assert details["status"] == "FAILED"
    assert complaint in details["exceptions"][0]
    assert [row["label"] for row in result["calibrail_score"][1:]] == ["review", "flag"]


def test_a_frame_without_contexts_is_not_judged_as_if_there_were_none(scenario: Scenario) -> None:
    with pytest.raises(ValueError, match="context"):
        CalibrailEvaluator(scenario.file).evaluate({"input": "q", "output": scenario.faithful})


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    names = run_page("phoenix", scenario, tmp_path)
    assert [row["label"] for row in names["result"]["calibrail_score"]] == ["pass"]
