"""Do frameworks show an answer while it is written no further than its guardrail lets it pass?"""

from __future__ import annotations

import asyncio
import json
import runpy
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from calibrail import Client
from calibrail.errors import GuardrailError, InputError
from calibrail.integrations import Gate
from calibrail.integrations.streaming import STOPPED, Written
from tests.integrations import trimming
from tests.integrations.pages import ROOT
from tests.integrations.scenario import Scenario

MORE = f"{trimming.TRIMMED} And it goes on and on."


def words(text: str, taken: list[str] | None = None) -> Iterator[str]:
    for word in text.split(" "):
        if taken is not None:
            taken.append(word)
        yield f"{word} "


async def awords(text: str) -> AsyncIterator[str]:
    for word in words(text):
        yield word


def asked() -> dict[str, Any]:
    return {"question": trimming.QUESTION, "contexts": trimming.CONTEXTS}


def reasons(told: list[Any], n: int) -> list[str]:
    """Return why so many decisions are what they are, once they are kept.

    A loop that a framework has patched (nest_asyncio) ends without its generators and threads; they
    go on when the next one runs.
    """
    for _ in range(1000):
        if len(told) >= n:
            break
        asyncio.run(asyncio.sleep(0.01))
    return [decision.reason for decision in told]


def test_what_passes_is_shown_whole_and_what_does_not_is_stopped(tmp_path: Path) -> None:
    told: list[Any] = []
    gate = Gate(trimming.guardrail(), log=tmp_path / "log", notify=told.append)
    answer = Written(gate, **asked(), id="kept")
    assert "".join(answer.show(words(trimming.KEPT))) == trimming.KEPT + " "
    taken: list[str] = []
    stopped = Written(gate, **asked(), id="stopped")
    assert "".join(stopped.show(words(MORE, taken))) == trimming.KEPT + STOPPED
    assert len(taken) < len(MORE.split())
    assert told == [answer.decision, stopped.decision]
    guardrail = trimming.guardrail()
    expected = guardrail.check(**asked(), response=trimming.TRIMMED, id="stopped")
    assert stopped.decision is not None and stopped.decision.line() == expected.line()
    lines = [json.loads(line) for file in (tmp_path / "log").iterdir() for line in file.open()]
    assert [line["id"] for line in lines if "id" in line] == ["kept", "stopped"]


def test_a_loop_shows_the_same() -> None:
    async def shown(text: str) -> tuple[str, Any]:
        answer = Written(trimming.guardrail(), **asked(), ending="...")
        return "".join([piece async for piece in answer.ashow(awords(text))]), answer.decision

    for text in (trimming.KEPT, MORE, trimming.EMPTIED):
        answer = Written(trimming.guardrail(), **asked(), ending="...")
        expected = "".join(answer.show(words(text)))
        assert asyncio.run(shown(text)) == (expected, answer.decision)


