"""How does a long command show that it lives, without touching standard output?"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from calibrail.cli.output import command_line
from calibrail.cli.pace import Pace

if TYPE_CHECKING:
    from calibrail.models.call_limits import CallLimits
    from calibrail.settings import EngineOptions
    from calibrail.workflow.context import Context

#: Seconds before anything is shown in a terminal: short commands stay silent.
PATIENCE = 2.0
#: Seconds between what is shown in a terminal.
STEP: Final = 0.5
#: Seconds until the first line where nobody watches, and until the second, third, ... after that.
FIRST_LINE = 10.0
PAUSES: Final = (20.0, 30.0, 60.0, 120.0, 300.0)


def tell(pace: Pace, wait: Callable[[float], bool]) -> None:
    """Write a line on standard error now and then, until ``wait`` says that the work is done."""
    pauses = iter((FIRST_LINE, *PAUSES))
    pause = FIRST_LINE
    while not wait(pause := next(pauses, pause)):
        _line(pace.words())


def _line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def counting(what: str, limits: CallLimits | None = None, *, kept: int = 0) -> Iterator[Context]:
    """Show on standard error how far the work is, once it has taken a while.

    Yields what the work is surrounded by: this command, and whom it tells how far it is. In a
    terminal that is one line that changes; elsewhere plain lines, the first after ten seconds and
    then ever fewer. What the work will need stands in a line of its own, after the first blocks:
    ``kept`` are the bytes that a further answer takes until the end, as far as is known.

    Calls to endpoints within the block keep to the limits, and their answers are counted, too; with
    them comes the engine that scores what is scored within the block.
    """
    from calibrail.data.reader import telling_readings
    from calibrail.models.call_limits import limit_calls
    from calibrail.settings import EngineOptions
    from calibrail.workflow.context import Context

    engine = limits if isinstance(limits, EngineOptions) else None
    pace, finished = Pace(what, kept=kept), threading.Event()
    pace.say = _line

    def answered(count: int) -> None:
        pace.answered = count

    show = _draw if sys.stderr.isatty() else tell
    # Whatever takes long, scoring or what comes after it, is seen to be alive.
    teller = threading.Thread(target=show, args=(pace, finished.wait), daemon=True)
    teller.start()
    try:
        with (
            limit_calls(limits, answered) as spent,
            telling_readings(pace.reads),
            _using(engine, lambda line: pace.say(line)),
        ):
            pace.cost = spent.dollars
            yield Context(command_line(), pace)
    finally:
        finished.set()
        teller.join()


@contextmanager
def _using(engine: EngineOptions | None, say: Callable[[str], None]) -> Iterator[None]:
    if engine is None:
        yield
        return
    from calibrail.engine.current import telling_of_engine, use_engine

    with telling_of_engine(say), use_engine(engine):
        yield


def _draw(pace: Pace, wait: Callable[[float], bool]) -> None:
    """Keep one line of a terminal up to date, and remove it at the end."""
    if wait(PATIENCE):
        return
    from rich.console import Console
    from rich.status import Status

    console = Console(stderr=True, highlight=False)
    with Status(pace.words(), console=console) as status:
        # Above the line that changes.
        pace.say = lambda line: console.print(line, markup=False, soft_wrap=True)
        while not wait(STEP):
            status.update(pace.words())
    pace.say = _line
