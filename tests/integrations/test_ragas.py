"""Does a guardrail count in ragas as it decides?"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("ragas")
os.environ["RAGAS_DO_NOT_TRACK"] = "true"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

from ragas import Dataset, experiment  # noqa: E402
from ragas.backends.inmemory import InMemoryBackend  # noqa: E402

from calibrail.integrations.ragas import guardrail_metric  # noqa: E402
from tests.integrations.pages import run_page  # noqa: E402
from tests.integrations.scenario import WHY, Scenario  # noqa: E402


def rows(scenario: Scenario) -> list[dict[str, Any]]:
    texts = {"good": scenario.faithful, "odd": scenario.doubtful, "bad": scenario.made_up}
    asked = {"user_input": scenario.question, "retrieved_contexts": list(scenario.contexts)}
    return [{"id": name, "response": text, **asked} for name, text in texts.items()]


def dataset(scenario: Scenario) -> Dataset[Any]:
    return Dataset("answers", InMemoryBackend(), data=rows(scenario))


def test_the_value_is_the_outcome_and_the_decision_travels_with_it(scenario: Scenario) -> None:
    metric = guardrail_metric(scenario.file)
    guardrail = scenario.guardrail()
    for row in rows(scenario):
        result = metric.score(**row)
        decision = guardrail.check(
            question=row["user_input"],
            contexts=row["retrieved_contexts"],
            response=row["response"],
        )
        assert (result.value, result.reason) == (decision.outcome, decision.reason)
        assert result.traces is not None
        assert result.traces["output"]["p_value"] == decision.p_value
        assert result.traces["output"]["guardrail"] == guardrail.config.digest


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_an_experiment_goes_on_when_the_detector_fails(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    metric = guardrail_metric(scenario.failing(policy))

    @experiment(backend=InMemoryBackend())
    async def run(row: dict[str, Any]) -> dict[str, Any]:
        result = await metric.ascore(**row)
        return {"outcome": result.value, "reason": result.reason}

    results = list(asyncio.run(run.arun(dataset(scenario))))
    assert [item["outcome"] for item in results] == [policy] * 3
    assert all(WHY in item["reason"] for item in results)


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    names = run_page("ragas", scenario, tmp_path, dataset=dataset(scenario))
    outcomes = {row["id"]: row["outcome"] for row in names["results"]}
    assert outcomes == {"good": "pass", "odd": "review", "bad": "flag"}


def test_an_answer_that_is_no_text_is_named(scenario: Scenario) -> None:
    with pytest.raises(TypeError, match="response"):
        guardrail_metric(scenario.file).score(user_input="q", response=None)
