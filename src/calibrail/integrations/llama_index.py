"""LlamaIndex: a response synthesizer and an evaluator."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Sequence
from typing import Any, Final

from calibrail.errors import InputError
from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import Gate, Guarding, needs, text_or_error

with needs("llama-index"):
    from llama_index.core.base.response import schema
    from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
    from llama_index.core.response_synthesizers import BaseSynthesizer
    from llama_index.core.schema import QueryBundle


#: Where a response's metadata hold the decision about it.
_METADATA: Final = "calibrail"


class GuardrailSynthesizer(BaseSynthesizer):
    """A response synthesizer around another one: what it says passes the guardrail, or a refusal.

    Every query engine that is given a synthesizer takes it. A response keeps its source nodes,
    whose texts are the sources, and its kind, but that a structured one that is withheld becomes a
    plain one. Its ``metadata["calibrail"]`` holds the decision. A stream begins once it is decided.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    synthesizer : BaseSynthesizer
        What writes the answers, e.g. ``get_response_synthesizer()``.
    """

    def __init__(self, guardrail: Guarding, synthesizer: BaseSynthesizer) -> None:
        # All that a synthesizer has, a model among it, is the other one's.
        self._gate, self._synthesizer = Gate.of(guardrail), synthesizer

    def __getattr__(self, name: str) -> Any:
        if name in ("_gate", "_synthesizer"):
            raise AttributeError(name)
        return getattr(self._synthesizer, name)

    @property
    def _streaming(self) -> bool:
        """Chat engines switch the streaming of a query engine's synthesizer on and off."""
        return bool(self._synthesizer._streaming)

    @_streaming.setter
    def _streaming(self, streaming: bool) -> None:
        self._synthesizer._streaming = streaming

    @property
    def callback_manager(self) -> Any:
        """The other synthesizer's callbacks."""
        return self._synthesizer.callback_manager

    @callback_manager.setter
    def callback_manager(self, manager: Any) -> None:
        self._synthesizer.callback_manager = manager

    def _get_prompts(self) -> Any:
        return self._synthesizer._get_prompts()

    def _get_prompt_modules(self) -> Any:
        return self._synthesizer._get_prompt_modules()

    def _update_prompts(self, prompts: Any) -> None:
        self._synthesizer._update_prompts(prompts)

    def synthesize(self, query: Any, nodes: list[Any], *given: Any, **named: Any) -> Any:
        """Write an answer, and decide about it."""
        response = self._synthesizer.synthesize(query, nodes, *given, **named)
        said = _read(response.response_gen if _streams(response) else response.response)
        decision = self._gate.check(**_asked(query, _contents(response.source_nodes), said))
        return self._decided(response, said, decision)

    async def asynthesize(self, query: Any, nodes: list[Any], *given: Any, **named: Any) -> Any:
        """Write and decide while the event loop goes on."""
        response = await self._synthesizer.asynthesize(query, nodes, *given, **named)
        said = await _aread(response.response_gen if _streams(response) else response.response)
        decision = await self._gate.acheck(**_asked(query, _contents(response.source_nodes), said))
        return self._decided(response, said, decision)

    def get_response(self, query_str: str, text_chunks: Sequence[str], **named: Any) -> Any:
        """Write and decide likewise for what needs the text alone: the decision is left out."""
        written = self._synthesizer.get_response(query_str, text_chunks, **named)
        said = _read(written)
        decision = self._gate.check(**_asked(query_str, text_chunks, said))
        shown = self._gate.shown(decision, said)
        return _whole(shown) if isinstance(written, Iterator) else shown

    async def aget_response(self, query_str: str, text_chunks: Sequence[str], **named: Any) -> Any:
        """Write and decide likewise while the event loop goes on."""
        written = await self._synthesizer.aget_response(query_str, text_chunks, **named)
        said = await _aread(written)
        decision = await self._gate.acheck(**_asked(query_str, text_chunks, said))
        shown = self._gate.shown(decision, said)
        if isinstance(written, AsyncIterator):
            return _awhole(shown)
        return _whole(shown) if isinstance(written, Iterator) else shown

    def _decided(self, response: Any, said: Any, decision: Decision) -> Any:
        """Return a response of the same kind with what is shown, and the decision."""
        details = {_METADATA: self._gate.details(decision)}
        kept = (response.source_nodes, {**(response.metadata or {}), **details})
        if isinstance(response, schema.PydanticResponse):
            if not decision.flagged:
                return schema.PydanticResponse(said, *kept)
            return schema.Response(self._gate.refused(decision), *kept)
        shown = self._gate.shown(decision, said)
        if isinstance(response, schema.StreamingResponse):
            return schema.StreamingResponse(_whole(shown), *kept)
        if isinstance(response, schema.AsyncStreamingResponse):
            return schema.AsyncStreamingResponse(_awhole(shown), *kept)
        return schema.Response(shown, *kept)


class GuardrailResult(EvaluationResult):
    """A result of LlamaIndex with the decision that it comes from, as JSON values."""

    decision: dict[str, Any]


class GuardrailEvaluator(BaseEvaluator):
    """An evaluator that passes an answer where the guardrail says ``pass``.

    ``score`` is 1 for ``pass`` and 0 for ``flag`` and ``review``, which the beginning of
    ``feedback`` tells apart; where the detector fails and the policy says ``error`` the result is
    invalid, and has neither. ``decision`` holds the whole decision.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    """

    def __init__(self, guardrail: Guarding) -> None:
        self._gate = Gate.of(guardrail)

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        """Change nothing: a guardrail is frozen."""

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> GuardrailResult:
        """Decide about one answer.

        Raises
        ------
        InputError
            There is no answer, or there are no contexts; an empty list is one.
        """
        if response is None or contexts is None:
            missing = "response" if response is None else "contexts"
            raise InputError(f"{missing} must be given to a guardrail; got None")
        decision = await self._gate.acheck(
            question=query or "", contexts=list(contexts), response=response
        )
        score = self._gate.rating(decision)
        failed = score is None
        return GuardrailResult(
            query=query,
            contexts=contexts,
            response=response,
            passing=None if failed else bool(score),
            score=score,
            feedback=self._gate.explained(decision),
            invalid_result=failed,
            invalid_reason=decision.reason if failed else None,
            decision=self._gate.details(decision),
        )


def _asked(query: Any, contexts: Sequence[str], said: Any) -> dict[str, Any]:
    """Return what a gate checks."""
    question = query.query_str if isinstance(query, QueryBundle) else query
    return {"question": question, "contexts": list(contexts), "response": text_or_error(said)}


def _contents(nodes: Sequence[Any]) -> list[str]:
    return [node.get_content() for node in nodes]


def _streams(response: Any) -> bool:
    return isinstance(response, schema.StreamingResponse | schema.AsyncStreamingResponse)


def _read(written: Any) -> Any:
    """Return what was written, a stream to its end."""
    return "".join(written) if isinstance(written, Iterator) else written


async def _aread(written: Any) -> Any:
    if isinstance(written, AsyncIterator):
        return "".join([part async for part in written])
    return _read(written)


def _whole(text: str) -> Generator[str, None, None]:
    yield text


async def _awhole(text: str) -> AsyncGenerator[str, None]:
    yield text
