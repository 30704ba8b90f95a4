"""What does a scored data set look like once its texts are gone?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from calibrail.data.arrow import number_array, string_array
from calibrail.data.names import Texts
from calibrail.data.splits import ASIDE_NAME, SPLIT_NAMES
from calibrail.errors import DataError
from calibrail.models.call_limits import Price
from calibrail.models.remote import Usage
from calibrail.scale import Scale
from calibrail.scores.reasons import Reasons

#: Columns that are not scores.
RESERVED = ("id", "group", "label", "split")

#: How the column ends that says why a score is undefined.
REASON: Final = "__reason"

#: Rows that are made ready for a file at a time.
WRITTEN: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class Calls:
    """What a score asked of models behind endpoints.

    Attributes
    ----------
    n : int
        Examples that the score was to tell something of.
    n_judged : int
        Those among them that a model was asked about.
    usage : Usage
        Answers, calls and tokens.
    """

    n: int
    n_judged: int
    usage: Usage

    def __add__(self, other: Calls) -> Calls:
        """Return what was asked for the examples of both."""
        return Calls(self.n + other.n, self.n_judged + other.n_judged, self.usage + other.usage)

    def to_dict(
        self, score: str, price: Price | None, n_answers: int | None = None
    ) -> dict[str, Any]:
        """Return what does not depend on which answers were already known: a report's part.

        Tokens are means per judged example, the cost is that of asking everything anew, per 1,000
        answers. Where sentences were scored, ``n_answers`` are theirs, and ``unit`` says so.
        """
        usage, judged, n = self.usage, self.n_judged, self.n
        counted = judged > 0 and usage.n_counted == usage.n_answers > 0
        tokens = (usage.tokens_in / judged, usage.tokens_out / judged) if counted else (None, None)
        total = price.of(usage.tokens_in, usage.tokens_out) if price and counted and n else None
        return {
            "score": score,
            "n": n,
            "n_judged": judged,
            "tokens_in": tokens[0],
            "tokens_out": tokens[1],
            "price": None if price is None else [price.tokens_in, price.tokens_out],
            "dollars_per_1000": None if total is None else 1000.0 * total / (n_answers or n),
            **({} if n_answers is None else {"unit": "sentence"}),
        }


@dataclass(frozen=True, slots=True)
class Cost:
    """What one score cost.

    Attributes
    ----------
    score : str
        The score's key.
    n : int
        Examples scored.
    seconds : float
        Time spent, that of the models it shares included, without that in which they were opened.
    forward_passes : int
        Batches that its models ran, those that other scores use too included.
    shared_with : tuple of str
        Scores that use the same passes: together they cost little more than one of them.
    calls : Calls or None
        What it asked of endpoints; None for a score that asks none.
    seconds_opening : float
        Time in which its models were opened: libraries imported, files verified, read and, for
        another library than torch, exported. Where several processes open them, that of all.
    """

    score: str
    n: int
    seconds: float
    forward_passes: int
    shared_with: tuple[str, ...] = ()
    calls: Calls | None = None
    seconds_opening: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        """Return what the same score cost for the examples of both."""
        calls = [cost.calls for cost in (self, other) if cost.calls is not None]
        return Cost(
            self.score,
            self.n + other.n,
            self.seconds + other.seconds,
            self.forward_passes + other.forward_passes,
            tuple(dict.fromkeys((*self.shared_with, *other.shared_with))),
            sum(calls[1:], calls[0]) if calls else None,
            self.seconds_opening + other.seconds_opening,
        )

    @property
    def seconds_per_1000(self) -> float | None:
        """Seconds per 1,000 examples, models being open; None without an example."""
        return 1000.0 * self.seconds / self.n if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the seconds per 1,000 examples, JSON-able."""
        derived = {"shared_with": list(self.shared_with), "seconds_per_1000": self.seconds_per_1000}
        return asdict(self) | derived


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """One row per example, one column per score; numbers and names only, no text.

    Attributes
    ----------
    ids : pyarrow string array or Texts, length n
        The examples' ids.
    groups : pyarrow string array or Texts, length n
        Groups, null where an example stands alone.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful, -1 = not labelled.
    columns : mapping of str to ndarray of float64, shape (n,)
        Scores by key, in the order in which they were asked for; NaN where undefined.
    reasons : mapping of str to mapping of int to str
        Why a score is undefined, by key and row.
    digests : ndarray of uint64, shape (n,)
        ``Example.digest`` as a number.
    copies : ndarray of int64, shape (n,), or None
        Groups of examples that are copies of one another, numbered; -1 for one without a copy.
        None where that was not looked at, or there are no texts.
    kept : mapping of str to sequence
        Further columns of the data that were asked for.
    costs : tuple of Cost
        What each score cost, in the order of ``columns``.
    n_truncated : int
        Texts longer than the encoder's maximum length.
    n_cut : int
        Pairs whose short side (an answer, a claim) left no room for the long one, and was read
        without its end.
    scales : mapping of str to Scale
        Which scores are columns of the data, and which of those are kept negated.
    """

    ids: pa.Array | Texts
    groups: pa.Array | Texts
    labels: NDArray[np.int8]
    columns: Mapping[str, NDArray[np.float64]]
    reasons: Mapping[str, Mapping[int, str]]
    digests: NDArray[np.uint64]
    copies: NDArray[np.int64] | None = None
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    costs: tuple[Cost, ...] = ()
    n_truncated: int = 0
    n_cut: int = 0
    scales: Mapping[str, Scale] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def without(self, keys: Collection[str]) -> ScoreTable:
        """Return the table without some scores."""
        return replace(
            self,
            columns={key: value for key, value in self.columns.items() if key not in keys},
            reasons={key: value for key, value in self.reasons.items() if key not in keys},
            costs=tuple(cost for cost in self.costs if cost.score not in keys),
        )

    def to_parquet(self, path: str | Path, codes: NDArray[np.int8] | None = None) -> None:
        """Write ``id``, ``group``, ``label``, ``split`` (with ``codes``) and one column a score.

        The split of an answer that counts nowhere, since another one of its group does, is
        ``aside``. A score that is undefined somewhere has a column ``NAME__reason``, one that is
        kept negated its own values in ``NAME__column``. The same table gives the same bytes.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        write_in_parts(path, len(self), lambda rows: pa.table(self.arrays(rows, codes)))

    def arrays(
        self,
        rows: slice,
        codes: NDArray[np.int8] | None = None,
        first: int | None = None,
        places: Mapping[str, pa.Array] | None = None,
    ) -> dict[str, pa.Array]:
        """Return what a file holds of some rows, by column.

        Parameters
        ----------
        rows : slice
            Which rows.
        codes : ndarray of int8, optional
            Where each row of the table belongs.
        first : int, optional
            What the reasons call the first of the rows, where the table is a part of a larger one:
            there is a column of reasons then for every score.
        places : mapping of str to pyarrow array, optional
            Columns that say which part of their answers these rows are.
        """
        labels = self.labels[rows]
        arrays: dict[str, pa.Array] = {"id": self.ids[rows], **(places or {})}
        arrays["group"] = self.groups[rows]
        arrays["label"] = number_array(labels, labels >= 0)
        if codes is not None:
            known = np.ones(len(labels), dtype=bool)
            names = string_array((*SPLIT_NAMES, ASIDE_NAME))
            arrays["split"] = names.take(number_array(codes[rows], known))
        for name, column in self.columns.items():
            values = column[rows]
            arrays[column_of(name)] = number_array(values, known := ~np.isnan(values))
            if (scale := self.scales.get(name)) and scale.negated:
                arrays[column_of(name, "__column")] = number_array(scale.shown(values), known)
            reasons = self.reasons.get(name) or {}
            if reasons or first is not None:
                start = rows.start if first is None else first
                if isinstance(reasons, Reasons):
                    reasons = reasons.between(start, start + len(values))
                numbers = range(start, start + len(values))
                arrays[column_of(name, REASON)] = string_array(
                    [reasons.get(row) for row in numbers]
                )
        return arrays


def parquet_writer(path: str | Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Return what writes a file of scores."""
    # Ids and scores hardly ever repeat.
    often = [name for name in schema.names if name in RESERVED[1:] or name.endswith(REASON)]
    return pq.ParquetWriter(path, schema, use_dictionary=often)


def write_in_parts(path: str | Path, n: int, part: Callable[[slice], pa.Table]) -> None:
    """Write the n rows of a table to a file of scores, some at a time.

    Raises
    ------
    DataError
        If the file cannot be written.
    """
    try:
        with ExitStack() as stack:
            writer: pq.ParquetWriter | None = None
            for start in range(0, max(1, n), WRITTEN):
                rows = part(slice(start, start + WRITTEN))
                writer = writer or stack.enter_context(parquet_writer(path, rows.schema))
                writer.write_table(rows)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error}") from error


def column_of(score: str, ending: str = "") -> str:
    """Return what a file calls the column of a score, or one beside it.

    >>> column_of("rad"), column_of("label", REASON)
    ('rad', 'score:label__reason')
    """
    return (f"score:{score}" if score in RESERVED else score) + ending
