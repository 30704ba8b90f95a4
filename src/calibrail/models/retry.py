"""How is a request sent until it is answered, without overrunning an endpoint or a budget?"""

import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import Any, Final

from calibrail.errors import ModelError
from calibrail.models.call_limits import Account
from calibrail.models.forks import leave_to_parent, renewed
from calibrail.models.transport import INSTALL, AgainError, OpenAITransport, RefusedError, Transport

#: Waits between attempts, in seconds: the first, and the longest that is not asked for.
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0

#: Times that a request waits for as long as it is asked to.
MOST_WAITS: Final = 50

#: The same before anything was ever answered: then it is the address, the network, the server.
FIRST_FAIL: Final = 4

#: So many requests in a row without an answer mean that the endpoint, not an example, is at fault.
ALL_FAIL: Final = 40

#: A request that any model answers, and where its answer stands, by kind.
_HARMLESS: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "chat": ({"messages": [{"role": "user", "content": "Say yes."}]}, "choices"),
    "embedding": ({"input": ["yes"]}, "data"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be sent, on whose account, and what is made of the answer.

    Attributes
    ----------
    kind : {"chat", "embedding"}
        What is asked for.
    body : mapping
        The fields of the request.
    account : Account
        What calls are charged to, with its limits.
    stop : Event
        Set when nothing more is to be sent.
    read : callable
        Makes a value of the JSON answer, or raises ValueError with what is wrong with it.
    """

    kind: str
    body: Mapping[str, Any]
    account: Account
    stop: Event
    read: Callable[[Any], Any]


class Caller:
    """Sends requests to one endpoint, from any thread.

    What an endpoint does not know is left out from then on: ``max_tokens`` becomes
    ``max_completion_tokens``, log-probabilities that are not to be had are not asked for, and an
    answer in a shape that it cannot promise is asked for in words alone.

    Parameters
    ----------
    endpoint : str
        Address.
    transport : Transport, optional
        What sends; the OpenAI SDK when left out.
    """

    def __init__(self, endpoint: str, transport: Transport | None = None) -> None:
        self.endpoint, self._transport = endpoint, transport
        self._makes_transport = transport is None
        self.n_sent = self._failed_in_a_row = self._refused_in_a_row = 0
        self._ever_answered = self._fewer_logprobs = False
        self._hold_until = 0.0
        self._lock = Lock()
        self._unknown: set[str] = set()
        renewed(self)

    def renew_after_fork(self) -> None:
        """Open connections of this process's own: replies on the parent's are the parent's."""
        self._lock = Lock()
        if self._makes_transport:
            leave_to_parent(self._transport)
            self._transport = None

    def call(self, request: Request) -> Any:
        """Send a request until its ``read`` accepts the answer, and return what it made of it.

        Raises
        ------
        RefusedError
            If it failed for good; the reason names the last failure.
        ModelError, BudgetError
            If no request can succeed, or none may be sent.
        """
        try:
            import tenacity
        except ImportError as error:
            raise ModelError(
                f"calling {self.endpoint} needs the judge extra: {INSTALL} ({error})"
            ) from error
        stop = request.stop
        # Once nothing is answered any more, one attempt tells whether it is again.
        once = self._failed_in_a_row >= ALL_FAIL
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: _may_pass(error, stop)),
            stop=tenacity.stop_after_attempt(1 if once else request.account.limits.attempts),
            wait=tenacity.wait_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT)
            + tenacity.wait_random(0.0, FIRST_WAIT),
            sleep=tenacity.sleep_using_event(stop),
            reraise=True,
        )
        try:
            result = attempts(self._patiently, request)
        except AgainError as error:
            raise self._given_up(request, error, attempts.statistics["attempt_number"]) from None
        except RefusedError as error:
            # Too long is this request's own fault; all else may be that of every request.
            with self._lock:
                row = self._refused_in_a_row = 0 if error.too_long else self._refused_in_a_row + 1
            if stop.is_set() or row < ALL_FAIL or self._answers(request):
                raise
            raise ModelError(
                f"{self.endpoint} refused the last {row} requests ({error.reason}); change what it "
                "does not take, e.g. temperature or max_tokens of the judge"
            ) from None
        self._note_answer()
        self._ever_answered = True
        return result

    def _given_up(self, request: Request, error: AgainError, n_attempts: int) -> Exception:
        """Return what it means that a request failed for good."""
        wait = "" if error.wait is None else f"; the endpoint asks to wait {error.wait:g} s"
        tries = "once" if n_attempts == 1 else f"{n_attempts} times"
        reason = f"{error.reason}, asked {tries}{wait}"
        with self._lock:
            row = self._failed_in_a_row = self._failed_in_a_row + 1
        most = ALL_FAIL if self._ever_answered else FIRST_FAIL
        if row >= most and not self._answers(request):
            return ModelError(
                f"{self.endpoint} answered none of the last {row} requests ({reason}); what "
                "was answered before is kept, so mend it and run again"
            )
        return RefusedError(reason)

    def _patiently(self, request: Request) -> Any:
        """Send, and wait where the endpoint says how long; being asked to wait is no failure.

        A rate limit lets some of those pass that wait for it, so that one request may have to
        wait many times. All wait, but not for quite as long, or they would come back as one.
        """
        waited = 0.0
        for _ in range(MOST_WAITS):
            try:
                return self._send(request)
            except AgainError as error:
                wait = _stated_wait(error)
                if wait is None or waited + wait > request.account.limits.patience:
                    raise
                waited += wait
                with self._lock:
                    self._hold_until = max(self._hold_until, time.monotonic() + wait)
                request.stop.wait(wait * random.uniform(1.0, 1.5) + random.uniform(0.0, FIRST_WAIT))
        return self._send(request)

    def _answers(self, request: Request) -> bool:
        """Return whether the endpoint answers such a request about a text that is harmless."""
        harmless, expected = _HARMLESS[request.kind]
        plain = replace(request, body={**request.body, **harmless}, read=lambda answer: answer)
        try:
            answer = self._send(plain)
        except (AgainError, RefusedError):
            return False
        if is_answer := isinstance(answer, dict) and bool(answer.get(expected)):
            self._note_answer()
        return is_answer

    def _note_answer(self) -> None:
        with self._lock:
            self._failed_in_a_row = self._refused_in_a_row = 0

    def _send(self, request: Request) -> Any:
        """Send once, and once more in other words where the endpoint does not know some."""
        while True:
            wait = self._hold_until - time.monotonic()
            if wait > 0.0:
                request.stop.wait(wait)
            if request.stop.is_set():
                raise RefusedError("the run was stopped")
            fields = self._known(request.body)
            request.account.spend()
            with self._lock:
                self.n_sent += 1
                if self._transport is None:
                    self._transport = OpenAITransport(self.endpoint)
            try:
                answer = self._transport.send(request.kind, fields, request.account.limits.timeout)
            except RefusedError as error:
                if error.too_long or not self._learn(error.about, fields):
                    raise
                continue
            try:
                return request.read(answer)
            except ValueError as error:
                raise AgainError(str(error)) from None

    def _known(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request without what the endpoint does not know."""
        fields = {name: value for name, value in body.items() if name not in self._unknown}
        if "max_tokens" in body and "max_tokens" in self._unknown:
            fields["max_completion_tokens"] = body["max_tokens"]
        if "logprobs" in self._unknown:
            fields.pop("top_logprobs", None)
        elif self._fewer_logprobs and "top_logprobs" in fields:
            fields["top_logprobs"] = min(5, fields["top_logprobs"])
        return fields

    def _learn(self, about: Collection[str], fields: Mapping[str, Any]) -> bool:
        """Note what the endpoint does not know; return whether the request can be put otherwise."""
        sent = fields.keys() & set(about)
        with self._lock:
            if "top_logprobs" in sent and fields["top_logprobs"] > 5:
                self._fewer_logprobs = True
            elif {"logprobs", "top_logprobs"} & sent:
                self._unknown.add("logprobs")
            else:
                names = ("max_tokens", "response_format", "seed", "encoding_format")
                self._unknown.update([name for name in names if name in sent][:1])
            # Another thread may have learnt it since this request was put together.
            return self._known(fields) != dict(fields)


def _stated_wait(error: AgainError) -> float | None:
    """Return the wait that an endpoint asks for; a shorter one than our first asks for nothing."""
    return None if error.wait is None or error.wait < FIRST_WAIT else error.wait


def _may_pass(error: BaseException, stop: Event) -> bool:
    """Return whether to try again; what an endpoint asks for was granted as long as it may be."""
    return isinstance(error, AgainError) and not stop.is_set() and _stated_wait(error) is None
