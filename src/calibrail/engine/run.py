"""How do shards become results, whatever runs them, and what is said of those that fail?"""

import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from calibrail.data.example import Example
from calibrail.engine.local import characters
from calibrail.engine.store import MANIFEST, ShardStore
from calibrail.engine.task import Job, Outcome, perform, told
from calibrail.errors import DataError, InputError
from calibrail.models.store import blocks
from calibrail.own_folder import own_folder
from calibrail.phrases import count
from calibrail.settings.engine import EngineOptions
from calibrail.settings.option import option_of

SCHEMA: Final = "calibrail.shards/1"

#: Characters of a shard: what a worker holds at a time.
SHARD_CHARACTERS: Final = 8_000_000

#: Failed shards after which a run ends where none was computed.
_HOPELESS: Final = 3

#: Seconds between two writings of the manifest, and how many times its time they are at least.
_PAUSE: Final = 2.0
_PART: Final = 50.0


@dataclass(slots=True, eq=False)
class Shard:
    """Consecutive rows, and how far they are.

    Attributes
    ----------
    first, n : int
        Number of the first row, from 1 on, and how many there are.
    digest : str
        What tells its content from others.
    results : list of Path
        What is computed of it, or was known.
    waiting : int
        Results that are still missing; negative until that is known.
    error : str or None
        Why one of them failed.
    attempts : int
        How often the work was begun; 0 where all was known.
    """

    first: int
    n: int
    digest: str = ""
    results: list[Path] = field(default_factory=list)
    waiting: int = -1
    error: str | None = None
    attempts: int = 0

    @property
    def state(self) -> str:
        """``done``, ``failed`` or ``waiting``."""
        return "failed" if self.error is not None else "waiting" if self.waiting else "done"


