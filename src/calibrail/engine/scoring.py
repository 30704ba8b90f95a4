"""How are examples scored wherever the engine in use computes, with what is known left alone?"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calibrail.data.example import Example
from calibrail.engine.current import engine, say_once
from calibrail.engine.examples import digests, to_table
from calibrail.engine.local import (
    BLOCK,
    keys_of,
    score_blocks,
    score_here,
    whole,
)
from calibrail.engine.run import Shard, ShardRun, opened_store
from calibrail.engine.score_task import (
    Known,
    ScoreTask,
    Sent,
    reads_texts_alone,
    sent,
    why_here,
)
from calibrail.engine.store import ShardStore, read_result
from calibrail.engine.task import Job
from calibrail.errors import DataError
from calibrail.scores.base import Score
from calibrail.scores.column import Column
from calibrail.scores.registry import key_of, scale_of
from calibrail.scores.table import Cost, ScoreTable
from calibrail.settings.engine import EngineOptions
from calibrail.settings.option import option_of


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
    return whole(made, tables)


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
    options = engine()
    plan = _Plan.of(scores) if options.apart else None
    if plan is None or not plan.sent:
        return score_blocks(examples, scores, take, keep=keep, block=block, progress=progress)[0]
    with opened_store(options) as store:
        scoring = _Scoring(plan, list(scores), tuple(keep), store, take)
        what = [{"score": key, "digest": item.digest} for key, item in plan.sent.items()]
        scoring.run = ShardRun(store, options, what, progress, scoring.release)
        return scoring.score(examples)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which scores are computed where.

    Attributes
    ----------
    sent : dict of str to Sent
        By key, those that can be computed anywhere.
    reading : frozenset of str
        Those among them that may read more than texts: cells of the data, or the id.
    here : list of Score
        Those that are computed by this process.
    """

    sent: dict[str, Sent]
    reading: frozenset[str]
    here: list[Score]

    @classmethod
    def of(cls, scores: Sequence[Score]) -> "_Plan":
        reasons = [(score, why_here(score)) for score in scores]
        for score, why in reasons:
            # That a column is not computed needs no word.
            if why is not None and not isinstance(score, Column):
                say_once(
                    f"{key_of(score)} is computed by the process that you started, and not kept, "
                    f"despite {_asked(engine())}: {why}"
                )
        away = [score for score, why in reasons if why is None]
        sent_by_key = {key_of(score): sent(score) for score in away}
        return cls(
            sent_by_key,
            frozenset(key_of(score) for score in away if not reads_texts_alone(score)),
            [score for score in scores if key_of(score) not in sent_by_key],
        )

    def wanted(self, *, reading: bool) -> list[Sent]:
        """Return the scores that may read more than texts, or those that read texts alone."""
        return [item for key, item in self.sent.items() if (key in self.reading) == reading]


def _asked(options: EngineOptions) -> str:
    """Return the options by which scores are computed elsewhere, or kept."""
    given = dict[str, str]()
    if options.engine != "local":
        given["engine"] = options.engine
    if options.shards is not None:
        given["shards"] = str(options.shards)
    return " and ".join(option_of(EngineOptions, name, value) for name, value in given.items())


