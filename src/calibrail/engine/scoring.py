"""How are examples scored wherever the engine in use computes, with what is known left alone?"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from calibrail.data.example import Example
from calibrail.engine.current import engine
from calibrail.engine.examples import digests, to_table
from calibrail.engine.local import BLOCK, keys_of, score_here, stacked
from calibrail.engine.run import Shard, ShardRun, opened_store
from calibrail.engine.score_task import (
    Known,
    ScoreTask,
    Sent,
    costs_of,
    reads_texts_alone,
    sent,
    travels,
)
from calibrail.engine.store import ShardStore, read_result
from calibrail.engine.task import Job
from calibrail.errors import DataError
from calibrail.models.remote import Usage
from calibrail.scores.base import Score
from calibrail.scores.registry import key_of, scale_of
from calibrail.scores.table import Calls, Cost, ScoreTable


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
    keys_of(scores)
    options = engine()
    plan = _Plan.of(scores) if options.apart else None
    if plan is None or not plan.sent:
        table, _ = score_here(examples, scores, keep=keep, block=block, progress=progress)
        return table
    with opened_store(options) as store:
        what = [{"score": key, "digest": item.digest} for key, item in plan.sent.items()]
        run = ShardRun(store, options, what, progress)
        return _Scoring(plan, store, run, tuple(keep)).table(examples, list(scores))


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
        away = [score for score in scores if travels(score)]
        sent_by_key = {key_of(score): sent(score) for score in away}
        return cls(
            sent_by_key,
            frozenset(key_of(score) for score in away if not reads_texts_alone(score)),
            [score for score in scores if key_of(score) not in sent_by_key],
        )

    def wanted(self, *, reading: bool) -> list[Sent]:
        """Return the scores that may read more than texts, or those that read texts alone."""
        return [item for key, item in self.sent.items() if (key in self.reading) == reading]


@dataclass(slots=True, eq=False)
class _Scoring:
    """One pass over examples, shard by shard."""

    plan: _Plan
    store: ShardStore
    run: ShardRun
    keep: tuple[str, ...]
    parts: list[ScoreTable] = field(default_factory=list)
    known: list[Known] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)

    def table(self, examples: Iterable[Example], scores: list[Score]) -> ScoreTable:
        """Score the examples; return the table, its columns in the order of the scores."""
        self.run.run(self._jobs(examples))
        n, n_cut = 0, sum(part.n_cut for part in self.parts)
        costs = [part.costs for part in self.parts]
        tables = []
        for shard, part, known in zip(self.run.shards, self.parts, self.known, strict=True):
            self._complete(shard, known)
            tables.append(self._whole(part, known, n, scores))
            n += shard.n
        if not tables:
            return score_here((), scores, keep=self.keep)[0]
        names = {item.digest: key for key, item in self.plan.sent.items()}
        spent = {cost.score: cost for cost in (*costs_of(names, self.known, n), *_added(costs))}
        keys = list(map(key_of, scores))
        return replace(
            stacked(tables),
            costs=tuple(spent[key] for key in keys if key in spent),
            n_truncated=len(self.cut.union(*(known.cut for known in self.known))),
            n_cut=n_cut + sum(known.n_cut for known in self.known),
            scales=dict(zip(keys, map(scale_of, scores), strict=True)),
        )

    def _jobs(self, examples: Iterable[Example]) -> Iterator[Job]:
        """Cut shards, compute here what is computed here, and yield what is not known yet."""
        for number, shard, batch in self.run.cut(examples):
            # Answers of endpoints are asked for once, in whichever shard the question stands.
            part, cut = score_here(batch, self.plan.here, keep=self.keep, forget=not number)
            self.parts.append(part)
            self.cut |= cut
            rows = to_table(batch)
            by_texts, by_all = digests(rows)
            shard.digest = by_texts
            self.known.append(known := Known())
            tasks = [
                (digest, task)
                for digest, reading in ((by_texts, False), (by_all, True))
                if (task := self._missing(shard, known, digest, self.plan.wanted(reading=reading)))
            ]
            shard.waiting = len(tasks)
            if not tasks:
                self.run.finished(shard)
            for digest, task in tasks:
                path = self.store.put_input(f"{number}-{digest}", rows)
                shard.results.append(result := self.store.result(digest, task.key))
                yield Job(number, task, path, result, shard.n)

    def _missing(
        self, shard: Shard, known: Known, digest: str, wanted: list[Sent]
    ) -> ScoreTask | None:
        """Take what is known of a shard; return what computes the rest."""
        names = [item.digest for item in wanted]
        for path in self.store.results(digest) if wanted else ():
            before = len(known.values)
            if (table := read_result(path)) is None:
                path.unlink(missing_ok=True)
                continue
            known.add(table, names, shard.n)
            if len(known.values) > before:
                shard.results.append(path)
        missing = tuple(item for item in wanted if item.digest not in known.values)
        return ScoreTask(missing) if missing else None

    def _complete(self, shard: Shard, known: Known) -> None:
        """Read what was computed of a shard."""
        names = [item.digest for item in self.plan.sent.values()]
        for path in shard.results:
            if any(name not in known.values for name in names):
                if (table := read_result(path)) is None:
                    raise DataError(
                        f"{path} was damaged or removed while this ran; run the same command again"
                    )
                known.add(table, names, shard.n)

    def _whole(
        self, part: ScoreTable, known: Known, start: int, scores: Sequence[Score]
    ) -> ScoreTable:
        """Return one shard's part of the table, its rows numbered on from ``start``."""
        digests = {key: item.digest for key, item in self.plan.sent.items()}
        keys = list(map(key_of, scores))
        reasons = {
            key: known.reasons.pop(digests[key]) if key in digests else part.reasons[key]
            for key in keys
        }
        return replace(
            part,
            columns={
                key: known.values.pop(digests[key]) if key in digests else part.columns[key]
                for key in keys
            },
            reasons={
                key: {start + row: why for row, why in rows.items()}
                for key, rows in reasons.items()
            },
        )


def _added(parts: Sequence[tuple[Cost, ...]]) -> list[Cost]:
    """Return what scores that are computed here cost over all shards."""
    total: dict[str, Cost] = {}
    for cost in (cost for costs in parts for cost in costs):
        if (before := total.get(cost.score)) is None:
            total[cost.score] = cost
            continue
        calls = before.calls
        if calls is not None and cost.calls is not None:
            usage: Usage = calls.usage + cost.calls.usage
            calls = Calls(calls.n + cost.calls.n, calls.n_judged + cost.calls.n_judged, usage)
        total[cost.score] = replace(
            before,
            n=before.n + cost.n,
            seconds=before.seconds + cost.seconds,
            forward_passes=before.forward_passes + cost.forward_passes,
            calls=calls,
        )
    return list(total.values())
