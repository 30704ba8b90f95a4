"""Progress line of a long command."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from calibrail.cli.output import command_line
from calibrail.formatting import spoken_time

if TYPE_CHECKING:
    from calibrail.data.reading import Reading
    from calibrail.models.llm.transport import CallLimits
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
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console

        self._what, self._clock, self._lock = what, clock, threading.RLock()
        self._console = Console(stderr=True, highlight=False)
        self._reading: Reading | None = None
        self._samples: deque[tuple[float, int]] = deque()
        self.answered = 0
        self._restart()

    def _restart(self) -> None:
        self.done, self._started, self._first = 0, self._clock(), 0.0
        self._samples.clear()

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
            if done == self.done:
                return
            samples, self.done, now = self._samples, done, self._clock()
            if not samples:
                self._first = now
            if now - self._first < SAMPLED:
                samples.clear()
            elif now - samples[-1][0] < SAMPLED:
                return
            samples.append((now, done))
            while len(samples) > 2 and samples[0][0] < now - WINDOW:
                samples.popleft()

    def _speed(self) -> float | None:
        """Return examples a second of the recent past; None where that is not known."""
        if len(self._samples) < 2:
            return None
        (begun, before), (last, after) = self._samples[0], self._samples[-1]
        needed = min(max(SAMPLED, self._first - self._started), WINDOW / 2.0)
        known = last - begun >= needed and self._clock() - last < WINDOW
        return (after - before) / (last - begun) if known else None

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
        self._console.print(line, markup=False, soft_wrap=True)

    def draw(self, wait: Callable[[float], bool]) -> None:
        """Keep one line of a terminal up to date until ``wait`` says that the work is done."""
        from rich.text import Text

        if not wait(PATIENCE):
            with self._console.status(Text(self.words())) as status:
                while not wait(STEP):
                    status.update(Text(self.words()))

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

    line, finished = ProgressLine(what), threading.Event()

    def answered(count: int) -> None:
        line.answered = count

    show = line.draw if sys.stderr.isatty() else line.tell
    # Whatever takes long, scoring or what comes after it, is seen to be alive.
    thread = threading.Thread(target=show, args=(finished.wait,), daemon=True)
    thread.start()
    try:
        with ExitStack() as stack:
            stack.enter_context(limit_calls(limits, answered))
            stack.enter_context(observe_readings(line.reads))
            engine: object = limits
            if isinstance(engine, EngineOptions):
                from calibrail.engine.distributed import telling_of_engine, use_engine

                stack.enter_context(telling_of_engine(line.say))
                stack.enter_context(use_engine(engine))
            yield Context(command_line(), line)
    finally:
        finished.set()
        thread.join()
