"""How does a long command show that it lives, without touching standard output?"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from calibrail.cli.output import command_line

if TYPE_CHECKING:
    from calibrail.models.call_limits import CallLimits
    from calibrail.workflow.context import Context

#: Seconds before anything is shown: short commands stay silent.
PATIENCE = 2.0


@contextmanager
def counting(what: str, limits: CallLimits | None = None) -> Iterator[Context]:
    """Show a running count on standard error once the work has taken two seconds.

    Yields what the work is surrounded by: this command, and whom it tells how far it is. Nothing is
    written where standard error is not a terminal. Calls to endpoints within the block keep to the
    limits, and their answers are counted, too.
    """
    from calibrail.models.call_limits import limit_calls
    from calibrail.workflow.context import Context

    if not sys.stderr.isatty():
        with limit_calls(limits):
            yield Context(command_line())
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

    def show(count: int) -> None:
        progress.update(task, completed=count)

    def answered(count: int) -> None:
        progress.update(task, description=f"{what}, {count:,} answers of endpoints")

    # Whatever takes long, scoring or what comes after it, is seen to be alive.
    timer = threading.Timer(PATIENCE, progress.start)
    timer.daemon = True
    timer.start()
    try:
        with limit_calls(limits, answered):
            yield Context(command_line(), show)
    finally:
        timer.cancel()
        timer.join()
        if progress.live.is_started:
            progress.stop()
