"""How is a request sent until it is answered, without overrunning an endpoint or a budget?"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from threading import Event, Lock
from typing import Any, Final

from calibrail.errors import ModelError
from calibrail.models.call_limits import Account
from calibrail.models.transport import INSTALL, AgainError, OpenAITransport, RefusedError, Transport

#: Waits between attempts, in seconds: the first, and the longest that is not asked for.
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0

_AT_ONCE: Final = 1e-3

#: Times that a request waits for as long as it is asked to.
MOST_WAITS: Final = 50

#: The same before anything was ever answered: then it is the address, the network, the server.
FIRST_FAIL: Final = 4

#: So many requests in a row without an answer mean that the endpoint, not an example, is at fault.
ALL_FAIL: Final = 40


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
        self.endpoint = endpoint
        self.n_sent = 0
        self.n_failed = 0
        self._transport = transport
        logging.getLogger("stamina").addFilter(_not_ours)
        self._lock = Lock()
        self._hold_until = 0.0
        self._failed_in_a_row = self._refused_in_a_row = 0
        self._ever_answered = False
        self._fewer_logprobs = False
        self._unknown: set[str] = set()

    def call(
        self,
        kind: str,
        body: Mapping[str, Any],
        account: Account,
        stop: Event,
        read: Callable[[Any], Any],
    ) -> Any:
        """Send a request until ``read`` accepts the answer, and return what it made of it.

        Parameters
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

        Raises
        ------
        RefusedError
            If it failed for good; the reason names the last failure.
        ModelError, BudgetError
            If no request can succeed, or none may be sent.
        """
        try:
            import stamina
        except ImportError as error:
            raise ModelError(
                f"calling {self.endpoint} needs the judge extra: {INSTALL} ({error})"
            ) from error
        n_attempts = 0
        pause = 0.0
        # Once nothing is answered any more, one attempt tells whether it is again.
        most = 1 if self._failed_in_a_row >= ALL_FAIL else account.limits.attempts

        def again(error: Exception) -> bool | float:
            nonlocal pause
            if not isinstance(error, AgainError) or stop.is_set():
                return False
            if error.wait is not None and error.wait >= FIRST_WAIT:
                # What the endpoint asked for was granted as long as it may be.
                return False
            pause = attempt.next_wait + random.uniform(0.0, FIRST_WAIT)
            return _AT_ONCE

        try:
            for attempt in stamina.retry_context(
                on=again,
                attempts=most,
                timeout=None,
                wait_initial=FIRST_WAIT,
                wait_max=LONGEST_WAIT,
                wait_jitter=0.0,
            ):
                # Waits end when the run is stopped, which those of stamina itself would not.
                stop.wait(pause)
                with attempt:
                    n_attempts += 1
                    result = self._patiently(kind, body, account, stop, read)
        except AgainError as error:
            asked = "" if error.wait is None else f"; the endpoint asks to wait {error.wait:g} s"
            tries = "once" if n_attempts == 1 else f"{n_attempts} times"
            reason = f"{error.reason}, asked {tries}{asked}"
            with self._lock:
                self.n_failed += 1
                self._failed_in_a_row += 1
                row = self._failed_in_a_row
            most = ALL_FAIL if self._ever_answered else FIRST_FAIL
            if row >= most and not self._answers(kind, body, account, stop):
                raise ModelError(
                    f"{self.endpoint} answered none of the last {row} requests ({reason}); what "
                    "was answered before is kept, so mend it and run again"
                ) from None
            raise RefusedError(reason, frozenset(), False) from None
        except RefusedError as error:
            # Too long is this request's own fault; all else may be that of every request.
            with self._lock:
                self.n_failed += 1
                self._refused_in_a_row = 0 if error.too_long else self._refused_in_a_row + 1
                row = self._refused_in_a_row
            if stop.is_set() or row < ALL_FAIL or self._answers(kind, body, account, stop):
                raise
            raise ModelError(
                f"{self.endpoint} refused the last {row} requests ({error.reason}); change what it "
                "does not take, e.g. temperature or max_tokens of the judge"
            ) from None
        with self._lock:
            self._ever_answered = True
            self._failed_in_a_row = self._refused_in_a_row = 0
        return result

    def _patiently(
        self,
        kind: str,
        body: Mapping[str, Any],
        account: Account,
        stop: Event,
        read: Callable[[Any], Any],
    ) -> Any:
        """Send, and wait where the endpoint says how long; being asked to wait is no failure.

        A rate limit lets some of those pass that wait for it, so that one request may have to
        wait many times. All wait, but not for quite as long, or they would come back as one.
        """
        waited = 0.0
        for _ in range(MOST_WAITS):
            try:
                return self._send(kind, body, account, stop, read)
            except AgainError as error:
                # A shorter wait than our own first one asks for nothing.
                if error.wait is None or error.wait < FIRST_WAIT:
                    raise
                if waited + error.wait > account.limits.patience:
                    raise
                waited += error.wait
                with self._lock:
                    until = time.monotonic() + error.wait
                    self._hold_until = max(self._hold_until, until)
                stop.wait(error.wait * random.uniform(1.0, 1.5) + random.uniform(0.0, FIRST_WAIT))
        return self._send(kind, body, account, stop, read)

    def _answers(self, kind: str, body: Mapping[str, Any], account: Account, stop: Event) -> bool:
        """Return whether the endpoint answers such a request about a text that is harmless."""
        plain = dict(body)
        if kind == "chat":
            plain["messages"] = [{"role": "user", "content": "Say yes."}]
        else:
            plain["input"] = ["yes"]
        try:
            answer = self._send(kind, plain, account, stop, lambda found: found)
        except (AgainError, RefusedError):
            return False
        expected = "choices" if kind == "chat" else "data"
        if not (isinstance(answer, dict) and answer.get(expected)):
            return False
        with self._lock:
            self._failed_in_a_row = self._refused_in_a_row = 0
        return True

    def _send(
        self,
        kind: str,
        body: Mapping[str, Any],
        account: Account,
        stop: Event,
        read: Callable[[Any], Any],
    ) -> Any:
        """Send once, and once more in other words where the endpoint does not know some."""
        while True:
            wait = self._hold_until - time.monotonic()
            if wait > 0.0:
                stop.wait(wait)
            if stop.is_set():
                raise RefusedError("the run was stopped", frozenset(), False)
            fields = self._known(body)
            account.spend()
            with self._lock:
                self.n_sent += 1
            try:
                answer = self._opened().send(kind, fields, account.limits.timeout)
            except RefusedError as error:
                if error.too_long or not self._learn(error.about, fields):
                    raise
                continue
            try:
                return read(answer)
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

    def _learn(self, about: frozenset[str], fields: Mapping[str, Any]) -> bool:
        """Note what the endpoint does not know; return whether the request can be put otherwise."""
        with self._lock:
            if "top_logprobs" in about and fields.get("top_logprobs", 0) > 5:
                self._fewer_logprobs = True
                return True
            if {"logprobs", "top_logprobs"} & about and "logprobs" in fields:
                self._unknown.add("logprobs")
                return True
            if "max_tokens" in about and "max_tokens" in fields:
                self._unknown.add("max_tokens")
                return True
            for name in ("response_format", "seed", "encoding_format"):
                if name in about and name in fields:
                    self._unknown.add(name)
                    return True
            # Another thread may have learnt it since this request was put together.
            return self._known(fields) != dict(fields)

    def _opened(self) -> Transport:
        with self._lock:
            if self._transport is None:
                self._transport = OpenAITransport(self.endpoint)
            return self._transport


def _not_ours(record: logging.LogRecord) -> bool:
    """Keep stamina from announcing each retry of ours; what becomes of them is reported."""
    return "AgainError(" not in str(vars(record).get("stamina.caused_by", ""))
