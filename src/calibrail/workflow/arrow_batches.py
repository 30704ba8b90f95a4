"""How does another engine score, or decide about, batches that it hands over as Arrow?

Spark's ``mapInArrow``, Ray Data's ``map_batches`` and every engine that calls a function of an
Arrow batch take these: they can be pickled, and load models once in each process.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from os import PathLike
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from calibrail.data.arrow import number_array, string_array
from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.example import FIELDS, TEXT_FIELDS, Example, cell_of
from calibrail.data.in_memory import native
from calibrail.engine.examples import to_examples
from calibrail.engine.local import score_here
from calibrail.engine.score_task import Sent, sent, travels
from calibrail.errors import DataError, InputError
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.runtime import Guardrail
from calibrail.scores.base import Score
from calibrail.scores.custom import ScoreLike
from calibrail.scores.registry import key_of
from calibrail.workflow.check_shards import opened_guardrail
from calibrail.workflow.scoring import resolve_scores
from calibrail.workflow.sources import columns_of

_Batch = TypeVar("_Batch", pa.RecordBatch, pa.Table)

#: How Spark calls the types of the columns that are returned.
_SPARK: Final = {pa.string(): "string", pa.float64(): "double"}

_REMOTE: Final = (
    "asks an endpoint, and no budget of calls would hold for all processes; score with calibrail "
    "itself, which asks from one place whatever the engine"
)


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
            raise DataError(
                f"the batch has no column {', '.join(missing)}; it has "
                f"{', '.join(batch.schema.names) or 'none'}: rename, or select, what is read"
            )
        every = ALL_COLUMNS in self._columns
        names = [name for name in batch.schema.names if name not in FIELDS] if every else wanted
        cells = {name: batch.column(name).to_pylist() for name in names if name not in TEXT_FIELDS}
        read = [name for name in FIELDS if name in there and name not in ("label", "group")]
        examples = to_examples(batch.select(read))
        if not cells:
            return examples
        rows = zip(*cells.values(), strict=True)
        return [
            replace(
                example,
                columns={
                    name: cell_of(native(cell), name) for name, cell in zip(cells, row, strict=True)
                },
            )
            for example, row in zip(examples, rows, strict=True)
        ]

    def _returned(self, batch: _Batch, arrays: Sequence[pa.Array]) -> _Batch:
        kind: Any = pa.RecordBatch if isinstance(batch, pa.RecordBatch) else pa.Table
        made: _Batch = kind.from_arrays(list(arrays), schema=self.schema)
        return made


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
            if not travels(score):
                raise InputError(
                    f"{key_of(score)} cannot be computed in another process: it {_REMOTE}; or it "
                    "is a column already; or no name leads to it: give your own as 'module:name'"
                )
        self._sent = tuple(map(sent, made))
        self._texts = _texts_of(name for score in made for name in score.requires)
        self._columns = columns_of(made)
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
        table, _ = score_here(examples, _opened(self._sent))
        arrays = [string_array([example.id for example in examples])]
        for key, values in table.columns.items():
            reasons = table.reasons[key]
            arrays.append(number_array(values, ~np.isnan(values)))
            arrays.append(string_array([reasons.get(row) for row in range(len(values))]))
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
        [
            ("id", pa.string()),
            ("outcome", pa.string()),
            ("score", pa.float64()),
            ("threshold", pa.float64()),
            ("p_value", pa.float64()),
            ("reason", pa.string()),
        ]
    )

    def __init__(self, guardrail: Guardrail | str | PathLike[str]) -> None:
        loaded = Guardrail.of(guardrail)
        if loaded.endpoints:
            raise InputError(f"the guardrail {_REMOTE}")
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
        decisions: list[Decision] = opened_guardrail(self._raw).decide(self._examples(batch))
        arrays = [
            string_array([item.id for item in decisions]),
            string_array([item.outcome for item in decisions]),
            *(
                _numbers([getattr(item, name) for item in decisions])
                for name in ("score", "threshold", "p_value")
            ),
            string_array([item.reason for item in decisions]),
        ]
        if "removed" in self.schema.names:
            arrays.append(string_array([item.text for item in decisions]))
            arrays.append(string_array([_removed(item) for item in decisions]))
        return self._returned(batch, arrays)


@lru_cache(maxsize=4)
def _opened(scores: tuple[Sent, ...]) -> tuple[Score, ...]:
    return tuple(score.opened() for score in scores)


def _removed(decision: Decision) -> str:
    removed = [item.to_dict() for item in decision.removed or ()]
    return json.dumps(removed, ensure_ascii=False, allow_nan=False)


def _texts_of(names: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name in TEXT_FIELDS))


def _numbers(values: Sequence[float | None]) -> pa.Array:
    known = np.array([value is not None for value in values], dtype=bool)
    return number_array(np.array([np.nan if v is None else v for v in values], np.float64), known)
