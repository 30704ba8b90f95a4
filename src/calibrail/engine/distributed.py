"""Scoring by the engine in use: scores travel to shards in worker processes, and results back."""

import json
import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.data.tables import string_array
from calibrail.engine import shards
from calibrail.engine.local import (
    BLOCK,
    asked_in_batches,
    chat,
    concat_tables,
    encoders,
    keys_of,
    model_name,
    multiprocessing,
    pairs,
    pools,
    score_here,
)
from calibrail.engine.shards import MOST_ATTEMPTS, Job, Outcome, error_line, perform
from calibrail.errors import CalibrailError, DataError, ModelError, error_text, variable_set
from calibrail.models.hardware import cores, installed_versions
from calibrail.options.fields import optional, spell_option
from calibrail.options.runtime import EngineOptions
from calibrail.scores.base import DetectorFailure, Score, parts_of, state_bytes, with_state
from calibrail.scores.custom import CustomScore, sources
from calibrail.scores.registry import ColumnScore, ScoreSpec, build, key_of, scale_of
from calibrail.scores.table import Cost, ScoreTable
from calibrail.serialization import logged_on_one_line, plain
from calibrail.text.words import edition_in, rules_of
from calibrail.working_folder import environment

#: Jobs that wait for a worker, each: enough that none is idle, few enough to stay small.
_AHEAD: Final = 2

#: Seconds between two looks whether the process that asked is still there.
_LOOK: Final = 1.0

