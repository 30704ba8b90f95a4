"""How do answers wait for a detector that decides one at a time, and no longer than they may?"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

Result = TypeVar("Result")

_Call: TypeAlias = "tuple[Future[Any], contextvars.Context, Callable[[], Any]]"


class Turns:
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


class Settled:
    """Which of two came first: the decision, or the one who waited and went."""

    def __init__(self) -> None:
        self._lock, self._by = threading.Lock(), ""

    def by(self, who: str) -> bool:
        """Return whether this one came first."""
        with self._lock:
            self._by = self._by or who
            return self._by == who
