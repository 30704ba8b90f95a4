"""Gate: a guardrail for any thread or event loop, and imports of optional packages."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from os import PathLike
from queue import SimpleQueue
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import calibrail
from calibrail.errors import InputError, keep_libraries_quiet, tables_beside
from calibrail.guardrail import decision_log
from calibrail.guardrail.decision import Cause, Decision, reason_of_cause
from calibrail.options.fields import Cell, spell_option

Result = TypeVar("Result")

_Call: TypeAlias = "tuple[Future[Any], contextvars.Context, Callable[[], Any]]"


class SerialExecutor:
    """Threads that make one call after another; a process that ends does not wait for them.

    Parameters
    ----------
    n : int
        How many calls are made at once.
    """

    def __init__(self, n: int) -> None:
        self._n, self._started, self._lock = n, 0, threading.Lock()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()

    def __del__(self) -> None:
        """End the threads once nobody can ask any more."""
        for _ in range(self._started):
            self._calls.put(None)

    def run(self, call: Callable[[], Result]) -> Future[Result]:
        """Return what a call will give, made in the context of who asks."""
        future: Future[Result] = Future()
        self._calls.put((future, contextvars.copy_context(), call))
        with self._lock:
            if self._started < self._n:
                self._started += 1
                # A detector that never returns must not keep the process from its end.
                threading.Thread(
                    target=_work, args=(self._calls,), name="calibrail", daemon=True
                ).start()
        return future


def _work(calls: SimpleQueue[_Call | None]) -> None:
    while (item := calls.get()) is not None:
        future, context, call = item
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(context.run(call))
            except BaseException as error:
                future.set_exception(error)
        # What was asked is not kept until somebody asks again.
        del item, future, context, call


#: What is shown instead of an answer that may not be released, by the decision's outcome.
REFUSALS: Final[Mapping[str, str]] = tables_beside(__file__, "gate.toml")["refusals"]

#: Answers that are decided at once where each waits for an endpoint.
_ASKING: Final = 8


@runtime_checkable
class Checker(Protocol):
    """What decides about an answer: a `Guardrail`, or the `Client` of a service that has one."""

    def check(
        self,
        *,
        question: str = "",
        contexts: Sequence[str] = (),
        response: str,
        id: str = "",
        columns: Mapping[str, Cell] | None = None,
    ) -> Decision:
        """Return the decision about one answer."""


#: What every adapter takes as its guardrail.
Guarding: TypeAlias = "Gate | Checker | str | PathLike[str]"


class Gate:
    """A guardrail as frameworks call it: it always decides, once at a time, whoever asks.

    A detector that fails or takes too long, a service that cannot be reached, or a log that cannot
    be written does not raise: the answer gets the outcome of the failure policy, so that it is not
    released. Copies of a gate are the gate itself: one model serves all threads.

    Parameters
    ----------
    guardrail : Guardrail, Client or path
        What decides: a frozen guardrail, its file, or the client of a service.
    refusal : str or callable, optional
        What is shown instead of an answer that may not be released: a text, or what returns one for
        a decision. Left out, a sentence for each of ``flag``, ``review`` and ``error``.
    log : path or DecisionLog, optional
        A folder in which every decision is kept, for ``calibrail monitor`` and ``calibrail log``.
    notify : callable, optional
        Called with each decision, in the context of who asked; what it raises is raised.
    trim : bool
        Of a guardrail of sentences: whether what is left of an answer is shown in its place once
        its unsupported sentences are removed. Left out, such an answer is withheld whole, as every
        flagged one is.
    timeout : float, optional
        Seconds from being asked until the failure policy decides, the wait for answers before this
        one included. Left out, an answer waits as long as the detector takes.

    Raises
    ------
    GuardrailError
        The file is no guardrail that this machine can load.
    InputError
        ``guardrail`` decides nothing, a log is asked for with the client of a service, which
        keeps its own, or ``trim`` of a guardrail that flags whole answers.
    """

    def __init__(
        self,
        guardrail: Checker | str | PathLike[str],
        *,
        refusal: str | Callable[[Decision], str] | None = None,
        log: str | PathLike[str] | decision_log.DecisionLog | None = None,
        notify: Callable[[Decision], object] | None = None,
        timeout: float | None = None,
        trim: bool = False,
    ) -> None:
        # Loaded here: to import an adapter costs little beside its framework.
        from calibrail.models.hardware import renewed

        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
            raise InputError(f"timeout must be a number of seconds above 0; got {timeout!r}")
        self._refusal, self._notify = refusal, notify
        self.trim, self.timeout = trim, timeout
        local = None
        if isinstance(guardrail, calibrail.Guardrail | str | PathLike):
            guardrail = local = calibrail.Guardrail.coerce(guardrail)
        elif not isinstance(guardrail, Checker):
            raise InputError.on("gate_of_what", name=type(guardrail).__name__)
        if trim and local is not None and local.unit == "answer":
            option = spell_option(calibrail.Promise, "unit", "sentence")
            raise InputError.on("trim_of_answers", option=option)
        if log is not None and local is None:
            raise InputError.on("log_of_a_service")
        self.checker: Checker = guardrail
        self.guardrail: calibrail.Guardrail | None = local
        kind = decision_log.DecisionLog
        self._log = log if log is None or isinstance(log, kind) else kind(log)
        self.renew_after_fork()
        renewed(self)

    @classmethod
    def of(cls, guardrail: Guarding) -> Gate:
        """Return a gate as it is, and make one of anything else that decides."""
        return guardrail if isinstance(guardrail, Gate) else cls(guardrail)

    def renew_after_fork(self) -> None:
        """Make threads anew, in a child of the process that made the gate."""
        self._turns = SerialExecutor(
            1 if self.guardrail is not None and not self.guardrail.endpoints else _ASKING
        )

    def __copy__(self) -> Self:
        """Return the gate itself: a copy would load the model again."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the gate itself likewise."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as what it was made of."""
        options = {"refusal": self._refusal, "log": self._log, "notify": self._notify}
        return _gate, (self.checker, {**options, "timeout": self.timeout, "trim": self.trim})

    @property
    def digest(self) -> str | None:
        """The guardrail's digest; None where a service decides."""
        return None if self.guardrail is None else self.guardrail.config.digest

    def check(
        self,
        *,
        response: str | Exception,
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        columns: Mapping[str, Cell] | None = None,
    ) -> Decision:
        """Decide about one answer; the parameters are those of ``Guardrail.check``.

        An exception in the response's place says why that is no text; the failure policy decides.

        Raises
        ------
        InputError
            A text is none, which is the caller's mistake and no failure of the detector.
        """
        if isinstance(response, Exception):
            return self.failed(response, question=question, id=id)
        given = {"question": question, "contexts": contexts, "id": id, "columns": columns}
        example, settled, asked = self._begun(_example(self.guardrail, response=response, **given))
        try:
            decision = asked.result(self.timeout)
        except TimeoutError:
            decision = self._late(example) if settled.acquire(blocking=False) else asked.result()
        return self._noted(decision)

    async def acheck(
        self,
        *,
        response: str | Exception,
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        columns: Mapping[str, Cell] | None = None,
    ) -> Decision:
        """Decide as `check` does, while the event loop goes on."""
        if isinstance(response, Exception):
            return self.failed(response, question=question, id=id)
        given = {"question": question, "contexts": contexts, "id": id, "columns": columns}
        example, settled, asked = self._begun(_example(self.guardrail, response=response, **given))
        future = asyncio.wrap_future(asked)
        try:
            decision = await asyncio.wait_for(asyncio.shield(future), self.timeout)
        except TimeoutError:
            decision = self._late(example) if settled.acquire(blocking=False) else await future
        except asyncio.CancelledError:
            # Nobody waits for the answer any more: it is not released, and not logged.
            settled.acquire(blocking=False)
            asked.cancel()
            raise
        return self._noted(decision)

    def failed(self, error: Exception, *, question: str = "", id: str = "") -> Decision:
        """Return the failure policy's decision about an answer that cannot be handed over as text.

        Parameters
        ----------
        error : Exception
            Why not; the decision's reason says so.
        """
        example = _example(None, question=question, id=id)
        return self._noted(self._kept(example, self._failed(example, error)))

    def releases(self, decision: Decision) -> bool:
        """Return whether the answer may be shown, or what is left of it where that is asked for."""
        return not decision.flagged or (self.trim and decision.result == "trimmed")

    def in_turn(self, call: Callable[[], Result]) -> Future[Result]:
        """Return what a call will give that is made when it is this answer's turn."""
        return self._turns.run(call)

    def finished(self, example: calibrail.Example, decision: Decision) -> Decision:
        """Return a decision that was made elsewhere, once the log has it and it was notified."""
        return self._noted(self._kept(example, decision))

    def shown(self, decision: Decision, response: str) -> str:
        """Return the answer where it may be released, and what is shown instead where not.

        With ``trim`` that is what is left of it, if anything is; of what is no text nothing is.
        """
        if not decision.flagged:
            return response
        if decision.text is not None and self.releases(decision) and isinstance(response, str):
            return decision.text
        return self.refused(decision)

    def refused(self, decision: Decision) -> str:
        """Return the refusal text for an answer that must be withheld entirely."""
        if callable(self._refusal):
            return self._refusal(decision)
        return REFUSALS[decision.outcome] if self._refusal is None else self._refusal

    def details(self, decision: Decision) -> dict[str, Any]:
        """Return a decision as JSON values, with the digest of the guardrail that made it.

        Of removed sentences without what they say, and with what is left only where it is released:
        frameworks keep this beside what they show.
        """
        content = {"guardrail": self.digest} | decision.to_dict()
        if decision.removed is not None:
            content["removed"] = decision.without_texts().to_dict()["removed"]
            content["text"] = decision.text if self.releases(decision) else None
        return content

    @staticmethod
    def rating(decision: Decision) -> float | None:
        """Return 1 for ``pass``, 0 for ``flag`` and ``review``, and None where it is not known."""
        return None if decision.outcome == "error" else float(decision.outcome == "pass")

    @staticmethod
    def explained(decision: Decision) -> str:
        """Return the outcome and the reason, in one line."""
        return f"{decision.outcome}: {decision.reason}"

    def _noted(self, decision: Decision) -> Decision:
        if self._notify is not None:
            self._notify(decision)
        return decision

    def _begun(
        self, example: calibrail.Example
    ) -> tuple[calibrail.Example, threading.Lock, Future[Decision]]:
        """Return an answer, what is taken by whoever settles it first, and its decision."""
        settled = threading.Lock()

        def decided() -> Decision:
            try:
                decision = self.checker.check(
                    response=example.response,
                    question=example.question,
                    contexts=example.contexts,
                    id=example.id,
                    columns=example.columns,
                )
            except (Exception, SystemExit) as error:
                decision = self._failed(example, error)
            # Where who asked has gone, another decision about the answer stands.
            return self._kept(example, decision) if settled.acquire(blocking=False) else decision

        return example, settled, self._turns.run(decided)

    def _late(self, example: calibrail.Example) -> Decision:
        error = TimeoutError(f"no decision within {self.timeout:g} s")
        return self._kept(example, self._failed(example, error))

    def _kept(self, example: calibrail.Example, decision: Decision) -> Decision:
        """Return a decision once the log has it; the failure policy's where it cannot be logged."""
        if self._log is None or self.guardrail is None:
            return decision
        try:
            self._log.write([decision_log.Entry.of(self.guardrail, example, decision)])
        except Exception as error:
            return self._failed(example, error)
        return decision

    def _failed(self, example: calibrail.Example, error: BaseException) -> Decision:
        if self.guardrail is not None:
            return self.guardrail.failed(example, error)
        cause = Cause.of_error(error)
        reason = reason_of_cause(cause, "error", str(error))
        return Decision(example.id, "error", None, None, None, reason, cause=cause)


