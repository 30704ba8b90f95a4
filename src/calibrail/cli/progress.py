"""How does a long command show that it lives, without touching standard output?"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrail.models.terms import Terms

#: Seconds before anything is shown: short commands stay silent.
PATIENCE = 2.0


@contextmanager
def counting(what: str, terms: Terms | None = None) -> Iterator[Callable[[int], None]]:
    """Show a running count on standard error once the work has taken two seconds.

    Nothing is written where standard error is not a terminal. With terms, endpoints are called on
    them within the block, and their answers are counted, too.
    """
    from calibrail.models.terms import calling

    if not sys.stderr.isatty():
        with calling(terms):
            yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:,.0f} examples"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = progress.add_task(what, total=None)
    started = time.monotonic()
    showing = False

    def appear() -> None:
        nonlocal showing
        if not showing and time.monotonic() - started > PATIENCE:
            progress.start()
            showing = True

    def show(count: int) -> None:
        appear()
        progress.update(task, completed=count)

    def answered(count: int) -> None:
        appear()
        progress.update(task, description=f"{what}, {count:,} answers of endpoints")

    try:
        with calling(terms, answered):
            yield show
    finally:
        if showing:
            progress.stop()