class _Scoring:
    """One pass over examples, shard by shard.

    Parameters
    ----------
    plan : _Plan
        Which scores are computed where.
    scores : list of Score
        All of them, in the order of the columns.
    keep : tuple of str
        Columns of the examples that stay.
    store : ShardStore
        Where results stand.
    take : callable
        Gets the parts of the table, in order.
    """

    run: ShardRun

    def __init__(
        self,
        plan: _Plan,
        scores: list[Score],
        keep: tuple[str, ...],
        store: ShardStore,
        take: Callable[[ScoreTable], None],
    ) -> None:
        self._plan, self._scores, self._keep = plan, scores, keep
        self._store, self._take = store, take
        self._keys = list(map(key_of, scores))
        self._scales = dict(zip(self._keys, map(scale_of, scores), strict=True))
        self._names = {item.digest: key for key, item in plan.sent.items()}
        # What is known of the shards that were not handed over yet.
        self._parts: dict[int, tuple[ScoreTable, Known]] = {}
        self._costs: dict[str, Cost] = {}
        self._cut: set[str] = set()
        # Results that this run has asked for.
        self._made: set[Path] = set()
        self._n = self._n_cut = 0

    def score(self, examples: Iterable[Example]) -> ScoreTable:
        """Score the examples; return what it cost."""
        self.run.run(self._jobs(examples))
        made, _ = score_here((), self._scores, keep=self._keep)
        return replace(
            made,
            costs=tuple(self._costs.get(cost.score, cost) for cost in made.costs),
            n_truncated=len(self._cut),
            n_cut=self._n_cut,
        )

    def release(self, number: int) -> None:
        """Hand over the part of the table that is a shard, and forget it."""
        shard = self.run.shards[number]
        part, known = self._parts.pop(number)
        self._complete(shard, known)
        self._take(self._whole(part, known))
        for cost in (*known.costs(self._names, shard.n), *part.costs):
            before = self._costs.get(cost.score)
            self._costs[cost.score] = cost if before is None else before + cost
        self._cut |= known.cut
        self._n_cut += known.n_cut + part.n_cut
        self._n += shard.n

    def _jobs(self, examples: Iterable[Example]) -> Iterator[Job]:
        """Cut shards, compute here what is computed here, and yield what is not known yet."""
        for number, shard, batch in self.run.cut(examples):
            # Answers of endpoints are asked for once, in whichever shard the question stands.
            part, cut = score_here(batch, self._plan.here, keep=self._keep, forget=not number)
            self._cut |= cut
            rows = to_table(batch, cells=bool(self._plan.reading))
            by_texts, by_all = digests(rows)
            shard.digest = by_texts
            known = Known()
            self._parts[number] = part, known
            tasks = [
                (digest, task)
                for digest, reading in ((by_texts, False), (by_all, True))
                if (task := self._missing(shard, known, digest, self._plan.wanted(reading=reading)))
            ]
            shard.waiting = len(tasks)
            if not tasks:
                self.run.finished(shard)
            for digest, task in tasks:
                path = self._store.put_input(f"{number}-{digest}", rows)
                shard.results.append(result := self._store.result(digest, task.key))
                yield Job(number, task, path, result, shard.n)

    def _missing(
        self, shard: Shard, known: Known, digest: str, wanted: list[Sent]
    ) -> ScoreTask | None:
        """Take what is known of a shard; return what computes the rest."""
        names = [item.digest for item in wanted]
        stood = self._store.results(digest) if wanted else []
        for path in stood:
            before = len(known.values)
            if (table := read_result(path)) is None or table.num_rows != shard.n:
                path.unlink(missing_ok=True)
                continue
            # What failed in an earlier run is tried again.
            known.add(table, names, shard.n, failures=path in self._made)
            if len(known.values) > before:
                shard.results.append(path)
        missing = tuple(item for item in wanted if item.digest not in known.values)
        if not missing:
            return None
        task = ScoreTask(missing)
        result = self._store.result(digest, task.key)
        if result in stood and result not in self._made:
            result.unlink(missing_ok=True)
        self._made.add(result)
        return task

    def _complete(self, shard: Shard, known: Known) -> None:
        """Read what was computed of a shard."""
        names = [item.digest for item in self._plan.sent.values()]
        for path in shard.results:
            if any(name not in known.values for name in names):
                if (table := read_result(path)) is None:
                    raise DataError(
                        f"{path} was damaged or removed while this ran; run the same command again"
                    )
                known.add(table, names, shard.n)

    def _whole(self, part: ScoreTable, known: Known) -> ScoreTable:
        """Return one shard's part of the table, its rows numbered on from those before."""
        digests = {key: item.digest for key, item in self._plan.sent.items()}
        values = {**part.columns, **{key: known.values[name] for key, name in digests.items()}}
        reasons = {**part.reasons, **{key: known.reasons[name] for key, name in digests.items()}}
        numbered = {
            key: {self._n + row: why for row, why in reasons[key].items()} for key in self._keys
        }
        columns = {key: values[key] for key in self._keys}
        return replace(part, columns=columns, reasons=numbered, scales=self._scales)
