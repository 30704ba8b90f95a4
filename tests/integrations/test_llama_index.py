"""Does a query engine of LlamaIndex say only what passes, and does its evaluator count it?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("llama-index")

from llama_index.core import SummaryIndex, get_response_synthesizer  # noqa: E402
from llama_index.core.base.response.schema import (  # noqa: E402
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.chat_engine import CondenseQuestionChatEngine  # noqa: E402
from llama_index.core.evaluation import BatchEvalRunner  # noqa: E402
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata  # noqa: E402
from llama_index.core.response_synthesizers import Accumulate  # noqa: E402
from llama_index.core.schema import NodeWithScore, TextNode  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from calibrail.errors import InputError  # noqa: E402
from calibrail.integrations.gate import REFUSALS  # noqa: E402
from calibrail.integrations.llama_index import GuardrailEvaluator, GuardrailSynthesizer  # noqa: E402
from tests.integrations import trimming  # noqa: E402
from tests.integrations.pages import run_example, run_page  # noqa: E402
from tests.integrations.scenario import CONTEXTS, WHY, Scenario  # noqa: E402


class Model(CustomLLM):
    """Says what it was told to say, word by word where it is asked to stream."""

    text: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=self.text)

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        for word in self.text.split():
            yield CompletionResponse(text=self.text, delta=f"{word} ")


def index() -> SummaryIndex:
    return SummaryIndex([TextNode(text=CONTEXTS[0], metadata={"town": "Lyon"})])


def engine(guardrail: Any, text: str, **options: Any) -> Any:
    llm = Model(text=text)
    synthesizer = GuardrailSynthesizer(guardrail, get_response_synthesizer(llm=llm, **options))
    return index().as_query_engine(llm=llm, response_synthesizer=synthesizer)


def outcomes(scenario: Scenario) -> dict[str, str]:
    return {"pass": scenario.faithful, "review": scenario.doubtful, "flag": scenario.made_up}


@pytest.mark.parametrize("at_once", [False, True])
def test_an_engine_says_only_what_passes(scenario: Scenario, at_once: bool) -> None:
    guardrail = scenario.guardrail()
    for outcome, text in outcomes(scenario).items():
        asked = engine(scenario.file, text)
        question = scenario.question
        response = asyncio.run(asked.aquery(question)) if at_once else asked.query(question)
        kept = response.metadata["calibrail"]
        decision = guardrail.check(question=question, contexts=scenario.contexts, response=text)
        assert (kept["outcome"], kept["p_value"]) == (outcome, decision.p_value)
        assert kept["guardrail"] == guardrail.config.digest
        assert str(response) == (text if outcome == "pass" else REFUSALS[outcome])
        assert [node.get_content() for node in response.source_nodes] == list(scenario.contexts)
        assert (text in repr(response)) == (outcome == "pass")


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_an_engine_outlives_a_detector_that_fails(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    asked = engine(scenario.failing(policy), scenario.faithful)
    for response in (asked.query(scenario.question), asyncio.run(asked.aquery(scenario.question))):
        assert str(response) == REFUSALS[policy]
        assert WHY in response.metadata["calibrail"]["reason"]


def test_a_stream_begins_when_the_answer_is_decided(scenario: Scenario) -> None:
    bare = index().as_query_engine(llm=Model(text=scenario.made_up), streaming=True)
    assert len(list(bare.query(scenario.question).response_gen)) > 1

    async def streamed(text: str) -> tuple[Any, list[str]]:
        response = await engine(scenario.file, text, streaming=True).aquery(scenario.question)
        return response, [part async for part in response.async_response_gen()]

    for outcome, text in outcomes(scenario).items():
        shown = REFUSALS.get(outcome, text)
        response = engine(scenario.file, text, streaming=True).query(scenario.question)
        assert isinstance(response, StreamingResponse)
        assert response.metadata["calibrail"]["outcome"] == outcome
        assert [part.strip() for part in response.response_gen] == [shown]
        response, parts = asyncio.run(streamed(text))
        assert isinstance(response, AsyncStreamingResponse)
        assert [part.strip() for part in parts] == [shown]


class Answer(BaseModel):
    text: Any


class Structured(Accumulate):
    """A synthesizer whose answers are structured."""

    def __init__(self, answer: Any) -> None:
        super().__init__(llm=Model(text=""), output_cls=Answer)
        self.answer = Answer(text=answer)

    def get_response(self, query_str: str, text_chunks: Any, **_: Any) -> Any:
        return self.answer

    async def aget_response(self, query_str: str, text_chunks: Any, **_: Any) -> Any:
        return self.answer


def test_a_structured_answer_is_withheld_whole(scenario: Scenario) -> None:
    def response_of(answer: Any) -> Any:
        guarded = GuardrailSynthesizer(scenario.file, Structured(answer))
        nodes = [NodeWithScore(node=TextNode(text=CONTEXTS[0]))]
        return guarded.synthesize(scenario.question, nodes)

    passed = response_of(scenario.faithful)
    assert isinstance(passed, PydanticResponse)
    assert passed.response == Answer(text=scenario.faithful)
    withheld = response_of(scenario.made_up)
    assert (type(withheld), withheld.response) == (Response, REFUSALS["flag"])
    unread = response_of(object())
    assert unread.response == REFUSALS["error"]
    assert "object" in unread.metadata["calibrail"]["reason"]


def test_a_chat_engine_withholds_as_its_query_engine(scenario: Scenario) -> None:
    guarded = engine(scenario.file, scenario.made_up)
    llm = Model(text=scenario.question)
    chat = CondenseQuestionChatEngine.from_defaults(guarded, llm=llm)
    assert chat.chat(scenario.question).response == REFUSALS["flag"]
    assert "".join(chat.stream_chat(scenario.question).response_gen).strip() == REFUSALS["flag"]
    assert scenario.made_up not in str([item.content for item in chat.chat_history])


@pytest.mark.parametrize("streaming", [False, True])
def test_what_needs_the_text_alone_gets_what_passes(scenario: Scenario, streaming: bool) -> None:
    async def awaited(guarded: Any) -> str:
        shown = await guarded.aget_response(scenario.question, list(scenario.contexts))
        return shown if isinstance(shown, str) else "".join([part async for part in shown])

    for outcome, text in outcomes(scenario).items():
        within = get_response_synthesizer(llm=Model(text=text), streaming=streaming)
        guarded = GuardrailSynthesizer(scenario.file, within)
        shown = guarded.get_response(scenario.question, list(scenario.contexts))
        assert isinstance(shown, str) is not streaming
        assert "".join(shown).strip() == REFUSALS.get(outcome, text)
        assert asyncio.run(awaited(guarded)).strip() == REFUSALS.get(outcome, text)


def test_an_answer_without_a_source_is_judged_too(scenario: Scenario) -> None:
    guarded = GuardrailSynthesizer(scenario.file, get_response_synthesizer(llm=Model(text="x")))
    response = guarded.synthesize(scenario.question, [])
    assert response.metadata["calibrail"]["reason"].startswith("undefined score")
    assert response.response == REFUSALS["flag"]


def test_prompts_are_those_of_the_synthesizer_within(scenario: Scenario) -> None:
    within = get_response_synthesizer(llm=Model(text=""))
    guarded = GuardrailSynthesizer(scenario.file, within)
    assert guarded.get_prompts() == within.get_prompts() != {}
    template = within.get_prompts()["refine_template"]
    guarded.update_prompts({"text_qa_template": template})
    assert within.get_prompts()["text_qa_template"] == template


def evaluated(scenario: Scenario, guardrail: Any) -> list[Any]:
    texts = list(outcomes(scenario).values())
    runner = BatchEvalRunner({"calibrail": GuardrailEvaluator(guardrail)}, workers=2)
    return asyncio.run(
        runner.aevaluate_response_strs(
            queries=[scenario.question] * 3,
            response_strs=texts,
            contexts_list=[list(scenario.contexts)] * 3,
        )
    )["calibrail"]


def test_an_evaluator_passes_what_the_guardrail_passes(scenario: Scenario) -> None:
    results = evaluated(scenario, scenario.file)
    assert [item.passing for item in results] == [True, False, False]
    assert [item.score for item in results] == [1.0, 0.0, 0.0]
    assert [item.feedback.partition(":")[0] for item in results] == ["pass", "review", "flag"]
    assert not any(item.invalid_result for item in results)
    assert results[2].decision["p_value"] == 1.0
    assert results[2].decision["guardrail"] == scenario.guardrail().config.digest


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_an_evaluation_goes_on_when_the_detector_fails(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    for item in evaluated(scenario, scenario.failing(policy)):
        failed = policy == "error"
        assert (item.invalid_result, item.passing) == (failed, None if failed else False)
        assert item.score == (None if failed else 0.0)
        assert WHY in item.feedback
        assert item.decision["outcome"] == policy


def test_an_evaluation_without_answer_or_contexts_is_refused(scenario: Scenario) -> None:
    evaluator = GuardrailEvaluator(scenario.file)
    with pytest.raises(InputError, match="contexts must be given"):
        evaluator.evaluate(query="q", response="r")
    with pytest.raises(InputError, match="response must be given"):
        evaluator.evaluate(query="q", contexts=["c"])


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    given = {"llm": Model(text=scenario.made_up), "index": index()}
    names = run_page("llama-index", scenario, tmp_path, **given, questions=[scenario.question])
    assert str(names["response"]) == REFUSALS["flag"]
    assert names["decision"]["outcome"] == "flag"
    assert len(names["results"]["calibrail"]) == 1


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_example("llama_index", tmp_path, capsys).splitlines()
    assert shown == ["pass: Tungsten has the symbol W.", f"flag: {REFUSALS['flag']}"]


def test_an_engine_says_what_is_left_of_an_answer() -> None:
    for text, left in trimming.SHOWN.items():
        said = engine(trimming.gate(), text).query(trimming.QUESTION)
        assert str(said) == (left or REFUSALS[said.metadata["calibrail"]["outcome"]])
        assert "hums" not in str(said.metadata)
    plain = engine(trimming.gate(trim=False), trimming.TRIMMED).query(trimming.QUESTION)
    assert str(plain) == REFUSALS["flag"]
