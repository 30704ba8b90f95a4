"""Does an agent of pydantic-ai try again, and give only what the guardrail passes?"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("pydantic-ai")

from pydantic import BaseModel  # noqa: E402
from pydantic_ai import Agent, BinaryImage, DeferredToolRequests, ModelRetry  # noqa: E402
from pydantic_ai.exceptions import AgentRunError  # noqa: E402
from pydantic_ai.messages import FilePart, ModelResponse, RetryFeedbackPart, TextPart, ToolCallPart  # noqa: E402
from pydantic_ai.models.function import FunctionModel  # noqa: E402

from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.gate import REFUSALS  # noqa: E402
from calibrail.integrations.pydantic_ai import AnswerWithheldError, GuardrailValidator  # noqa: E402
from tests.integrations import trimming  # noqa: E402
from tests.integrations.pages import run_example, run_page  # noqa: E402
from tests.integrations.scenario import CONTEXTS, WHY, Scenario  # noqa: E402


def search(query: str) -> list[str]:
    """Return what is known."""
    return list(CONTEXTS)


def says(*parts: Any, searches: bool = True) -> FunctionModel:
    """Return a model that calls the tool and then gives one part after another."""
    first = [ToolCallPart("search", {"query": "W"})] if searches else []
    steps = iter([*first, *(TextPart(part) if isinstance(part, str) else part for part in parts)])

    async def stream(messages: Any, info: Any) -> Any:
        for word in str(parts[0]).split(" "):
            yield f"{word} "

    return FunctionModel(
        lambda messages, info: ModelResponse([next(steps)]), stream_function=stream
    )


def agent_of(guard: Any, *parts: Any, retries: int = 0, **options: Any) -> Agent[Any, Any]:
    guard = guard if isinstance(guard, GuardrailValidator) else GuardrailValidator(guard)
    agent = Agent(says(*parts), tools=[search], retries=retries, **options)
    agent.output_validator(guard)
    return agent


def outcomes(scenario: Scenario) -> dict[str, str]:
    return {"pass": scenario.faithful, "review": scenario.doubtful, "flag": scenario.made_up}


@pytest.mark.parametrize("at_once", [False, True])
def test_an_agent_gives_only_what_passes(scenario: Scenario, at_once: bool) -> None:
    guardrail = scenario.guardrail()
    for outcome, text in outcomes(scenario).items():
        agent, question = agent_of(scenario.file, text), scenario.question
        result = asyncio.run(agent.run(question)) if at_once else agent.run_sync(question)
        kept = result.response.metadata["calibrail"]
        decision = guardrail.check(question=question, contexts=scenario.contexts, response=text)
        assert (kept["outcome"], kept["p_value"]) == (outcome, decision.p_value)
        assert kept["guardrail"] == guardrail.config.digest
        assert result.output == REFUSALS.get(outcome, text)


def test_the_model_is_asked_again_and_told_why(scenario: Scenario) -> None:
    agent = agent_of(scenario.file, scenario.made_up, scenario.faithful, retries=1)
    result = agent.run_sync(scenario.question)
    assert result.output == scenario.faithful
    (told,) = [
        part
        for message in result.all_messages()
        for part in message.parts
        if isinstance(part, RetryFeedbackPart)
    ]
    assert "from the sources alone" in str(told.content)
    assert "flag: score" in str(told.content)
    agent = agent_of(scenario.file, scenario.made_up, scenario.doubtful, retries=1)
    assert agent.run_sync(scenario.question).output == REFUSALS["review"]
    guard = GuardrailValidator(scenario.file, retry=False)
    agent = agent_of(guard, scenario.made_up, scenario.faithful, retries=1)
    assert agent.run_sync(scenario.question).output == REFUSALS["flag"]


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_an_agent_outlives_a_detector_that_fails(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    agent = agent_of(scenario.failing(policy), *[scenario.faithful] * 2, retries=1)
    result = agent.run_sync(scenario.question)
    assert result.output == REFUSALS[policy]
    assert WHY in result.response.metadata["calibrail"]["reason"]
    # The model is not asked again for what is no fault of its answer.
    # Another answer would not help.
    assert RetryFeedbackPart.__name__ not in repr(result.all_messages())


class Answer(BaseModel):
    text: str
    number: int = 74


def structured(text: str) -> ToolCallPart:
    return ToolCallPart("final_result", {"text": text})


def test_a_structured_output_is_withheld_by_an_error(scenario: Scenario) -> None:
    agent = agent_of(scenario.file, structured(scenario.faithful), output_type=Answer)
    assert agent.run_sync(scenario.question).output == Answer(text=scenario.faithful)
    agent = agent_of(scenario.file, structured(scenario.made_up), output_type=Answer)
    with pytest.raises(AnswerWithheldError, match="flag: score") as caught:
        agent.run_sync(scenario.question)
    decision = scenario.guardrail().check(
        question=scenario.question,
        contexts=scenario.contexts,
        response=f"{scenario.made_up}\n74",
    )
    assert caught.value.decision["p_value"] == decision.p_value
    assert isinstance(caught.value, AgentRunError)
    again = [structured(scenario.made_up), structured(scenario.faithful)]
    agent = agent_of(scenario.file, *again, output_type=Answer, retries=1)
    assert agent.run_sync(scenario.question).output == Answer(text=scenario.faithful)


def test_what_stands_instead_is_the_users(scenario: Scenario) -> None:
    guard = GuardrailValidator(
        scenario.file,
        text=lambda answer: answer.text,
        instead=lambda decision: Answer(text=decision.outcome, number=0),
    )
    agent = agent_of(guard, structured(scenario.made_up), output_type=Answer)
    assert agent.run_sync(scenario.question).output == Answer(text="flag", number=0)


@dataclass
class Deps:
    documents: list[str]


def test_sources_and_question_are_those_of_the_turn(scenario: Scenario) -> None:
    heard: list[dict[str, Any]] = []

    class Heard(Gate):
        async def acheck(self, **answer: Any) -> Any:
            heard.append(answer)
            return await super().acheck(**answer)

    gate = Heard(scenario.file)
    before = agent_of(gate, scenario.made_up).run_sync("What of copper?").all_messages()
    agent_of(gate, scenario.faithful).run_sync(scenario.question, message_history=before)
    guard = GuardrailValidator(gate, contexts=lambda run: run.deps.documents)
    agent = Agent(says(scenario.faithful, searches=False), deps_type=Deps, retries=0)
    agent.output_validator(guard)
    asked = [scenario.question, "in short"]
    assert agent.run_sync(asked, deps=Deps(["mine"])).output == REFUSALS["review"]
    assert [item["question"] for item in heard] == [
        "What of copper?",
        scenario.question,
        "\n".join(asked),
    ]
    assert [item["contexts"] for item in heard] == [[*CONTEXTS], [*CONTEXTS], ["mine"]]


def test_a_picture_is_not_released_and_a_call_goes_on(scenario: Scenario) -> None:
    picture = FilePart(BinaryImage(data=b"\x89PNG", media_type="image/png"))
    guard = GuardrailValidator(scenario.file, instead=lambda decision: decision.reason)
    validated = asyncio.run(guard(_Run(), picture.content))
    assert "no text" in validated
    calls = DeferredToolRequests()
    assert asyncio.run(guard(_Run(), calls)) is calls


class _Run:
    partial_output, last_attempt, messages = False, True, ()


def test_no_stream_that_asks_validators_shows_what_is_not_decided(scenario: Scenario) -> None:
    def agent(text: str, **options: Any) -> Agent[Any, Any]:
        guard = GuardrailValidator(
            scenario.file, contexts=lambda run: scenario.contexts, retry=False, **options
        )
        return agent_of(guard, text)

    async def outputs(text: str) -> list[str]:
        async with agent(text).run_stream(scenario.question) as result:
            return [part async for part in result.stream_output(debounce_by=None)]

    async def texts(text: str, delta: bool) -> list[str]:
        async with agent(text).run_stream(scenario.question) as result:
            return [part async for part in result.stream_text(delta=delta, debounce_by=None)]

    for outcome, text in outcomes(scenario).items():
        assert [part.strip() for part in asyncio.run(outputs(text))] == [
            REFUSALS.get(outcome, text)
        ]
    with pytest.raises(ModelRetry, match="held back until a guardrail has decided"):
        asyncio.run(texts(scenario.made_up, delta=False))
    # pydantic-ai asks no validator here, as the page says.
    assert len(asyncio.run(texts(scenario.made_up, delta=True))) > 1


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    model = says(scenario.made_up, scenario.made_up)
    names = run_page("pydantic-ai", scenario, tmp_path, model=model, search=search)
    assert names["shown"] == REFUSALS["flag"]
    assert names["decision"]["outcome"] == "flag"


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_example("pydantic_ai", tmp_path, capsys).splitlines()
    assert shown == ["pass: Tungsten has the symbol W.", f"flag: {REFUSALS['flag']}"]


@pytest.mark.parametrize("trim", [False, True])
def test_an_agent_gives_what_is_left_of_an_answer_without_asking_again(trim: bool) -> None:
    for text, left in trimming.SHOWN.items():
        guard = GuardrailValidator(
            trimming.gate(trim=trim), contexts=lambda run: list(trimming.CONTEXTS)
        )
        result = agent_of(guard, text, retries=0).run_sync(trimming.QUESTION)
        outcome = result.response.metadata["calibrail"]["outcome"]
        released = left is not None and (trim or text == left)
        assert result.output == (left if released else REFUSALS[outcome])


def test_a_structured_output_is_not_trimmed() -> None:
    @dataclass
    class Report:
        text: str

    guard = GuardrailValidator(trimming.gate(), contexts=lambda run: list(trimming.CONTEXTS))
    call = ToolCallPart("final_result", {"text": trimming.TRIMMED})
    agent = agent_of(guard, call, output_type=Report)
    with pytest.raises(AnswerWithheldError, match="withheld") as caught:
        agent.run_sync(trimming.QUESTION)
    assert "hums" not in str(caught.value)
