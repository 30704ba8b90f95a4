"""Which answers wait for the same threads, and which of them share a batch?"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from calibrail.data.example import Example
from calibrail.guardrail.decision import Decision
from calibrail.serve.guardrails import Loaded


class Request:
    """Answers that came together and are answered together."""

    __slots__ = ("answers", "decisions", "done", "left", "timer")

    def __init__(self, done: asyncio.Future[list[Decision]]) -> None:
        self.done = done
        self.answers: list[Waiting] = []
        self.decisions: list[Decision | None] = []
        self.left = 0
        self.timer: asyncio.TimerHandle | None = None


class Waiting:
    """One answer that waits for its decision.

    Attributes
    ----------
    example : Example
        The answer.
    loaded : Loaded
        The guardrail that it came to; another one that is swapped in does not decide it.
    alone : bool
        Whether it is scored by itself.
    kept : bool
        Whether its decision is kept as soon as there is one.
    """

    __slots__ = ("alone", "example", "kept", "loaded", "place", "request", "settled")

    def __init__(self, example: Example, loaded: Loaded, *, alone: bool, kept: bool) -> None:
        self.example, self.loaded, self.alone, self.kept = example, loaded, alone, kept
        self.request: Request
        self.place = 0
        #: Who sets it, under the lock, is the one who gives the decision.
        self.settled = False


class Step:
    """What is to be done in turn for an answer that is still being written."""

    __slots__ = ("alone", "done", "loaded", "settled", "work")

    def __init__(self, loaded: Loaded, work: Callable[[], Any], done: asyncio.Future[Any]) -> None:
        self.loaded, self.work, self.done = loaded, work, done
        self.alone, self.settled = True, False

    def take(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do it, in a thread that scores."""
        try:
            result, error = self.work(), None
        except BaseException as raised:
            result, error = None, raised if isinstance(raised, Exception) else _ended(raised)
        loop.call_soon_threadsafe(self._deliver, result, error)

    def _deliver(self, result: Any, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(result)


def _ended(error: BaseException) -> RuntimeError:
    """Return what a thread wanted to end with, as an error that can wait for its turn."""
    return RuntimeError(repr(error))


class Lane:
    """Answers that wait for the same threads."""

    def __init__(self, lock: threading.Lock, n_threads: int) -> None:
        self.ready = threading.Condition(lock)
        self.waiting: deque[Waiting | Step] = deque()
        self.n_threads, self.n_idle = n_threads, 0
        self.threads: list[threading.Thread] = []
        #: When each thread that is at work began its batch.
        self.began: dict[int, float] = {}

    def take(self, most: int) -> list[Waiting | Step]:
        """Return the first answer, and with it others that may share its batch."""
        first = self.waiting.popleft()
        batch: list[Waiting | Step] = [first]
        if first.alone:
            return batch
        left: list[Waiting | Step] = []
        while self.waiting and len(batch) < most:
            answer = self.waiting.popleft()
            shares = answer.loaded is first.loaded and not answer.alone
            (batch if shares else left).append(answer)
        self.waiting.extendleft(reversed(left))
        return batch

    def drop_settled(self) -> None:
        """Forget answers that were decided otherwise."""
        if any(answer.settled for answer in self.waiting):
            self.waiting = deque(answer for answer in self.waiting if not answer.settled)
