"""Package, and signals that end a service which has not begun yet; it loads nothing that serves."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Final

#: Signals that end the process, or let it read its files again.
HANDLED: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@contextlib.contextmanager
def exit_on_signal() -> Iterator[None]:
    """Let SIGTERM end the process as long as nothing is accepted.

    The first process of a container would ignore it otherwise.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in HANDLED}
    # There is nothing to read again yet, and nobody who hangs up.
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Not by an exception: where one is raised from a callback, Python drops it, and the signal.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