#: Variables by which libraries learn how many threads they may start.
_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def run_in_processes(jobs: Iterator[Job], options: EngineOptions) -> Generator[Outcome]:
    """Run jobs in as many processes as there are workers, and tell how each ended.

    A process that dies takes those beside it along: what they were at is then begun again, one
    job at a time, so that the one which kills its process is known and given up after three times.

    Parameters
    ----------
    jobs : iterator of Job
        Taken as workers become free.
    options : EngineOptions
        ``workers`` of them.

    Raises
    ------
    DataError
        If no process can be started.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # A worker that is being started, and runs its parent's script: the parent says so.
        raise SystemExit(1)
    workers = options.workers if isinstance(options.workers, int) else cores()
    begun: dict[Path, int] = {}
    suspects: deque[Job] = deque()
    while True:
        # Suspects run alone, one after another; the others as many at a time as can be.
        alone = bool(suspects)
        source = (suspects.popleft() for _ in range(len(suspects))) if alone else jobs
        died: list[Job] = []
        yield from _one_pool(source, 0 if alone else workers, begun, died)
        for job in died:
            if begun.get(job.input, 0) >= MOST_ATTEMPTS:
                error = f"the process that computed it died {MOST_ATTEMPTS} times"
                yield Outcome(job.number, f"{error}; is there memory enough?", MOST_ATTEMPTS)
            else:
                suspects.append(job)
        if not (died or alone):
            return


def _one_pool(
    jobs: Iterator[Job], workers: int, begun: dict[Path, int], died: list[Job]
) -> Iterator[Outcome]:
    """Run jobs until there is none left or a process dies; ``died`` gets those that it took.

    Without workers one process takes one job at a time: what dies is what it was at.
    """
    waiting: dict[Future[str | None], Job] = {}
    # Spawned: a forked child would share its parent's locks and connections.
    context = multiprocessing.get_context("spawn")
    pool: Any = None
    ended = False
    try:
        while True:
            for job in islice(jobs, max(1, _AHEAD * workers) - len(waiting)):
                if pool is None:
                    started = context.Event()
                    begin = _begin, (os.getpid(), started)
                    pool = pools.ProcessPoolExecutor(max(1, workers), context, *begin)
                try:
                    with _no_interrupt(), threads_each(max(1, cores() // max(1, workers))):
                        future = pool.submit(perform, job.task, job.input, job.result)
                except pools.BrokenProcessPool:
                    died.append(job)
                    break
                waiting[future] = job
                begun[job.input] = begun.get(job.input, 0) + 1
            if not (waiting or died):
                ended = True
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                job = waiting.pop(future)
                try:
                    error = future.result()
                except pools.BrokenProcessPool:
                    died.append(job)
                    continue
                except Exception as failure:
                    error = error_line(failure)
                yield Outcome(job.number, error, begun.pop(job.input))
            if died:
                died += waiting.values()
                if not started.is_set():
                    here = spell_option(EngineOptions, "engine", "local")
                    raise DataError.on("no_process_started", here=here)
                return
    finally:
        # Interrupted or given up: nobody waits for what is being computed.
        if pool is not None:
            for child in [] if ended else list((pool._processes or {}).values()):
                child.kill()
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int, started: Any) -> None:
    """Prepare a worker: it leaves Ctrl-C to its parent, logs what is harmless, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if logging.lastResort is not None:
        logging.lastResort.addFilter(logged_on_one_line)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    started.set()


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Start processes, within the block, to which Ctrl-C means nothing; here it comes after it."""
    came: list[int] = []
    handler, told = None, threading.current_thread() is threading.main_thread()
    if told:
        # Another thread may take the signal, and leave a process half started.
        handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    mask = getattr(signal, "pthread_sigmask", None)
    # What a thread blocks is blocked in the processes that it starts.
    before = mask and mask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if mask:
            mask(signal.SIG_SETMASK, before)
        if told:
            default = signal.default_int_handler
            signal.signal(signal.SIGINT, default if handler is None else handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def threads_each(each: int) -> AbstractContextManager[None]:
    """Have processes that are started within the block share the cores between them."""
    return environment({name: os.environ.get(name, str(each)) for name in _THREADS})


#: Key of the metadata of a result.
_BESIDE: Final = b"calibrail"


@dataclass(frozen=True, slots=True)
class SerialisedScore:
    """A score as it travels: what builds it, and what it must turn out to be.

    Attributes
    ----------
    name : str
        The registered name.
    params, fingerprint : str
        JSON.
    state : bytes or None
        What it has learnt.
    versions : str
        JSON; the libraries that can change its last digits, and the source of what is not ours.
    """

    name: str
    params: str
    fingerprint: str
    state: bytes | None
    versions: str

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that tell it from every score that could give another value."""
        parts = (self.name, self.params, self.fingerprint, self.versions)
        return shards.digest_of([*(part.encode() for part in parts), self.state or b""])[:32]

    def opened(self) -> Score:
        """Build the score where it has arrived.

        Raises
        ------
        ModelError
            If this machine would compute other values: other weights, or other libraries.
        """
        with rules_of(edition_in(self.fingerprint)):
            score = build(ScoreSpec(self.name, json.loads(self.params)))
        if self.state is not None:
            score = with_state(score, self.state)
        if (here := serialise_score(score)) != self:
            raise ModelError.on("worker_computes_another", here=here, sent=self)
        return score


def serialise_score(score: Score) -> SerialisedScore:
    """Return a score as it travels."""

    def written(value: Any) -> str:
        return json.dumps(plain(value), sort_keys=True)

    return SerialisedScore(
        score.name,
        written(score.params),
        written(score.fingerprint()),
        state_bytes(score),
        written(versions_of(score)),
    )


def versions_of(score: Score) -> dict[str, str]:
    """Return what computes a score here: libraries, and the source of what is not calibrail's."""
    python = ".".join(map(str, sys.version_info[:2]))
    return {"python": python, **installed_versions(), **sources(_foreign(score))}


def local_only_reason(score: Score) -> str | None:
    """Return why this process computes a score, whatever the engine; None where any other can.

    One that asks endpoints is computed here, wherever the others are: one budget, one limit to the
    calls at a time and one cache of answers then hold for all of them. So is one that no name leads
    to, one that remembers more than its state, and a column of the data, which costs nothing.
    """
    if any(isinstance(model, chat.RemoteModel) for model in getattr(score, "models", ())):
        return "it asks an endpoint, whose answers have a cache of their own"
    if isinstance(score, ColumnScore):
        return "it is a column of the data"
    if why := getattr(score, "stays_here", None):
        return str(why)
    try:
        named = type(build(ScoreSpec(score.name, score.params)))
        if named is not type(score):
            return f"the name {score.name} builds a {named.__qualname__}, which it is not"
        serialise_score(score).opened()
    except (CalibrailError, TypeError, ValueError) as error:
        return str(error)
    return None


