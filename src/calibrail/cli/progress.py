"""Progress line of a long command, by rich.progress."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from calibrail.cli.output import command_line
from calibrail.formatting import spoken_time

if TYPE_CHECKING:
    from rich.console import Console

    from calibrail.data.reading import Reading
    from calibrail.models.llm.transport import CallLimits
    from calibrail.options import EngineOptions
    from calibrail.pipelines.loading import Context


#: Seconds of the past by which the rate goes: after as long without progress none is shown.
WINDOW: Final = 600.0
#: Seconds between two samples of the rate, and from the first example until the rate's first
#: sample is settled: what an earlier run or a judge's cache knows comes at once, and counts for
#: no rate.
SAMPLED: Final = 5.0
#: Seconds before anything is shown in a terminal: short commands stay silent.
PATIENCE = 2.0
#: Seconds between two updates in a terminal.
STEP: Final = 0.5
#: Seconds until the first line where nobody watches, and until the second, third, ... after that.
PAUSES: Final = (10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


class ProgressLine:
    """How far the work is, how fast it goes, and how long what is left of it will take.

    No rate and no time left are shown where they are not known: until what was measured lasted as
    long as the first example took, models loaded (or shards under way) included; and after a
    standstill.

    Parameters
    ----------
    what : str
        What is done.
    clock : callable
        The time in seconds.
    console : Console, optional
        Where the line is shown; standard error unless given.
    """

    def __init__(
        self,
        what: str,
        clock: Callable[[], float] = time.monotonic,
        console: Console | None = None,
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._what, self._clock, self._lock = what, clock, threading.RLock()
        self._reading: Reading | None = None
        self.answered = self.done = 0
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            console=console or Console(stderr=True, highlight=False),
            auto_refresh=False,
            transient=True,
            get_time=clock,
            speed_estimate_period=WINDOW,
        )
        self._task = self.bar.add_task(what, total=None)
        self._restart()

    def _restart(self) -> None:
        self.done = 0
        self._started = self._clock()
        self._first = self._settled = self._sampled = math.nan
        self.bar.reset(self._task, total=None)

    def reads(self, reading: Reading) -> None:
        """Take another source, or another pass over the same."""
        with self._lock:
            self._reading = reading
            self._restart()

    def __call__(self, done: int) -> None:
        """Take how many examples are done; fewer than before begin anew."""
        with self._lock:
            if done < self.done:
                self._restart()
            grown, self.done, now = done > self.done, done, self._clock()
            if not grown:
                return
            if math.isnan(self._first):
                self._first = now
            if now - self._first < SAMPLED:
                self.bar.reset(self._task, total=None)
                self._settled = now
            elif now - self._sampled < SAMPLED:
                return
            self._sampled = now
            self.bar.update(self._task, completed=done)

    def _speed(self) -> float | None:
        """Return examples a second of the recent past; None where that is not known."""
        lasted = self._sampled - self._settled
        if not lasted >= min(max(SAMPLED, self._first - self._started), WINDOW / 2.0):
            return None
        return self.bar.tasks[0].speed if self._clock() - self._sampled < WINDOW else None

    def words(self) -> str:
        """Return what is known now, in one line."""
        with self._lock:
            done, known = self.done, self._reading is not None and self.done > 0
            total = self._reading.about_in_all() if known and self._reading else None
            speed = self._speed()
            waited = self._clock() - self._started
        of = f" of about {max(total, done):,}" if total else ""
        parts = [f"{self._what}: {done:,}{of} examples"]
        if self.answered:
            parts.append(f"{self.answered:,} answers of endpoints")
        if speed:
            parts.append(f"{speed:,.0f} a second" if speed >= 10.0 else f"{speed:.2g} a second")
            if total and total > done:
                parts.append(f"about {spoken_time((total - done) / speed)} left")
        elif not done:
            parts.append(f"{spoken_time(waited)} so far")
        return ", ".join(parts)

    def say(self, line: str) -> None:
        """Print a line on standard error, above the one that changes."""
        self.bar.console.print(line, markup=False, soft_wrap=True)

    def draw(self, wait: Callable[[float], bool]) -> None:
        """Keep one line of a terminal up to date until ``wait`` says that the work is done."""
        if wait(PATIENCE):
            return
        with self.bar:
            while True:
                self.bar.update(self._task, description=self.words(), refresh=True)
                if wait(STEP):
                    return

    def tell(self, wait: Callable[[float], bool]) -> None:
        """Print a line now and then until ``wait`` says that the work is done."""
        pauses = iter(PAUSES)
        while not wait(next(pauses, PAUSES[-1])):
            self.say(self.words())


@contextmanager
def counting(what: str, limits: CallLimits | None = None) -> Iterator[Context]:
    """Show on standard error how far the work is, once it has taken a while.

    Yields the context of the work: this command, and whom it tells how far it is. In a terminal
    that is one line that changes; elsewhere plain lines, the first after ten seconds and then ever
    fewer.

    Calls to endpoints within the block keep to the limits, and their answers are counted, too; with
    them comes the engine that scores what is scored within the block.
    """
    from calibrail.data.reading import observe_readings
    from calibrail.models.llm.transport import limit_calls
    from calibrail.options import EngineOptions
    from calibrail.pipelines.loading import Context

    engine = limits if isinstance(limits, EngineOptions) else None
    line, finished = ProgressLine(what), threading.Event()

    def answered(count: int) -> None:
        line.answered = count

    show = line.draw if sys.stderr.isatty() else line.tell
    # Whatever takes long, scoring or what comes after it, is seen to be alive.
    thread = threading.Thread(target=show, args=(finished.wait,), daemon=True)
    thread.start()
    try:
        with (
            limit_calls(limits, answered),
            observe_readings(line.reads),
            _using(engine, line.say),
        ):
            yield Context(command_line(), line)
    finally:
        finished.set()
        thread.join()


@contextmanager
def _using(engine: EngineOptions | None, say: Callable[[str], None]) -> Iterator[None]:
    if engine is None:
        yield
        return
    from calibrail.engine.distributed import telling_of_engine, use_engine

    with telling_of_engine(say), use_engine(engine):
        yield
