"""What must a process make anew after it was forked?

A child shares its parent's sockets, so that either would read the other's replies; a lock that a
thread of the parent held stays locked in it; SQLite forbids a connection that was opened before
(https://www.sqlite.org/howtocorrupt.html, 2.6); and torch waits for threads that were not forked.
Servers that load a guardrail first and fork workers then (gunicorn with ``preload``,
multiprocessing on Linux) meet all four.
"""

import os
import sys
from typing import Any, Final, Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """What holds locks, connections or threads."""

    def renew_after_fork(self) -> None:
        """Make anew, in the child, what must not be shared with the parent."""
        ...


_holders: Final[WeakSet[Any]] = WeakSet()
_inherited: Final[list[object]] = []


def renewed(holder: Renewable) -> None:
    """Have ``renew_after_fork`` of a holder called in every child, before anything else runs."""
    _holders.add(holder)


def leave_to_parent(item: object) -> None:
    """Keep what belongs to the parent from being closed here: closing would speak on its behalf."""
    _inherited.append(item)


def _in_child() -> None:
    for holder in list(_holders):
        holder.renew_after_fork()
    # The threads between which torch divides its work are the parent's; one of its own is enough
    # where each core has a worker.
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