def _foreign(score: Score) -> list[str]:
    """Return the modules outside calibrail that a score, or one of its members, comes from."""
    modules = [type(part).__module__ for part in parts_of(score)]
    own = (part for part in parts_of(score) if isinstance(part, CustomScore))
    modules += (part.detector.partition(":")[0] for part in own)
    return sorted({name for name in modules if name.partition(".")[0] != "calibrail"})


@lru_cache(maxsize=8)
def opened_scores(scores: tuple[SerialisedScore, ...]) -> tuple[Score, ...]:
    """Build scores where they have arrived, the same ones once in a process."""
    return tuple(score.opened() for score in scores)


@dataclass(frozen=True, slots=True)
class ScoreTask:
    """Computes scores of a shard.

    Parameters
    ----------
    scores : tuple of Sent
        The scores.
    """

    scores: tuple[SerialisedScore, ...]

    @property
    def key(self) -> str:
        """32 hexadecimal digits that tell these scores from others."""
        return shards.digest_of(score.digest.encode() for score in self.scores)[:32]

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return a column of values a score, and of reasons where it is undefined somewhere."""
        examples, scores = shards.to_examples(table), opened_scores(self.scores)
        tell = shards.shard_progress.get()

        def progress(done: int) -> None:
            if tell is not None:
                tell(done / max(1, len(examples)))

        models = dict(zip(map(key_of, scores), map(_models, scores), strict=True))
        pairs = {name: model for used in models.values() for name, model in used.items()}
        before = _n_cut(pairs)
        scored, cut = score_here(examples, scores, progress=progress)
        n_cut = {name: n - before[name] for name, n in _n_cut(pairs).items()}
        names = dict(zip(map(key_of, scores), (item.digest for item in self.scores), strict=True))
        beside = {
            names[cost.score]: {
                "seconds": cost.seconds,
                "seconds_opening": cost.seconds_opening,
                "passes": cost.forward_passes,
                "shared_with": [names[key] for key in cost.shared_with],
                "cut": [text for text in sorted(cut) if text.partition(":")[0] in used],
                "n_cut": {name: n for name, n in n_cut.items() if name in used},
                "failed": sum(
                    isinstance(why, DetectorFailure) for why in scored.reasons[cost.score].values()
                ),
            }
            for cost, used in ((cost, models[cost.score]) for cost in scored.costs)
        }
        arrays: dict[str, pa.Array] = {}
        for key, name in names.items():
            arrays[name] = pa.array(scored.columns[key])
            if reasons := scored.reasons[key]:
                rows = range(len(examples))
                arrays[f"{name}__reason"] = string_array([reasons.get(row) for row in rows])
        return pa.table(arrays).replace_schema_metadata({_BESIDE: json.dumps(beside).encode()})


def _models(score: Score) -> dict[str, Any]:
    """Return the models of a score of which some inputs may be too long, by name."""
    models = getattr(score, "models", ())
    return {model_name(m): m for m in models if isinstance(m, encoders.Encoder | pairs.PairModel)}


def _n_cut(models: Mapping[str, Any]) -> dict[str, int]:
    return {name: m.n_truncated for name, m in models.items() if isinstance(m, pairs.PairModel)}


@dataclass(slots=True, eq=False)
class ShardScores:
    """What is known of one shard's scores.

    Attributes
    ----------
    values : mapping of str to ndarray of float64, shape (n,)
        By the digest of the score.
    reasons : mapping of str to mapping of int to str
        Why a score is undefined, by digest and row of the shard.
    beside : mapping of str to mapping
        What each score cost when it was computed, and what its models could not read whole.
    """

    values: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    reasons: dict[str, dict[int, str]] = field(default_factory=dict)
    beside: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(self, table: pa.Table, wanted: Iterable[str], n: int, *, failures: bool = True) -> None:
        """Take the wanted scores of a result for n rows that are not known yet.

        Without ``failures`` only those that did not fail on any row: another time they may not.
        """
        if table.num_rows != n:
            return
        beside = json.loads((table.schema.metadata or {}).get(_BESIDE, b"{}"))
        for name in wanted:
            needless = name in self.values or name not in beside
            if needless or (beside[name]["failed"] and not failures):
                continue
            self.values[name] = table[name].combine_chunks().to_numpy()
            has_reasons = f"{name}__reason" in table.column_names
            why = table[f"{name}__reason"].to_pylist() if has_reasons else []
            self.reasons[name] = {row: text for row, text in enumerate(why) if text is not None}
            self.beside[name] = beside[name]

    def costs(self, names: Mapping[str, str], n: int) -> Iterator[Cost]:
        """Yield what each score cost for n rows; ``names`` gives the key of each digest."""
        for digest, key in names.items():
            spent = self.beside[digest]
            shared = tuple(names[other] for other in names if other in spent["shared_with"])
            # What was kept before openings were timed holds them in its seconds.
            opening = spent.get("seconds_opening", 0.0)
            seconds, passes = spent["seconds"], spent["passes"]
            yield Cost(key, n, seconds, passes, shared, seconds_opening=opening)

    @property
    def cut(self) -> set[str]:
        """The texts that an encoder could not read whole."""
        return {text for part in self.beside.values() for text in part["cut"]}

    @property
    def n_cut(self) -> int:
        """Pairs whose short side was not read to its end; scores that share a model share them."""
        by_model: dict[str, int] = {}
        for name, n in (item for part in self.beside.values() for item in part["n_cut"].items()):
            by_model[name] = max(n, by_model.get(name, 0))
        return sum(by_model.values())


@dataclass(frozen=True, slots=True)
class _InUse:
    """Where scoring runs, and who is told what of it, each sentence once."""

    options: EngineOptions
    say: Callable[[str], None] | None = None
    said: set[str] = field(default_factory=set)


_HERE: Final = _InUse(EngineOptions())
_current: ContextVar[_InUse] = ContextVar("engine", default=_HERE)


def engine() -> EngineOptions:
    """Return where scoring runs: as the innermost ``use_engine`` says, or in this process."""
    return _current.get().options


@contextmanager
def use_engine(
    options: EngineOptions | None = None, say: Callable[[str], None] | None = None
) -> Iterator[EngineOptions]:
    """Say where everything that is scored within the block is scored.

    Processes are spawned, so that a script that uses them needs ``if __name__ == "__main__":``.

    Parameters
    ----------
    options : EngineOptions, optional
        Where; in this process when left out.
    say : callable, optional
        Takes what would be a warning.

    Examples
    --------
    >>> with use_engine(EngineOptions(engine="processes", workers=2)) as used:
    ...     pass  # calibrate(..., "rad"), compare(...), audit(...)
    >>> used.workers
    2
    """
    chosen = optional(options, EngineOptions, "options")
    with variable_set(_current, _InUse(chosen, say or _current.get().say)):
        yield chosen


def tell(sentence: str) -> None:
    """Say, to whoever listens within ``use_engine``, what goes on."""
    if (say := _current.get().say) is not None:
        say(sentence)


def say_once(sentence: str) -> None:
    """Say what a user should know of the engine, once within ``use_engine``: a warning."""
    use = _current.get()
    if sentence in use.said:
        return
    use.said.add(sentence)
    if use.say is None:
        warnings.warn(sentence, UserWarning, stacklevel=4)
    else:
        use.say(f"warning: {sentence}")


def score_examples(
    examples: Iterable[Example],
    scores: Sequence[Score],
    *,
    keep: Sequence[str] = (),
    block: int = BLOCK,
    progress: Callable[[int], None] | None = None,
) -> ScoreTable:
    """Score examples by the engine in use (see ``use_engine``).

    Every engine gives the same values: to the byte where a score is exact arithmetic, within its
    tolerance where a network computes it.

    Parameters
    ----------
    examples : iterable of Example
        Consumed once.
    scores : sequence of Score
        Each may be named once.
    keep : sequence of str
        Columns of the examples to return as they are.
    block : int
        Examples that run through models together at most.
    progress : callable, optional
        Called with the number of examples scored so far.

    Raises
    ------
    InputError
        If a score is named twice, ``block`` is not positive, or a score returns another number of
        values than it was given examples.
    DataError
        If a shard failed; what was done is kept where the engine keeps shards.
    """
    tables: list[ScoreTable] = []
    made = score_parts(examples, scores, tables.append, keep=keep, block=block, progress=progress)
    return concat_tables(made, tables)


def score_parts(
    examples: Iterable[Example],
    scores: Sequence[Score],
    take: Callable[[ScoreTable], None],
    *,
    keep: Sequence[str] = (),
    block: int = BLOCK,
    progress: Callable[[int], None] | None = None,
) -> ScoreTable:
    """Score examples as `score_examples` does, and hand over the parts of the table in order.

    Parameters
    ----------
    take : callable
        Called with each part, whose reasons are by the row of the whole table.

    Returns
    -------
    ScoreTable
        Without rows: what the scores cost, what was cut, and their scales.
    """
    keys_of(scores)
    examples = asked_in_batches(examples, scores, tell)
    options = engine()
    sent = _portable(scores) if options.apart else {}
    if not sent:
        made, _ = score_here(examples, scores, take=take, keep=keep, block=block, progress=progress)
        return made
    with shards.opened_store(options) as store:
        scoring = _Scoring(sent, list(scores), tuple(keep), store, take)
        what = [{"score": key, "digest": item.digest} for key, item in sent.items()]
        scoring.run = shards.ShardRun(store, options, what, progress, scoring.release)
        return scoring.score(examples)


def _portable(scores: Sequence[Score]) -> dict[str, SerialisedScore]:
    """Return, by key, the scores that can be computed anywhere; say why others are not sent."""
    sent = {}
    options = engine()
    given = {"engine": options.engine} if options.engine != "local" else {}
    more = {} if options.shards is None else {"shards": str(options.shards)}
    spelt = [spell_option(EngineOptions, *each) for each in (*given.items(), *more.items())]
    for score in scores:
        if (why := local_only_reason(score)) is None:
            sent[key_of(score)] = serialise_score(score)
        elif not isinstance(score, ColumnScore):
            # That a column is not computed needs no word.
            say_once(error_text("not_sent", key=key_of(score), by=" and ".join(spelt), why=why))
    return sent


class _Scoring:
    """One pass over examples, shard by shard.

    Parameters
    ----------
    sent : dict of str to SerialisedScore
        By key, the scores that can be computed anywhere.
    scores : list of Score
        All scores, in the order of the columns.
    keep : tuple of str
        Columns of the examples that stay.
    store : ShardStore
        Where results stand.
    take : callable
        Gets the parts of the table, in order.
    """

    run: shards.ShardRun

    def __init__(
        self,
        sent: dict[str, SerialisedScore],
        scores: list[Score],
        keep: tuple[str, ...],
        store: shards.ShardStore,
        take: Callable[[ScoreTable], None],
    ) -> None:
        self._scores, self._keep = scores, keep
        self._store, self._take = store, take
        self._scales = {key_of(score): scale_of(score) for score in scores}
        self._names = {item.digest: key for key, item in sent.items()}
        self._here = [score for score in scores if key_of(score) not in sent]
        away = [score for score in scores if key_of(score) in sent]
        # What another package's score reads is not known: it may read the id, too.
        more = {key_of(item) for item in away if getattr(item, "columns", ()) or _foreign(item)}
        #: Those that read texts alone, and those that may read cells of the data, or the id.
        self._of_texts = [item for key, item in sent.items() if key not in more]
        self._of_more = [item for key, item in sent.items() if key in more]
        # What is known of the shards that were not handed over yet.
        self._parts: dict[int, tuple[ScoreTable, ShardScores]] = {}
        self._costs: dict[str, Cost] = {}
        self._cut: set[str] = set()
        # Results that this run has asked for.
        self._made: set[Path] = set()
        self._n = self._n_cut = 0

    def score(self, examples: Iterable[Example]) -> ScoreTable:
        """Score the examples; return what it cost."""
        self.run.run(self._jobs(examples))
        made, _ = score_here((), self._scores, keep=self._keep)
        costs = tuple(self._costs.get(cost.score, cost) for cost in made.costs)
        return replace(made, costs=costs, n_truncated=len(self._cut), n_cut=self._n_cut)

    def release(self, number: int) -> None:
        """Hand over the part of the table that is a shard, and forget it."""
        shard = self.run.shards[number]
        part, known = self._parts.pop(number)
        for path in shard.results:
            # What stood there before is known.
            if path in self._made and known.values.keys() < self._names.keys():
                if (result := shards.read_result(path)) is None:
                    raise DataError.on("damaged_while_it_ran", path=path)
                known.add(result, self._names, shard.n)
        values, reasons = dict(part.columns), dict(part.reasons)
        for name, key in self._names.items():
            values[key], reasons[key] = known.values[name], known.reasons[name]
        numbered = {k: {self._n + it: v for it, v in reasons[k].items()} for k in self._scales}
        columns = {key: values[key] for key in self._scales}
        self._take(replace(part, columns=columns, reasons=numbered, scales=self._scales))
        for cost in (*known.costs(self._names, shard.n), *part.costs):
            before = self._costs.get(cost.score)
            self._costs[cost.score] = cost if before is None else before + cost
        self._cut |= known.cut
        self._n_cut += known.n_cut + part.n_cut
        self._n += shard.n

    def _jobs(self, examples: Iterable[Example]) -> Iterator[shards.Job]:
        """Cut shards, compute here what is computed here, and yield what is not known yet."""
        for number, shard, batch in self.run.cut(examples):
            # Answers of endpoints are asked for once, in whichever shard the question stands.
            part, cut = score_here(batch, self._here, keep=self._keep, forget=not number)
            self._cut |= cut
            rows = shards.to_table(batch, cells=bool(self._of_more))
            shard.digest, by_all = shards.shard_digests(rows)
            known = ShardScores()
            self._parts[number] = part, known
            both = (shard.digest, self._of_texts), (by_all, self._of_more)
            tasks = {digest: self._missing(shard, known, digest, wanted) for digest, wanted in both}
            missing = {digest: task for digest, task in tasks.items() if task is not None}
            shard.waiting = len(missing)
            if not missing:
                self.run.finished(shard)
            for digest, task in missing.items():
                path = self._store.put_input(f"{number}-{digest}", rows)
                shard.results.append(result := self._store.result(digest, task.key))
                yield shards.Job(number, task, path, result, shard.n)

    def _missing(
        self, shard: shards.Shard, known: ShardScores, digest: str, wanted: list[SerialisedScore]
    ) -> ScoreTask | None:
        """Take what is known of the wanted scores of a shard; return what computes the rest."""
        stood = self._store.results(digest) if wanted else []
        for path in stood:
            before = len(known.values)
            if (table := shards.read_result(path)) is None or table.num_rows != shard.n:
                path.unlink(missing_ok=True)
                continue
            # What failed in an earlier run is tried again.
            known.add(table, self._names, shard.n, failures=path in self._made)
            if len(known.values) > before:
                shard.results.append(path)
        missing = [item for item in wanted if item.digest not in known.values]
        if not missing:
            return None
        task = ScoreTask(tuple(missing))
        result = self._store.result(digest, task.key)
        if result in stood and result not in self._made:
            result.unlink(missing_ok=True)
        self._made.add(result)
        return task
