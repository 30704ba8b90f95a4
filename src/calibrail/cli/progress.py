"""How does a long command show that it lives, without touching standard output?"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from calibrail.cli.output import command_line
from calibrail.phrases import spoken_time

if TYPE_CHECKING:
    from calibrail.data.reading import Reading
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


class Pace:
    """How far the work is, how fast it goes, and how long it will take.

    Parameters
    ----------
    what : str
        What is done.
    clock : callable
        The time in seconds.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock, self._started = what, clock, clock()
        self._reading: Reading | None = None
        self._total: int | None = None
        self.done = self.answered = 0

    def reads(self, reading: Reading) -> None:
        """Take another source, or another pass over the same."""
        self._reading, self._total, self.done = reading, None, 0
        self._started = self._clock()

    def __call__(self, done: int) -> None:
        """Take how many examples are done."""
        self.done = done

    def words(self) -> str:
        """Return what is known now, in one line."""
        seconds = self._clock() - self._started
        if self._total is None and self._reading is not None and self.done:
            self._total = self._reading.about_in_all()
        total, done = self._total, self.done
        of = f" of about {max(total, done):,}" if total else ""
        parts = [f"{self._what}: {done:,}{of} examples"]
        if self.answered:
            parts.append(f"{self.answered:,} answers of endpoints")
        if done and seconds > 0.0:
            rate = done / seconds
            parts.append(f"{rate:,.0f} a second" if rate >= 10.0 else f"{rate:.2g} a second")
            if total and total > done:
                left = (total - done) / rate
                parts.append(f"about {spoken_time(left)} left")
        elif not done:
            parts.append(f"{spoken_time(seconds)} so far")
        return ", ".join(parts)


def tell(pace: Pace, wait: Callable[[float], bool]) -> None:
    """Write a line on standard error now and then, until ``wait`` says that the work is done."""
    pauses = iter((FIRST_LINE, *PAUSES))
    pause = FIRST_LINE
    while not wait(pause := next(pauses, pause)):
        print(pace.words(), file=sys.stderr, flush=True)


@contextmanager
def counting(what: str, limits: CallLimits | None = None) -> Iterator[Context]:
    """Show on standard error how far the work is, once it has taken a while.

    Yields what the work is surrounded by: this command, and whom it tells how far it is. In a
    terminal that is one line that changes; elsewhere plain lines, the first after ten seconds and
    then ever fewer. Calls to endpoints within the block keep to the limits, and their answers are
    counted, too; with them comes the engine that scores what is scored within the block.
    """
    from calibrail.data.reading import telling_readings
    from calibrail.models.call_limits import limit_calls
    from calibrail.settings import EngineOptions
    from calibrail.workflow.context import Context

    engine = limits if isinstance(limits, EngineOptions) else None
    pace, finished = Pace(what), threading.Event()

    def answered(count: int) -> None:
        pace.answered = count

    show = _draw if sys.stderr.isatty() else tell
    # Whatever takes long, scoring or what comes after it, is seen to be alive.
    teller = threading.Thread(target=show, args=(pace, finished.wait), daemon=True)
    teller.start()
    try:
        with limit_calls(limits, answered), telling_readings(pace.reads), _using(engine):
            yield Context(command_line(), pace)
    finally:
        finished.set()
        teller.join()


def _using(engine: EngineOptions | None) -> AbstractContextManager[object]:
    if engine is None:
        return nullcontext()
    from calibrail.engine import use_engine

    return use_engine(engine)


def _draw(pace: Pace, wait: Callable[[float], bool]) -> None:
    """Keep one line of a terminal up to date, and remove it at the end."""
    if wait(PATIENCE):
        return
    from rich.console import Console
    from rich.status import Status

    with Status(pace.words(), console=Console(stderr=True)) as status:
        while not wait(STEP):
            status.update(pace.words())
