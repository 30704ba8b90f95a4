"""Does Inspect score answers as a guardrail decides?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("inspect-ai")
os.environ |= {"INSPECT_DISPLAY": "none", "DO_NOT_TRACK": "1"}

from inspect_ai import Task, eval, score  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.log import EvalLog, read_eval_log  # noqa: E402
from inspect_ai.model import (  # noqa: E402
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import Scorer  # noqa: E402
from inspect_ai.solver import generate  # noqa: E402

from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.inspect_ai import guardrail_scorer  # noqa: E402
from tests.integrations.pages import heavy_modules, run_page  # noqa: E402
from tests.integrations.scenario import WHY, Scenario  # noqa: E402


@pytest.fixture(autouse=True)
def logs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def texts(scenario: Scenario) -> list[str]:
    return [scenario.faithful, scenario.doubtful, scenario.made_up]


def says(*answers: str) -> Any:
    """Return a model that says them; without usage, its tokens would be counted by a download."""
    outputs = [ModelOutput.from_content("mockllm/model", text) for text in answers]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return get_model("mockllm/model", custom_outputs=outputs)


def evaluated(scenario: Scenario, scorer: Scorer, samples: list[Sample] | None = None) -> EvalLog:
    metadata = {"contexts": list(scenario.contexts)}
    samples = samples or [Sample(input=scenario.question, metadata=metadata)] * 3
    # Inspect wants an id of its own for each.
    numbered = [item.model_copy(update={"id": f"s{i}"}) for i, item in enumerate(samples)]
    task = Task(dataset=numbered, solver=generate(), scorer=scorer)
    (log,) = eval(task, model=says(*texts(scenario)), max_samples=1, log_dir="logs")
    assert log.status == "success", log.error
    return log


def scores(log: EvalLog) -> list[Any]:
    return [item.scores["guardrail_scorer"] for item in log.samples or () if item.scores]


def test_an_answer_is_correct_where_it_would_be_released(scenario: Scenario) -> None:
    log = evaluated(scenario, guardrail_scorer(str(scenario.file)))
    assert log.results is not None
    assert log.results.scores[0].metrics["accuracy"].value == pytest.approx(1 / 3)
    gate = Gate(scenario.file)
    for number, (item, text) in enumerate(zip(scores(log), texts(scenario), strict=True)):
        decision = gate.check(
            question=scenario.question,
            contexts=scenario.contexts,
            response=text,
            id=f"s{number}",
        )
        assert item.value == ("C" if decision.outcome == "pass" else "I")
        assert item.metadata == gate.details(decision)
        assert item.explanation == f"{decision.outcome}: {decision.reason}"
        assert item.answer == text


def test_a_failure_is_unscored_or_what_the_policy_says(scenario: Scenario) -> None:
    log = evaluated(scenario, guardrail_scorer(scenario.failing()))
    assert log.results is not None and log.results.scores[0].unscored_samples == 3
    for item in scores(log):
        assert item.value != item.value and item.reason == "grader_failed"
        assert WHY in item.explanation and item.metadata["outcome"] == "error"


@pytest.mark.parametrize("policy", ["flag", "review"])
def test_a_failure_that_the_policy_decides_is_incorrect(
    scenario: Scenario, policy: Literal["flag", "review"]
) -> None:
    log = evaluated(scenario, guardrail_scorer(scenario.failing(policy)))
    assert [item.value for item in scores(log)] == ["I"] * 3
    assert {item.metadata["outcome"] for item in scores(log)} == {policy}


def test_the_sources_may_be_what_tools_said_or_what_a_callable_returns(scenario: Scenario) -> None:
    conversation = [
        ChatMessageUser(content="Before?"),
        ChatMessageAssistant(content="Yes."),
        ChatMessageUser(content=scenario.question),
        ChatMessageTool(content=scenario.contexts[0], tool_call_id="1"),
    ]
    by_tools = evaluated(
        scenario, guardrail_scorer(scenario.file), [Sample(input=conversation)] * 3
    )
    assert [item.value for item in scores(by_tools)] == ["C", "I", "I"]
    samples = [Sample(input=scenario.question, metadata={"docs": scenario.contexts[0]})] * 3
    for contexts in ("docs", lambda state: state.metadata["docs"]):
        log = evaluated(scenario, guardrail_scorer(scenario.file, contexts=contexts), samples)
        assert [item.metadata["outcome"] for item in scores(log)] == ["pass", "review", "flag"]


def test_a_log_can_be_scored_again(scenario: Scenario) -> None:
    log = evaluated(scenario, guardrail_scorer(str(scenario.file)))
    scorer = guardrail_scorer(str(scenario.file))
    again = score(read_eval_log(log.location), scorer, action="overwrite")
    assert [item.value for item in scores(again)] == ["C", "I", "I"]


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    metadata = {"contexts": list(scenario.contexts)}
    samples = [Sample(input=scenario.question, metadata=metadata, id=str(i)) for i in range(3)]
    given = {"samples": samples, "model": says(*texts(scenario))}
    names = run_page("inspect-ai", scenario, tmp_path, **given)
    assert names["released"] == pytest.approx(1 / 3)


def test_to_import_it_costs_little() -> None:
    assert heavy_modules("inspect_ai", "inspect_ai, inspect_ai.scorer, inspect_ai.solver") == []
