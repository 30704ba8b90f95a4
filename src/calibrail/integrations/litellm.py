"""LiteLLM: a guardrail of its proxy and its library."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from calibrail.errors import InputError
from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import Gate, Guarding, needs, texts_of_parts

with needs("litellm"):
    from fastapi import HTTPException
    from litellm import ModelResponse, TextCompletionResponse
    from litellm.integrations.custom_guardrail import CustomGuardrail
    from litellm.types import utils
    from litellm.types.guardrails import GuardrailEventHooks
    from litellm.types.llms.openai import ResponsesAPIResponse


#: HTTP statuses: an answer that may not be shown, and one that could not be judged.
_WITHHELD: Final = {"flag": 400, "review": 400, "error": 503}
#: How LiteLLM's logs call what happened; all else is ``guardrail_intervened``.
_LOGGED: Final = {"pass": "success", "error": "guardrail_failed_to_respond"}
#: The parts of an answer, on routes that return it in parts, that are shown to nobody as text.
_NOT_SHOWN: Final = ("reasoning", "thinking", "redacted_thinking")
_CALLS: Final = ("function_call", "tool_use", "mcp_call")
_TEXTS: Final = ("text", "output_text")
#: What is no answer.
_NO_ANSWERS: Final = (utils.EmbeddingResponse, utils.ImageResponse, utils.TranscriptionResponse)

Contexts = Callable[[Mapping[str, Any]], Sequence[str]]


class CalibrailGuardrail(CustomGuardrail):
    """A guardrail of LiteLLM, ``mode: post_call``, that releases what is decided as ``pass``.

    Any other answer becomes an HTTP error whose ``detail`` holds the refusal as ``error`` and the
    decision as ``calibrail``: 400 for ``flag`` and ``review``, 503 for ``error``. A stream is held
    back until it has been judged whole. Calls of tools go on as they are. With ``Gate(...,
    trim=True)`` what is left of a completion takes its place; other routes and streams are withheld
    as they are without.

    The question is the last turn of the user. The contexts are the request's
    ``metadata["contexts"]``; without any, what tools have returned since that turn; without any,
    the system's messages.

    Parameters
    ----------
    guardrail_file : Gate, Guardrail, Client or path
        What decides; in the proxy's configuration, the path of its file.
    contexts : callable, optional
        Returns the chunks, given the request's body.
    **options
        What LiteLLM hands to a guardrail: ``guardrail_name``, ``event_hook``, ``default_on``, ...
    """

    def __init__(
        self, guardrail_file: Guarding, contexts: Contexts | None = None, **options: Any
    ) -> None:
        self._gate, self._contexts = Gate.of(guardrail_file), contexts or sources
        options.setdefault("guardrail_name", "calibrail")
        options.setdefault("event_hook", GuardrailEventHooks.post_call)
        options.setdefault("supported_event_hooks", self.get_supported_event_hooks())
        super().__init__(**options)

    @classmethod
    def get_supported_event_hooks(cls) -> list[GuardrailEventHooks]:
        """Return when it can be called: once there is an answer."""
        return [GuardrailEventHooks.post_call]

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        """Refuse a stream outside of the proxy, where LiteLLM shows it to no guardrail.

        Raises
        ------
        InputError
            The call names this guardrail and asks for a stream.
        """
        named = self.guardrail_name in (kwargs.get("guardrails") or ())
        if named and kwargs.get("stream") and "proxy_server_request" not in kwargs:
            raise InputError.on("library_streams", name=self.guardrail_name)
        kept: dict[str, Any] | None = await super().async_pre_call_deployment_hook(
            kwargs, call_type
        )
        return kept

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Return the response where every answer in it may be released.

        Raises
        ------
        HTTPException
            One may not.
        """
        if self.should_run_guardrail(data, GuardrailEventHooks.post_call):
            for place, answer in enumerate(_answers(response)):
                self._enforce(await self._decide(data, answer), data, response, place)
        return response

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Yield a stream's chunks once its answer is complete and may be released.

        Raises
        ------
        HTTPException
            It may not.
        """
        chunks = [chunk async for chunk in response]
        if chunks and self.should_run_guardrail(request_data, GuardrailEventHooks.post_call):
            for answer in _streamed(chunks):
                self._enforce(await self._decide(request_data, answer), request_data)
        for chunk in chunks:
            yield chunk

    async def _decide(self, data: Mapping[str, Any], answer: str | Exception) -> Decision:
        chunks: Sequence[str] = ()
        try:
            chunks = self._contexts(data)
        except (TypeError, ValueError) as error:
            answer = error
        return await self._gate.acheck(question=question(data), contexts=chunks, response=answer)

    def _enforce(
        self, decision: Decision, data: dict[str, Any], response: Any = None, place: int = 0
    ) -> None:
        """Refuse an answer that may not be shown; put what is left of it in its place if asked."""
        # Loaded here: it brings the whole proxy along.
        from litellm.proxy.common_utils import callback_utils

        callback_utils.add_guardrail_to_applied_guardrails_header(data, self.guardrail_name)
        details = self._gate.details(decision)
        self.add_standard_logging_guardrail_information_to_request_data(
            guardrail_json_response=dict(details),
            request_data=data,
            guardrail_status=_LOGGED.get(decision.outcome, "guardrail_intervened"),
            guardrail_provider="calibrail",
            event_type=GuardrailEventHooks.post_call,
        )
        left = self._gate.shown(decision, "") if self._gate.releases(decision) else ""
        if decision.flagged and left and _replaced(response, place, left):
            return
        if decision.flagged:
            detail = {"error": self._gate.refused(decision), "calibrail": details}
            raise HTTPException(_WITHHELD[decision.outcome], detail)


def question(data: Mapping[str, Any]) -> str:
    """Return the last turn of the user in a request's body, or its prompt."""
    if asked := [item for item in _messages(data) if _is_asked(item)]:
        return _text(asked[-1].get("content"))
    return _text(data.get("prompt") or data.get("input"))


