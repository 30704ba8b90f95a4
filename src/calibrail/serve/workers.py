"""How do several processes share one address, and who starts another where one dies?

Every process accepts from the same socket, with guardrails, queue and log of its own. The one that
started them decides nothing: it passes signals on, and replaces what ends by itself.
"""

import contextlib
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Final

from calibrail.errors import CalibrailError
from calibrail.serve.metrics import TOGETHER

#: Seconds between two looks at the processes.
_STEP: Final = 0.2
#: Seconds before a process that ended at once is started again, and the longest such wait.
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 30.0
#: Seconds beyond the time for what was accepted, after which a process is killed.
_GRACE: Final = 5.0
#: Signals that a terminal sends to all processes at once, and those that begin, too.
_FOR_ALL: Final = (signal.SIGINT, signal.SIGHUP)

#: Takes what a person should know of the guardrails, a line each, once they decide.
Begun = Callable[[Sequence[str]], None]
#: Serves in a process of its own until it is told to end: takes whom to tell that it answers, and
#: returns whether all that was accepted was answered. Picklable, as it travels to the process.
Work = Callable[[Begun], bool]


@dataclass
class _Worker:
    """A process, and the line to it."""

    process: SpawnProcess
    line: Connection
    began: float

    def said(self) -> Sequence[str] | str | None:
        """Return what it serves once it does, or why it cannot begin; None if nothing is new."""
        with contextlib.suppress(EOFError, OSError):
            if self.line.poll():
                message: Sequence[str] | str = self.line.recv()
                return message
        return None


class Workers:
    """Processes that do the same work.

    Parameters
    ----------
    work : callable
        What each does.
    n : int
        How many there are.
    drain : float
        Seconds to finish in.
    note : callable
        Takes what a person should know.
    """

    def __init__(self, work: Work, n: int, drain: float, note: Callable[[str], None]) -> None:
        self._work, self._n, self._drain, self._note = work, n, drain, note
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._stopped: float | None = None
        self._failed = False

    def run(self, begun: Begun, stopping: Callable[[], None]) -> bool:
        """Keep the processes at work until SIGTERM or Ctrl-C; return whether all ended in order.

        Parameters
        ----------
        begun : callable
            Called once, when the first process answers.
        stopping : callable
            Called once, when the processes are told to end.

        Raises
        ------
        CalibrailError
            If a process cannot begin, before any of them answers.
        """
        try:
            counts = tempfile.TemporaryDirectory(prefix="calibrail-")
        except OSError as error:
            raise CalibrailError(
                f"several workers count in files, and there is no folder for them: {error}; name "
                "one in the environment variable TMPDIR"
            ) from error
        with counts as folder, self._signals():
            os.environ[TOGETHER] = folder
            try:
                self._keep(begun, stopping)
            finally:
                del os.environ[TOGETHER]
                for worker in self._workers:
                    worker.process.kill()
                    worker.process.join()
        return not self._failed

    def _keep(self, begun: Begun, stopping: Callable[[], None]) -> None:
        answering, told = False, False
        pause, again = _FIRST_WAIT, 0.0
        while True:
            now = time.monotonic()
            if self._stopped is not None:
                if not told:
                    told = True
                    stopping()
                if not self._workers:
                    return
                if now > self._stopped + self._drain + _GRACE:
                    self._failed = True
                    return
            elif now >= again:
                while len(self._workers) < self._n and self._stopped is None:
                    self._start()
            wait([worker.process.sentinel for worker in self._workers], _STEP)
            for worker in tuple(self._workers):
                said = worker.said()
                if isinstance(said, str):
                    if not answering:
                        raise CalibrailError(said)
                    self._note(f"worker {worker.process.pid} cannot begin: {said}")
                elif said is not None and not answering:
                    answering = True
                    begun(said)
                if worker.process.is_alive():
                    continue
                self._ended(worker)
                if self._stopped is None:
                    lived = time.monotonic() - worker.began
                    pause = _FIRST_WAIT if lived > _LONGEST_WAIT else min(2 * pause, _LONGEST_WAIT)
                    again = 0.0 if lived > pause else time.monotonic() + pause

    def _start(self) -> None:
        line, theirs = self._context.Pipe()
        process = self._context.Process(target=_worker, args=(self._work, theirs))
        # The first start would start this, too, and let signals through after that.
        resource_tracker.ensure_running()
        with _held(_FOR_ALL):
            process.start()
        theirs.close()
        self._workers.append(_Worker(process, line, time.monotonic()))
        if self._stopped is not None:
            # Told before it was there to hear it.
            self._tell(signal.SIGTERM)

    def _ended(self, worker: _Worker) -> None:
        from prometheus_client.multiprocess import mark_process_dead

        self._workers.remove(worker)
        worker.process.join()
        worker.line.close()
        mark_process_dead(worker.process.pid, os.environ[TOGETHER])  # type: ignore[no-untyped-call]
        if self._stopped is not None:
            # A process that had not begun yet just ends.
            self._failed |= worker.process.exitcode not in (0, -signal.SIGTERM)
        else:
            self._note(
                f"worker {worker.process.pid} ended with {worker.process.exitcode}; another one is "
                "started"
            )

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self._stopped = self._stopped or time.monotonic()
            self._tell(signal.SIGTERM)

        def reload(number: int, frame: FrameType | None) -> None:
            self._tell(signal.SIGHUP)

        handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _tell(self, number: int) -> None:
        for worker in self._workers:
            if worker.process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.process.pid, number)


@contextlib.contextmanager
def _held(signals: Iterable[int]) -> Iterator[None]:
    """Let signals wait; a process that is started meanwhile lets them wait, too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _worker(work: Work, line: Connection) -> None:
    """Work, and end where whoever started it is gone."""
    for number in _FOR_ALL:
        # Whoever started this one says what is to be done about it.
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FOR_ALL)

    def follow() -> None:
        with contextlib.suppress(EOFError, OSError):
            line.recv()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, name="follows", daemon=True).start()
    try:
        finished = work(line.send)
    except CalibrailError as error:
        line.send(str(error))
        raise SystemExit(1) from None
    raise SystemExit(0 if finished else 1)
