"""How often is a service asked, and how long is it waited for?"""

import json
import random
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from calibrail.errors import CalibrailError, InputError, ServiceError
from calibrail.settings import checks

if TYPE_CHECKING:
    import httpx2 as httpx

#: Answers that another attempt may better: too much at once, and what proxies say meanwhile.
_PASSING: Final = frozenset({429, 502, 503, 504})

#: Seconds before the second attempt, and the most between two; each is shortened by chance.
_FIRST: Final = 0.1
_LONGEST: Final = 5.0

#: Characters of a reply that an error repeats.
_QUOTED: Final = 200

#: Bytes of a reply that is still read.
_LARGEST: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class Asking:
    """Where and how a client asks.

    Parameters
    ----------
    url : str
        Address of the service.
    token : str or None
        What ``CALIBRAIL_TOKEN`` holds there.
    guardrail : str or None
        Which guardrail decides, where there are several.
    timeout : float
        Seconds that a call may take, all attempts included.
    retries : int
        Further attempts where the service could not be reached, or had no room.
    """

    url: str
    token: str | None
    guardrail: str | None
    timeout: float
    retries: int

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not _is_address(self.url):
            # A password may stand in it: the message does not repeat it.
            raise InputError(
                "url must be an address such as http://127.0.0.1:8000, without a user, a query or "
                "a fragment; a token is given as token"
            )
        token = self.token
        if token is not None and not (
            isinstance(token, str) and token and token.isascii() and token.isprintable()
        ):
            # It is a secret: the message does not repeat it.
            raise InputError("token must be a text of visible ASCII characters")
        if not isinstance(self.guardrail, str | None):
            raise InputError(f"guardrail must be a name; got {self.guardrail!r:.80}")
        if not 0.0 < checks.number(self.timeout, "timeout") < float("inf"):
            raise InputError(f"timeout must be a number of seconds above 0; got {self.timeout!r}")
        checks.whole(self.retries, "retries")

    def options(self) -> dict[str, Any]:
        """Return what httpx is made with."""
        headers = {"Accept": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        params: dict[str, str] = {} if self.guardrail is None else {"guardrail": self.guardrail}
        options: dict[str, Any] = {
            "base_url": self.url.rstrip("/"),
            "headers": headers,
            "params": params,
            # A proxy that the environment names for other things would read token and texts.
            "trust_env": False,
        }
        if urlsplit(self.url).scheme == "http":
            # Reading the certificates of all authorities takes longer than a decision; a context
            # without any trusts nobody.
            options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        else:
            # Authorities that SSL_CERT_FILE or SSL_CERT_DIR name are trusted as elsewhere.
            options["verify"] = http().create_ssl_context()
        return options


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        named = bool(host) and not any(character.isspace() for character in url)
        return (
            named
            and parts.scheme in ("http", "https")
            and (parts.port is None or parts.port > 0)
            and not (parts.query or parts.fragment or parts.username or parts.password)
        )
    except ValueError:
        return False


def http() -> ModuleType:
    """Return httpx.

    Raises
    ------
    CalibrailError
        If it is not installed.
    """
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise CalibrailError("the client needs httpx2: pip install 'calibrail[client]'") from error
    return httpx2


def not_ready(error: ServiceError) -> bool:
    """Return whether an error says no more than that the service does not decide now."""
    return error.status is None or error.status in _PASSING


class Attempts:
    """The attempts of one call.

    Parameters
    ----------
    asking : Asking
        How often, and how long.
    what : str
        What is asked, for errors: method and path.
    once : bool
        Whether there is one attempt only.
    """

    def __init__(self, asking: Asking, what: str, *, once: bool = False) -> None:
        self._retries = 0 if once else asking.retries
        self._asking, self._what = asking, f"{what} of {asking.url}"
        self._end = time.monotonic() + asking.timeout
        self._n = self._size = 0

    @property
    def left(self) -> float:
        """Seconds until the call must have ended."""
        return max(0.0, self._end - time.monotonic())

    def extensions(self) -> dict[str, Any]:
        """Return what makes each step of an attempt end in time, however many there are."""
        self._size = 0
        return {"timeout": _Left(self)}

    def received(self, part: bytes) -> bytes:
        """Return a part of a reply.

        Raises
        ------
        ServiceError
            If time is over, or the reply has no end.
        """
        self._size += len(part)
        if self._size > _LARGEST:
            raise ServiceError(f"{self._what}: the reply is larger than {_LARGEST:,} bytes")
        if not self.left:
            raise self.late()
        return part

    def late(self) -> ServiceError:
        """Return the error that time is over."""
        return ServiceError(f"{self._what}: no answer within {self._asking.timeout:g} s")

    def pause_after(self, error: Exception) -> float:
        """Return how long to wait before a service that could not be reached is asked again.

        Raises
        ------
        ServiceError
            If it is not asked again.
        """
        if isinstance(error, http().TimeoutException) or not self.left:
            raise self.late() from error
        said = f"{self._what}: {str(error) or type(error).__name__}"
        return self._pause(ServiceError(said), None)

    def pause_or_none(self, response: "httpx.Response", raw: bytes) -> float | None:
        """Return None for a reply, or how long to wait before the next attempt.

        Raises
        ------
        ServiceError
            If the service refused.
        """
        if response.status_code == 200:
            return None
        error = refusal(self._what, response.status_code, raw)
        if response.status_code not in _PASSING:
            raise error
        return self._pause(error, retry_after(response.headers.get("Retry-After")))

    def _pause(self, error: ServiceError, wait: float | None) -> float:
        if self._n >= self._retries:
            raise error
        longest = min(_LONGEST, _FIRST * 2.0**self._n)
        pause = random.uniform(0.5, 1.0) * longest
        if wait is not None:
            # Not all who were refused at once come back at once.
            pause = max(pause, wait + random.uniform(0.0, 0.1) * wait)
        if pause >= self.left:
            raise error
        self._n += 1
        return pause


def refusal(what: str, status: int, raw: bytes) -> ServiceError:
    """Return the error that a reply says which is none.

    Parameters
    ----------
    what : str
        What was asked.
    status : int
        Of HTTP.
    raw : bytes
        The reply.
    """
    detail, problem = raw[:_QUOTED].decode("utf-8", "replace"), ""
    try:
        content = json.loads(raw)
        problem = str(content["type"]).rpartition(":")[2]
        detail = str(content["detail"])
    except (ValueError, LookupError, TypeError, RecursionError):
        # Not the service's own words: those of something before it.
        pass
    called = f"{status} ({problem})" if problem else f"{status}"
    return ServiceError(f"{what}: {called}: {detail}", status=status, problem=problem)


class _Left(dict[str, float]):
    """The time limits of httpx's steps, each read when its step begins."""

    def __init__(self, attempts: Attempts) -> None:
        super().__init__()
        self._attempts = attempts

    def get(self, name: str, default: Any = None) -> float:
        # Zero would mean not to wait at all, which is another error.
        return max(self._attempts.left, 1e-3)


def retry_after(value: str | None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, which may hold a date.

    >>> retry_after("7"), retry_after("soon"), retry_after("Fri, 01 Jan 2010 00:00:00 GMT")
    (7.0, None, 0.0)
    """
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None