def _example(guardrail: calibrail.Guardrail | None, **asked: Any) -> calibrail.Example:
    if guardrail is not None:
        asked["columns"] = guardrail.cells(asked["columns"])
    return calibrail.Example.asked(**asked)


def _gate(checker: Checker, options: dict[str, Any]) -> Gate:
    return Gate(checker, **options)


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Name the extra that brings what is imported within the block, where it cannot be.

    What is imported there reports its use to nobody.

    Parameters
    ----------
    extra : str
        An extra of calibrail, e.g. ``"langchain"``.

    Raises
    ------
    ImportError
        As it was raised, with the remedy.
    """
    keep_libraries_quiet()
    try:
        yield
    except ImportError as error:
        remedy = f"pip install 'calibrail[{extra}]'"
        raise ImportError(f"{error}; {remedy}", name=error.name, path=error.path) from error


def texts_of_parts(content: Any) -> list[str]:
    """Return the texts of a message's content: one text, or parts of which some may be images.

    >>> texts_of_parts([{"type": "text", "text": "a"}, {"type": "image"}, "b"])
    ['a', 'b']
    """
    parts = content if isinstance(content, list | tuple) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return [text for text in texts if isinstance(text, str)]


def text_of_values(answer: Any) -> str:
    r"""Return what a structured answer says: its values, one a line, without their names.

    Parameters
    ----------
    answer : object
        A text as it is; a pydantic model, a dataclass, a mapping or a list of such.

    Raises
    ------
    TypeError
        A value is neither text, number, truth value nor nothing.

    Examples
    --------
    >>> text_of_values({"element": "Tungsten", "number": 74, "seen": ["W"], "note": None})
    'Tungsten\n74\nW'
    """
    return "\n".join(_values(answer))


def text_or_error(answer: Any, text_of: Callable[[Any], str] = text_of_values) -> str | Exception:
    """Return the text of an answer, or why it has none: a gate takes either."""
    try:
        return text_of(answer)
    except (TypeError, ValueError) as error:
        return error


def _values(value: Any) -> Iterator[str]:
    if callable(dump := getattr(value, "model_dump", None)):
        value = dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, str | int | float):
        yield str(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _values(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _values(item)
    elif value is not None:
        raise TypeError(f"a part of the answer is no text: {type(value).__name__}")
