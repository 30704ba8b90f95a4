"""Does an agent, a chain and a graph show only what the guardrail passes?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest

from tests.integrations.frameworks import need

need("langchain")

from langchain.agents import create_agent  # noqa: E402
from langchain.agents.structured_output import ToolStrategy  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel  # noqa: E402
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage  # noqa: E402
from langchain_core.runnables import RunnablePassthrough  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.gate import REFUSALS  # noqa: E402
from calibrail.integrations.langchain import (  # noqa: E402
    GuardrailMiddleware,
    guardrail_node,
    guardrail_runnable,
    outcome_of,
    tool_results,
)
from tests.integrations import trimming  # noqa: E402
from tests.integrations.pages import run_example, run_page  # noqa: E402
from tests.integrations.scenario import CONTEXTS, WHY, Scenario  # noqa: E402

SEARCHES = {"name": "search", "args": {"query": "W"}, "id": "1"}


class Model(GenericFakeChatModel):
    """A chat model that says what it is told to, and takes tools."""

    def bind_tools(self, tools: Any, **_: Any) -> Model:
        return self


@tool
def search(query: str) -> str:
    """Search the sources."""
    return CONTEXTS[0]


def saying(*messages: str | AIMessage) -> Model:
    said: Iterator[AIMessage | str] = iter([AIMessage("", tool_calls=[SEARCHES]), *messages])
    return Model(messages=said)


def asked(scenario: Scenario) -> dict[str, Any]:
    return {"messages": [("user", scenario.question)]}


def agent(guardrail: Any, *messages: str | AIMessage, **options: Any) -> Any:
    return create_agent(
        saying(*messages), [search], middleware=[GuardrailMiddleware(guardrail)], **options
    )


def outcomes(scenario: Scenario) -> dict[str, str]:
    return {scenario.faithful: "pass", scenario.doubtful: "review", scenario.made_up: "flag"}


@pytest.mark.parametrize("at_once", [False, True])
def test_an_agent_says_what_passes_and_a_refusal_for_all_else(
    scenario: Scenario, at_once: bool
) -> None:
    for text, outcome in outcomes(scenario).items():
        guarded = agent(scenario.file, text)
        if at_once:
            state = asyncio.run(guarded.ainvoke(asked(scenario)))
        else:
            state = guarded.invoke(asked(scenario))
        last = state["messages"][-1]
        decision = scenario.guardrail().check(
            question=scenario.question, contexts=scenario.contexts, response=text
        )
        kept = last.response_metadata["calibrail"]
        assert (kept["outcome"], kept["p_value"]) == (outcome, decision.p_value)
        assert kept["guardrail"] == scenario.guardrail().config.digest
        assert last.text == (text if outcome == "pass" else REFUSALS[outcome])
        assert text in str(state) or outcome != "pass"
        assert text not in str(state) or outcome == "pass"


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
@pytest.mark.parametrize("at_once", [False, True])
def test_an_agent_survives_a_detector_that_fails(
    scenario: Scenario, policy: Literal["error", "flag", "review"], at_once: bool
) -> None:
    guarded = agent(scenario.failing(policy), scenario.faithful)
    state = (
        asyncio.run(guarded.ainvoke(asked(scenario)))
        if at_once
        else guarded.invoke(asked(scenario))
    )
    last = state["messages"][-1]
    assert last.text == REFUSALS[policy]
    assert last.response_metadata["calibrail"]["outcome"] == policy
    assert WHY in last.response_metadata["calibrail"]["reason"]


def streamed(scenario: Scenario, text: str, mode: str, *, guarded: bool = True) -> str:
    """Return all that a stream gives, once the tool has been called."""
    searched = [
        HumanMessage(scenario.question),
        AIMessage("", tool_calls=[SEARCHES]),
        ToolMessage(CONTEXTS[0], tool_call_id="1"),
    ]
    guards = [GuardrailMiddleware(scenario.file)] if guarded else []
    made = create_agent(Model(messages=iter([text])), [search], middleware=guards)
    given = {"messages": searched}
    if mode != "events":
        return str(list(made.stream(given, stream_mode=mode)))

    async def events() -> str:
        return str([event async for event in made.astream_events(given, version="v2")])

    return asyncio.run(events())


@pytest.mark.parametrize("mode", ["values", "updates", "messages", "debug", "events"])
def test_no_stream_shows_what_is_withheld(scenario: Scenario, mode: str) -> None:
    # Without the guardrail there is something to hold back.
    assert "Copper" in streamed(scenario, scenario.made_up, mode, guarded=False)
    shown = streamed(scenario, scenario.made_up, mode)
    assert "Copper" not in shown
    assert REFUSALS["flag"] in shown
    assert scenario.faithful in streamed(scenario, scenario.faithful, mode)


def test_a_refusal_keeps_nothing_that_names_its_tokens(scenario: Scenario) -> None:
    named = {"logprobs": {"content": [{"token": "Copper"}]}}
    said = AIMessage(scenario.made_up, response_metadata=named)
    assert "Copper" not in str(agent(scenario.file, said).invoke(asked(scenario)))


def test_the_sources_are_those_of_the_last_turn(scenario: Scenario) -> None:
    seen: list[dict[str, Any]] = []

    class Watching(Gate):
        def check(self, **answer: Any) -> Any:
            seen.append(answer)
            return super().check(**answer)

    before = [
        HumanMessage("Which town is this?"),
        ToolMessage("Lyon lies on the Rhone.", tool_call_id="0"),
        AIMessage("Lyon."),
        HumanMessage(scenario.question),
    ]
    agent(Watching(scenario.file), scenario.faithful).invoke({"messages": before})
    assert seen == [
        {
            "question": scenario.question,
            "contexts": list(CONTEXTS),
            "response": scenario.faithful,
        }
    ]


def test_what_a_failed_tool_repeats_is_no_source(scenario: Scenario) -> None:
    wrong = {"name": "search", "args": {"text": scenario.made_up}, "id": "9"}
    asked_wrongly = AIMessage("", tool_calls=[wrong])
    last = agent(scenario.file, asked_wrongly, scenario.made_up).invoke(asked(scenario))
    assert last["messages"][-1].text == REFUSALS["flag"]
    listed = [
        HumanMessage(scenario.question),
        ToolMessage(f"Updated: {scenario.made_up}", tool_call_id="1", name="write_todos"),
        ToolMessage(CONTEXTS[0], tool_call_id="2", name="search"),
    ]
    assert tool_results(listed) == [CONTEXTS[0]]


def test_two_answers_are_never_chosen_between(scenario: Scenario) -> None:
    row = {**chained(scenario, scenario.faithful), "answer": scenario.made_up}
    with pytest.raises(KeyError, match="several answers, response and answer"):
        guardrail_runnable(scenario.file).invoke(row)


def test_a_refusal_stands_in_the_messages_too(scenario: Scenario) -> None:
    said = AIMessage(scenario.made_up, id="7")
    state = {**chained(scenario, scenario.made_up, response="answer"), "messages": [said]}
    updates = guardrail_node(scenario.file).invoke(state)
    assert updates["answer"] == REFUSALS["flag"]
    assert [(item.id, item.text) for item in updates["messages"]] == [("7", REFUSALS["flag"])]


def test_sources_that_cannot_be_had_leave_it_to_the_policy(scenario: Scenario) -> None:
    wrong: list[Any] = [lambda messages: {}["nothing"], lambda messages: None, lambda messages: [3]]
    for contexts in wrong:
        middleware = GuardrailMiddleware(scenario.file, contexts=contexts)
        built = create_agent(saying(scenario.faithful), [search], middleware=[middleware])
        last = built.invoke(asked(scenario))["messages"][-1]
        assert last.text == REFUSALS["error"]


def test_documents_of_a_retriever_are_the_chunks(scenario: Scenario) -> None:
    @tool("search", response_format="content_and_artifact")
    def retrieve(query: str) -> tuple[str, list[Document]]:
        """Search the sources."""
        return "two documents", [Document("One."), Document(CONTEXTS[0])]

    seen: list[Any] = []

    class Watching(Gate):
        def check(self, **answer: Any) -> Any:
            seen.append(answer["contexts"])
            return super().check(**answer)

    create_agent(
        saying(scenario.faithful),
        [retrieve],
        middleware=[GuardrailMiddleware(Watching(scenario.file))],
    ).invoke(asked(scenario))
    assert seen == [["One.", CONTEXTS[0]]]


def test_an_answer_with_a_part_that_is_no_text_is_not_released(scenario: Scenario) -> None:
    picture = AIMessage(
        [{"type": "text", "text": scenario.faithful}, {"type": "image", "base64": "x"}]
    )
    last = agent(scenario.file, picture).invoke(asked(scenario))["messages"][-1]
    assert last.response_metadata["calibrail"]["outcome"] == "error"
    assert "no text: image" in last.response_metadata["calibrail"]["reason"]
    assert last.content == REFUSALS["error"]


class Element(BaseModel):
    """What a structured answer holds."""

    answer: str


@pytest.mark.parametrize(("made_up", "outcome"), [(False, "pass"), (True, "flag")])
def test_a_structured_answer_is_judged_and_withheld_likewise(
    scenario: Scenario, made_up: bool, outcome: str
) -> None:
    said = "Copper melts in Lyon at 4 degrees." if made_up else "Tungsten"
    call = {"name": "Element", "args": {"answer": said}, "id": "2"}
    state = agent(
        scenario.file, AIMessage("", tool_calls=[call]), response_format=ToolStrategy(Element)
    ).invoke(asked(scenario))
    kept = state["messages"][-1].response_metadata
    if outcome == "pass":
        assert state["structured_response"] == Element(answer=said)
    else:
        assert state.get("structured_response") is None
        assert kept["calibrail"]["outcome"] == outcome
        assert said not in str(state)


def test_a_withheld_structured_answer_ends_the_turn(scenario: Scenario) -> None:
    call = {"name": "Element", "args": {"answer": scenario.made_up}, "id": "2"}
    # Asked once more, the model would have nothing to say, and raise.
    state = create_agent(
        Model(messages=iter([AIMessage("", tool_calls=[call])])),
        response_format=ToolStrategy(Element),
        middleware=[GuardrailMiddleware(scenario.file)],
    ).invoke(asked(scenario))
    assert state["messages"][-1].text == REFUSALS["flag"]
    assert state.get("structured_response") is None


def chained(scenario: Scenario, text: str, **names: str) -> dict[str, Any]:
    return {
        names.get("question", "question"): scenario.question,
        names.get("contexts", "contexts"): [Document(item) for item in scenario.contexts],
        names.get("response", "response"): text,
    }


def test_a_chain_ends_with_the_guardrail(scenario: Scenario) -> None:
    step = guardrail_runnable(scenario.file)
    rows = [chained(scenario, text) for text in outcomes(scenario)]
    for results in (step.batch(rows), asyncio.run(step.abatch(rows))):
        assert [row["decision"]["outcome"] for row in results] == ["pass", "review", "flag"]
        assert results[0]["response"] == scenario.faithful
        assert results[2]["response"] == REFUSALS["flag"]
        assert results[2]["decision"]["p_value"] == 1.0
    chain = RunnablePassthrough.assign(answer=lambda _: AIMessage(scenario.made_up)) | step
    names = {"query": scenario.question, "context": scenario.contexts[0]}
    assert chain.invoke(names)["answer"].text == REFUSALS["flag"]
    parts: list[Any] = [{"type": "text", "text": scenario.faithful}, {"type": "image", "url": "x"}]
    held = step.invoke({**names, "answer": AIMessage(parts)})
    assert (held["decision"]["outcome"], held["answer"].text) == ("error", REFUSALS["error"])


def test_a_mapping_without_an_answer_is_named(scenario: Scenario) -> None:
    with pytest.raises(KeyError, match="no answer under response, answer, output, result"):
        guardrail_runnable(scenario.file).invoke({"question": "q"})
    with pytest.raises(KeyError, match="no sources under contexts, context, documents, docs; got"):
        guardrail_runnable(scenario.file).invoke({"question": "q", "response": "r", "chunks": []})
    with pytest.raises(TypeError, match="takes a mapping"):
        guardrail_runnable(scenario.file).invoke("an answer")


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    answer: str
    decision: dict[str, Any]
    waiting: bool


def graph(guardrail: Any) -> Any:
    built = StateGraph(State)
    built.add_node("guard", guardrail_node(guardrail))
    built.add_node("ask_a_person", lambda state: {"waiting": True})
    built.add_edge(START, "guard")
    ends = {"pass": END, "flag": END, "error": END, "review": "ask_a_person"}
    built.add_conditional_edges("guard", outcome_of, ends)
    built.add_edge("ask_a_person", END)
    return built.compile()


@pytest.mark.parametrize("at_once", [False, True])
def test_a_graph_goes_where_the_outcome_says(scenario: Scenario, at_once: bool) -> None:
    names = {"contexts": "documents", "response": "answer"}
    built = graph(scenario.file)
    for text, outcome in outcomes(scenario).items():
        row = chained(scenario, text, **names)
        state = asyncio.run(built.ainvoke(row)) if at_once else built.invoke(row)
        assert state["decision"]["outcome"] == outcome
        assert state["answer"] == (text if outcome == "pass" else REFUSALS[outcome])
        assert state.get("waiting", False) is (outcome == "review")


class Form(BaseModel):
    """A state that is a model of pydantic."""

    messages: Annotated[list[AnyMessage], add_messages]


@pytest.mark.parametrize("form", [MessagesState, Form])
def test_a_graph_of_messages_is_judged_by_its_last(scenario: Scenario, form: Any) -> None:
    for text, outcome in outcomes(scenario).items():
        built = StateGraph(form)
        built.add_node("agent", create_agent(saying(text), [search]))
        built.add_node("guard", guardrail_node(scenario.file))
        built.add_edge(START, "agent")
        built.add_edge("agent", "guard")
        built.add_conditional_edges("guard", outcome_of, {outcome: END})
        said = built.compile().invoke({"messages": [HumanMessage(scenario.question)]})["messages"]
        assert [item.type for item in said] == ["human", "ai", "tool", "ai"]
        assert said[-1].text == (text if outcome == "pass" else REFUSALS[outcome])
        assert said[-1].response_metadata["calibrail"]["outcome"] == outcome


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    names = run_page("langchain", scenario, tmp_path, model=saying(scenario.made_up), search=search)
    assert names["state"]["messages"][-1].text == REFUSALS["flag"]


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run_example("langchain", tmp_path, capsys)
    assert "pass: Tungsten has the symbol W." in said
    assert "flag: This answer is withheld" in said


@pytest.mark.parametrize("trim", [False, True])
def test_an_agent_says_what_is_left_of_an_answer(trim: bool) -> None:
    for text, left in trimming.SHOWN.items():
        state = agent(trimming.gate(trim=trim), text).invoke(
            {"messages": [("user", trimming.QUESTION)]}
        )
        last = state["messages"][-1]
        kept = last.response_metadata["calibrail"]
        released = left is not None and (trim or text == left)
        assert last.text == (left if released else REFUSALS[kept["outcome"]])
        assert "hums" not in str(state)


def test_a_chain_gives_what_is_left() -> None:
    step = guardrail_runnable(trimming.gate())
    said = step.invoke(
        {"question": "", "response": trimming.TRIMMED, "contexts": list(trimming.CONTEXTS)}
    )
    assert said["response"] == trimming.KEPT
    assert "hums" not in str(said)


def test_a_structured_answer_is_shown_whole_or_not_at_all() -> None:
    class Report(BaseModel):
        text: str

    call = {"name": "Report", "args": {"text": trimming.TRIMMED}, "id": "2"}
    guarded = agent(
        trimming.gate(), AIMessage("", tool_calls=[call]), response_format=ToolStrategy(Report)
    )
    state = guarded.invoke({"messages": [("user", trimming.QUESTION)]})
    assert state["messages"][-1].text == REFUSALS["flag"]
    assert "hums" not in str(state)
