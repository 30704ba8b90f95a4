"""Progress line (rich.progress)."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from calibrail.cli.output import command_line
from calibrail.formatting import spoken_time
from calibrail.models.hardware import free_memory, held_memory
from calibrail.pipelines.estimate import SCORES_KEPT, Forecast

if TYPE_CHECKING:
    from calibrail.data.reading import Reading
    from calibrail.models.llm.limits import CallLimits
    from calibrail.options import EngineOptions
    from calibrail.pipelines.context import Context


#: The recent past, by which the rate goes: seconds, examples and steps, all of them at least.
WINDOW: Final = (60.0, 2048, 8)
#: Steps nearer than this are one.
SAME: Final = 0.25
#: How many times faster than its later half the recent past may be: what was known before (the
#: shards of an earlier run, a judge's kept answers) goes hundreds of times faster, and is over.
BURST: Final = 4.0
#: Seconds of work, after the first step, until it is said what all of it will need: that step holds
#: the loading of models, however little else it did. And between two looks at memory.
LOOK: Final = 5.0
#: Examples from which on memory that grows is taken to go on growing: models' stores are full.
SETTLED: Final = 16_384
#: Likewise where rows are columns: what is said of these before is what they took when measured.
SETTLED_COLUMNS: Final = 1 << 22


class ProgressPoint(NamedTuple):
    """How far the work was at a time.

    Attributes
    ----------
    at : float
        The time in seconds.
    done : int
        Examples.
    dollars : float
        What calls had cost.
    """

    at: float
    done: int
    dollars: float


class Pace:
    """How far the work is, how fast it goes, and how long it will take.

    The work may stand still, leap (a shard ends), begin again (another pass over the data) and go
    through what an earlier run has done: the rate is that of the recent past.

    Parameters
    ----------
    what : str
        What is done.
    clock : callable
        The time in seconds.
    held, free : callable
        Bytes of memory that the process holds, and that it could still have; None where unknown.
    kept : int
        Bytes that a further answer with its texts takes until the end, as far as that is known.
    """

    def __init__(
        self,
        what: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        held: Callable[[], int | None] = held_memory,
        free: Callable[[], int | None] = free_memory,
        kept: int = 0,
    ) -> None:
        self._what, self._clock, self._lock = what, clock, Lock()
        self._held, self._free = held, free
        self._kept = kept
        self._reading: Reading | None = None
        self._foretold, self._warned = 0.0, False
        self.say: Callable[[str], None] = lambda line: None
        self.cost: Callable[[], float | None] = lambda: None
        self.answered = 0
        self._begin()

    def _begin(self) -> None:
        now = self._clock()
        self.done = 0
        self._started = self._looked = now
        self._steps = [ProgressPoint(now, 0, self.cost() or 0.0)]
        self._memory: list[tuple[int, int]] = []

    def reads(self, reading: Reading) -> None:
        """Take another source, or another pass over the same."""
        with self._lock:
            self._reading = reading
            self._begin()

    def __call__(self, done: int) -> None:
        """Take how many examples are done; fewer than before begin anew."""
        with self._lock:
            if done < self.done:
                self._begin()
            now, last = self._clock(), self._steps[-1]
            if done > self.done:
                step = ProgressPoint(now, done, self.cost() or 0.0)
                # The first step stays: where it began is what its rate goes by.
                if len(self._steps) > 2 and now - self._steps[-2].at < SAME:
                    self._steps.pop()
                if not last.done:
                    self._looked = now
                self._steps.append(step)
                self._forget(now)
            self.done = done
            look = now - self._looked >= LOOK and len(self._steps) > 2
            if look:
                self._looked = now
        if look:
            self._look()

    def words(self) -> str:
        """Return what is known now, in one line."""
        with self._lock:
            now, done = self._clock(), self.done
            rate = self._recent(now)[0]
        total = self._about_in_all(done)
        of = f" of about {max(total, done):,}" if total else ""
        parts = [f"{self._what}: {done:,}{of} examples"]
        if self.answered:
            parts.append(f"{self.answered:,} answers of endpoints")
        if rate > 0.0:
            parts.append(f"{rate:,.0f} a second" if rate >= 10.0 else f"{rate:.2g} a second")
            if total and total > done:
                parts.append(f"about {spoken_time((total - done) / rate)} left")
        elif not done:
            parts.append(f"{spoken_time(now - self._started)} so far")
        return ", ".join(parts)

    def forecast(self) -> Forecast | None:
        """Return what all of the work needs; None where its size or its rate is not known."""
        with self._lock:
            now, done = self._clock(), self.done
            rate, dollars_each = self._recent(now)
            so_far, growth = now - self._started, self._growth()
        total = self._about_in_all(done)
        if not total or rate <= 0.0:
            return None
        left, spent = max(0, total - done), self.cost()
        return Forecast(
            n_examples=max(total, done),
            seconds=so_far + left / rate,
            held=self._held(),
            more=round(left * growth),
            free=self._free(),
            dollars=None if spent is None else spent + left * dollars_each,
        )

    def _look(self) -> None:
        """Look at memory; say what the work will need where that is worth a word, or much more."""
        held = self._held()
        if held is not None:
            self._memory.append((self.done, held))
        forecast = self.forecast()
        if forecast is None:
            return
        seconds = forecast.seconds or 0.0
        if seconds > 2.0 * self._foretold and (forecast.long or forecast.too_large):
            self._foretold = seconds
            self.say(f"{self._what} {forecast.sentence()}")
        if not self._warned and (warning := forecast.warning()):
            self._warned = True
            self.say(f"warning: {warning}")

    def _about_in_all(self, done: int) -> int | None:
        return self._reading.about_in_all() if self._reading is not None and done else None

    def _forget(self, now: float) -> None:
        """Drop the steps that are older than the recent past."""
        seconds, examples, steps = WINDOW
        first = 0
        while (
            len(self._steps) - first - 1 > steps
            and now - self._steps[first + 1].at >= seconds
            and self.done - self._steps[first + 1].done >= examples
        ):
            first += 1
        del self._steps[:first]

    def _recent(self, now: float) -> tuple[float, float]:
        """Return examples a second and dollars an example of the recent past; 0 where unknown."""
        steps = self._steps
        if len(steps) < 2 or (steps[0].done == 0 and now - steps[1].at < LOOK):
            return 0.0, 0.0
        # A step that takes as long as the others is no standstill: only what lasts longer counts.
        usual = (steps[-1].at - steps[0].at) / max(1, len(steps) - 1)
        if now - steps[-1].at > max(LOOK, 4.0 * usual):
            steps = [*steps, steps[-1]._replace(at=now)]
        first = 0
        # Loading models is no part of the rate, once there are steps without it.
        if steps[0].done == 0 and len(steps) > 2 and steps[-1].at - steps[1].at >= 1.0:
            first = 1
        while (rate := _rate(steps[first], steps[-1])) > 0.0:
            middle = (steps[first].at + steps[-1].at) / 2.0
            later = max(k for k in range(first, len(steps)) if steps[k].at <= middle)
            if later == first or rate <= BURST * _rate(steps[later], steps[-1]):
                break
            first = later
        done = steps[-1].done - steps[first].done
        spent = steps[-1].dollars - steps[first].dollars
        return rate, spent / done if done else 0.0

    def _growth(self) -> float:
        """Return the bytes that a further answer takes until the end."""
        texts = self._reading is not None and "response" in self._reading.columns.present
        known, settled = self._kept, SETTLED
        if not texts:
            known, settled = min(self._kept, SCORES_KEPT), SETTLED_COLUMNS
        measured = []
        done, held = self._memory[-1] if self._memory else (0, 0)
        for share in (2, 4):
            before = [item for item in self._memory if settled <= item[0] <= done / share]
            if not before:
                return float(known)
            measured.append((held - before[-1][1]) / (done - before[-1][0]))
        return max(float(known), min(measured))


def _rate(first: ProgressPoint, last: ProgressPoint) -> float:
    seconds = last.at - first.at
    return (last.done - first.done) / seconds if seconds > 0.0 else 0.0


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
    from calibrail.data.reading import observe_readings
    from calibrail.models.llm.limits import limit_calls
    from calibrail.options import EngineOptions
    from calibrail.pipelines.context import Context

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
            observe_readings(pace.reads),
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
    from calibrail.engine.distributed import telling_of_engine, use_engine

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
