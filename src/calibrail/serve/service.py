"""Log, queue, readiness of one process."""

import asyncio
import os
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Final

from calibrail.data.example import Example
from calibrail.errors import InputError, LogError
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.options.runtime import ServeOptions
from calibrail.serve.batching import Batcher
from calibrail.serve.guardrails import Guardrails, Loaded
from calibrail.serve.metrics import Metrics
from calibrail.serve.schemas import TOKEN_VARIABLE, ServiceProblem
from calibrail.serve.watch_status import Statuses

#: Deadlines after which a detector that is still at one batch is taken to hang.
LOST: Final = 5
#: Bytes that must find room before a log that failed is tried with decisions again.
_ROOM: Final = 2**16


class Service:
    """The guardrails, the queue and the log of one process.

    Made within a running event loop.

    Parameters
    ----------
    options : ServeOptions
        The limits.
    guardrails : Guardrails
        What decides.
    log : DecisionLog or None
        Where decisions are kept before they are given.
    """

    def __init__(
        self, options: ServeOptions, guardrails: Guardrails, log: DecisionLog | None = None
    ) -> None:
        self.options, self.guardrails = options, guardrails
        self.token = token()
        self.draining = False
        #: By guardrail; held while its file is loaded.
        self.reloading = {name: asyncio.Lock() for name in guardrails.names()}
        self._log, self._log_error = log, ""
        self.metrics = Metrics(lambda: not self.unready())
        for loaded in guardrails:
            self.metrics.expect(loaded)
        self.statuses: Statuses | None = None
        if options.monitor is not None:
            self.statuses = Statuses(options.monitor, guardrails)
            self.metrics.show(self.statuses)
        self.batcher = Batcher(options, self.keep, self.metrics)

    def dead(self) -> ServiceProblem | None:
        """Return the problem that nothing but starting the process anew would help against."""
        return ServiceProblem.of("stuck") if self.batcher.stuck(LOST) else None

    def keep(
        self,
        loaded: Loaded,
        decided: Sequence[tuple[Example, Decision]],
        *,
        kind: str = "check",
        released: Sequence[bool] | None = None,
    ) -> None:
        """Write decisions to the log before they are given, and count them.

        Parameters
        ----------
        loaded : Loaded
            What decided.
        decided : sequence of (Example, Decision)
            The answers.
        kind : str
            What was asked.
        released : sequence of bool, optional
            Of a selection, whether each answer is released.

        Raises
        ------
        Problem
            If they cannot be written; they must not be given then.
        """
        if self._log is not None:
            made = partial(Entry.of, loaded.guardrail, name=loaded.name, kind=kind)
            entries = [
                made(*pair, released=None if released is None else released[place])
                for place, pair in enumerate(decided)
            ]
            try:
                self._log.write(entries)
            except LogError as error:
                self.metrics.count("log_errors")
                self.metrics.count("failures", loaded.name, "log", by=len(entries))
                self._log_error = str(error)
                raise ServiceProblem.of("not_logged") from error
            self._log_error = ""
            self.metrics.count("log_lines", by=len(entries))
        self.metrics.decided(loaded, (decision for _, decision in decided))

    def unready(self) -> ServiceProblem | None:
        """Return what keeps the service from deciding; may write to the disk."""
        if self.draining:
            return ServiceProblem.of("stopping")
        if self.batcher.stuck():
            return ServiceProblem.of("stuck")
        if self._log_error and self._log is not None:
            try:
                with tempfile.TemporaryFile(dir=self._log.folder) as file:
                    file.write(bytes(_ROOM))
            except OSError:
                return ServiceProblem.of("log_failed", error=self._log_error)
            self._log_error = ""
        return None

    async def close(self) -> bool:
        """Finish what waits, and end the threads; return whether all was decided in time."""
        finished = await self.batcher.emptied(self.options.drain)
        if finished:
            self.batcher.close()
        if self._log is not None:
            self._log.close()
        return finished


def token() -> str | None:
    """Return the token that requests must bring, None where the environment has none.

    A line's end behind it, as files of secrets have it, is no part of it.

    Raises
    ------
    InputError
        If no client could send it.
    """
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return None
    secret = given.removesuffix("\n").removesuffix("\r")
    if not secret or not all("!" <= letter <= "~" for letter in secret):
        # It is a secret: the message does not repeat it.
        what = "is set, but holds nothing" if not secret.strip() else "holds other characters"
        raise InputError(
            f"{TOKEN_VARIABLE} {what}; a token consists of visible ASCII characters, without "
            "blanks: set one, or unset it where anybody who reaches the service may ask"
        )
    return secret
