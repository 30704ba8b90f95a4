"""How does one request travel to an OpenAI-compatible endpoint, and what can happen to it?"""

import email.utils
import importlib
import json
import logging
import re
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol
from uuid import uuid4

from calibrail.errors import ModelError
from calibrail.models.endpoint import ADDRESS_VARIABLE, KEY_VARIABLE, is_trusted, key_for

INSTALL: Final = "pip install 'calibrail[judge]'"

#: Largest body read, in bytes: a verdict takes some thousand, a batch of embeddings some million.
MAX_BODY: Final = 256 * 2**20

#: Header of a request's own name. A proxy that sends answers back with it cannot swap them unseen.
REQUEST_ID: Final = "X-Client-Request-Id"

#: Error codes are words such as ``context_length_exceeded``; anything longer may quote the prompt.
_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")

#: Parameters of a request that an endpoint may not know.
_PARAMETERS: Final = (
    "max_tokens max_completion_tokens top_logprobs logprobs response_format seed temperature "
    "encoding_format"
)
#: How endpoints say that a text exceeds what the model reads.
_TOO_LONG: Final = ("context length", "maximum context", "too many tokens", "too long")


class AgainError(Exception):
    """A request that may succeed when it is sent again.

    Parameters
    ----------
    reason : str
        What happened, without anything that was sent.
    wait : float or None
        Seconds that the endpoint asks for.
    """

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.wait = reason, wait


class RefusedError(Exception):
    """A request that the endpoint does not take, however often it is sent.

    Parameters
    ----------
    reason : str
        What happened, without anything that was sent.
    about : collection of str
        Parameters of the request that the endpoint's message speaks of.
    too_long : bool
        Whether the text exceeds what the model reads.
    """

    def __init__(self, reason: str, about: Collection[str] = (), too_long: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.about, self.too_long = reason, about, too_long


class Transport(Protocol):
    """What sends requests; the OpenAI SDK behind it can be replaced by anything."""

    def send(self, kind: str, body: Mapping[str, Any], seconds: float) -> Any:
        """Send one request and return the JSON value of the answer.

        Parameters
        ----------
        kind : {"chat", "embedding"}
            What is asked for.
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
        try:
            import openai
        except ImportError as error:
            raise ModelError(
                f"calling {endpoint} needs the judge extra: {INSTALL} ({error})"
            ) from error
        self._endpoint, self._sdk = endpoint, openai
        #: What a connection raises when it breaks while a body is read.
        self._broken: tuple[type[Exception], ...] = (openai.APIConnectionError, OSError)
        for name in ("httpx2", "httpx"):
            with suppress(ImportError):
                self._broken += (importlib.import_module(name).HTTPError,)
        self._key = key_for(endpoint)
        # At its most talkative level the SDK would log what is sent, texts and all.
        for name in ("openai", "openai._base_client"):
            logging.getLogger(name).addFilter(_above_debug)
        # The SDK wants some key; servers without one ignore it.
        # A redirection would take texts, and headers from the environment, to any other host.
        http = openai.DefaultHttpxClient(follow_redirects=False)
        self._client = openai.OpenAI(
            api_key=self._key or "none", base_url=endpoint, max_retries=0, http_client=http
        )
        if not is_trusted(endpoint):
            # The SDK takes further headers from the environment; they may hold keys as well.
            self._client.organization = self._client.project = None
            self._client._custom_headers = {}

    def send(self, kind: str, body: Mapping[str, Any], seconds: float) -> Any:
        """Send one request; see ``Transport``."""
        # What stands in extra_body is sent as it is: the SDK's own walk through the fields of a
        # request would take as long as the rest of it.
        fields: dict[str, Any] = {"extra_body": body, "model": body["model"], "timeout": seconds}
        resource: Any = self._client.chat.completions if kind == "chat" else self._client.embeddings
        if kind == "chat":
            fields["messages"] = []
        else:
            # Left out, the SDK would ask for base64; null is what servers take for nothing.
            fields |= {"input": [], "encoding_format": body.get("encoding_format")}
        # An endpoint that sends it back ties its answer to this request and no other.
        name = uuid4().hex
        fields["extra_headers"] = {REQUEST_ID: name}
        deadline = time.monotonic() + seconds
        late = f"no complete answer within {seconds:g} s"
        try:
            with resource.with_streaming_response.create(**fields) as response:
                if response.headers.get(REQUEST_ID, name) != name:
                    raise AgainError("the endpoint sent the answer to another request")
                content = bytearray()
                for part in response.iter_bytes():
                    content += part
                    # A time-out of the SDK is one of silence: a body that drips in never ends it.
                    if time.monotonic() > deadline:
                        raise AgainError(late)
                    if len(content) > MAX_BODY:
                        raise AgainError(f"an answer of more than {MAX_BODY:,} bytes")
        except self._sdk.APIStatusError as error:
            raise self._explained(error) from None
        except self._broken as error:
            cause = type(error.__cause__ or error).__name__
            is_late = "Timeout" in cause or isinstance(error, self._sdk.APITimeoutError)
            raise AgainError(late if is_late else f"the connection failed ({cause})") from None
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise AgainError("the endpoint answered with broken JSON") from None

    def _explained(self, error: Any) -> Exception:
        """Return what an error status means; nothing of the endpoint's prose is passed on."""
        status = int(error.status_code)
        code = _word(error.code) or _word(error.type)
        reason = f"HTTP {status}" + (f" ({code})" if code else "")
        if status in (408, 409, 425, 429) or status >= 500:
            if code == "insufficient_quota":
                return ModelError(f"{self._endpoint} answered {reason}: the account is used up")
            return AgainError(reason, _retry_after(error.response.headers))
        if 300 <= status < 400:
            return ModelError(
                f"{self._endpoint} answered {reason}: it has moved; name its new address"
            )
        if status == 401:
            about_key = (
                f"the key in the environment variable {KEY_VARIABLE} is not accepted"
                if self._key
                else f"it wants a key; set {KEY_VARIABLE} and, so that it may be sent there, "
                f"{ADDRESS_VARIABLE}={self._endpoint}"
            )
            return ModelError(f"{self._endpoint} answered {reason}: {about_key}")
        if status == 404:
            return ModelError(
                f"{self._endpoint} answered {reason}: is the model's name right, is the address "
                "(it usually ends in /v1), and may this key use it?"
            )
        # The message may quote the prompt; it is asked only where no parameter is named.
        message = str(error.param or error.message).lower()
        about = [name for name in _PARAMETERS.split() if name in message]
        too_long = (
            status == 413
            or code in ("context_length_exceeded", "string_above_max_length")
            or any(sign in str(error.message).lower() for sign in _TOO_LONG)
        )
        if too_long:
            reason += ": longer than the model reads"
        elif about:
            reason += f" about {', '.join(sorted(about))}"
        return RefusedError(reason, about, too_long)


def _above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


def _word(value: object) -> str:
    return value if isinstance(value, str) and _CODE.fullmatch(value) else ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a Retry-After header asks for, given as a number or a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        with suppress(ValueError):
            if 0.0 <= (seconds := float(headers.get(name, "nan")) / unit) < float("inf"):
                return seconds
    date = email.utils.parsedate_tz(headers.get("retry-after") or "")
    try:
        return None if date is None else max(0.0, email.utils.mktime_tz(date) - time.time())
    except (ValueError, OverflowError):
        return None
