"""Does LiteLLM, and its proxy, release only what the guardrail passes?"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("litellm")
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

import httpx  # noqa: E402
import litellm  # noqa: E402
from fastapi import HTTPException  # noqa: E402
from litellm import ModelResponse  # noqa: E402
from litellm.types.llms.openai import ResponseCompletedEvent, ResponsesAPIResponse  # noqa: E402
from litellm.types.utils import EmbeddingResponse, ModelResponseStream  # noqa: E402

from calibrail.errors import InputError  # noqa: E402
from calibrail.integrations.gate import REFUSALS  # noqa: E402
from calibrail.integrations.litellm import CalibrailGuardrail, question, sources  # noqa: E402
from tests.integrations import trimming  # noqa: E402
from tests.integrations.pages import ROOT, run_example, run_page  # noqa: E402
from tests.integrations.scenario import CONTEXTS, QUESTION, WHY, Scenario  # noqa: E402
from tests.ports import free_port  # noqa: E402

MESSAGES = [{"role": "user", "content": QUESTION}]
KEY = "sk-0123456789abcdef0123456789abcdef"
CALL = {"id": "1", "type": "function", "function": {"name": "search", "arguments": "{}"}}


def body(**further: Any) -> dict[str, Any]:
    metadata = {"contexts": list(CONTEXTS), "guardrails": ["calibrail"]}
    return {"messages": MESSAGES, "metadata": metadata, **further}


def response(*contents: str | None, **message: Any) -> ModelResponse:
    choices = [
        {"index": place, "message": {"role": "assistant", "content": text, **message}}
        for place, text in enumerate(contents)
    ]
    return ModelResponse(choices=choices)


def decided(guardrail: CalibrailGuardrail, answer: Any, data: dict[str, Any] | None = None) -> Any:
    data = body() if data is None else data
    return asyncio.run(guardrail.async_post_call_success_hook(data, None, answer))


def test_a_passed_answer_goes_on_and_its_decision_is_logged(scenario: Scenario) -> None:
    data, answer = body(), response(scenario.faithful)
    assert decided(CalibrailGuardrail(scenario.file), answer, data) is answer
    (logged,) = data["metadata"]["standard_logging_guardrail_information"]
    decision = scenario.guardrail().check(
        question=QUESTION, contexts=CONTEXTS, response=scenario.faithful
    )
    assert logged["guardrail_status"] == "success"
    assert logged["guardrail_response"]["p_value"] == decision.p_value
    assert data["metadata"]["applied_guardrails"] == ["calibrail"]


@pytest.mark.parametrize(("name", "outcome"), [("made_up", "flag"), ("doubtful", "review")])
def test_any_other_answer_is_an_error_that_says_why(
    scenario: Scenario, name: str, outcome: str
) -> None:
    with pytest.raises(HTTPException) as caught:
        decided(CalibrailGuardrail(scenario.file), response(getattr(scenario, name)))
    guardrail = scenario.guardrail()
    decision = guardrail.check(
        question=QUESTION, contexts=CONTEXTS, response=getattr(scenario, name)
    )
    assert caught.value.status_code == 400
    assert caught.value.detail == {
        "error": REFUSALS[outcome],
        "calibrail": decision.to_dict() | {"guardrail": guardrail.config.digest},
    }
    assert decision.outcome == outcome


@pytest.mark.parametrize(
    ("policy", "status"), [("error", 503), ("flag", 400), ("review", 400)], ids=str
)
def test_a_failing_detector_releases_nothing(
    scenario: Scenario, policy: Literal["error", "flag", "review"], status: int
) -> None:
    with pytest.raises(HTTPException) as caught:
        decided(CalibrailGuardrail(scenario.failing(policy)), response(scenario.faithful))
    decision = caught.value.detail["calibrail"]  # type: ignore[index]
    assert (caught.value.status_code, decision["outcome"]) == (status, policy)
    assert WHY in decision["reason"]


def test_each_choice_is_judged(scenario: Scenario) -> None:
    with pytest.raises(HTTPException, match="flag"):
        decided(CalibrailGuardrail(scenario.file), response(scenario.faithful, scenario.made_up))


def test_a_call_of_tools_goes_on_and_what_has_no_text_does_not(scenario: Scenario) -> None:
    guardrail = CalibrailGuardrail(scenario.file)
    decided(guardrail, response(None, tool_calls=[CALL]))
    decided(guardrail, EmbeddingResponse(model="x", data=[]))
    for other in (response(None), {"type": "message", "content": []}):
        with pytest.raises(HTTPException) as caught:
            decided(guardrail, other)
        assert caught.value.status_code == 503


def test_a_guardrail_that_is_not_asked_for_says_nothing(scenario: Scenario) -> None:
    answer, data = response(scenario.made_up), body(metadata={})
    assert decided(CalibrailGuardrail(scenario.file), answer, data) is answer


def test_question_and_contexts_are_read_from_the_request() -> None:
    parts = [{"type": "text", "text": "And"}, {"type": "text", "text": "now?"}]
    turns = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "first"},
        {"role": "tool", "content": "old"},
        {"role": "user", "content": parts},
    ]
    returned = {"role": "tool", "content": "new"}
    assert question({"messages": turns}) == "And\nnow?"
    assert question({"prompt": "P"}) == "P"
    assert sources({"messages": turns}) == ["S"]
    assert sources({"messages": [*turns, returned]}) == ["new"]
    assert sources({"messages": turns, "metadata": {"contexts": ["C"]}}) == ["C"]
    assert sources({"messages": turns[1:2], "system": [{"type": "text", "text": "S"}]}) == ["S"]
    result = [{"type": "tool_result", "content": [{"type": "text", "text": "new"}]}]
    answered = {"messages": [*turns, {"role": "user", "content": result}]}
    assert (question(answered), sources(answered)) == ("And\nnow?", ["new"])
    output = {"type": "function_call_output", "output": "new"}
    answered = {"input": [*turns, output], "instructions": "S"}
    assert (question(answered), sources(answered)) == ("And\nnow?", ["new"])
    assert (question({"input": "P"}), sources({"instructions": "S"})) == ("P", ["S"])
    kept = {"requester_metadata": {"contexts": "C"}}
    assert sources({"messages": turns, "litellm_metadata": kept}) == ["C"]


def of_responses(*items: dict[str, Any]) -> ResponsesAPIResponse:
    return ResponsesAPIResponse(id="1", created_at=0, output=list(items))


def said(text: str) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "2", "status": "completed", "role": "assistant"} | {
        "content": parts
    }


def test_answers_in_parts_are_judged_whole(scenario: Scenario) -> None:
    guardrail = CalibrailGuardrail(scenario.file)
    thought = {"type": "reasoning", "id": "1", "summary": []}
    called = {"type": "function_call", "call_id": "1", "name": "search", "arguments": "{}"}
    for answer in (of_responses(thought, said(scenario.faithful)), of_responses(called)):
        assert decided(guardrail, answer) is answer
    parts = [{"type": "text", "text": text} for text in scenario.made_up.partition(" in ")]
    image = {"type": "image", "source": {}}
    for bad, status in (
        (of_responses(said(scenario.faithful), said(scenario.made_up)), 400),
        ({"content": parts}, 400),
        ({"content": [*parts, image]}, 503),
    ):
        with pytest.raises(HTTPException) as caught:
            decided(guardrail, bad)
        assert caught.value.status_code == status


def test_contexts_that_are_no_texts_are_named(scenario: Scenario) -> None:
    data = body(metadata={"contexts": [{"a": 1}], "guardrails": ["calibrail"]})
    with pytest.raises(HTTPException, match=r"metadata\.contexts must be a list of texts"):
        decided(CalibrailGuardrail(scenario.file), response(scenario.faithful), data)


def streamed(*contents: str, place: int = 0) -> list[ModelResponseStream]:
    return [
        ModelResponseStream(choices=[{"index": place, "delta": {"content": text}}])
        for text in contents
    ]


def completed(text: str) -> ResponseCompletedEvent:
    return ResponseCompletedEvent(type="response.completed", response=of_responses(said(text)))


def released(guardrail: CalibrailGuardrail, chunks: list[Any]) -> tuple[list[Any], Any]:
    """Return the chunks that a client would see, and the error that ends them, if any."""
    shown: list[Any] = []

    async def given() -> AsyncIterator[Any]:
        for chunk in chunks:
            assert shown == []
            yield chunk

    async def run() -> None:
        hook = guardrail.async_post_call_streaming_iterator_hook
        async for chunk in hook(None, given(), body()):
            shown.append(chunk)

    try:
        asyncio.run(run())
    except HTTPException as error:
        return shown, error
    return shown, None


def test_a_stream_is_held_back_until_it_was_judged_whole(scenario: Scenario) -> None:
    guardrail = CalibrailGuardrail(scenario.file)
    good = streamed(*scenario.faithful.partition(" has "))
    assert released(guardrail, good) == (good, None)
    whole = [completed(scenario.faithful)]
    assert released(guardrail, whole) == (whole, None)
    for chunks, status in (
        (streamed(*scenario.made_up.partition(" at ")), 400),
        ([*good, *streamed(scenario.made_up, place=1)], 400),
        ([b"data: {}"], 503),
        ([completed(scenario.made_up)], 400),
    ):
        shown, error = released(guardrail, chunks)
        assert (shown, error.status_code) == ([], status)


def test_a_mode_that_sees_no_answer_is_refused(scenario: Scenario) -> None:
    with pytest.raises(ValueError, match="pre_call"):
        CalibrailGuardrail(scenario.file, event_hook="pre_call")


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(litellm, "callbacks", [])
    yield


@pytest.mark.usefixtures("called")
def test_a_stream_of_the_library_is_refused(scenario: Scenario) -> None:
    litellm.callbacks = [CalibrailGuardrail(scenario.file)]
    call = litellm.acompletion(
        model="openai/x",
        messages=MESSAGES,
        mock_response=scenario.made_up,
        stream=True,
        guardrails=["calibrail"],
    )
    with pytest.raises(InputError, match="do not stream, or go through its proxy"):
        asyncio.run(call)


@pytest.mark.usefixtures("called")
def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    # No model is asked: LiteLLM answers for it.
    given = {"model": "openai/x", "messages": MESSAGES, "sources": list(CONTEXTS)}
    with pytest.MonkeyPatch.context() as patch:
        call = litellm.acompletion
        for text, withheld in ((scenario.faithful, False), (scenario.made_up, True)):
            patch.setattr(litellm, "acompletion", lambda _=text, **kw: call(mock_response=_, **kw))
            if withheld:
                with pytest.raises(HTTPException, match="flag"):
                    run_page("litellm", scenario, tmp_path, **given)
            else:
                names = run_page("litellm", scenario, tmp_path, **given)
                assert names["answer"].choices[0].message.content == text


@pytest.mark.usefixtures("called")
def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run_example("litellm", tmp_path, capsys).splitlines()
    assert lines == ["pass: Tungsten has the symbol W.", f"flag: {REFUSALS['flag']}"]


@dataclass(frozen=True)
class Proxy:
    """LiteLLM's own proxy, with models that say what they are told to."""

    url: str

    def ask(self, model: str, route: str = "chat/completions", **further: Any) -> httpx.Response:
        asked: dict[str, Any] = {"model": model, "metadata": {"contexts": list(CONTEXTS)}}
        prompts: dict[str, dict[str, Any]] = {
            "completions": {"prompt": QUESTION},
            "responses": {"input": [{"role": "user", "content": QUESTION}]},
            "messages": {"messages": MESSAGES, "max_tokens": 50},
        }
        prompt = prompts.get(route, {"messages": MESSAGES})
        return httpx.post(
            f"{self.url}/v1/{route}",
            json=asked | prompt | further,
            headers={"Authorization": f"Bearer {KEY}"},
            timeout=60,
        )


