"""Requests to an address through the openai SDK, to providers by their names through litellm."""

import importlib
import json
import logging
import os
import re
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from contextvars import ContextVar
from functools import cache, partial, partialmethod
from typing import Any, Final
from uuid import uuid4

from calibrail.errors import ModelError, error_text, errors_as, keep_libraries_quiet, variable_set
from calibrail.models.llm import transport
from calibrail.models.llm.transport import AgainError, NoRouteError, RefusedError

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
            # The library's time-out is one of silence.
            with variable_set(_most, transport.most_bytes("chat", fields)):
                ask = partial(self._library.completion, **fields, timeout=seconds)
                answer = transport.within(seconds, ask).model_dump()
            for name in filter(_SECRET.search, os.environ):
                answer = transport._without_key(answer, os.environ[name].strip())
            return answer
        except Exception as error:
            message = str(getattr(error, "message", error))
            if transport.NO_CHAT in message and self._provider in _OPENAI and not self._responses:
                self._responses = True
                return self.send(kind, body, seconds)
            if isinstance(error, self._library.ContentPolicyViolationError):
                # A refusal of the judge, as the provider's filter words it.
                return {"choices": [{"message": {}, "finish_reason": "content_filter"}]}
            raise self._explained(error, message, seconds) from None

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
        text = message, message
        return transport.explained(self._provider, status, code, text, headers, remedies)


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
    transport.cut_body(response, most)
    if not options.get("stream"):
        response.read()
    return response


#: Where requests go whose kind is not the route itself.
_PATHS: Final = {"chat": "chat/completions", "embedding": "embeddings"}


#: Header of a request's own name. A proxy that sends answers back with it cannot swap them unseen.
REQUEST_ID: Final = "X-Client-Request-Id"


class OpenAITransport:
    """Sends requests through the openai SDK; its own retries are off.

    Parameters
    ----------
    endpoint : str
        Address, as ``resolve_endpoint`` returns it.

    Raises
    ------
    ModelError
        If the SDK is not installed, or the endpoint wants a key and there is none.
    """

    def __init__(self, endpoint: str) -> None:
        with errors_as(ModelError, ImportError, "judge_extra_missing", endpoint=endpoint):
            import openai
        self._endpoint, self._sdk = endpoint, openai
        broken = transport.connection_errors()
        self._broken: tuple[type[Exception], ...] = (openai.APIConnectionError, *broken)
        self._key = transport.key_for(endpoint)
        # At its most talkative level the SDK would log what is sent, texts and all.
        for name in ("openai", "openai._base_client"):
            logging.getLogger(name).addFilter(lambda record: record.levelno > logging.DEBUG)
        # The SDK wants some key; servers without one ignore it.
        # A redirection would take texts, and headers from the environment, to any other host.
        http = openai.DefaultHttpxClient(follow_redirects=False, event_hooks=transport.HOOKS)
        self._client = openai.OpenAI(
            api_key=self._key or "none", base_url=endpoint, max_retries=0, http_client=http
        )
        if not transport.is_trusted(endpoint):
            # The SDK takes further headers from the environment; they may hold keys as well.
            self._client.organization = self._client.project = None
            self._client._custom_headers = {}

    def send(self, kind: str, body: Mapping[str, Any], seconds: float) -> Any:
        """Send one request and return the JSON value of the answer.

        Parameters
        ----------
        kind : {"chat", "embedding", "decisions", "systemone"}
            What is asked for; the last two are routes of the endpoint.
        body : mapping
            The fields of the request.
        seconds : float
            Time for all of it.

        Raises
        ------
        AgainError
            If it may be sent again.
        RefusedError
            If this request cannot succeed.
        ModelError
            If no request can: no key, a wrong key, an unknown model.
        """
        # An endpoint that sends it back ties its answer to this request and no other.
        name = uuid4().hex
        # Past the SDK's own methods: they walk through the fields of a request, which takes as long
        # as the rest of it, and know none for ``/systemone``.
        headers = {REQUEST_ID: name, "X-Stainless-Raw-Response": "stream"}
        options: Any = {"headers": headers, "timeout": seconds}
        deadline = time.monotonic() + seconds
        late = f"no complete answer within {seconds:g} s"
        route, most = f"/{_PATHS.get(kind, kind)}", transport.most_bytes(kind, body)

        def exchange() -> bytearray:
            content = bytearray()
            sent: Any = self._client.post(route, cast_to=object, body=body, options=options)
            with closing(sent) as response:
                if response.headers.get(REQUEST_ID, name) != name:
                    raise AgainError("the endpoint sent the answer to another request")
                for part in response.iter_bytes():
                    content += part
                    if time.monotonic() > deadline:
                        raise AgainError(late)
                    if len(content) > most:
                        raise AgainError(f"an answer of more than {most:,} bytes")
            return content

        try:
            # A time-out of the SDK is one of silence: what drips in never ends it.
            answer = json.loads(transport.within(seconds, exchange))
            return answer if kind == "embedding" else transport._without_key(answer, self._key)
        except TimeoutError:
            raise AgainError(late) from None
        except self._sdk.APIStatusError as error:
            raise self._explained(kind, error) from None
        except self._broken as error:
            cause = type(error.__cause__ or error).__name__
            is_late = "Timeout" in cause or isinstance(error, self._sdk.APITimeoutError)
            raise AgainError(late if is_late else f"the connection failed ({cause})") from None
        except (ValueError, RecursionError):
            raise AgainError("the endpoint answered with broken JSON") from None

    def _explained(self, kind: str, error: Any) -> Exception:
        """Return what an error status means."""
        if self._key:
            wants_key = error_text("key_not_accepted", key=transport.KEY_VARIABLE)
        else:
            where = f"{transport.ADDRESS_VARIABLE}={self._endpoint}"
            wants_key = error_text("key_wanted", key=transport.KEY_VARIABLE, where=where)
        status, code = int(error.status_code), transport.code_in(error.code, error.type)
        code = transport._without_key(code, self._key)
        if kind in ("decisions", "systemone") and status in (404, 405, 501):
            return NoRouteError.on("no_route", at=self._endpoint, status=status, kind=kind)
        text = f"{error.param or error.message}", f"{error.message}"
        remedies = {401: wants_key, 404: error_text("no_such_model")}
        headers = error.response.headers
        return transport.explained(self._endpoint, status, code, text, headers, remedies)
