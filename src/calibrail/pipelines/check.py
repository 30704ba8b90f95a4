"""Decisions about files, shards and Arrow batches of answers.

Spark's ``mapInArrow``, Ray Data's ``map_batches`` and every engine that calls a function of an
Arrow batch take `BatchScorer` and `BatchChecker`: they can be pickled, and load models once in
each process.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar, cast

import numpy as np
import pyarrow as pa

from calibrail.atomic_files import whole_file
from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.dataset import decoded
from calibrail.data.example import FIELDS, TEXT_FIELDS, Example, RowProblem, cell_of
from calibrail.data.outputs import Output, refuse_foreign, refuse_read
from calibrail.data.reading import Reading
from calibrail.data.sentences import sentence_examples
from calibrail.data.sources import Source
from calibrail.data.tables import byte_array, number_array, string_array, widened_column
from calibrail.engine import distributed, shards
from calibrail.engine.local import score_here
from calibrail.errors import DataError, InputError, ModelError, error_text, file_errors
from calibrail.guardrail.decision import Cause, Decision
from calibrail.guardrail.runtime import Guardrail, guardrail_of_bytes
from calibrail.options import ReadOptions
from calibrail.pipelines.loading import NOT_WANTED, Progress, RowOrder, open_for, source_columns
from calibrail.pipelines.run import inherited_reading
from calibrail.pipelines.scoring import resolve_scores
from calibrail.report.messages import say
from calibrail.scores.base import try_out
from calibrail.scores.custom import ScoreLike
from calibrail.scores.registry import key_of
from calibrail.serialization import encodable_json

_FAILED: Final = b"failed"

#: Answers among which a judge is asked about the first few.
_TRIED: Final = 64


@dataclass(frozen=True, slots=True)
class CheckTask:
    """Decides about a shard.

    Parameters
    ----------
    guardrail : bytes
        Content of its file.
    evidence : bool
        Whether each line holds what its decision rests on.
    versions : str
        JSON; what computes the score where the work was begun.
    """

    guardrail: bytes
    evidence: bool
    versions: str

    @property
    def key(self) -> str:
        """32 hexadecimal digits that tell this guardrail, and these libraries, from others."""
        how = json.dumps([self.evidence, self.versions])
        return shards.digest_of([self.guardrail, how.encode()])[:32]

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return ``outcome`` (``Decision.result``) and ``line`` of ``decisions.jsonl``, a row."""
        guardrail, tell = opened_guardrail(self.guardrail), shards.shard_progress.get()
        for model in getattr(guardrail.score, "models", ()):
            model.forget()
        examples = shards.to_examples(table)
        outcomes, lines, n_failed = [], [], 0
        for decision in guardrail.stream(iter(examples), alone=self.evidence):
            outcomes.append(decision.result)
            lines.append(decision.line(evidence=self.evidence))
            n_failed += decision.failed
            if tell is not None:
                tell(len(lines) / len(examples))
        columns = {"outcome": string_array(outcomes), "line": byte_array(lines)}
        return pa.table(columns).replace_schema_metadata({_FAILED: str(n_failed).encode()})


#: The guardrail of a file's content, the same one for the same content.
opened_guardrail = lru_cache(maxsize=2)(guardrail_of_bytes)


