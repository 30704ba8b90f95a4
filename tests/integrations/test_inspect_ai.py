"""Does an evaluation of Inspect count what the guardrail passes, and keep the rest apart?"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("inspect-ai")
os.environ["INSPECT_DISPLAY"] = "none"

import inspect_ai  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.model import (  # noqa: E402
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.solver import Solver, generate, solver  # noqa: E402

from calibrail.data import read_all  # noqa: E402
from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.inspect_ai import guardrail_scorer  # noqa: E402
from tests.integrations.pages import run_page  # noqa: E402
from tests.integrations.scenario import WHY, Scenario  # noqa: E402


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inspect keeps logs where it runs."""
    monkeypatch.chdir(tmp_path)


def model(*answers: Any) -> Any:
    outputs = []
    for answer in answers:
        message = ChatMessageAssistant(content=answer, model="mockllm/model")
        output = ModelOutput.from_message(message)
        # Without it Inspect counts tokens itself, with a file that it fetches.
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        outputs.append(output)
    return get_model("mockllm/model", custom_outputs=outputs, memoize=False)


def ran(
    scenario: Scenario,
    guardrail: Any,
    answers: list[Any],
    metadata: dict[str, Any] | None = None,
    *,
    solvers: Any = None,
    log_format: Literal["eval", "json"] = "eval",
    **options: Any,
) -> Any:
    """Return the log of Inspect's own runner."""
    given = {"contexts": list(scenario.contexts)} if metadata is None else metadata
    samples = [
        Sample(id=f"s{n}", input=scenario.question, target="", metadata=given)
        for n in range(len(answers))
    ]
    task = inspect_ai.Task(
        dataset=samples,
        solver=solvers or generate(),
        scorer=guardrail_scorer(guardrail, **options),
    )
    limits: dict[str, Any] = {"max_samples": 1, "max_connections": 1}
    (log,) = inspect_ai.eval(task, model=model(*answers), log_format=log_format, **limits)
    assert log.status == "success", log.error
    return log


def scores(log: Any) -> list[Any]:
    return [next(iter(sample.scores.values())) for sample in log.samples]


def metrics(log: Any) -> dict[str, float]:
    """Return the figures of the log; shares of answers stand apart from those of samples."""
    results = log.results.scores
    return {name: item.value for result in results for name, item in result.metrics.items()}


def three(scenario: Scenario) -> list[str]:
    return [scenario.faithful, scenario.doubtful, scenario.made_up]


@pytest.mark.parametrize("suffix", ["eval", "json"])
def test_its_own_log_is_read(scenario: Scenario, suffix: Literal["eval", "json"]) -> None:
    """As Inspect writes it: a zip whose parts are compressed with zstd."""
    about = {"contexts": list(scenario.contexts), "label": 1}
    log = ran(scenario, scenario.file, three(scenario), about, log_format=suffix)
    (path,) = Path("logs").glob(f"*.{suffix}")
    rows, _ = read_all(path)
    assert [row.response for row in rows] == three(scenario)
    assert [row.question for row in rows] == [scenario.question] * 3
    assert [row.contexts for row in rows] == [tuple(scenario.contexts)] * 3
    assert [row.id for row in rows] == [f"{sample.id}/1" for sample in log.samples]


