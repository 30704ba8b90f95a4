"""Does an agent of the OpenAI Agents SDK hold back what its guardrail does not pass?"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("openai-agents")

from agents import (  # noqa: E402
    Agent,
    OutputGuardrailTripwireTriggered,
    RunContextWrapper,
    Runner,
    SQLiteSession,
    UserError,
    function_tool,
    set_tracing_disabled,
)
from agents.testing import ScriptedModel, assistant_message, function_call  # noqa: E402
from openai.types.responses import ResponseFileSearchToolCall  # noqa: E402
from openai.types.responses.response_file_search_tool_call import Result  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.openai_agents import AnswerGuardrail, held_back  # noqa: E402
from tests.integrations import trimming  # noqa: E402
from tests.integrations.pages import run_example, run_page  # noqa: E402
from tests.integrations.scenario import CONTEXTS, WHY, Scenario  # noqa: E402

set_tracing_disabled(True)


@function_tool
def search(query: str) -> str:
    """Return what the encyclopaedia says."""
    return CONTEXTS[0]


def retrieves_and_says(*answers: str) -> ScriptedModel:
    """Return a model that calls the tool before each answer."""
    steps: list[Any] = []
    for number, answer in enumerate(answers):
        call = function_call("search", {"query": "W"}, call_id=f"call {number}")
        steps += [[call], [assistant_message(answer)]]
    return ScriptedModel(steps)


def agent_of(guard: AnswerGuardrail, *answers: str, **options: Any) -> Agent[Any]:
    given = {"model": retrieves_and_says(*answers), "hooks": guard.hooks} | options
    return Agent("writer", tools=[search], output_guardrails=[guard], **given)


def withheld(agent: Agent[Any], question: Any, **options: Any) -> dict[str, Any]:
    with pytest.raises(OutputGuardrailTripwireTriggered) as raised:
        Runner.run_sync(agent, question, **options)
    details = raised.value.guardrail_result.output.output_info
    assert isinstance(details, dict)
    return details


def expected(scenario: Scenario, response: str) -> dict[str, Any]:
    gate = Gate(scenario.file)
    decision = gate.check(question=scenario.question, contexts=scenario.contexts, response=response)
    return gate.details(decision)


def test_an_answer_is_judged_by_what_the_tools_of_the_run_said(scenario: Scenario) -> None:
    guard = AnswerGuardrail(scenario.file)
    result = Runner.run_sync(agent_of(guard, scenario.faithful), scenario.question)
    assert result.final_output == scenario.faithful
    (passed,) = result.output_guardrail_results
    assert passed.output.output_info == expected(scenario, scenario.faithful)
    for text in (scenario.doubtful, scenario.made_up):
        details = withheld(agent_of(guard, text), scenario.question)
        assert details == expected(scenario, text)
        assert details["p_value"] is not None and details["guardrail"].startswith("sha256:")
    assert details["outcome"] == "flag"


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_failure_withholds_by_policy(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    guard = AnswerGuardrail(scenario.failing(policy))
    details = withheld(agent_of(guard, scenario.faithful), scenario.question)
    assert details["outcome"] == policy
    assert WHY in details["reason"]


class Heard:
    """A detector that remembers what it was asked."""

    def __init__(self, scenario: Scenario) -> None:
        self._guardrail, self.asked = scenario.guardrail(), []

    def check(self, **answer: Any) -> Any:
        self.asked.append((answer["question"], list(answer["contexts"])))
        return self._guardrail.check(**answer)


def test_of_several_turns_the_last_question_counts_with_what_was_said_since(
    scenario: Scenario,
) -> None:
    heard = Heard(scenario)
    guard = AnswerGuardrail(heard)
    session = SQLiteSession("a")
    agent = agent_of(guard, scenario.faithful, scenario.faithful)
    for question in ("What is an element?", scenario.question):
        Runner.run_sync(agent, question, session=session)
    assert heard.asked == [
        ("What is an element?", list(scenario.contexts)),
        (scenario.question, list(scenario.contexts)),
    ]
    history = [
        {"role": "user", "content": "Before?"},
        {"type": "function_call", "call_id": "x", "name": "search", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "x", "output": "Of before."},
        {"role": "assistant", "content": "Before."},
        {"role": "user", "content": [{"type": "input_text", "text": scenario.question}]},
        {
            "type": "function_call_output",
            "call_id": "y",
            "output": [{"type": "input_text", "text": "One."}, {"type": "input_image"}],
        },
    ]
    guard = AnswerGuardrail(heard)
    model = ScriptedModel([[assistant_message(scenario.faithful)]])
    withheld(agent_of(guard, model=model), history)
    assert heard.asked[-1] == (scenario.question, ["One."])


def test_what_a_hosted_tool_found_is_a_source(scenario: Scenario) -> None:
    found = ResponseFileSearchToolCall(
        id="fs",
        queries=["W"],
        status="completed",
        type="file_search_call",
        results=[Result(text=text) for text in scenario.contexts],
    )
    guard = AnswerGuardrail(scenario.file)
    model = ScriptedModel([[found, assistant_message(scenario.faithful)]])
    result = Runner.run_sync(agent_of(guard, model=model), scenario.question)
    assert result.final_output == scenario.faithful


def test_sources_of_the_run_context(scenario: Scenario) -> None:
    def documents(run: RunContextWrapper[Any]) -> Sequence[str]:
        sources: Sequence[str] = run.context["documents"]
        return sources

    guard = AnswerGuardrail(scenario.file, contexts=documents)
    given = {"documents": scenario.contexts}
    for text in (scenario.faithful, scenario.made_up):
        model = ScriptedModel([[assistant_message(text)]])
        agent: Agent[Any] = Agent("writer", model=model, output_guardrails=[guard])
        if text == scenario.faithful:
            assert Runner.run_sync(agent, scenario.question, context=given).final_output == text
        else:
            assert withheld(agent, scenario.question, context=given) == expected(scenario, text)
    heard = Heard(scenario)
    asks = AnswerGuardrail(heard, contexts=documents, question=lambda run: run.context["asked"])
    Runner.run_sync(
        agent_of(asks, scenario.faithful), "x", context=given | {"asked": scenario.question}
    )
    assert heard.asked == [(scenario.question, list(scenario.contexts))]


def test_an_agent_whose_tools_are_not_heard_is_told_how(scenario: Scenario) -> None:
    guard = AnswerGuardrail(scenario.file)
    with pytest.raises(UserError, match=r"hooks=guard.hooks, or the guard contexts="):
        Runner.run_sync(agent_of(guard, scenario.faithful, hooks=None), scenario.question)


class Report(BaseModel):
    text: str
    sure: bool


def test_a_structured_output_is_judged_by_its_text(scenario: Scenario) -> None:
    def agent(guard: AnswerGuardrail, text: str) -> Agent[Any]:
        answer = Report(text=text, sure=True).model_dump_json()
        return agent_of(guard, answer, output_type=Report)

    guard = AnswerGuardrail(scenario.file, answer=lambda output: output.text)
    result = Runner.run_sync(agent(guard, scenario.faithful), scenario.question)
    assert result.final_output == Report(text=scenario.faithful, sure=True)
    details = withheld(agent(guard, scenario.made_up), scenario.question)
    assert details == expected(scenario, scenario.made_up)
    details = withheld(agent(AnswerGuardrail(scenario.file), "x"), scenario.question)
    assert details == expected(scenario, "x\nTrue")
    plain = AnswerGuardrail(scenario.file, contexts=lambda run: [])
    judged = asyncio.run(plain.run(RunContextWrapper(None), agent(guard, "x"), object())).output
    assert judged.tripwire_triggered and judged.output_info["outcome"] == "error"
    assert "a part of the answer is no text: object" in judged.output_info["reason"]
    wrong: Any = AnswerGuardrail(scenario.file, answer=lambda output: output.sure)
    details = withheld(agent(wrong, "x"), scenario.question)
    assert details["outcome"] == "error"
    assert "response must be a text; got True" in details["reason"]


def shown(guard: AnswerGuardrail, model: ScriptedModel, question: str, cancel: bool = False) -> str:
    """Return all that a stream held back shows, as text."""

    async def go() -> str:
        agent = Agent(
            "writer", tools=[search], output_guardrails=[guard], model=model, hooks=guard.hooks
        )
        result = Runner.run_streamed(agent, question)
        events = []
        async for event in held_back(result):
            events.append(event)
            if cancel:
                result.cancel()
        return str(events)

    return asyncio.run(go())


def test_what_a_model_says_beside_a_call_of_a_tool_is_not_shown(scenario: Scenario) -> None:
    call = function_call("search", {"query": "W"}, call_id="1")
    first = [assistant_message(scenario.made_up), call]
    model = ScriptedModel([first, [assistant_message(scenario.faithful)]])
    said = shown(AnswerGuardrail(scenario.file), model, scenario.question)
    assert scenario.faithful in said
    assert "Copper" not in said


def test_all_messages_of_the_last_response_are_judged(scenario: Scenario) -> None:
    call = function_call("search", {"query": "W"}, call_id="1")
    both = [assistant_message(scenario.made_up), assistant_message(scenario.faithful)]
    with pytest.raises(OutputGuardrailTripwireTriggered):
        shown(AnswerGuardrail(scenario.file), ScriptedModel([[call], both]), scenario.question)


def test_a_run_that_is_cancelled_shows_no_answer(scenario: Scenario) -> None:
    model = retrieves_and_says(scenario.made_up)
    said = shown(AnswerGuardrail(scenario.file), model, scenario.question, cancel=True)
    assert "Copper" not in said


def test_sources_that_cannot_be_had_leave_it_to_the_policy(scenario: Scenario) -> None:
    wrong: list[Any] = [lambda run: run.context["nothing"], lambda run: None]
    for contexts in wrong:
        guard = AnswerGuardrail(scenario.file, contexts=contexts)
        details = withheld(agent_of(guard, scenario.faithful), scenario.question, context={})
        assert details["outcome"] == "error"


def test_a_stream_held_back_says_nothing_of_an_answer_that_is_withheld(scenario: Scenario) -> None:
    async def streamed(text: str) -> tuple[list[Any], bool]:
        agent = agent_of(AnswerGuardrail(scenario.file), text)
        events = []
        try:
            async for event in held_back(Runner.run_streamed(agent, scenario.question)):
                events.append(event)
        except OutputGuardrailTripwireTriggered:
            return events, True
        return events, False

    events, stopped = asyncio.run(streamed(scenario.made_up))
    assert stopped
    assert [event.name for event in events] == ["tool_called", "tool_output"]
    assert scenario.made_up not in repr(events)
    events, stopped = asyncio.run(streamed(scenario.faithful))
    assert not stopped
    assert any(
        getattr(event, "name", None) == "message_output_created"
        and event.item.raw_item.content[0].text == scenario.faithful
        for event in events
    )
    assert any(event.type == "raw_response_event" for event in events)


def test_the_sdk_itself_streams_an_answer_before_it_is_judged(scenario: Scenario) -> None:
    """What `held_back` is for: where the SDK comes to hold answers back, it can go."""

    async def streamed() -> str:
        agent = agent_of(AnswerGuardrail(scenario.file), scenario.made_up)
        events = []
        with pytest.raises(OutputGuardrailTripwireTriggered):
            async for event in Runner.run_streamed(agent, scenario.question).stream_events():
                events.append(event)
        return repr(events)

    assert scenario.made_up in asyncio.run(streamed())


def test_after_a_handoff_the_next_agent_is_judged_by_all_that_was_said(scenario: Scenario) -> None:
    guard = AnswerGuardrail(scenario.file)
    writer = Agent(
        "writer",
        model=ScriptedModel([[assistant_message(scenario.made_up)]]),
        output_guardrails=[guard],
        hooks=guard.hooks,
    )
    searches = function_call("search", {"query": "W"}, call_id="1")
    hands_over = function_call("transfer_to_writer", "{}", call_id="2")
    model = ScriptedModel([[searches], [hands_over]])
    first = Agent("searcher", model=model, tools=[search], handoffs=[writer])
    assert withheld(first, scenario.question)["outcome"] == "flag"
    writer.model = ScriptedModel([[assistant_message(scenario.faithful)]])
    first.model = ScriptedModel([[searches], [hands_over]])
    assert Runner.run_sync(first, scenario.question).final_output == scenario.faithful


def test_runs_at_once_share_a_model_and_keep_their_own_sources(scenario: Scenario) -> None:
    heard = Heard(scenario)
    guard = AnswerGuardrail(heard)

    @function_tool
    def echo(query: str) -> str:
        """Return the query."""
        return f"About {query}."

    async def run(number: int) -> None:
        call = function_call("echo", {"query": str(number)}, call_id="the same")
        model = ScriptedModel([[call], [assistant_message(scenario.made_up)]])
        agent: Agent[Any] = Agent(
            "writer", model=model, tools=[echo], output_guardrails=[guard], hooks=guard.hooks
        )
        with pytest.raises(OutputGuardrailTripwireTriggered):
            await Runner.run(agent, f"Question {number}?")

    async def runs() -> None:
        await asyncio.gather(*map(run, range(16)))

    threads = [threading.Thread(target=asyncio.run, args=(runs(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = [(f"Question {number}?", [f"About {number}."]) for number in range(16)]
    assert sorted(heard.asked) == sorted(pairs * 2)
    assert copy.deepcopy(guard).gate is guard.gate


def test_the_page_and_the_example_run(
    scenario: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"model": retrieves_and_says(scenario.made_up), "search": search}
    names = run_page("openai-agents", scenario, tmp_path, question=scenario.question, **given)
    assert names["decision"]["outcome"] == "flag"
    output = run_example("openai_agents", tmp_path, capsys)
    assert "pass: Tungsten has the symbol W." in output
    assert "flag: withheld (p-value 1.000)" in output


def test_what_is_left_of_an_answer_comes_with_the_tripwire() -> None:
    for text, left in trimming.SHOWN.items():
        guard = AnswerGuardrail(trimming.gate(), contexts=lambda run: list(trimming.CONTEXTS))
        agent = agent_of(guard, text)
        if text == left:
            assert Runner.run_sync(agent, trimming.QUESTION).final_output == text
            continue
        details = withheld(agent, trimming.QUESTION)
        assert details["text"] == left
        assert "hums" not in str(details)