def sources(data: Mapping[str, Any]) -> list[str]:
    """Return the chunks that a request's body holds.

    Raises
    ------
    TypeError
        ``metadata["contexts"]`` is no list of texts.
    """
    # Some routes keep what the client sent under another name.
    own = (data.get("litellm_metadata") or {}).get("requester_metadata")
    for metadata in (data.get("metadata"), own):
        if isinstance(metadata, Mapping) and (chunks := metadata.get("contexts")) is not None:
            if isinstance(chunks, str):
                return [chunks]
            if not isinstance(chunks, list) or not all(isinstance(item, str) for item in chunks):
                raise TypeError(f"metadata.contexts must be a list of texts; got {chunks!r:.80}")
            return chunks
    messages = _messages(data)
    turns = [place for place, item in enumerate(messages) if _is_asked(item)]
    since = messages[turns[-1] + 1 :] if turns else messages
    roles = ("system", "developer")
    system = [_text(item.get("content")) for item in messages if item.get("role") in roles]
    beside = [_text(data.get(name)) for name in ("system", "instructions")]
    return [it for k in since for it in _returned(k)] or [it for it in (*beside, *system) if it]


def _messages(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    given = data.get("messages") or data.get("input")
    return [item for item in given if isinstance(item, Mapping)] if isinstance(given, list) else []


def _is_asked(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "user" and not _returned(message)


def _returned(message: Mapping[str, Any]) -> list[str]:
    """Return what tools have returned in a message: each route has a form of its own for it."""
    content = message.get("content")
    if message.get("role") == "tool":
        return [_text(content)]
    if message.get("type") == "function_call_output":
        return [_text(message.get("output"))]
    parts = content if isinstance(content, list) else []
    results = [part for part in parts if isinstance(part, Mapping)]
    return [_text(part.get("content")) for part in results if part.get("type") == "tool_result"]


def _text(content: Any) -> str:
    return "\n".join(texts_of_parts(content))


def _answers(response: Any) -> list[str | Exception]:
    """Return the texts of a response's answers, or for each why it is none."""
    if isinstance(response, _NO_ANSWERS):
        return []
    if isinstance(response, ModelResponse | TextCompletionResponse):
        return _chosen([response])
    if isinstance(response, ResponsesAPIResponse):
        items = response.model_dump()["output"]
        return _in_parts([part for item in items for part in item.get("content") or [item]])
    if isinstance(response, Mapping) and isinstance(response.get("content"), list):
        return _in_parts(response["content"])
    return [TypeError(f"no answer is read from a {type(response).__name__}")]


def _streamed(chunks: Sequence[Any]) -> list[str | Exception]:
    """Return likewise what a stream's chunks make."""
    done = getattr(chunks[-1], "response", None)
    if isinstance(done, ResponsesAPIResponse):
        return _answers(done)
    known = (utils.ModelResponseStream, ModelResponse, TextCompletionResponse)
    unknown = [type(chunk).__name__ for chunk in chunks if not isinstance(chunk, known)]
    if unknown:
        return [TypeError(f"no answer is read from a stream of {unknown[0]}")]
    return _chosen(chunks)


def _chosen(parts: Sequence[Any]) -> list[str | Exception]:
    """Return the answer of each choice in what was returned, whole or in parts.

    A choice that calls tools is none.
    """
    texts, called, other = defaultdict[int, list[str]](list), set(), set()
    for choice in (choice for part in parts for choice in part.choices):
        said = getattr(choice, "message", None) or getattr(choice, "delta", None) or choice
        text = said.text if said is choice else said.content
        texts[choice.index] += [text] if isinstance(text, str) else []
        if _calls(said):
            called.add(choice.index)
        if getattr(said, "audio", None) or getattr(said, "images", None):
            other.add(choice.index)
    return [
        TypeError("a part of the answer is no text")
        if place in other or not found
        else "".join(found)
        for place, found in texts.items()
        if place not in called
    ]


def _replaced(response: Any, place: int, text: str) -> bool:
    """Put a text in the place of an answer; say whether this kind of response takes one."""
    if not isinstance(response, ModelResponse | TextCompletionResponse):
        return False
    messages = [getattr(choice, "message", None) or choice for choice in response.choices]
    said = [item for item in messages if not _calls(item)][place]
    setattr(said, "content" if hasattr(said, "content") else "text", text)
    return True


def _calls(said: Any) -> bool:
    return bool(getattr(said, "tool_calls", None) or getattr(said, "function_call", None))


def _in_parts(parts: Sequence[Mapping[str, Any]]) -> list[str | Exception]:
    """Return the one answer of a route that returns it in parts; none where it calls tools."""
    kinds = {str(part.get("type")) for part in parts}
    if kinds & set(_CALLS):
        return []
    if other := sorted(kinds - {*_TEXTS, *_NOT_SHOWN}):
        return [TypeError(f"a part of the answer is no text: {', '.join(other)}")]
    texts = [part["text"] for part in parts if part.get("type") in _TEXTS]
    return ["".join(texts)] if texts else [TypeError("the answer has no text")]