def test_correct_is_what_passes(scenario: Scenario) -> None:
    log = ran(scenario, scenario.file, three(scenario))
    assert [item.value for item in scores(log)] == ["C", "I", "I"]
    assert [item.metadata["outcome"] for item in scores(log)] == ["pass", "review", "flag"]
    assert [item.metadata["id"] for item in scores(log)] == ["s0", "s1", "s2"]
    assert [item.answer for item in scores(log)] == three(scenario)
    found = metrics(log)
    assert {found[name] for name in ("accuracy", "pass", "review", "flag")} == {1 / 3}
    decision = scenario.guardrail().check(
        question=scenario.question, contexts=scenario.contexts, response=scenario.made_up
    )
    kept = scores(log)[2]
    assert kept.metadata["p_value"] == decision.p_value
    assert kept.metadata["guardrail"] == scenario.guardrail().config.digest
    assert kept.explanation == f"flag: {decision.reason}"


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_detector_that_fails_leaves_it_to_the_policy(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    log = ran(scenario, scenario.failing(policy), three(scenario))
    for item in scores(log):
        assert item.metadata["outcome"] == policy
        assert WHY in item.explanation
        if policy == "error":
            assert math.isnan(item.value)
            assert item.reason == "scoring_failed"
        else:
            assert (item.value, item.reason) == ("I", None)
    assert log.results.scores[0].unscored_samples == (3 if policy == "error" else 0)
    if policy != "error":
        assert metrics(log)[policy] == 1


@solver
def looks_up(found: tuple[str, ...]) -> Solver:
    """Return a solver that has had a tool return texts, one call having failed."""

    async def solve(state: Any, generate: Any) -> Any:
        for text in found:
            state.messages.append(ChatMessageTool(content=text, function="search"))
        failed = inspect_ai.tool.ToolCallError("timeout", "no answer")
        state.messages.append(ChatMessageTool(content="copper", error=failed))
        return await generate(state)

    return solve


def test_contexts_are_what_tools_returned_where_the_sample_has_none(scenario: Scenario) -> None:
    log = ran(scenario, scenario.file, three(scenario), {}, solvers=looks_up(scenario.contexts))
    assert [item.metadata["outcome"] for item in scores(log)] == ["pass", "review", "flag"]


def test_contexts_are_read_as_one_says(scenario: Scenario) -> None:
    docs = {"docs": scenario.contexts[0]}
    assert [
        item.value
        for item in scores(ran(scenario, scenario.file, three(scenario), docs, contexts="docs"))
    ] == ["C", "I", "I"]
    log = ran(
        scenario,
        scenario.file,
        three(scenario),
        docs,
        contexts=lambda state: [state.metadata["docs"]],
    )
    assert [item.value for item in scores(log)] == ["C", "I", "I"]


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [({}, "have no 'contexts'"), ({"contexts": [{"text": "t"}]}, "a text or a list of texts")],
    ids=["none", "no_texts"],
)
def test_an_answer_with_nothing_to_judge_it_by_is_unscored(
    scenario: Scenario, metadata: dict[str, Any], complaint: str
) -> None:
    (item,) = scores(ran(scenario, scenario.file, [scenario.faithful], metadata))
    assert math.isnan(item.value)
    assert complaint in item.explanation


def test_parts_that_are_no_text(scenario: Scenario) -> None:
    text = ContentText(text=scenario.faithful)
    answers = [
        [ContentReasoning(reasoning=scenario.made_up), text],
        [text, ContentImage(image="data:image/png;base64,aaaa")],
        "",
    ]
    thought, picture, nothing = scores(ran(scenario, scenario.file, answers))
    assert thought.value == "C"
    assert math.isnan(picture.value)
    assert "no text: image" in picture.explanation
    assert (nothing.value, nothing.reason) == ("N", "no_response")


def test_the_question_is_the_last_turn_of_the_user(scenario: Scenario) -> None:
    decisions = []
    gate = Gate(scenario.file, notify=decisions.append)
    turns = [
        ChatMessageUser(content="Hello."),
        ChatMessageAssistant(content="Hello."),
        ChatMessageUser(content=scenario.question),
    ]
    sample = Sample(id="s", input=turns, metadata={"contexts": list(scenario.contexts)})
    task = inspect_ai.Task(dataset=[sample], scorer=guardrail_scorer(gate), epochs=2)
    (log,) = inspect_ai.eval(task, model=model(*[scenario.faithful] * 2), max_samples=1)
    assert [item.value for item in scores(log)] == ["C", "C"]
    assert sorted(decision.id for decision in decisions) == ["s", "s/2"]
    assert metrics(log)["pass"] == 1


def test_answers_of_a_log_are_scored_afterwards(scenario: Scenario) -> None:
    log = ran(scenario, scenario.failing(), three(scenario))
    again = inspect_ai.score(log, guardrail_scorer(scenario.file), action="overwrite")
    assert [item.value for item in scores(again)] == ["C", "I", "I"]


def test_answers_are_decided_beside_the_loop(scenario: Scenario) -> None:
    threads = []
    gate = Gate(scenario.file, notify=lambda decision: threads.append(threading.current_thread()))

    async def main() -> Any:
        sample = Sample(input=scenario.question, metadata={"contexts": list(scenario.contexts)})
        task = inspect_ai.Task(dataset=[sample], scorer=guardrail_scorer(gate))
        return await inspect_ai.eval_async(task, model=model(scenario.made_up))

    (log,) = asyncio.run(main())
    assert [item.value for item in scores(log)] == ["I"]
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    names = run_page("inspect-ai", scenario, tmp_path, model=model(scenario.faithful))
    assert metrics(names["log"])["accuracy"] == 1
