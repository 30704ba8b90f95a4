"""How does a run of the OpenAI Agents SDK show an answer while it is written, and stop it?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from calibrail.integrations.missing import needs
from calibrail.integrations.openai_agents import AnswerGuardrail
from calibrail.integrations.streams import STOPPED, Written

with needs("openai-agents"):
    from agents import RunResultStreaming

#: Events of a model's stream.
_DELTA: Final = "response.output_text.delta"
_BEGINS: Final = "response.created"


async def written(
    result: RunResultStreaming, guard: AnswerGuardrail, *, ending: str = STOPPED
) -> AsyncIterator[str]:
    """Yield what may be shown of a streamed run as its model writes; the run ends at the stop.

    Each sentence is judged before it is yielded; at the first one that reaches the threshold the
    run is cancelled. What a model writes before it calls a tool is judged likewise, by what tools
    have said until then. The gate's ``notify`` and ``log`` get a decision for each of its texts.

    Parameters
    ----------
    result : RunResultStreaming
        What ``Runner.run_streamed`` returned, of agents with ``hooks=guard.hooks``. The guardrail
        need not be among their output guardrails, which judge an answer that was shown already.
    guard : AnswerGuardrail
        Made of a guardrail of sentences, or of answers by ``worst_sentence``.
    ending : str
        What is shown where the answer is stopped.
    """
    texts = _Texts(result.stream_events())
    while await texts.begin():
        answer = Written(guard.gate, **guard.asked(result.context_wrapper), ending=ending)
        async with aclosing(answer.ashow(texts.tokens())) as shown:
            async for text in shown:
                yield text
        if answer.over:
            result.cancel()
            return


class _Texts:
    """The texts of models among the events of a run."""

    def __init__(self, events: AsyncIterator[Any]) -> None:
        self._events, self._first = events, ""

    async def begin(self) -> bool:
        """Wait for the first token of the next text; say whether there is one."""
        async for event in self._events:
            if token := _token(event):
                self._first = token
                return True
        return False

    async def tokens(self) -> AsyncIterator[str]:
        """Yield the tokens of the text, up to the next response of a model."""
        yield self._first
        async for event in self._events:
            if getattr(getattr(event, "data", None), "type", "") == _BEGINS:
                return
            if token := _token(event):
                yield token


def _token(event: Any) -> str:
    data: Any = getattr(event, "data", None)
    return str(data.delta) if getattr(data, "type", "") == _DELTA else ""
