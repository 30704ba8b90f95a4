"""Requests to providers by their names, through litellm."""

import importlib
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, partial, partialmethod
from typing import Any, Final

from calibrail.errors import ModelError, errors_as, keep_libraries_quiet, variable_set
from calibrail.models.llm.transport import (
    NO_CHAT,
    AgainError,
    NoRouteError,
    RefusedError,
    _without_key,
    cut_body,
    explained,
    most_bytes,
    within,
)

#: What keeps the library from reading ``.env`` when it is imported, and from the network.
_QUIET: Final = {"LITELLM_OFFLINE_MODE": "true", "LITELLM_MODE": "PRODUCTION"}

#: What every call says: the waits, the attempts and the cache are ours; nobody else is told.
_CALL: Final[Mapping[str, Any]] = {
    **{"num_retries": 0, "max_retries": 0, "caching": False, "no-log": True, "drop_params": False}
}

#: Providers that have OpenAI's Responses API.
_OPENAI: Final = ("openai", "azure")

#: What providers take though the library's table, which may be older than a model, knows it not.
_ALLOWED: Final = {
    **dict.fromkeys(_OPENAI, ("reasoning_effort",)),
    **dict.fromkeys(("gemini", "vertex_ai"), ("logprobs", "top_logprobs")),
}

#: Environment variables that may hold what a provider is asked with.
_SECRET: Final = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")

#: Bytes that an answer may have, within a call of ours.
_most: ContextVar[int | None] = ContextVar("most", default=None)


class ProviderTransport:
    """Sends requests to a provider through litellm; its retries, logs and callbacks are off.

    The library takes keys and addresses from the provider's usual environment variables. What it
    says of a failure may quote a text or a key, and is passed on nowhere.

    Parameters
    ----------
    provider : str
        Its name: what stands before the first slash of a model's.

    Raises
    ------
    ModelError
        If the library is not installed, or knows no such provider.
    """

    _process: int | None = None

    def __init__(self, provider: str) -> None:
        keep_libraries_quiet()
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        for name in ("LiteLLM", "httpx", "httpcore.http11", "openai._base_client"):
            # Others hold texts, or addresses with keys.
            logging.getLogger(name).addFilter(lambda record: record.levelno >= logging.WARNING)
        with errors_as(ModelError, ImportError, "providers_extra_missing", provider=provider):
            import litellm
        if provider not in {getattr(known, "value", known) for known in litellm.provider_list}:
            raise ModelError.on("provider_unknown", provider=provider)
        self._provider, self._library = provider, litellm
        self._responses = False
        litellm.suppress_debug_info, litellm.telemetry = True, False
        _guard_clients()
        if self._process not in (None, os.getpid()):
            # Connections that the library keeps open are the parent's.
            litellm.in_memory_llm_clients_cache.flush_cache()
        type(self)._process = os.getpid()

    def send(self, kind: str, body: Mapping[str, Any], seconds: float) -> Any:
        """Send one request and return the answer as a chat completion; see `OpenAITransport`."""
        model = body["model"]
        if kind in ("decisions", "systemone"):
            raise NoRouteError(f"{model}: the library of providers knows no route /{kind}")
        if self._responses:
            model = model.replace("/", "/responses/", 1)
        if "://" in model:
            # Some providers would take it for an address, and send a key there.
            raise ModelError("the name of a provider's model must hold no address; use base_url")
        fields = {**_CALL, **body, "model": model}
        if allowed := [name for name in _ALLOWED.get(self._provider, ()) if name in body]:
            fields["allowed_openai_params"] = allowed
        try:
            answer = self._complete(fields, seconds).model_dump()
            for name in filter(_SECRET.search, os.environ):
                answer = _without_key(answer, os.environ[name].strip())
            return answer
        except Exception as error:
            message = str(getattr(error, "message", error))
            if NO_CHAT in message and self._provider in _OPENAI and not self._responses:
                self._responses = True
                return self.send(kind, body, seconds)
            if isinstance(error, self._library.ContentPolicyViolationError):
                # A refusal of the judge, as the provider's filter words it.
                return {"choices": [{"message": {}, "finish_reason": "content_filter"}]}
            raise self._explained(error, message, seconds) from None

    def _complete(self, fields: Mapping[str, Any], seconds: float) -> Any:
        """Return the library's answer, whose time-out is one of silence, within so many seconds."""
        with variable_set(_most, most_bytes("chat", fields)):
            return within(seconds, partial(self._library.completion, **fields, timeout=seconds))

    def _explained(self, error: Exception, message: str, seconds: float) -> Exception:
        """Return what an error of the library means."""
        name = type(error).__name__
        if isinstance(error, (self._library.Timeout, TimeoutError)):
            return AgainError(f"no complete answer within {seconds:g} s")
        if isinstance(error, self._library.ContextWindowExceededError):
            return RefusedError(f"{name}: longer than the model reads", too_long=True)
        # The library words some answers as failed connections; what it was given is behind that.
        given, behind = error, error.__cause__ or error.__context__
        while isinstance(behind, Exception):
            given = behind if isinstance(getattr(behind, "status_code", None), int) else given
            behind = behind.__cause__ or behind.__context__
        status = getattr(given, "status_code", 0)
        # So it words what it cannot read.
        is_broken = status == 422 and name != "UnprocessableEntityError"
        is_broken |= given is error and name == "APIConnectionError"
        if is_broken or not isinstance(status, int) or status < 300:
            return AgainError(f"no answer that can be used ({name})")
        response = getattr(given, "response", None)
        headers = getattr(given, "headers", None) or getattr(response, "headers", None) or {}
        key = f"{self._provider.upper()}_API_KEY"
        key += "" if key in os.environ else ", or what litellm documents for it"
        wants_key = f"is the key in the environment accepted ({key})?"
        no_model = f"is {self._provider}'s name of the model right, and may this key use it?"
        remedies = {401: wants_key, 403: wants_key, 404: no_model}
        code = "insufficient_quota" if "insufficient_quota" in message else name
        return explained(self._provider, status, code, (message, message), headers, remedies)


@cache
def _guard_clients() -> None:
    """Have no call of ours follow a redirection, or read a body without end.

    The library makes a client for each provider, in one of many places, and lets all of them follow
    redirections, with the key in a header of the provider's own. Other calls stay as they are.
    """
    for name in ("httpx2", "httpx"):
        with suppress(ImportError):
            client = importlib.import_module(name).Client
            client.send = partialmethod(_send, client.send)


def _send(client: Any, send: Any, request: Any, **options: Any) -> Any:
    if (most := _most.get()) is None:
        return send(client, request, **options)
    response = send(client, request, **options | {"stream": True, "follow_redirects": False})
    cut_body(response, most)
    if not options.get("stream"):
        response.read()
    return response