@pytest.mark.parametrize("loop", [False, True])
def test_a_detector_that_takes_too_long_leaves_it_to_the_policy(
    loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(trimming.guardrail(), timeout=0.05)
    answer = Written(gate, **asked())
    monkeypatch.setattr(answer._check, "judge", lambda sentence: time.sleep(0.5))

    async def shown() -> str:
        return "".join([piece async for piece in answer.ashow(awords(MORE))])

    said = asyncio.run(shown()) if loop else "".join(answer.show(words(MORE)))
    assert said == STOPPED
    assert answer.decision is not None
    assert answer.decision.outcome == "error"
    assert "no decision within 0.05 s" in answer.decision.reason


WHY = {
    "model": "the answer did not end: RuntimeError: the model died; policy: error",
    "reader": "the answer did not end: whoever asked has gone before; policy: error",
}


@pytest.mark.parametrize("who", WHY)
@pytest.mark.parametrize("loop", [False, True])
def test_an_answer_that_breaks_off_leaves_a_decision(loop: bool, who: str, tmp_path: Path) -> None:
    told: list[Any] = []
    gate = Gate(trimming.guardrail(), log=tmp_path / "log", notify=told.append)
    answer = Written(gate, **asked(), id="broken")

    def tokens() -> Iterator[str]:
        yield f"{trimming.KEPT} And so"
        if who == "model":
            raise RuntimeError("the model died")
        yield " on."

    async def atokens() -> AsyncIterator[str]:
        for token in tokens():
            yield token

    async def go() -> str:
        async with aclosing(answer.ashow(atokens())) as texts:
            async for text in texts:
                if who == "reader":
                    return text
        return ""

    if loop and who == "model":
        with pytest.raises(RuntimeError, match="the model died"):
            asyncio.run(go())
    elif loop:
        assert asyncio.run(go()) == trimming.KEPT
    else:
        texts = answer.show(tokens())
        assert next(texts) == trimming.KEPT
        if who == "model":
            with pytest.raises(RuntimeError, match="the model died"):
                next(texts)
        else:
            texts.close()  # type: ignore[attr-defined]
    assert reasons(told, 1) == [WHY[who]]
    assert told == [answer.decision]
    assert told[0].failed
    assert told[0].without_texts().reason == "the answer did not end; policy: error"
    lines = [json.loads(line) for file in (tmp_path / "log").iterdir() for line in file.open()]
    assert [line["id"] for line in lines if "id" in line] == ["broken"]


def test_whoever_leaves_does_not_wait_for_the_decision_that_is_kept() -> None:
    told: list[Any] = []
    answer = Written(Gate(trimming.guardrail(), notify=told.append), **asked())
    free = threading.Event()

    async def tokens() -> AsyncIterator[str]:
        yield f"{trimming.KEPT} And so"
        await asyncio.sleep(60)

    async def read(shown: asyncio.Event) -> None:
        async for _ in answer.ashow(tokens()):
            shown.set()

    async def go() -> None:
        # One thread, and it is busy: nothing is kept at once.
        loop, shown = asyncio.get_running_loop(), asyncio.Event()
        reader = loop.create_task(read(shown))
        await shown.wait()
        loop.set_default_executor(ThreadPoolExecutor(1))
        loop.run_in_executor(None, free.wait)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert not told
        free.set()

    asyncio.run(go())
    assert reasons(told, 1) == [WHY["reader"]]


def test_a_loop_without_threads_keeps_the_decision_itself() -> None:
    told: list[Any] = []
    answer = Written(Gate(trimming.guardrail(), notify=told.append), **asked())

    async def go() -> None:
        texts = answer.ashow(awords(f"{trimming.KEPT} And so on. And on."))
        assert await anext(texts)
        await asyncio.get_running_loop().shutdown_default_executor()
        await texts.aclose()

    # One of its own: whoever comes later needs threads.
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(go())
    finally:
        loop.close()
    assert [decision.reason for decision in told] == [WHY["reader"]]


def test_what_was_stopped_keeps_its_decision_though_nobody_reads_on() -> None:
    told: list[Any] = []
    answer = Written(Gate(trimming.guardrail(), notify=told.append), **asked())
    texts = answer.show([f"{MORE} And"])
    assert next(texts) == trimming.KEPT
    texts.close()  # type: ignore[attr-defined]
    (decision,) = told
    assert decision == trimming.guardrail().check(**asked(), response=trimming.TRIMMED)


def test_of_an_answer_that_never_began_nothing_is_kept() -> None:
    told: list[Any] = []

    def tokens() -> Iterator[str]:
        raise RuntimeError("no such model")
        yield ""

    with pytest.raises(RuntimeError, match="no such model"):
        list(Written(Gate(trimming.guardrail(), notify=told.append), **asked()).show(tokens()))
    assert told == []


def test_what_cannot_stream_is_refused(scenario: Scenario) -> None:
    with pytest.raises(GuardrailError, match="judges whole answers"):
        Written(scenario.file)
    pytest.importorskip("httpx2")
    with pytest.raises(InputError, match="a service takes them at /v1/check/stream"):
        Written(Client("http://127.0.0.1:1"))


def test_a_chain_streams_what_passes() -> None:
    pytest.importorskip("langchain")
    from langchain_core.documents import Document
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import RunnableLambda

    from calibrail.integrations.langchain import guarded_stream

    def chain(text: str) -> Any:
        model = GenericFakeChatModel(messages=iter([AIMessage(text)] * 4))
        return guarded_stream(trimming.guardrail(), RunnableLambda(str) | model)

    values = {
        "question": trimming.QUESTION,
        "documents": [Document(text) for text in trimming.CONTEXTS],
    }
    pieces = list(chain(MORE).stream(values))
    assert pieces == [trimming.KEPT, STOPPED]
    assert chain(trimming.KEPT).invoke(values) == trimming.KEPT

    async def streamed() -> list[str]:
        return [piece async for piece in chain(MORE).astream(values)]

    assert asyncio.run(streamed()) == pieces

    told: list[Any] = []

    def dies(values: Any) -> Iterator[str]:
        yield f"{trimming.KEPT} And so"
        raise RuntimeError("the model died")

    async def adies(values: Any) -> AsyncIterator[str]:
        for text in dies(values):
            yield text

    gate = Gate(trimming.guardrail(), notify=told.append)
    broken = guarded_stream(gate, RunnableLambda(dies, afunc=adies))
    with pytest.raises(RuntimeError, match="the model died"):
        list(broken.stream(values))

    async def left() -> None:
        async with aclosing(broken.astream(values)) as texts:  # type: ignore[type-var]
            async for _ in texts:
                break

    asyncio.run(left())
    assert reasons(told, 2) == [WHY["model"], WHY["reader"]]
    with pytest.raises(KeyError, match="no sources under contexts"):
        chain(MORE).invoke({"question": "What?"})


def test_a_run_of_agents_is_stopped() -> None:
    pytest.importorskip("agents")
    from agents import Agent, Runner, function_tool, set_tracing_disabled
    from agents.testing import ScriptedModel, assistant_message, function_call

    from calibrail.integrations.openai_agents import AnswerGuardrail, written

    set_tracing_disabled(True)

    @function_tool
    def search(query: str) -> str:
        """Return what the encyclopaedia says."""
        return trimming.CONTEXTS[0]

    def shown(text: str) -> tuple[str, list[Any]]:
        told: list[Any] = []
        guard = AnswerGuardrail(Gate(trimming.guardrail(), notify=told.append))
        call = function_call("search", {"query": "W"}, call_id="1")
        model = ScriptedModel([[call], [assistant_message(text)]])
        agent = Agent("writer", tools=[search], model=model, hooks=guard.hooks)

        async def go() -> str:
            result = Runner.run_streamed(agent, trimming.QUESTION)
            return "".join([piece async for piece in written(result, guard)])

        return asyncio.run(go()), told

    assert shown(trimming.KEPT)[0] == trimming.KEPT
    said, (decision,) = shown(MORE)
    assert said == trimming.KEPT + STOPPED
    expected = trimming.guardrail().check(**asked(), response=trimming.TRIMMED)
    assert decision.line() == expected.line()

    class Dying:
        """A streamed run whose model writes a sentence, and dies."""

        context_wrapper = None

        async def stream_events(self) -> AsyncIterator[Any]:
            delta = f"{trimming.KEPT} And so"
            data = SimpleNamespace(type="response.output_text.delta", delta=delta)
            yield SimpleNamespace(data=data)
            raise RuntimeError("the model died")

    told: list[Any] = []
    guard = SimpleNamespace(
        gate=Gate(trimming.guardrail(), notify=told.append), asked=lambda wrapper: asked()
    )

    async def go(leaves: bool) -> None:
        run: Any = written(Dying(), guard)  # type: ignore[arg-type]
        async with aclosing(run) as texts:
            async for _ in texts:
                if leaves:
                    break

    with pytest.raises(RuntimeError, match="the model died"):
        asyncio.run(go(False))
    asyncio.run(go(True))
    assert reasons(told, 2) == [WHY["model"], WHY["reader"]]


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("agents")
    script = ROOT / "examples" / "integrations" / "streaming_openai_agents.py"
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out == f"Tungsten is a metal.{STOPPED}\n"