def decided_lines(
    guardrail: Guardrail,
    examples: Iterator[Example],
    *,
    evidence: bool = False,
    progress: Progress | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield ``Decision.result`` and the line of every example, by the engine in use.

    A guardrail that asks endpoints asks them from here, whatever the engine: one budget and one
    limit to the calls at a time hold for all answers.
    """
    options = distributed.engine()
    examples = tried_out(guardrail, examples)
    if not options.apart or guardrail.endpoints:
        if options.apart:
            distributed.say_once(say("command.no_shard_kept"))
        for done, decision in enumerate(guardrail.stream(examples, alone=evidence), start=1):
            yield decision.result, decision.line(evidence=evidence)
            if progress is not None:
                progress(done)
        return
    raw = guardrail.config.to_bytes()
    versions = json.dumps(distributed.versions_of(guardrail.score), sort_keys=True)
    task = CheckTask(raw, evidence, versions)
    with shards.opened_store(options) as store:
        run = shards.ShardRun(store, options, {"guardrail": shards.digest_of([raw])}, progress)

        def jobs() -> Iterator[shards.Job]:
            for number, shard, batch in run.cut(examples):
                rows = shards.to_table(batch)
                _, shard.digest = shards.shard_digests(rows)
                result = store.result(shard.digest, task.key)
                shard.results.append(result)
                shard.waiting = int(not _decided(result, shard.n))
                if not shard.waiting:
                    run.finished(shard)
                    continue
                path = store.put_input(f"{number}-{shard.digest}", rows)
                yield shards.Job(number, task, path, result, shard.n)

        run.run(jobs())
        for shard in run.shards:
            if (table := shards.read_result(shard.results[0])) is None:
                raise DataError(say("refused.shard_gone", path=shard.results[0]))
            lines = map(decoded, table["line"].to_pylist())
            yield from zip(table["outcome"].to_pylist(), lines, strict=True)


def tried_out(guardrail: Guardrail, examples: Iterable[Example]) -> Iterator[Example]:
    """Return the examples, unless the first of them show that no reply of a judge can be read.

    Raises
    ------
    ModelError
        If none can; the rest is not paid for.
    """
    examples = iter(examples)
    first = list(islice(examples, _TRIED)) if guardrail.endpoints else []
    by_sentence = guardrail.unit == "sentence"
    asked = list(chain.from_iterable(map(sentence_examples, first))) if by_sentence else first
    if (why := try_out(guardrail.score, asked)) is not None:
        raise ModelError(f"{guardrail.score.name}: {why}")
    return chain(first, examples)


def _decided(result: Path, n: int) -> bool:
    """Return whether a shard is decided; what failed in it is tried again."""
    table = shards.read_result(result)
    if table is not None and table.num_rows == n and table.schema.metadata[_FAILED] == b"0":
        return True
    result.unlink(missing_ok=True)
    return False


def check_source(
    guardrail: Guardrail,
    source: Source,
    output: Path | None,
    *,
    reading: ReadOptions | None = None,
    evidence: bool = False,
    progress: Progress | None = None,
    opened: Callable[[Reading], None] | None = None,
    within: Counter[bool] | None = None,
) -> Counter[str]:
    """Write one decision a line for every row of ``source``, and count what became of them.

    Lines come in the order of the rows, each with its row.

    Parameters
    ----------
    guardrail : Guardrail
        The frozen guardrail.
    source : path, str or iterable of Example
        Answers, labelled or not.
    output : Path or None
        JSON lines file; None writes to standard output.
    reading : ReadOptions, optional
        How to read the file. Rows that cannot be read are decided as ``error``.
    evidence : bool
        Write what each decision rests on into its line.
    progress : callable, optional
        Called with the number of decisions so far.
    opened : callable, optional
        Called with the reading when it begins; its counts, of what made no answer among them, are
        final in the end.
    within : Counter, optional
        Counts the scores of a column: whether each lies among those that the guardrail was made of.

    Returns
    -------
    Counter
        How many answers had which ``Decision.result``.
    """
    outcomes: Counter[str] = Counter()
    traffic = guardrail.config.traffic if guardrail.score.name == "column" else None
    known = [x for x in traffic.score if x is not None] if traffic is not None else []
    low, high = min(known, default=0.0), max(known, default=0.0)
    with ExitStack() as stack:
        file: TextIO = sys.stdout
        if output is not None:
            how: Any = {"encoding": "utf-8", "errors": "surrogatepass", "newline": "\n"}
            with file_errors(f"cannot write {output}", "; name another place"):
                made = stack.enter_context(whole_file(output))
                file = stack.enter_context(made.open("w", **how))
        read = stack.enter_context(_answers(guardrail, source, reading, opened))
        if output is not None:
            refuse_read([target := Output("", output, kind="decisions")], read.files)
            refuse_foreign([target], force=None)
        rows = RowOrder(read)
        decided = decided_lines(guardrail, rows.answers(), evidence=evidence, progress=progress)
        for item in rows.interleaved(decided):
            if isinstance(item, RowProblem):
                line = decision_about_problem(guardrail, item).line(evidence=evidence)
                outcomes["error"] += 1
            else:
                (outcome, line), place = item
                if within is not None and known and (at := json.loads(line)["score"]) is not None:
                    within[low <= at <= high] += 1
                line = f"{line[:-1]}, {json.dumps(_where(*place), ensure_ascii=False)[1:]}"
                outcomes[outcome] += 1
            file.write((line if output is not None else encodable_json(line, file)) + "\n")
        if progress is not None:
            progress(outcomes.total())
    return outcomes


def decide_source(
    guardrail: Guardrail,
    source: Source,
    *,
    reading: ReadOptions | None = None,
    wanted: Callable[[list[Example]], Sequence[bool]] | None = None,
    opened: Callable[[Reading], None] | None = None,
) -> Iterator[Decision]:
    """Yield a decision for every example, and an ``error`` for every row that is unusable.

    They come in the order of the rows, each with its row. Examples that are not ``wanted`` were
    seen before. ``opened`` is as for `check_source`.

    Raises
    ------
    DataError
        If the source has no row, or no column of what the guardrail reads.
    """
    with _answers(guardrail, source, reading, opened) as read:
        rows = RowOrder(read)
        examples = tried_out(guardrail, rows.answers(wanted))
        for item in rows.interleaved(guardrail.stream(examples)):
            if isinstance(item, RowProblem):
                yield decision_about_problem(guardrail, item)
            else:
                decision, place = item
                yield replace(decision, **_where(*place))


def _where(file: str, row: int) -> dict[str, Any]:
    """Return what a decision says of where its answer stands; files are named where several are."""
    return {"row": row, **({"file": file} if file else {})}


@contextmanager
def _answers(
    guardrail: Guardrail,
    source: Source,
    reading: ReadOptions | None,
    opened: Callable[[Reading], None] | None,
) -> Iterator[Reading]:
    """Open a source for a guardrail, and refuse one that has shown no row when the block ends."""
    reading = inherited_reading(reading, guardrail, source, labelled=False)
    sentences = guardrail.unit == "sentence"
    answers = open_for(guardrail, source, reading, labelled=False, by_sentence=sentences)
    if opened is not None:
        opened(answers)
    yield answers
    if not answers.n_rows:
        raise DataError(say("refused.empty_source", source=answers.source))


def decision_about_problem(guardrail: Guardrail, problem: RowProblem) -> Decision:
    """Return the ``error`` of a row that cannot be used, or is not to be judged."""
    if problem.code == NOT_WANTED:
        seen = Decision.seen_before(problem.value, guardrail.config.digest)
        return replace(seen, **_where(problem.file, problem.row))
    # The group of a row that cannot be read is not known.
    rule = guardrail.rule
    edge = np.inf if rule.groups is not None else float(rule.thresholds(1)[0])
    cause, threshold = Cause("row_unusable", row=problem.row), None if np.isinf(edge) else edge
    made = guardrail.unjudged(problem.name, "error", cause, problem.why, threshold)
    return replace(made, **_where(problem.file, problem.row))


_Batch = TypeVar("_Batch", pa.RecordBatch, pa.Table)

#: How Spark calls the types of the columns that are returned.
_SPARK: Final = {pa.string(): "string", pa.float64(): "double"}


class _OverBatches:
    """What takes a batch of answers and returns a column for each of its results.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of what is returned.
    """

    schema: pa.Schema
    _texts: tuple[str, ...]
    _columns: tuple[str, ...]

    @property
    def spark_schema(self) -> str:
        """The schema of what is returned, as Spark's ``mapInArrow`` takes it."""
        return ", ".join(f"`{item.name}` {_SPARK[item.type]}" for item in self.schema)

    def _examples(self, batch: pa.RecordBatch | pa.Table) -> list[Example]:
        """Return the answers of a batch.

        Raises
        ------
        DataError
            If it lacks a column that is read.
        """
        there = set(batch.schema.names)
        wanted = [name for name in (*self._texts, *self._columns) if name != ALL_COLUMNS]
        if missing := [name for name in wanted if name not in there]:
            lacks, held = ", ".join(missing), ", ".join(batch.schema.names) or "none"
            raise DataError.on("batch_lacks_column", lacks=lacks, there=held)
        every = ALL_COLUMNS in self._columns
        names = [name for name in batch.schema.names if name not in FIELDS] if every else wanted
        cells = {
            name: widened_column(batch.column(name)).to_pylist()
            for name in names
            if name not in TEXT_FIELDS
        }
        read = [name for name in FIELDS if name in there and name not in ("label", "group")]
        examples = shards.to_examples(batch.select(read))
        if not cells:
            return examples
        rows = zip(*cells.values(), strict=True)
        named = (zip(cells, row, strict=True) for row in rows)
        columns = [{name: cell_of(cell, name) for name, cell in row} for row in named]
        pairs = zip(examples, columns, strict=True)
        return [replace(example, columns=given) for example, given in pairs]

    def _returned(self, batch: _Batch, arrays: Sequence[pa.Array]) -> _Batch:
        kind: Any = pa.RecordBatch if isinstance(batch, pa.RecordBatch) else pa.Table
        return cast(_Batch, kind.from_arrays(list(arrays), schema=self.schema))


class BatchScorer(_OverBatches):
    """Scores batches of answers: one function from Arrow to Arrow.

    A batch has a row an answer, in columns ``question``, ``contexts`` (a list of texts, or one
    text), ``response``, ``samples`` and ``id``, as far as the scores read them, and the columns
    that scores read. What is returned has the same rows: ``id``, then for each score a column of
    its values (null where it is undefined; higher = more likely hallucinated) and one of reasons,
    ``NAME__reason``.

    Parameters
    ----------
    scores : str, Score or sequence
        As `calibrate` takes them; each must be known by a name, and ask no endpoint.

    Raises
    ------
    InputError
        If a score cannot be built in another process, or asks an endpoint.

    Examples
    --------
    >>> score = BatchScorer("novelty")
    >>> batch = pa.record_batch({"contexts": [["a red fox"]], "response": ["a red dog"]})
    >>> score(batch)["novelty"].to_pylist()
    [0.5]
    >>> score.spark_schema
    '`id` string, `novelty` double, `novelty__reason` string'
    """

    def __init__(self, scores: ScoreLike | Sequence[ScoreLike]) -> None:
        made = resolve_scores(scores)
        for score in made:
            if distributed.local_only_reason(score) is not None:
                why = error_text("asks_an_endpoint")
                raise InputError.on("not_portable", key=key_of(score), why=why)
        self._sent = tuple(map(distributed.serialise_score, made))
        read = dict.fromkeys(name for score in made for name in score.requires)
        self._texts = tuple(name for name in read if name in TEXT_FIELDS)
        self._columns = source_columns(made)
        fields = [pa.field("id", pa.string())]
        for key in map(key_of, made):
            fields += [pa.field(key, pa.float64()), pa.field(f"{key}__reason", pa.string())]
        self.schema = pa.schema(fields)

    def __call__(self, batch: _Batch) -> _Batch:
        """Score a batch.

        Raises
        ------
        DataError
            If it lacks a column that a score reads.
        """
        examples = self._examples(batch)
        table, _ = score_here(examples, distributed.opened_scores(self._sent))
        arrays = [string_array([example.id for example in examples])]
        for key, values in table.columns.items():
            arrays.append(number_array(values, ~np.isnan(values)))
            arrays.append(string_array(list(map(table.reasons[key].get, range(len(values))))))
        return self._returned(batch, arrays)


class BatchChecker(_OverBatches):
    """Decides about batches of answers: one function from Arrow to Arrow.

    Takes what `BatchScorer` takes. Returns ``id``, ``outcome``, ``score``, ``threshold``,
    ``p_value`` and ``reason`` a row: the decision that ``Guardrail.check`` gives to each answer by
    itself, whatever the batch. A guardrail of sentences returns ``text``, too, what may be shown
    (null where nothing may be), and ``removed``, the sentences that may not as a JSON list.

    Parameters
    ----------
    guardrail : Guardrail or path
        What decides; one that asks no endpoint.

    Raises
    ------
    InputError
        If it asks an endpoint.
    """

    schema = pa.schema(
        {"id": pa.string(), "outcome": pa.string()}
        | dict.fromkeys(("score", "threshold", "p_value"), pa.float64())
        | {"reason": pa.string()}
    )

    def __init__(self, guardrail: Guardrail | str | PathLike[str]) -> None:
        loaded = Guardrail.coerce(guardrail)
        if loaded.endpoints:
            raise InputError(f"the guardrail {error_text('asks_an_endpoint')}")
        self._raw = loaded.config.to_bytes()
        self._texts, self._columns = loaded.texts, loaded.columns
        if loaded.unit == "sentence":
            further = [pa.field(name, pa.string()) for name in ("text", "removed")]
            self.schema = pa.schema([*BatchChecker.schema, *further])

    def __call__(self, batch: _Batch) -> _Batch:
        """Decide about a batch.

        Raises
        ------
        DataError
            If it lacks a column that the guardrail reads.
        """
        decisions = opened_guardrail(self._raw).decide(self._examples(batch))
        columns: dict[str, list[Any]] = {
            name: [getattr(item, name) for item in decisions] for name in self.schema.names
        }
        if "removed" in columns:
            columns["removed"] = [
                json.dumps([item.to_dict() for item in removed or ()], ensure_ascii=False)
                for removed in columns["removed"]
            ]
        arrays = [
            pa.array(columns[item.name], pa.float64())
            if item.type == pa.float64()
            else string_array(columns[item.name])
            for item in self.schema
        ]
        return self._returned(batch, arrays)
