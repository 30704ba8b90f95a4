"""Does a Haystack pipeline send on only what the guardrail passes, also one read from YAML?"""

from __future__ import annotations

import asyncio
import copy
import os
import threading
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("haystack")
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from haystack import Document, Pipeline, component  # noqa: E402
from haystack.components.builders import AnswerBuilder  # noqa: E402
from haystack.core.errors import DeserializationError, SerializationError  # noqa: E402
from haystack.dataclasses import ChatMessage, ImageContent, ToolCall  # noqa: E402

from calibrail.errors import GuardrailError, InputError  # noqa: E402
from calibrail.integrations import Gate  # noqa: E402
from calibrail.integrations.gate import REFUSALS  # noqa: E402
from calibrail.integrations.haystack import GuardrailRouter  # noqa: E402
from tests.integrations import trimming  # noqa: E402
from tests.integrations.pages import run_example, run_page  # noqa: E402
from tests.integrations.scenario import CONTEXTS, FAITHFUL, MADE_UP, WHY, Scenario  # noqa: E402

MODULE = "calibrail.integrations.haystack"


@component
class Retriever:
    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": [Document(content=CONTEXTS[0]), Document()]}


@component
class Generator:
    @component.output_types(replies=list[str])
    def run(self, query: str) -> dict[str, Any]:
        return {"replies": [MADE_UP, FAITHFUL]}


@component
class Chat:
    @component.output_types(replies=list[ChatMessage])
    def run(self, query: str) -> dict[str, Any]:
        said = [ChatMessage.from_assistant(text) for text in (MADE_UP, FAITHFUL)]
        return {"replies": said}


def pipeline_of(guardrail: Any, generator: Any = None) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("retriever", Retriever())
    pipeline.add_component("generator", generator or Generator())
    pipeline.add_component("guard", GuardrailRouter(guardrail))
    pipeline.add_component("answers", AnswerBuilder())
    pipeline.connect("retriever.documents", "guard.documents")
    pipeline.connect("generator.replies", "guard.replies")
    pipeline.connect("guard.replies", "answers.replies")
    return pipeline


def asked(scenario: Scenario) -> dict[str, Any]:
    names = ("retriever", "generator", "guard", "answers")
    return {name: {"query": scenario.question} for name in names}


def ran(pipeline: Pipeline, scenario: Scenario, *, at_once: bool = False) -> dict[str, Any]:
    options = {"include_outputs_from": {"guard"}}
    if at_once:
        return asyncio.run(pipeline.run_async(asked(scenario), **options))
    return pipeline.run(asked(scenario), **options)


def routed(scenario: Scenario, guardrail: Any, *replies: Any) -> dict[str, Any]:
    return GuardrailRouter(guardrail).run(
        query=scenario.question,
        documents=[Document(content=text) for text in scenario.contexts],
        replies=list(replies),
    )


@pytest.mark.parametrize("at_once", [False, True])
def test_a_pipeline_sends_on_what_passes(scenario: Scenario, at_once: bool) -> None:
    result = ran(pipeline_of(scenario.file), scenario, at_once=at_once)
    assert result["guard"]["replies"] == [scenario.faithful]
    assert result["guard"]["withheld"] == [scenario.made_up]
    assert result["guard"]["refusals"] == [REFUSALS["flag"]]
    assert [item.data for item in result["answers"]["answers"]] == [scenario.faithful]
    decision = scenario.guardrail().check(
        question=scenario.question, contexts=scenario.contexts, response=scenario.made_up
    )
    first, second = result["guard"]["decisions"]
    assert (first["outcome"], first["p_value"]) == ("flag", decision.p_value)
    assert first["guardrail"] == scenario.guardrail().config.digest
    assert second["outcome"] == "pass"


def test_messages_carry_their_decision(scenario: Scenario) -> None:
    result = ran(pipeline_of(scenario.file, Chat()), scenario)["guard"]
    (good,), (bad,), (refusal,) = result["replies"], result["withheld"], result["refusals"]
    assert (good.text, bad.text, refusal.text) == (
        scenario.faithful,
        scenario.made_up,
        REFUSALS["flag"],
    )
    assert [item.meta["calibrail"]["outcome"] for item in (good, bad, refusal)] == [
        "pass",
        "flag",
        "flag",
    ]


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_pipeline_outlives_a_detector_that_fails(
    scenario: Scenario, policy: Literal["error", "flag", "review"], at_once: bool
) -> None:
    result = ran(pipeline_of(scenario.failing(policy)), scenario, at_once=at_once)["guard"]
    assert result["replies"] == []
    assert result["refusals"] == [REFUSALS[policy]] * 2
    assert [item["outcome"] for item in result["decisions"]] == [policy] * 2
    assert WHY in result["decisions"][0]["reason"]


