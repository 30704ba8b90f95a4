"""Renew locks and connections after fork.

A child shares its parent's sockets, so that either would read the other's replies; a lock that a
thread of the parent held stays locked in it; SQLite forbids a connection that was opened before
(https://www.sqlite.org/howtocorrupt.html, 2.6); torch waits for threads that were not forked; and a
thread that has just ended, as far as Python knows, may still hold OpenSSL's locks while it is
cleared away. Servers that load a guardrail first and fork workers then (gunicorn with ``preload``,
multiprocessing on Linux) meet all five.
"""

import os
import sys
import threading
import time
from typing import Any, Final, Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """What holds locks, connections or threads."""

    def renew_after_fork(self) -> None:
        """Make anew, in the child, what must not be shared with the parent."""
        ...


_holders: Final[WeakSet[Any]] = WeakSet()
_inherited: Final[list[object]] = []
_ending: Final[dict[int, threading.Thread]] = {}

#: Where Linux lists the threads of this process.
_TASKS: Final = "/proc/self/task"
#: From so many threads on those that are gone are forgotten.
_MANY: Final = 256
#: Seconds for which a fork waits for threads that have ended.
_PATIENCE: Final = 1.0


def renewed(holder: Renewable) -> None:
    """Have ``renew_after_fork`` of a holder called in every child, before anything else runs."""
    _holders.add(holder)


def leave_to_parent(item: object) -> None:
    """Keep what belongs to the parent from being closed here: closing would speak on its behalf."""
    _inherited.append(item)


def waited_for() -> None:
    """Have forks wait for the end of the current thread, once Python says that it has ended."""
    if len(_ending) >= _MANY:
        for task, thread in list(_ending.items()):
            if not (thread.is_alive() or os.path.exists(f"{_TASKS}/{task}")):
                _ending.pop(task, None)
    _ending[threading.get_native_id()] = threading.current_thread()


def _before() -> None:
    deadline = time.monotonic() + _PATIENCE
    for task, thread in list(_ending.items()):
        if thread.is_alive():
            continue
        while os.path.exists(f"{_TASKS}/{task}") and time.monotonic() < deadline:
            time.sleep(0.0005)
        _ending.pop(task, None)


def _in_child() -> None:
    _ending.clear()
    for holder in list(_holders):
        holder.renew_after_fork()
    # The threads between which torch divides its work are the parent's; one of its own is enough
    # where each core has a worker.
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
