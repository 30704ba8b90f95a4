"""Resumable shards: the folder of results, the work on each shard, and the manifest."""

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self

import pyarrow as pa

from calibrail.atomic_files import new_folder, own_folder, write_atomically
from calibrail.data import dataset
from calibrail.data.example import Example
from calibrail.data.outputs import Output, refuse_foreign
from calibrail.engine.local import characters, share_of
from calibrail.errors import (
    CalibrailError,
    DataError,
    InputError,
    Library,
    error_text,
    errors_as,
    file_errors,
    variable_set,
)
from calibrail.formatting import count
from calibrail.models.batching import blocks
from calibrail.options.fields import spell_option
from calibrail.options.runtime import EngineOptions

pq = Library("pyarrow.parquet")

MANIFEST: Final = "manifest.json"

#: Key of the metadata under which a file says what it should be.
_SEAL: Final = b"calibrail.seal"

_RESULTS, _INPUTS = "results", "inputs"


class ShardStore:
    """A folder of results by content: of what they were computed, and by what.

    ``results/ab/abcdef.../TASK.parquet`` holds what the task made of the shard whose rows have this
    digest. In ``inputs`` every run has a folder of its own, which is gone afterwards: the rows of
    shards that are being computed, with their texts, and files that are being written.

    Parameters
    ----------
    folder : Path
        The folder.
    own : Path
        What belongs to this run alone.
    """

    def __init__(self, folder: Path, own: Path) -> None:
        self.folder, self._own = folder, own

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator[Self]:
        """Open a folder, made where it does not exist; what killed runs left there is removed.

        Raises
        ------
        DataError
            If it cannot be made or written into, or is a file.
        """
        folder = folder.absolute()
        refuse_foreign([Output("shards", folder, (MANIFEST,))], force=None)
        inputs = folder / _INPUTS
        with ExitStack() as stack:
            with file_errors(f"cannot keep shards in {folder}", "; name another folder"):
                for item in (inputs, folder / _RESULTS):
                    stack.enter_context(new_folder(item))
                own = stack.enter_context(own_folder(inputs))
                # On a cluster others may have to read it: those who may read what it stands in.
                own.chmod(inputs.stat().st_mode & 0o777)
            yield cls(folder, own)

    def result(self, digest: str, task: str) -> Path:
        """Return where a task's result for a shard stands, or will stand."""
        return self._folder_of(digest) / f"{task}.parquet"

    def results(self, digest: str) -> list[Path]:
        """Return what stands there for a shard, by name."""
        return sorted(self._folder_of(digest).glob("*.parquet"))

    def _folder_of(self, digest: str) -> Path:
        return self.folder / _RESULTS / digest[:2] / digest

    def put_input(self, name: str, table: pa.Table) -> Path:
        """Write the rows of a shard for whoever computes it."""
        path = self._own / f"{name}.parquet"
        with file_errors(f"cannot write {path}"):
            write_result(path, table, durable=False)
        return path

    def write_manifest(self, content: Mapping[str, Any]) -> None:
        """Write the manifest."""
        raw = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        path = self.folder / MANIFEST
        with file_errors(f"cannot write {path}"):
            write_atomically(path, raw.encode("utf-8", "backslashreplace"), beside=self._own)


def write_result(
    path: Path, table: pa.Table, *, beside: Path | None = None, durable: bool = True
) -> None:
    """Write a table elsewhere, and rename it: it is there whole or not at all.

    Parameters
    ----------
    path : Path
        Its folder is made where it is missing.
    table : Table
        The content.
    beside : Path, optional
        Folder, of the same file system, where it is written; that of ``path`` when left out.
    durable : bool
        Whether it is to survive a power cut.
    """
    known = {**(table.schema.metadata or {}), _SEAL: _seal(table, path)}
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(known), sink, write_page_checksum=True)
    write_atomically(path, sink.getvalue().to_pybytes(), durable=durable, beside=beside)


def read_result(path: Path) -> pa.Table | None:
    """Read a result; None where there is none, or the file is damaged."""
    with suppress(OSError, pa.ArrowException, ValueError):
        table = pq.read_table(path, page_checksum_verification=True)
        if (table.schema.metadata or {}).get(_SEAL) == _seal(table, path):
            return table
    return None