@pytest.fixture(scope="module")
def proxy(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("proxy")
    shutil.copy(scenario.file, folder / "guardrail.json")
    # As the page says: the guardrail's part of the configuration.
    page = (ROOT / "docs" / "integrations" / "litellm.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    answers = {"good": scenario.faithful, "odd": scenario.doubtful, "bad": scenario.made_up}
    models = [
        {
            "model_name": name,
            "litellm_params": {"model": "openai/x", "api_key": "none", "mock_response": text},
        }
        for name, text in answers.items()
    ]
    # JSON is YAML.
    config = f"model_list: {json.dumps(models)}\n{shown}"
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    port = free_port()
    program = str(Path(sys.executable).with_name("litellm"))
    command = [program, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"LITELLM_MASTER_KEY": KEY, "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--telemetry", "False"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1200):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            try:
                httpx.get(f"{url}/health/liveliness").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        yield Proxy(url)
    finally:
        process.terminate()
        process.wait()


def test_the_proxy_answers_with_what_is_passed(proxy: Proxy, scenario: Scenario) -> None:
    answer = proxy.ask("good")
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == scenario.faithful
    assert answer.headers["x-litellm-applied-guardrails"] == "calibrail"


@pytest.mark.parametrize(("model", "outcome"), [("bad", "flag"), ("odd", "review")], ids=str)
def test_the_proxy_says_why_it_withholds(
    proxy: Proxy, scenario: Scenario, model: str, outcome: str
) -> None:
    answer = proxy.ask(model)
    text = scenario.made_up if model == "bad" else scenario.doubtful
    decision = scenario.guardrail().check(question=QUESTION, contexts=CONTEXTS, response=text)
    error = answer.json()["error"]
    assert (answer.status_code, error["message"]) == (400, REFUSALS[outcome])
    said = error["provider_specific_fields"]["calibrail"]
    assert (said["outcome"], said["p_value"]) == (outcome, decision.p_value)
    assert text not in answer.text


@pytest.mark.parametrize("route", ["chat/completions", "completions"])
def test_the_proxy_holds_streams_back(proxy: Proxy, scenario: Scenario, route: str) -> None:
    good, bad = (proxy.ask(model, route, stream=True) for model in ("good", "bad"))
    parts = re.findall(r'"(?:content|text)":"([^"]*)"', good.text)
    assert (good.status_code, "".join(parts)) == (200, scenario.faithful)
    assert (bad.status_code, re.findall(r'"(?:content|text)":', bad.text)) == (400, [])
    assert REFUSALS["flag"] in bad.text


@pytest.mark.parametrize("route", ["completions", "responses", "messages"])
def test_the_proxy_judges_what_other_routes_return(
    proxy: Proxy, scenario: Scenario, route: str
) -> None:
    good, bad = proxy.ask("good", route), proxy.ask("bad", route)
    assert (good.status_code, bad.status_code) == (200, 400)
    assert scenario.faithful in good.text
    assert scenario.made_up not in bad.text
    assert "'outcome': 'flag'" in bad.text.replace('"', "'").replace("':'", "': '")


def test_what_is_left_of_a_completion_takes_its_place() -> None:
    data = {
        "messages": [{"role": "user", "content": trimming.QUESTION}],
        "metadata": {"contexts": list(trimming.CONTEXTS), "guardrails": ["calibrail"]},
    }
    answer = response(trimming.KEPT, trimming.TRIMMED)
    given = decided(CalibrailGuardrail(trimming.gate()), answer, data)
    assert [choice.message.content for choice in given.choices] == [trimming.KEPT] * 2
    for text in (trimming.EMPTIED, trimming.TORN):
        with pytest.raises(HTTPException) as caught:
            decided(CalibrailGuardrail(trimming.gate()), response(text), data)
        assert "hums" not in str(caught.value.detail)
    with pytest.raises(HTTPException):
        decided(CalibrailGuardrail(trimming.gate(trim=False)), response(trimming.TRIMMED), data)