def test_a_review_is_no_flag(scenario: Scenario) -> None:
    result = routed(scenario, scenario.file, scenario.doubtful)
    assert result["decisions"][0]["outcome"] == "review"
    assert result["refusals"] == [REFUSALS["review"]]


def test_a_call_of_a_tool_goes_on_and_a_picture_does_not(scenario: Scenario) -> None:
    called = [ToolCall("search", {"query": "W"})]
    # What it says beside the call is shown by nobody who shows replies.
    call = ChatMessage.from_assistant(scenario.made_up, tool_calls=called)
    picture = ChatMessage.from_dict(
        {
            "role": "assistant",
            "meta": {},
            "name": None,
            "content": [
                {"text": scenario.faithful},
                {"image": ImageContent("aGk=", "image/png", validation=False).to_dict()},
            ],
        }
    )
    result = routed(scenario, scenario.file, call, picture)
    assert (result["replies"], result["calls"]) == ([], [call])
    assert len(result["decisions"]) == 1
    assert result["withheld"][0].texts == [scenario.faithful]
    assert result["decisions"][0]["outcome"] == "error"
    assert "image" in result["decisions"][0]["reason"]


def test_a_pipeline_comes_back_from_yaml(scenario: Scenario) -> None:
    text = pipeline_of(scenario.file).dumps()
    assert str(scenario.file) in text
    mine = [MODULE, __name__]
    again = Pipeline.loads(text, allowed_modules=mine)
    guard = {
        "type": f"{MODULE}.GuardrailRouter",
        "init_parameters": {"guardrail": str(scenario.file)},
    }
    assert again.to_dict()["components"]["guard"] == guard
    assert ran(again, scenario)["guard"]["withheld"] == [scenario.made_up]
    with pytest.raises(DeserializationError, match="allow"):
        Pipeline.loads(text, allowed_modules=[__name__])


def test_what_is_in_memory_is_not_written(scenario: Scenario) -> None:
    for guardrail in (scenario.guardrail(), Gate(scenario.file, refusal="No.")):
        with pytest.raises(SerializationError, match="make the component of its path"):
            pipeline_of(guardrail).dumps()


def test_a_file_is_read_once_whoever_comes_first(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    original = Gate.__init__

    def counted(self: Gate, *given: Any, **named: Any) -> None:
        read.append(given)
        original(self, *given, **named)

    monkeypatch.setattr(Gate, "__init__", counted)
    router = GuardrailRouter(str(scenario.file))
    assert read == []
    threads = [threading.Thread(target=router.warm_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) == 1
    assert copy.deepcopy(router)._ready() is router._ready()
    with pytest.raises(GuardrailError):
        GuardrailRouter(tmp_path / "none.json").warm_up()


def test_a_reply_that_is_none_is_named(scenario: Scenario) -> None:
    with pytest.raises(InputError, match="response must be a text"):
        routed(scenario, scenario.file, None)


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    given = {"retriever": Retriever(), "generator": Generator(), "question": scenario.question}
    names = run_page("haystack", scenario, tmp_path, **given, modules=[__name__])
    assert names["result"]["guard"]["withheld"] == [scenario.made_up]
    assert "guardrail.json" in names["text"]
    assert isinstance(names["again"].get_component("guard"), GuardrailRouter)


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_example("haystack", tmp_path, capsys).splitlines()
    assert shown[0] == "replies: Tungsten has the symbol W."
    assert shown[1].startswith("withheld: Copper")
    assert shown[2] == f"refusals: {REFUSALS['flag']}"


def test_what_is_left_of_a_reply_is_a_reply() -> None:
    router = GuardrailRouter(trimming.gate())
    documents = [Document(content=text) for text in trimming.CONTEXTS]
    said = router.run(query=trimming.QUESTION, documents=documents, replies=list(trimming.SHOWN))
    assert said["replies"] == [trimming.KEPT, trimming.KEPT]
    assert said["withheld"] == [trimming.EMPTIED, trimming.TORN]
    assert said["refusals"] == [REFUSALS["flag"], REFUSALS["review"]]
