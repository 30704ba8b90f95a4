"""Tables of scores by answer and by sentence, and their Parquet files.

An answer becomes one number again, so that all that is known of answers holds (Mohri and
Hashimoto, 2024). Of a hallucinated one it is the lowest score among its unsupported sentences: at a
threshold up to there all of them are removed. Of a faithful one it is the highest score of its
sentences: at a threshold up to there one of them is removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calibrail.atomic_files import final_place, whole_file
from calibrail.conformal.threshold import add_tolerance
from calibrail.data.example import RowProblem
from calibrail.data.splits import PART_NAMES
from calibrail.data.tables import number_array, string_array
from calibrail.errors import file_errors
from calibrail.formatting import Scale
from calibrail.models.llm.transport import AUTO, CallLimits, Usage
from calibrail.options.guarantee import Undefined
from calibrail.text.structure import Joins, broken_links, removed_with

#: Columns that are not scores.
RESERVED = ("id", "group", "label", "split", "row", "file")

#: How the column ends that says why a score is undefined.
REASON: Final = "__reason"

#: Rows of a group within a file.
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
    model : str
        Which model that was; empty where there were several.
    """

    n: int
    n_judged: int
    usage: Usage
    model: str = ""

    def __add__(self, other: Calls) -> Calls:
        """Return what was asked for the examples of both."""
        both = self.n + other.n, self.n_judged + other.n_judged, self.usage + other.usage
        return Calls(*both, self.model)

    def to_dict(
        self, score: str, limits: CallLimits, n_answers: int | None = None
    ) -> dict[str, Any]:
        """Return what does not depend on which answers were already known: a report's part.

        Tokens are means per judged example, the cost is that of asking everything anew, per 1,000
        answers. Where sentences were scored, ``n_answers`` are theirs, and ``unit`` says so.
        """
        usage, judged, n = self.usage, self.n_judged, self.n
        counted = judged > 0 and usage.n_counted == usage.n_answers > 0
        tokens = (usage.tokens_in / judged, usage.tokens_out / judged) if counted else (None, None)
        several = limits.price == AUTO and not self.model
        price, total = None if several else limits.price_of(self.model), None
        if price and counted and n:
            total = price.of(usage.tokens_in, usage.tokens_out, usage.tokens_cached)
        stated = price and [price.tokens_in, price.tokens_out, price.tokens_cached]
        return {
            "score": score,
            "n": n,
            "n_judged": judged,
            "tokens_in": tokens[0],
            "tokens_out": tokens[1],
            "price": stated and [amount for amount in stated if amount is not None],
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
        ``Example.digest`` of the texts as they are spelt, as a number: lots are drawn by it.
    copies : ndarray of int64, shape (n,), or None
        Groups of examples that may be copies of one another, numbered; -1 for one without a copy.
        None where that was not looked at, or there are no texts.
    same, together : ndarray of int64, shape (n,), or None
        Likewise the groups of the same texts, and those that no split divides.
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
    files : tuple of Path
        What the rows were read from.
    """

    ids: pa.Array
    groups: pa.Array
    labels: NDArray[np.int8]
    columns: Mapping[str, NDArray[np.float64]]
    reasons: Mapping[str, Mapping[int, str]]
    digests: NDArray[np.uint64]
    copies: NDArray[np.int64] | None = None
    same: NDArray[np.int64] | None = None
    together: NDArray[np.int64] | None = None
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    costs: tuple[Cost, ...] = ()
    n_truncated: int = 0
    n_cut: int = 0
    scales: Mapping[str, Scale] = field(default_factory=dict)
    files: tuple[Path, ...] = ()

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
        ``aside``, that of one which only confirms a winner ``confirming``. A score that is
        undefined somewhere has a column ``NAME__reason``, one that is kept negated its own values
        in ``NAME__column``. The same table gives the same bytes.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        write_scores(path, pa.table(self.arrays(slice(0, len(self)), codes)))

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
            arrays["split"] = string_array(PART_NAMES).take(number_array(codes[rows]))
        for name, column in self.columns.items():
            values = column[rows]
            arrays[column_of(name)] = number_array(values, known := ~np.isnan(values))
            if (scale := self.scales.get(name)) and scale.negated:
                arrays[column_of(name, "__column")] = number_array(scale.shown(values), known)
            reasons = self.reasons.get(name) or {}
            if reasons or first is not None:
                start = rows.start if first is None else first
                whys = map(reasons.get, range(start, start + len(values)))
                arrays[column_of(name, REASON)] = string_array(list(whys))
        return arrays


def write_scores(path: str | Path, table: pa.Table) -> None:
    """Write a file of scores.

    Raises
    ------
    DataError
        If the file cannot be written.
    """
    with file_errors(f"cannot write {final_place(Path(path))}"), whole_file(Path(path)) as made:
        _write(made, table)


def _write(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    # Ids and scores hardly ever repeat.
    often = [name for name in table.column_names if name in RESERVED[1:] or name.endswith(REASON)]
    table = table.replace_schema_metadata({"content": '{"schema": "calibrail.scores/1"}'})
    pq.write_table(table, path, row_group_size=WRITTEN, use_dictionary=often)


def column_of(score: str, ending: str = "") -> str:
    """Return what a file calls the column of a score, or one beside it.

    >>> column_of("rad"), column_of("label", REASON)
    ('rad', 'score:label__reason')
    """
    return (f"score:{score}" if score in RESERVED else score) + ending


@contextmanager
def score_file(path: Path) -> Iterator[ScoreFile]:
    """Yield what collects the parts of a Parquet file of scores.

    The file is made when the block ends, whole or not at all, unless an error leaves it; the bytes
    are those that ``ScoreTable.to_parquet`` writes of all rows.

    Parameters
    ----------
    path : Path
        The file; its folder is made where it does not exist.

    Raises
    ------
    DataError
        If the file cannot be written.
    """
    with file_errors(f"cannot write {path}"), whole_file(path) as made:
        file = ScoreFile()
        yield file
        _write(made, file.table())


class ScoreFile:
    """The parts of a file of scores; `score_file` writes it.

    Attributes
    ----------
    n : int
        Rows so far.
    undefined : dict of str to int
        How many of them each score has no value for.
    """

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []
        self._unusable = False
        self.n, self.undefined = 0, dict[str, int]()

    def add(
        self,
        part: ScoreTable,
        rows: Sequence[tuple[str, int] | RowProblem] | None = None,
        places: Mapping[str, pa.Array] | None = None,
    ) -> None:
        """Add the next rows, whose reasons are by the row of the whole.

        ``rows`` says where each stands in its source, its file first, and which rows between them
        cannot be used; ``places`` is as in ``ScoreTable.arrays``. All parts have them, or none.
        """
        table = pa.table(part.arrays(slice(0, len(part)), first=self.n, places=places))
        self._parts.append(table if rows is None else self._placed(table, part.columns, rows))
        for name, reasons in part.reasons.items():
            self.undefined[name] = self.undefined.get(name, 0) + len(reasons)
        self.n += len(part)

    def _placed(
        self, table: pa.Table, scores: Iterable[str], rows: Sequence[tuple[str, int] | RowProblem]
    ) -> pa.Table:
        """Return rows with their places, and with those between them that cannot be used."""
        problems = {at: row for at, row in enumerate(rows) if isinstance(row, RowProblem)}
        if problems:
            usable = np.array([at not in problems for at in range(len(rows))], np.bool_)
            table = table.take(number_array(np.cumsum(usable) - 1, usable))
            for name in ("id", *(column_of(score, REASON) for score in scores)):
                cells = table[name].to_pylist()
                for at, row in problems.items():
                    why = f"row {row.row} cannot be used: {row.why}"
                    cells[at] = row.name if name == "id" else why
                table = table.set_column(table.column_names.index(name), name, string_array(cells))
        self._unusable |= bool(problems)
        where = [(row.file, row.row) if isinstance(row, RowProblem) else row for row in rows]
        numbers = np.array([row for _, row in where], np.int64)
        files = string_array([file or None for file, _ in where])
        at = table.column_names.index("label") + 1
        table = table.add_column(at, "row", number_array(numbers, numbers >= 0))
        return table.add_column(at + 1, "file", files)

    def table(self) -> pa.Table:
        """Return all rows, without the reasons of scores that need none, and a single file's."""
        rows, needless = pa.concat_tables(self._parts), set[str]()
        if not self._unusable:
            needless = {column_of(name, REASON) for name, n in self.undefined.items() if not n}
        if "file" in rows.column_names and rows["file"].null_count == len(rows):
            needless.add("file")
        return rows.select([name for name in rows.column_names if name not in needless])


Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Of a sentence whose answer nobody has marked by characters.
UNMARKED: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Trimming:
    """What is left of n answers with m sentences.

    Attributes
    ----------
    reached : ndarray of bool, shape (m,)
        Sentences that reach the threshold, or have no score and are removed for that.
    removed : ndarray of bool, shape (m,)
        Those, and the ones that go because they do.
    reviewed : ndarray of bool, shape (n,)
        Answers of which nothing is shown, since a person has to look at them.
    """

    reached: Mask
    removed: Mask
    reviewed: Mask


@dataclass(frozen=True, slots=True, eq=False)
class SentenceTable:
    """The m sentences of n answers, one answer after the other; numbers only, no text.

    Attributes
    ----------
    first : ndarray of int64, shape (n + 1,)
        Sentences of answer i are those from ``first[i]`` up to ``first[i + 1]``.
    starts, ends : ndarray of int32, shape (m,)
        Places in the answer's text, the end exclusive.
    labels : ndarray of int8, shape (m,)
        1 = unsupported, 0 = supported, -1 = not labelled.
    marked, written : ndarray of int32, shape (m,)
        How many of its characters are marked as unsupported (`UNMARKED` where nobody marked the
        answer), and how many there are, white space apart.
    words : ndarray of int32, shape (m,)
        How many words it has, as white space parts them.
    outside : ndarray of int32, shape (n,)
        Marked characters of the answer that no sentence holds.
    joins : Joins
        Which sentences hang together.
    columns : mapping of str to ndarray of float64, shape (m,)
        Scores by key, higher = more likely unsupported; NaN where undefined.
    reasons : mapping of str to mapping of int to str
        Why a score is undefined, by key and sentence.
    n_cut_otherwise : int
        Answers whose sentences, as the data gives them, are others than those found in the text.
    """

    first: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    labels: NDArray[np.int8]
    marked: NDArray[np.int32]
    written: NDArray[np.int32]
    words: NDArray[np.int32]
    outside: NDArray[np.int32]
    joins: Joins
    columns: Mapping[str, Floats]
    reasons: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    n_cut_otherwise: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_answers(self) -> int:
        """How many answers there are."""
        return len(self.first) - 1

    @property
    def answers(self) -> NDArray[np.int64]:
        """The answer of each sentence, shape (m,)."""
        return np.repeat(np.arange(self.n_answers), np.diff(self.first))

    def without(self, keys: set[str]) -> SentenceTable:
        """Return the table without some scores."""
        columns = {key: values for key, values in self.columns.items() if key not in keys}
        reasons = {key: why for key, why in self.reasons.items() if key not in keys}
        return replace(self, columns=columns, reasons=reasons)

    def of_answers(self, rows: Mask) -> SentenceTable:
        """Return the sentences of some answers, without the reasons.

        Parameters
        ----------
        rows : ndarray of bool, shape (n,)
            Which answers.
        """
        kept, sizes = np.repeat(rows, np.diff(self.first)), np.diff(self.first)[rows]
        parts = {
            name: getattr(self, name)[kept]
            for name in ("starts", "ends", "labels", "marked", "written", "words")
        }
        return replace(
            self,
            first=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            outside=self.outside[rows],
            joins=Joins(*(part[kept] for part in self.joins)),
            columns={key: values[kept] for key, values in self.columns.items()},
            reasons={},
            n_cut_otherwise=0,
            **parts,
        )

    def any(self, sentences: Mask) -> Mask:
        """Return which answers hold one of some sentences, shape (n,)."""
        return self.count(sentences) > 0

    def count(self, sentences: Mask) -> NDArray[np.int64]:
        """Return how many of some sentences each answer holds, shape (n,)."""
        before = np.concatenate(([0], np.cumsum(sentences, dtype=np.int64)))
        return np.asarray(before[self.first[1:]] - before[self.first[:-1]])

    def values(self, key: str, undefined: Undefined) -> Floats:
        """Return the value of each answer, shape (n,); NaN where its policy decides.

        Parameters
        ----------
        key : str
            The score.
        undefined : {"flag", "review", "pass"}
            Under ``pass`` a sentence without a score is never removed, so that an answer with an
            unsupported one has no value. Otherwise it always is: it counts for no hallucinated
            answer that has another unsupported one, and a faithful answer with one has no value.

        Examples
        --------
        >>> labels = np.array([0, 1, 1, 0, 0], np.int8)
        >>> table = SentenceTable.of([3, 2], labels, rad=np.array([0.9, 0.4, 0.7, 0.1, 0.2]))
        >>> table.values("rad", "flag").tolist()
        [0.4, 0.2]
        """
        scores, unsupported = self.columns[key], self.labels == 1
        lost = np.isnan(scores)
        lowest = self._lowest(np.where(unsupported & ~lost, scores, np.inf))
        highest = -self._lowest(np.where(lost, np.inf, -scores))
        hallucinated = self.any(unsupported)
        values = np.where(hallucinated, lowest, highest)
        if undefined == "pass":
            values[self.any(unsupported & lost)] = np.nan
        else:
            values[~hallucinated & self.any(lost)] = np.nan
        values[np.isinf(values)] = np.nan
        return values

    def highest(self, key: str) -> Mask:
        """Return the sentence of each answer with the highest score, the first of several.

        One without a score is never it.
        """
        scores = self.columns[key]
        ranked = np.where(np.isnan(scores), -np.inf, scores)
        order = np.lexsort((np.arange(len(self)), -ranked, self.answers))
        found = np.zeros(len(self), np.bool_)
        found[order[self.first[:-1][np.diff(self.first) > 0]]] = True
        return found & ~np.isnan(scores)

    def trim(
        self, key: str, thresholds: Floats, undefined: Undefined, tolerance: float
    ) -> Trimming:
        """Return what a threshold for each answer leaves of the answers.

        Parameters
        ----------
        key : str
            The score.
        thresholds : ndarray of float64, shape (n,)
            A sentence is removed at ``score + tolerance >= threshold``.
        undefined : {"flag", "review", "pass"}
            What happens to a sentence without a score: it is removed, its answer goes to review, or
            it stays.
        tolerance : float
            As the score's.
        """
        scores = self.columns[key]
        lost = np.isnan(scores)
        # As a rule decides about answers: the same sum is compared.
        above = add_tolerance(scores, tolerance) >= np.repeat(thresholds, np.diff(self.first))
        reached = np.where(lost, undefined != "pass", above)
        removed = removed_with(self.joins, reached)
        reviewed = self.any(broken_links(self.joins, removed))
        if undefined == "review":
            reviewed |= self.any(lost)
        return Trimming(reached, removed, reviewed)

    def _lowest(self, values: Floats) -> Floats:
        """Return the lowest of each answer's values, shape (n,); infinity where it has none."""
        lowest = np.full(self.n_answers, np.inf)
        holds = np.diff(self.first) > 0
        if holds.any():
            lowest[holds] = np.minimum.reduceat(values, self.first[:-1][holds])
        return lowest

    @classmethod
    def of(cls, sizes: Any, labels: NDArray[np.int8], **columns: Floats) -> SentenceTable:
        """Return a table of sentences of which no text is known: they stand each by itself.

        Parameters
        ----------
        sizes : sequence of int, length n
            How many sentences each answer has.
        labels : ndarray of int8, shape (m,)
            As the table's.
        **columns : ndarray of float64, shape (m,)
            Scores by key.
        """
        first = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        nowhere = np.zeros(len(labels), np.int32)
        unmarked = np.full(len(labels), UNMARKED, np.int32)
        outside = np.zeros(len(first) - 1, np.int32)
        joins = Joins(nowhere, nowhere, nowhere)
        zeros = (nowhere, nowhere)
        return cls(first, *zeros, labels, unmarked, *zeros, outside, joins, columns)

    def to_parquet(self, path: str | Path, table: ScoreTable, codes: NDArray[np.int8]) -> None:
        """Write ``id``, ``sentence``, ``start``, ``end``, ``label``, ``split``, a column a score.

        Sentences of an answer are numbered from 1. The rest is as `ScoreTable.to_parquet` writes.

        Parameters
        ----------
        path : path
            The file.
        table : ScoreTable
            The answers.
        codes : ndarray of int8, shape (n,)
            Where each answer belongs.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        answers = self.answers
        places = number_array(answers)
        sentences = replace(
            table,
            ids=table.ids[0 : len(table)].take(places),
            groups=table.groups[0 : len(table)].take(places),
            labels=self.labels,
            columns=self.columns,
            reasons=self.reasons,
        )
        numbers = np.arange(len(self)) - self.first[answers] + 1
        order = {"sentence": numbers, "start": self.starts, "end": self.ends}
        order = {name: number_array(cast(Any, values)) for name, values in order.items()}
        rows = sentences.arrays(slice(0, len(self)), codes[answers], places=order)
        write_scores(path, pa.table(rows).drop_columns(["group"]))
