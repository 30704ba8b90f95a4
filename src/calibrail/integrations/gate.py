"""How do frameworks ask a guardrail, from any thread or event loop, and what is then shown?"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from calibrail.data.example import Example
    from calibrail.guardrail.decision import Decision
    from calibrail.guardrail.decision_log import DecisionLog
    from calibrail.guardrail.runtime import Guardrail

#: What is shown instead of an answer that may not be released, by the decision's outcome.
REFUSALS: Final[Mapping[str, str]] = {
    "flag": "This answer is withheld: it does not seem to be supported by the sources.",
    "review": "This answer is withheld until a person has looked at it.",
    "error": "This answer is withheld: it could not be checked.",
}

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
        columns: Mapping[str, float | str | None] | None = None,
    ) -> Decision:
        """Return the decision about one answer."""
        ...


#: What every adapter takes as its guardrail.
Guarding: TypeAlias = "Gate | Checker | str | PathLike[str]"


class Gate:
    """A guardrail as frameworks call it: it always decides, once at a time, whoever asks.

    A detector that fails, a service that cannot be reached, or a log that cannot be written does
    not raise: the answer gets the outcome of the failure policy, so that it is not released. Copies
    of a gate are the gate itself: one model serves all threads.

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

    Raises
    ------
    GuardrailError
        The file is no guardrail that this machine can load.
    InputError
        ``guardrail`` decides nothing, or a log is asked for with the client of a service, which
        keeps its own.
    """

    def __init__(
        self,
        guardrail: Checker | str | PathLike[str],
        *,
        refusal: str | Callable[[Decision], str] | None = None,
        log: str | PathLike[str] | DecisionLog | None = None,
        notify: Callable[[Decision], object] | None = None,
    ) -> None:
        # Loaded here: to import an adapter costs little beside its framework.
        from calibrail.errors import InputError
        from calibrail.guardrail.decision_log import DecisionLog
        from calibrail.guardrail.runtime import Guardrail
        from calibrail.models.forks import renewed

        self._refusal, self._notify = refusal, notify
        local = None
        if isinstance(guardrail, Guardrail | str | PathLike):
            guardrail = local = Guardrail.of(guardrail)
        elif not isinstance(guardrail, Checker):
            raise InputError(
                f"guardrail must be a Guardrail, the path of its file or a Client; got "
                f"{type(guardrail).__name__}"
            )
        if log is not None and local is None:
            raise InputError(
                "log is for a guardrail of this process: a service keeps its own (calibrail serve "
                "--log)"
            )
        self.checker: Checker = guardrail
        self.guardrail: Guardrail | None = local
        self._log = log if isinstance(log, DecisionLog | None) else DecisionLog(log)
        self.renew_after_fork()
        renewed(self)

    @classmethod
    def of(cls, guardrail: Guarding) -> Gate:
        """Return a gate as it is, and make one of anything else that decides."""
        return guardrail if isinstance(guardrail, Gate) else cls(guardrail)

    def renew_after_fork(self) -> None:
        """Make locks and threads anew, in a child of the process that made the gate."""
        n = 1 if self.guardrail is not None and not self.guardrail.endpoints else _ASKING
        self._turns = threading.Semaphore(n)
        self._threads = ThreadPoolExecutor(n, "calibrail")

    def __copy__(self) -> Self:
        """Return the gate itself: a copy would load the model again."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the gate itself likewise."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as the guardrail, its refusal, its log's folder and notice."""
        folder = None if self._log is None else self._log.folder
        return _gate, (self.checker, self._refusal, folder, self._notify)

    @property
    def digest(self) -> str | None:
        """The guardrail's digest; None where a service decides."""
        return None if self.guardrail is None else self.guardrail.config.digest

    def check(
        self,
        *,
        response: str,
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        columns: Mapping[str, float | str | None] | None = None,
    ) -> Decision:
        """Decide about one answer; the parameters are those of ``Guardrail.check``.

        Raises
        ------
        InputError
            A text is none, which is the caller's mistake and no failure of the detector.
        """
        example = _example(response, question, contexts, id, columns)
        return self._noted(self._decided(example))

    async def acheck(
        self,
        *,
        response: str,
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        columns: Mapping[str, float | str | None] | None = None,
    ) -> Decision:
        """Decide as `check` does, while the event loop goes on."""
        example = _example(response, question, contexts, id, columns)
        run = partial(contextvars.copy_context().run, self._decided, example)
        return self._noted(await asyncio.get_running_loop().run_in_executor(self._threads, run))

    def failed(self, error: Exception, *, question: str = "", id: str = "") -> Decision:
        """Return the failure policy's decision about an answer that cannot be handed over as text.

        Parameters
        ----------
        error : Exception
            Why not; the decision's reason says so.
        """
        return self._noted(self._failed(_example("", question, id=id), error))

    def shown(self, decision: Decision, response: str) -> str:
        """Return the answer where it may be released, and what is shown instead where not."""
        if not decision.flagged:
            return response
        if callable(self._refusal):
            return self._refusal(decision)
        return REFUSALS[decision.outcome] if self._refusal is None else self._refusal

    def details(self, decision: Decision) -> dict[str, Any]:
        """Return a decision as JSON values, with the digest of the guardrail that made it."""
        return decision.to_dict() | {"guardrail": self.digest}

    def _noted(self, decision: Decision) -> Decision:
        if self._notify is not None:
            self._notify(decision)
        return decision

    def _decided(self, example: Example) -> Decision:
        with self._turns:
            try:
                decision = self.checker.check(
                    response=example.response,
                    question=example.question,
                    contexts=example.contexts,
                    id=example.id,
                    columns=example.columns,
                )
                if self._log is not None and self.guardrail is not None:
                    from calibrail.guardrail.decision_log import Entry

                    self._log.write([Entry.of(self.guardrail, example, decision)])
            except Exception as error:
                return self._failed(example, error)
        return decision

    def _failed(self, example: Example, error: Exception) -> Decision:
        from calibrail.guardrail.decision import FAILED, Decision

        if self.guardrail is not None:
            return self.guardrail.failed(example, error)
        reason = f"{FAILED}: {type(error).__name__}: {error}; policy: error"
        return Decision(example.id, "error", None, None, None, reason)


def _example(
    response: str,
    question: str = "",
    contexts: Sequence[str] | str = (),
    id: str = "",
    columns: Mapping[str, float | str | None] | None = None,
) -> Example:
    from calibrail.data.example import Example

    return Example.asked(
        response=response, question=question, contexts=contexts, id=id, columns=columns
    )


def _gate(checker: Checker, refusal: Any, log: Any, notify: Any) -> Gate:
    return Gate(checker, refusal=refusal, log=log, notify=notify)
