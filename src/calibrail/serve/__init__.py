"""Package, and signals that end a service which has not begun yet; it loads nothing that serves."""

import os
import signal
from contextlib import AbstractContextManager
from typing import Any, Final

from calibrail.working_folder import signal_handlers

#: Signals that end the process, or let it read its files again.
HANDLED: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


def exit_on_signal() -> AbstractContextManager[None]:
    """Let SIGTERM end the process as long as nothing is accepted.

    The first process of a container would ignore it otherwise.
    """
    handlers: dict[int, Any] = {signal.SIGINT: signal.getsignal(signal.SIGINT)}
    # There is nothing to read again yet, and nobody who hangs up.
    handlers |= dict.fromkeys(HANDLED[2:], signal.SIG_IGN)
    # Not by an exception: where one is raised from a callback, Python drops it, and the signal.
    handlers[signal.SIGTERM] = lambda *_: os._exit(0)
    return signal_handlers(handlers)
