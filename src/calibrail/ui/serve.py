"""How is the page opened on this machine, and closed again?"""

import contextlib
import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable

import uvicorn

from calibrail.labelling.session import Session
from calibrail.labelling.tasks import Counts
from calibrail.ui.access import Access
from calibrail.ui.server import Page, application

#: Seconds that requests under way get when the server ends.
_LAST_WORDS = 2


def serve(
    session: Session,
    annotator: str,
    tell: Callable[[str], None],
    progress: Callable[[Counts], None],
    *,
    browser: bool = True,
) -> None:
    """Serve the page of one annotator until it is stopped there, or by Ctrl-C.

    Parameters
    ----------
    session : Session
        Hands out answers and takes labels.
    annotator : str
        Who labels here.
    tell : callable
        Takes the address, once it answers.
    progress : callable
        Takes the counts after each label.
    browser : bool
        Open it in the browser, too.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
        server: uvicorn.Server

        def stop() -> None:
            server.should_exit = True

        config = uvicorn.Config(
            Access(application(Page(session, annotator, progress), stop), token, port),
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=_LAST_WORDS,
            lifespan="off",
            ws="none",
        )
        server = uvicorn.Server(config)
        listener.listen()
        address = f"http://127.0.0.1:{port}/?token={token}"
        tell(address)
        if browser and _has_a_screen():
            # Some browsers answer only when they are closed.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        # uvicorn ends in good order first, and then raises Ctrl-C again.
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def _has_a_screen() -> bool:
    """Return whether a browser would have a window: one in the terminal would take it over."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    return sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in screens)