class ShardRun:
    """The shards of one run: what is done, what failed and why.

    Parameters
    ----------
    store : ShardStore
        Where results stand.
    options : EngineOptions
        Where the work is done.
    what : mapping
        What is computed, JSON-able, for the manifest.
    progress : callable, optional
        Called with the number of rows that are done.
    release : callable, optional
        Called with the number of each shard that is done, in the order of the shards.
    """

    def __init__(
        self,
        store: ShardStore,
        options: EngineOptions,
        what: Any,
        progress: Callable[[int], None] | None = None,
        release: Callable[[int], None] | None = None,
    ) -> None:
        self.store, self.options = store, options
        self.shards: list[Shard] = []
        self._what, self._progress, self._release = what, progress, release
        self._n_done, self._n_released, self._complete = 0, 0, False
        self._failed, self._n_computed, self._given_up = list[int](), 0, False
        self._next = time.monotonic() + _PAUSE

    def cut(self, examples: Iterable[Example]) -> Iterator[tuple[int, Shard, list[Example]]]:
        """Cut examples into shards; yield each one's number, the shard and its examples."""
        first, rows = 1, self.options.shard_rows
        for number, batch in enumerate(blocks(examples, characters, rows, SHARD_CHARACTERS)):
            self.shards.append(shard := Shard(first, len(batch)))
            first += shard.n
            yield number, shard, batch

    def finished(self, shard: Shard) -> None:
        """Take note that nothing of a shard is missing any more, or that it failed."""
        if shard.state == "done":
            self._n_done += shard.n
            if self._progress is not None:
                self._progress(self._n_done)
        while self._n_released < len(self.shards) and (
            self.shards[self._n_released].state == "done"
        ):
            if self._release is not None:
                self._release(self._n_released)
            self._n_released += 1
        if time.monotonic() > self._next:
            self.tell()

    def run(self, jobs: Iterator[Job]) -> None:
        """Run all jobs; those that fail stop none of the others.

        Raises
        ------
        DataError
            If a shard failed; all others are done, unless none of the first ones could be.
        """
        inputs: dict[int, list[Path]] = {}

        def noted() -> Iterator[Job]:
            for job in jobs:
                inputs.setdefault(job.number, []).append(job.input)
                yield job

        try:
            with closing(self._outcomes(noted())) as outcomes:
                for outcome in outcomes:
                    shard = self.shards[outcome.number]
                    shard.waiting -= 1
                    shard.attempts = max(shard.attempts, outcome.attempts)
                    if shard.error is None and outcome.error is not None:
                        shard.error = outcome.error
                        self._failed.append(outcome.number)
                    if not shard.waiting:
                        for path in inputs.pop(outcome.number):
                            path.unlink(missing_ok=True)
                        self._n_computed += shard.state == "done"
                    self.finished(shard)
                    if len(self._failed) >= _HOPELESS and not self._n_computed:
                        self._given_up = True
                        break
            self._complete = not self._failed
        finally:
            for path in (path for paths in inputs.values() for path in paths):
                path.unlink(missing_ok=True)
            self.tell()
        if self._failed:
            raise DataError(self._words())

    def _outcomes(self, jobs: Iterator[Job]) -> Generator[Outcome]:
        match self.options.engine:
            case "local":
                return (self._here(job) for job in jobs)
            case "processes":
                from calibrail.engine.processes import run_in_processes

                return run_in_processes(jobs, self.options)
            case "ray":
                from calibrail.engine.ray import run_on_ray

                return run_on_ray(jobs, self.options)

    def _here(self, job: Job) -> Outcome:
        furthest = self._n_done

        def tell(share: float) -> None:
            nonlocal furthest
            if (
                self._progress is not None
                and (done := self._n_done + round(share * job.n)) > furthest
            ):
                furthest = done
                self._progress(done)

        token = told.set(tell)
        try:
            return Outcome(job.number, perform(job.task, job.input, job.result))
        finally:
            told.reset(token)

    def tell(self) -> None:
        """Write the manifest."""
        started = time.monotonic()
        listed = [self._told(number, shard) for number, shard in enumerate(self.shards)]
        self.store.tell(
            {
                "schema": SCHEMA,
                "engine": self.options.engine,
                "what": self._what,
                "shard_rows": self.options.shard_rows,
                "complete": self._complete,
                "n_rows": sum(shard.n for shard in self.shards),
                "n_done": sum(shard.n for shard in self.shards if shard.state == "done"),
                "n_failed": sum(shard.n for shard in self.shards if shard.state == "failed"),
                "shards": listed,
            }
        )
        # A long list takes long: it is written the less often.
        self._next = time.monotonic() + max(_PAUSE, _PART * (time.monotonic() - started))

    def _told(self, number: int, shard: Shard) -> dict[str, Any]:
        folder = self.store.folder
        entry: dict[str, Any] = {
            "number": number,
            "rows": [shard.first, shard.first + shard.n - 1],
            "digest": shard.digest,
            "state": shard.state,
            "results": [str(path.relative_to(folder)) for path in shard.results],
            "attempts": shard.attempts,
        }
        return entry if shard.error is None else entry | {"error": shard.error}

    def _words(self) -> str:
        failed = sorted(self._failed)
        first = self.shards[failed[0]]
        n_done = sum(shard.state == "done" for shard in self.shards)
        how_many = f"{count(len(failed), 'shard')} failed"
        if self._given_up:
            how_many += " and none was computed, so that no other one was tried"
        kept = (
            f"{count(n_done, 'shard')} done and kept in {self.store.folder} ({MANIFEST} names "
            "every one): once the cause is mended, the same command computes the rest alone"
            if self.options.shards is not None
            else f"give {option_of(EngineOptions, 'shards')} a folder, so that what is done is kept"
        )
        return (
            f"{how_many}. Shard {failed[0]}, rows {first.first:,} to "
            f"{first.first + first.n - 1:,}: {first.error}{'; ' + kept if n_done else ''}"
        )


@contextmanager
def opened_store(options: EngineOptions) -> Iterator[ShardStore]:
    """Yield the folder of shards that was named, or one that goes with the run."""
    if options.shards is not None:
        with ShardStore.opened(options.shards) as store:
            yield store
        return
    if options.ray_address is not None:
        raise InputError(
            f"on a cluster {option_of(EngineOptions, 'shards')} must name a folder that all nodes "
            "share"
        )
    with (
        own_folder(Path(tempfile.gettempdir()), "calibrail-shards-") as folder,
        ShardStore.opened(folder) as store,
    ):
        yield store
