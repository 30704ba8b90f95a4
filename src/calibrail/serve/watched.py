"""What runs in the process of a watch: ``calibrail monitor``, for as long as the service does."""

import contextlib
import os
import runpy
import signal
import threading
import time
from typing import Final

#: Seconds to end in once the service is gone.
_GRACE: Final = 10.0


def main() -> None:
    """Run the command line on this process's arguments, behind whatever decides on this machine."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    threading.Thread(target=_follow, name="follows", daemon=True).start()
    # As ``python -m calibrail`` does: the service stands below the commands, and imports none.
    runpy.run_module("calibrail", run_name="__main__")


def _follow() -> None:
    """End with the process that holds the other end of standard input, however that one ends."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(1)


if __name__ == "__main__":
    main()