def _seal(table: pa.Table, path: Path) -> bytes:
    """Return a digest of what no checksum of a page covers: names, types, rows and metadata.

    And of which shard and task it is the result: one in another's place is damaged.
    """
    metadata = table.schema.metadata or {}
    kept = [part for key in sorted(metadata) if key != _SEAL for part in (key, metadata[key])]
    columns = [f"{item.name} {item.type}".encode() for item in table.schema]
    place = f"{path.parent.name}/{path.name}".encode()
    return digest_of([place, str(table.num_rows).encode(), *columns, *kept]).encode()


def digest_of(parts: Iterable[bytes | memoryview]) -> str:
    """Return the SHA-256 of parts of any length, as hexadecimal digits.

    >>> digest_of([b"ab", b"c"]) == digest_of([b"a", b"bc"])
    False
    """
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(len(part).to_bytes(8, "big"))
        hasher.update(part)
    return hasher.hexdigest()


#: Who is told, in this process, which share of the shard at hand is done.
shard_progress: ContextVar[Callable[[float], None] | None] = ContextVar(
    "shard_progress", default=None
)

#: How often a shard is begun at most, where the process that computes it dies.
MOST_ATTEMPTS: Final = 3


class ShardTask(Protocol):
    """One function from Arrow to Arrow, with all that it needs to run in another process.

    It is small and can be pickled; what is heavy is loaded where it runs, once.
    """

    @property
    def key(self) -> str:
        """Hexadecimal digits that tell it from every task that could give another result."""

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return what it makes of a shard, row by row, in the order of the rows."""


class Job(NamedTuple):
    """One shard that a task is to be applied to.

    Attributes
    ----------
    number : int
        Of the shard, from 0 on.
    task : Task
        What is to be computed.
    input : Path
        Parquet file with the shard's rows; removed once it is not needed any more.
    result : Path
        Where the result is to stand.
    n : int
        Rows.
    """

    number: int
    task: ShardTask
    input: Path
    result: Path
    n: int


class Outcome(NamedTuple):
    """How a shard ended.

    Attributes
    ----------
    number : int
        Of the shard.
    error : str or None
        Why it failed; None where its result stands.
    attempts : int
        How often it was begun.
    """

    number: int
    error: str | None = None
    attempts: int = 1


def perform(task: ShardTask, input: Path, result: Path) -> str | None:
    """Apply a task to the shard in a file, and write the result; return why that failed.

    Where the result stands already, nothing is computed. What a process that is killed leaves half
    written stands beside the shard, and goes with it.
    """
    try:
        if not result.is_file():
            write_result(result, task(pq.read_table(input)), beside=input.parent)
    except (Exception, SystemExit) as error:
        return error_line(error)
    return None


def error_line(error: BaseException) -> str:
    """Return what went wrong in one line."""
    kind = "" if isinstance(error, CalibrailError) else f"{type(error).__name__}: "
    return (f"{kind}{error}".strip() or type(error).__name__).splitlines()[0]


SCHEMA: Final = "calibrail.shards/1"

#: Characters of a shard: what a worker holds at a time.
SHARD_CHARACTERS: Final = 8_000_000

#: Failed shards after which a run ends where none was computed.
_HOPELESS: Final = 3

#: Seconds between two writings of the manifest.
_PAUSE: Final = 2.0


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
        for number in range(self._n_released, len(self.shards)):
            if self.shards[number].state != "done":
                break
            if self._release is not None:
                self._release(number)
            self._n_released += 1
        if time.monotonic() > self._next:
            self.write_manifest()

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
                        self._n_computed += shard.error is None
                    self.finished(shard)
                    if len(self._failed) >= _HOPELESS and not self._n_computed:
                        self._given_up = True
                        break
            self._complete = not self._failed
        finally:
            for path in (path for paths in inputs.values() for path in paths):
                path.unlink(missing_ok=True)
            self.write_manifest()
        if self._failed:
            raise DataError(self._failure_message())

    def _outcomes(self, jobs: Iterator[Job]) -> Generator[Outcome]:
        match self.options.engine:
            case "local":
                return (self._here(job) for job in jobs)
            case "processes":
                from calibrail.engine.distributed import run_in_processes

                return run_in_processes(jobs, self.options)
            case "ray":
                from calibrail.engine.ray import run_on_ray

                return run_on_ray(jobs, self.options)

    def _here(self, job: Job) -> Outcome:
        with variable_set(shard_progress, share_of(self._progress, self._n_done, job.n)):
            return Outcome(job.number, perform(job.task, job.input, job.result))

    def write_manifest(self) -> None:
        """Write the manifest."""
        n_rows = dict.fromkeys(("done", "failed", "waiting"), 0)
        entries = []
        for number, shard in enumerate(self.shards):
            n_rows[shard.state] += shard.n
            entry = {
                "number": number,
                "rows": [shard.first, shard.first + shard.n - 1],
                "digest": shard.digest,
                "state": shard.state,
                "results": [str(path.relative_to(self.store.folder)) for path in shard.results],
                "attempts": shard.attempts,
            }
            entries.append(entry if shard.error is None else entry | {"error": shard.error})
        self.store.write_manifest(
            {
                "schema": SCHEMA,
                "engine": self.options.engine,
                "what": self._what,
                "shard_rows": self.options.shard_rows,
                "complete": self._complete,
                "n_rows": sum(n_rows.values()),
                "n_done": n_rows["done"],
                "n_failed": n_rows["failed"],
                "shards": entries,
            }
        )
        self._next = time.monotonic() + _PAUSE

    def _failure_message(self) -> str:
        failed = sorted(self._failed)
        first = self.shards[failed[0]]
        n_done = sum(shard.state == "done" for shard in self.shards)
        how_many = f"{count(len(failed), 'shard')} failed"
        if self._given_up:
            how_many += " and none was computed, so that no other one was tried"
        if self.options.shards is not None:
            n = count(n_done, "shard")
            kept = error_text("shards_kept", n=n, store=self.store, manifest=MANIFEST)
        else:
            kept = error_text("shards_not_kept", by=spell_option(EngineOptions, "shards"))
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
        raise InputError.on("shards_on_cluster", by=spell_option(EngineOptions, "shards"))
    with (
        own_folder(Path(tempfile.gettempdir()), "calibrail-shards-") as folder,
        ShardStore.opened(folder) as store,
    ):
        yield store


#: The columns of a table of examples: texts, then what scores of the user's own may read.
TEXTS: Final = ("question", "contexts", "response", "samples", "before")
BESIDE: Final = ("id", "group", "content", "more")


def to_table(examples: Sequence[Example], *, cells: bool = True) -> pa.Table:
    """Return examples as a table of bytes: every text as UTF-8, lone surrogates included.

    Labels stay behind: no score may read them. So do cells of the data without ``cells``.

    Raises
    ------
    InputError
        If a kept column holds what JSON cannot hold, such as a date.
    """
    unlabelled = [replace(item, label=None, spans=None, sentences=None) for item in examples]
    if not cells:
        unlabelled = [replace(item, columns={}) for item in unlabelled]
    with errors_as(InputError, TypeError, "cell_not_for_shards"):
        return pa.Table.from_batches([dataset.to_batch(unlabelled)])


def to_examples(table: pa.Table) -> list[Example]:
    """Return the examples of a table, read as `calibrail.data.dataset.to_examples` reads them."""
    read = [name for name in (*TEXTS, *BESIDE) if name in table.column_names]
    return list(dataset.to_examples(table.select(read)))


def shard_digests(table: pa.Table) -> tuple[str, str]:
    """Return what tells a shard from others: by its texts alone, and by all that a score may read.

    Of examples that differ in their ids only, the first is the same: their scores are known.
    """
    by_texts = digest_of(_buffers(table.select(TEXTS)))
    return by_texts, digest_of([by_texts.encode(), *_buffers(table.select(BESIDE))])


def _buffers(table: pa.Table) -> Iterator[memoryview]:
    parts = (part for column in table.columns for part in column.chunks)
    return (memoryview(it) for part in parts for it in part.buffers() if it is not None)
