"""A sitting of one annotator, on the page or in the terminal, until somebody stops it.

The page needs the packages of the service, and the terminal does not: each is imported when used.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from calibrail.labelling.progress import Counts
from calibrail.labelling.session import Session


def sit(
    session: Session,
    annotator: str,
    tell: Callable[[str], None],
    *,
    terminal: bool = False,
    browser: bool = True,
) -> None:
    """Label, in the terminal or on the page, until somebody stops by a key, Ctrl-C or SIGTERM.

    Parameters
    ----------
    session : Session
        Hands out answers and takes labels.
    annotator : str
        Who labels.
    tell : callable
        Takes what is said besides, a line at a time.
    terminal : bool
        Label in the terminal rather than on the page.
    browser : bool
        Open the page in the browser.
    """
    with suppress(KeyboardInterrupt), _ended_in_order():
        if terminal:
            _in_terminal(session, annotator)
        else:
            _on_page(session, annotator, tell, browser=browser)


def _in_terminal(session: Session, annotator: str) -> None:
    from rich.console import Console

    from calibrail.ui.terminal import Terminal, open_keys

    with open_keys() as keys:
        Terminal(session, annotator, keys, Console(stderr=True, highlight=False)).run()


def _on_page(
    session: Session, annotator: str, tell: Callable[[str], None], *, browser: bool
) -> None:
    from calibrail.ui.server import serve

    watched = sys.stderr.isatty()

    def address(place: str) -> None:
        tell(f"labelling as {annotator} at {place}\nCtrl-C stops; every label is saved at once")

    def progress(counts: Counts) -> None:
        if watched:
            line = f"\r{counts.by_you:,} labelled, {counts.skipped:,} skipped "
            print(line, end="", file=sys.stderr, flush=True)

    serve(session, annotator, address, progress, browser=browser)
    if watched:
        tell("")


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM end what goes on as Ctrl-C does, with all that is said at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
