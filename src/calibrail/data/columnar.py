"""What do the rows of an Arrow batch hold, where they can be read as whole columns?

Rows without texts whose id, group, label and scores are single values need no object of their own:
a batch becomes arrays. They mean what `row_parser` says; whatever it takes a row of its own to
read is left to it, row by row (a label that says neither class) or for the whole source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.arrow import DAMAGE, sound
from calibrail.data.arrow_values import coded, kind_of, numbers_of, whole_array
from calibrail.data.cell_values import column_value
from calibrail.data.coded import Coded, Coder
from calibrail.data.columns import ALL_COLUMNS, CHARACTERS, Columns, Needs
from calibrail.data.contents import content_digests, id_digests
from calibrail.data.example import TEXT_FIELDS
from calibrail.data.ids import SourceIds
from calibrail.data.names import Texts
from calibrail.data.refused import duplicate
from calibrail.data.row_parser import NUMBERING, Interpreter
from calibrail.data.rows import Batch, Filtered, Problem, Row

#: Rows that are read at a time.
ROWS: Final = 1 << 16


class NotPlainError(Exception):
    """Rows must be read one by one; never leaves the reading."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Usable rows as columns.

    Attributes
    ----------
    ids, groups : Texts
        Names of the n rows, and of what they belong to.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful, -1 = not labelled.
    numbers : mapping of str to ndarray of float64, shape (n,)
        Columns of scores; NaN where a cell is empty.
    kept : mapping of str to Coded
        Further columns.
    digests : ndarray of uint64, shape (n,)
        ``Example.digest`` as a number.
    by_content, by_nothing : ndarray of bool, shape (n,)
        Which rows are known by what they hold, and which by nothing; all others by their ids.
    """

    ids: Texts
    groups: Texts
    labels: NDArray[np.int8]
    numbers: Mapping[str, NDArray[np.float64]]
    kept: Mapping[str, Coded]
    digests: NDArray[np.uint64]
    by_content: NDArray[np.bool_]
    by_nothing: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.labels)

    def only(self, rows: NDArray[np.bool_]) -> Block:
        """Return some of the rows."""
        if rows.all():
            return self
        return Block(
            self.ids.only(rows),
            self.groups.only(rows),
            self.labels[rows],
            {name: values[rows] for name, values in self.numbers.items()},
            {name: cells.only(rows) for name, cells in self.kept.items()},
            self.digests[rows],
            self.by_content[rows],
            self.by_nothing[rows],
        )


class ColumnReader:
    """Turns batches into blocks, and what is not usable into what stands in the way.

    Parameters
    ----------
    columns, needs, interpreter
        Of the reading.
    scores : collection of str
        Which of the columns that are kept are scores.
    repeated : ndarray of uint64, optional
        Digests, rising, of which a row may be no other than an earlier one, by its id.

    Raises
    ------
    NotPlainError
        The rows hold texts, or something else that only a row of its own tells.
    """

    def __init__(
        self,
        columns: Columns,
        needs: Needs,
        interpreter: Interpreter,
        scores: Collection[str],
        repeated: NDArray[np.uint64] | None = None,
    ) -> None:
        texts = {columns.by_field[field] for field in (*TEXT_FIELDS, "samples")}
        if needs.require or needs.expect or needs.allow_none:
            raise NotPlainError
        if {ALL_COLUMNS, CHARACTERS} & {*needs.keep}:
            raise NotPlainError
        if len(columns.label_columns) > 1 or columns.labels.spans or columns.marks is not None:
            raise NotPlainError
        self._columns, self._needs, self._interpreter = columns, needs, interpreter
        self._texts = {name.partition(".")[0] for name in texts}
        self._scores = frozenset(scores)
        self._coders = {name: Coder() for name in needs.keep if name not in self._scores}
        self._repeated, self._seen = repeated, SourceIds()
        self._seen_schema: Any = None

    def __call__(self, batch: Batch) -> tuple[Block, list[Problem | Filtered]]:
        """Return the usable rows, and the others in their order.

        Raises
        ------
        NotPlainError
            The batch holds something that only a row of its own tells.
        """
        rows = batch.rows
        try:
            sound(rows)
        except DAMAGE as error:
            raise NotPlainError from error
        labels, odd = self._labels(rows)
        try:
            block = self._block(rows, labels, batch)
        except (ValueError, OverflowError) as error:
            # A date that Python does not have; texts of more than 2 GiB.
            raise NotPlainError from error
        left_out: list[Problem | Filtered] = []
        if odd.any():
            places = np.flatnonzero(odd)
            odd_rows = rows.take(whole_array(places)).to_pylist()
            for place, values in zip(places.tolist(), odd_rows, strict=True):
                result = self._interpreter(Row(batch.start + place, values, batch.file))
                if not isinstance(result, Problem | Filtered):
                    raise NotPlainError
                left_out.append(result)
        if self._repeated is not None:
            block, again = self._once(block, ~odd & among(block.digests, self._repeated), batch)
            odd[[problem.row - batch.start for problem in again]] = True
            left_out = sorted([*left_out, *again], key=lambda result: result.row)
        return block.only(~odd), left_out

    def _once(
        self, block: Block, suspects: NDArray[np.bool_], batch: Batch
    ) -> tuple[Block, list[Problem]]:
        """Return the rows by names of their own, and those whose id their file has already."""
        names, again, renamed = block.ids, list[Problem](), dict[int, str]()
        for row in np.flatnonzero(suspects).tolist():
            name = names[row].as_py()
            unique = self._seen.unique(name, batch.file)
            if unique is None:
                again.append(duplicate(batch.start + row, name, batch.file))
            elif unique != name:
                renamed[row] = unique
        if not renamed:
            return block, again
        ids = names.renamed(renamed)
        by_id = ~block.by_content & suspects
        digests = block.digests.copy()
        digests[by_id] = id_digests(ids.only(by_id))
        return replace(block, ids=ids, digests=digests), again

    def check(self, schema: Any) -> None:
        """Refuse columns of which a cell is more than one value, and texts; count nothing.

        Raises
        ------
        NotPlainError
            The rows of a file with these columns must be read one by one.
        """
        if self._seen_schema is not None and schema.equals(self._seen_schema):
            return
        names = set(schema.names)
        by_field = self._columns.by_field
        used = [*self._columns.label_columns, by_field["id"], by_field["group"], *self._needs.keep]
        paths = [name for name in used if name not in names and "." in name]
        if self._texts & names or any(name.partition(".")[0] in names for name in paths):
            raise NotPlainError
        kinds = {name: kind_of(schema.field(name).type) for name in schema.names}
        for name in (by_field["id"], by_field["group"]):
            if kinds.get(name, "null") not in ("text", "whole", "null"):
                raise NotPlainError
        for name in self._scores:
            if kinds.get(name, "null") not in ("whole", "float", "flag", "null"):
                raise NotPlainError
        for name in (*self._columns.label_columns, *self._coders):
            if kinds.get(name, "null") not in ("text", "whole", "float", "flag", "null"):
                raise NotPlainError
        if self._interpreter.whole and "" in kinds.values():
            raise NotPlainError
        self._seen_schema = schema

    def _labels(self, rows: Any) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
        """Return the labels, and which rows have none though they need one."""
        column = self._columns.label_columns[0]
        if column not in rows.schema.names:
            values, codes = [None], np.zeros(rows.num_rows, np.int64)
        else:
            values, codes = coded(rows.column(column))
        counts = np.bincount(codes, minlength=len(values)).tolist()
        meanings = self._columns.labels.of_many(list(zip(values, counts, strict=True)))
        if meanings is None:
            raise NotPlainError
        of_value = [meaning if isinstance(meaning, int) else -1 for meaning in meanings]
        odd_value = [
            isinstance(meaning, str) or (meaning is None and self._needs.labelled)
            for meaning in meanings
        ]
        return np.array(of_value, np.int8)[codes], np.array(odd_value, np.bool_)[codes]

    def _block(self, rows: Any, labels: NDArray[np.int8], batch: Batch) -> Block:
        by_field, n = self._columns.by_field, rows.num_rows
        names = Texts.of(_column(rows, by_field["id"]))
        numbered = Texts.numbered(batch.file, batch.start, n)
        ids = numbered if names is None else names.filled(numbered)
        unnamed = np.ones(n, np.bool_) if names is None else names.missing()
        by_content = np.zeros(n, np.bool_)
        digests = np.zeros(n, np.uint64)
        if unnamed.any() and self._interpreter.whole:
            passed_over = {*self._columns.label_columns, *NUMBERING}
            held = [
                rows.column(place)
                for place, name in enumerate(rows.schema.names)
                if name not in passed_over
            ]
            digests, empty = content_digests(held, n)
            by_content = unnamed & ~empty
        by_id = ~by_content
        if by_id.any():
            digests[by_id] = id_digests(ids.only(by_id))
        return Block(
            ids,
            Texts.of(_column(rows, by_field["group"])) or Texts.nothing(n),
            labels,
            {name: numbers_of(_column(rows, name), n) for name in self._scores},
            {
                name: Coded(coder.values, coder(*_cells(_column(rows, name), n)))
                for name, coder in self._coders.items()
            },
            digests,
            by_content,
            unnamed & ~by_content,
        )


def among(numbers: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which numbers are among others, which rise."""
    places = np.minimum(np.searchsorted(known, numbers), max(0, len(known) - 1))
    found: NDArray[np.bool_] = known[places] == numbers if len(known) else numbers != numbers
    return found


def _cells(column: Any, n: int) -> tuple[list[Any], NDArray[np.int64]]:
    if column is None:
        return [None], np.zeros(n, np.int64)
    values, codes = coded(column)
    return list(map(column_value, values)), codes


def _column(rows: Any, name: str) -> Any:
    return rows.column(name) if name in rows.schema.names else None
