"""How does a chain of LangChain show an answer while it is written, and stop it?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

from calibrail.integrations.gate import Gate, Guarding
from calibrail.integrations.langchain_texts import asked_of
from calibrail.integrations.missing import needs
from calibrail.integrations.streams import STOPPED, Written

with needs("langchain"):
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable, RunnableLambda


def guarded_stream(
    guardrail: Guarding, answer: Runnable[Any, Any], *, ending: str = STOPPED
) -> Runnable[Any, str]:
    """Return a step that streams what another step writes, and stops it.

    It takes the mapping that ``answer`` takes, which names the question and the chunks as
    `guardrail_runnable` does, and gives text: each sentence once it was judged. ``answer`` is
    not asked for more after the sentence that stops it. A gate's ``notify`` or ``log`` gets the
    decision.

    Parameters
    ----------
    guardrail : Gate, Guardrail or path
        What decides: a guardrail of sentences, or of answers by ``worst_sentence``.
    answer : Runnable
        What writes: it streams texts or messages, e.g. ``prompt | model``.
    ending : str
        What is shown where the answer is stopped.
    """
    gate = Gate.of(guardrail)
    Written(gate)  # a guardrail of whole answers is refused here

    def begun(values: Any) -> Written:
        question, contexts = asked_of(values)
        return Written(gate, question=question, contexts=contexts, ending=ending)

    def run(values: Any) -> Iterator[str]:
        yield from begun(values).show(_texts(answer.stream(values)))

    async def arun(values: Any) -> AsyncIterator[str]:
        async with aclosing(begun(values).ashow(_atexts(answer.astream(values)))) as texts:
            async for text in texts:
                yield text

    return RunnableLambda(run, afunc=arun, name="calibrail")


def _texts(chunks: Iterator[Any]) -> Iterator[str]:
    try:
        for chunk in chunks:
            yield _text(chunk)
    finally:
        if callable(close := getattr(chunks, "close", None)):
            close()


async def _atexts(chunks: AsyncIterator[Any]) -> AsyncIterator[str]:
    try:
        async for chunk in chunks:
            yield _text(chunk)
    finally:
        if callable(close := getattr(chunks, "aclose", None)):
            await close()


def _text(chunk: Any) -> str:
    return str(chunk.text) if isinstance(chunk, BaseMessage) else str(chunk)
