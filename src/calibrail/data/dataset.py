"""One Dataset, with the texts, of many in Arrow; blocks of rows that hold scores alone.

The numbers are those of ``Example.digest``: SHA-256 takes half a microsecond a row, and what is
hashed is made for many rows at once.

Rows without texts whose id, group, label and scores are single values need no object of their own:
a batch becomes arrays. They mean what `row_parser` says; whatever it takes a row of its own to
read is left to it, row by row (a label that says neither class) or for the whole source.
"""

from __future__ import annotations

import json
import mmap
import tempfile
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, chain, compress
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
from numpy.typing import NDArray

from calibrail.data.columns import ALL_COLUMNS, CHARACTERS, ColumnMapping, Needs
from calibrail.data.example import (
    TEXT_FIELDS,
    Example,
    Filtered,
    GivenSentence,
    RowBatch,
    RowProblem,
    SourceRow,
)
from calibrail.data.row_parser import RowParser
from calibrail.data.tables import DAMAGE, NotPlainError, byte_array, number_array, string_array
from calibrail.data.values import column_value, name_of, restored, spelling, stored
from calibrail.errors import Library, file_errors
from calibrail.text.words import patterns

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Library("pyarrow")
pc = Library("pyarrow.compute")


#: Bytes of texts in Arrow that are held in memory; with more, all lie in a temporary file.
SPILL: Final = 1 << 26
#: Answers, and characters of theirs, that become one batch; with fewer batches than that, and a
#: quarter of the bytes in characters, answers stay as they are, which takes a fifth of the time.
_BATCH_ROWS: Final = 1024
_BATCH_CHARACTERS: Final = 1 << 22
_FEW: Final = 8

#: Bytes that a string array may hold.
_STRING: Final = 1 << 31

_TEXTS: Final = ("question", "response", "id", "group", "content", "before", "_digest")
_LISTS: Final = ("contexts", "samples")
_COLUMNS: Final = (*_TEXTS, *_LISTS, "label")


class Dataset(Sequence[Example]):
    """The usable answers of one source, texts included, by row number.

    A source is read once, into this; what needs an answer again takes its row. Texts of more than a
    few batches are UTF-8 bytes as Arrow has them, since no Arrow string holds a lone surrogate.
    Where they are large, the batches lie in a temporary file that is mapped into memory and goes
    with the data set.

    Parameters
    ----------
    examples : iterable of Example
        Consumed once.
    spill : int
        Bytes that are held in memory at most.

    Examples
    --------
    >>> answers = Dataset([Example("q", ("c",), "r", label=1, id="a")])
    >>> len(answers), answers[0].response, answers[0].digest() == next(iter(answers)).digest()
    (1, 'r', True)
    """

    def __init__(self, examples: Iterable[Example], *, spill: int = SPILL) -> None:
        self._batches, batches, size = list[Any](), _batches_of(examples), 0
        for rows, characters in batches:
            self._batches, size = [*self._batches, rows], size + characters
            if len(self._batches) == _FEW or size >= spill // 4:
                every = chain(self._batches, (more for more, _ in batches))
                self._batches = _written(every, spill)
        self._starts = [0, *accumulate(map(len, self._batches))]

    def __len__(self) -> int:
        """Return the number of answers."""
        return self._starts[-1]

    @overload
    def __getitem__(self, row: int) -> Example: ...
    @overload
    def __getitem__(self, row: slice) -> list[Example]: ...
    def __getitem__(self, row: int | slice) -> Example | list[Example]:
        """Return the answer of one row, or those of several."""
        if isinstance(row, slice):
            return [self[place] for place in range(*row.indices(len(self)))]
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        place = bisect_right(self._starts, row) - 1
        batch, row = self._batches[place], row - self._starts[place]
        return batch[row] if isinstance(batch, list) else next(to_examples(batch.slice(row, 1)))

    def __iter__(self) -> Iterator[Example]:
        """Yield every answer."""
        batches = (it if isinstance(it, list) else to_examples(it) for it in self._batches)
        return chain.from_iterable(batches)


def _written(batches: Iterable[Sequence[Example]], spill: int) -> list[pa.RecordBatch]:
    from pyarrow import ipc

    writer: Any = None
    # With 0 nothing would ever be written to a file.
    with tempfile.SpooledTemporaryFile(max_size=max(1, spill)) as file:
        for batch in map(to_batch, batches):
            with _writing():
                writer = writer or ipc.new_file(file, batch.schema)
                writer.write_batch(batch)
        with _writing():
            writer.close()
            size = file.tell()
            file.seek(0)
            # A mapping outlives its file.
            mapped = size > spill and mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            held = ipc.open_file(pa.py_buffer(mapped or file.read()))
    return [held.get_batch(place) for place in range(held.num_record_batches)]


def _writing() -> AbstractContextManager[None]:
    return file_errors(
        "cannot write the texts to a temporary file", "; TMPDIR names another folder for it"
    )


def _batches_of(examples: Iterable[Example]) -> Iterator[tuple[list[Example], int]]:
    """Yield answers with how many characters their texts have together."""
    rows, size = list[Example](), 0
    for example in examples:
        rows.append(example)
        texts = example.question, example.response, *example.contexts, *example.samples
        size += sum(map(len, texts))
        if len(rows) == _BATCH_ROWS or size > _BATCH_CHARACTERS:
            yield rows, size
            rows, size = [], 0
    if rows:
        yield rows, size


def to_batch(rows: Sequence[Example]) -> pa.RecordBatch:
    """Return examples as Arrow has them; what few of them hold is one JSON text."""
    columns = {name: byte_array([getattr(row, name) for row in rows]) for name in _TEXTS}
    for name in _LISTS:
        lists = [getattr(row, name) for row in rows]
        offsets = number_array(np.cumsum([0, *map(len, lists)]))
        values = byte_array(list(chain.from_iterable(lists)))
        columns[name] = pa.LargeListArray.from_arrays(offsets, values)
    labels = np.array([-1 if row.label is None else row.label for row in rows])
    columns["label"] = number_array(labels, labels >= 0)
    columns["more"] = byte_array(list(map(_more, rows)))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _more(row: Example) -> str | None:
    if not row.columns and row.spans is None and row.sentences is None:
        return None
    sentences = None
    if row.sentences is not None:
        sentences = [(it.start, it.end, it.label, stored(it.columns)) for it in row.sentences]
    return json.dumps([stored(row.columns), row.spans, sentences])


def to_examples(rows: pa.Table | pa.RecordBatch) -> Iterator[Example]:
    """Yield the examples that Arrow has; columns that it lacks are empty.

    Texts may be strings or bytes, and ``contexts`` one text: what other engines hand over.
    """
    held = {name: rows[name].to_pylist() for name in rows.schema.names}
    columns = {name: held.get(name) or [None] * rows.num_rows for name in (*_COLUMNS, "more")}
    for name in _TEXTS:
        columns[name] = [None if cell is None else decoded(cell) for cell in columns[name]]
    for name in ("question", "response", "id"):
        columns[name] = [cell or "" for cell in columns[name]]
    for name in _LISTS:
        columns[name] = list(map(_list_of, columns[name]))
    more, digests = columns.pop("more"), columns.pop("_digest")
    for cell, digest, *values in zip(more, digests, *columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        if cell:
            cells, spans, sentences = json.loads(cell)
            row["columns"] = restored(cells)
            row["spans"] = None if spans is None else tuple(map(tuple, spans))
            if sentences is not None:
                made = (GivenSentence(a, b, c, restored(own)) for a, b, c, own in sentences)
                row["sentences"] = tuple(made)
        example = Example(**row)
        object.__setattr__(example, "_digest", digest)
        yield example


def decoded(cell: str | bytes) -> str:
    """Return the text that bytes or a string stand for."""
    return cell.decode("utf-8", "surrogatepass") if isinstance(cell, bytes) else cell


def _list_of(cell: Sequence[str | bytes] | str | bytes | None) -> tuple[str, ...]:
    return tuple(map(decoded, [cell] if isinstance(cell, (str, bytes)) else cell or ()))


_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("string", "large_string"), "text"),
    **{f"{sign}int{size}": "whole" for sign in ("", "u") for size in (8, 16, 32, 64)},
    **{"double": "float", "bool": "flag", "null": "null"},
}


def kind_of(kind: Any) -> str:
    """Return what an Arrow type holds: text, whole, float, flag, null, time, or "" for others."""
    if pa.types.is_dictionary(kind):
        return "text" if _KINDS.get(str(kind.value_type)) == "text" else ""
    return "time" if pa.types.is_temporal(kind) else _KINDS.get(str(kind), "")


def coded(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return a column's values in the order in which they first appear, and each row's place."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.dictionary_encode("encode")
    return encoded.dictionary.to_pylist(), np.from_dlpack(encoded.indices).astype(np.int64)


def numbers_of(column: Any, n: int) -> NDArray[np.float64]:
    """Return a column's n numbers; NaN where a cell is empty, or where there is no column.

    Whole numbers become the nearest of double precision, true and false 1 and 0.

    Raises
    ------
    NotPlainError
        A text spells no number.
    """
    if column is None or pa.types.is_null(column.type):
        return np.full(n, np.nan)
    if kind_of(column.type) == "text" and not _spells_decimals(column):
        cells = list(map(column_value, column.to_pylist()))
        if str in set(map(type, cells)):
            raise NotPlainError
        return np.array(cells, np.float64)
    return np.array(np.from_dlpack(column.cast(pa.float64(), safe=False).fill_null(np.nan)))


#: A decimal as programs write it, of which the number says all: long ones are never whole.
_DECIMAL: Final = r"^-?\d{1,15}(\.\d{1,25}([eE]-?\d\d?)?|[eE]-\d\d?)$"


def _spells_decimals(column: Any) -> bool:
    """Return whether an array is of texts all of which spell plain decimals."""
    if kind_of(column.type) != "text" or pa.types.is_dictionary(column.type):
        return False
    # The first tells most others.
    parts = column[:1], column
    return all(pc.all(pc.match_substring_regex(part, _DECIMAL)).as_py() for part in parts)


def present(column: Any) -> NDArray[np.bool_]:
    """Return which cells of an array are not null, shape (n,)."""
    return np.from_dlpack(column.is_valid().cast("int8")).astype(np.bool_)


def row_names(file: str, numbers: NDArray[np.int64]) -> pa.Array:
    """Return the names of rows without ids, by their numbers.

    >>> row_names("a.csv", np.array([7, 8])).to_pylist()
    ['a.csv:row-7', 'a.csv:row-8']
    """
    before = f"{file}:row-" if file else "row-"
    return pc.binary_join_element_wise(before, number_array(numbers).cast(pa.string()), "")


#: Texts that may not be names as `name_of` writes them.
_ODD: Final = patterns("cells")["odd"]


def names_in(column: Any) -> pa.Array | None:
    """Return a column's names, as `name_of` has them, null where blank; None without any.

    Parameters
    ----------
    column : pyarrow.Array or None
        Of texts (by a dictionary or not), whole numbers or nothing.
    """
    if column is None or column.null_count == len(column):
        return None
    array = column.cast(pa.string())
    if pc.any(pc.match_substring_regex(array, _ODD)).as_py():
        array = string_array(list(map(name_of, array.to_pylist())))
    return None if array.null_count == len(array) else array


def joined_names(blocks: Sequence[pa.Array]) -> pa.Array:
    """Return the names of all blocks; a large string array beyond `_STRING` bytes."""
    kind = pa.large_string() if sum(block.nbytes for block in blocks) >= _STRING else pa.string()
    return pa.concat_arrays([block.cast(kind) for block in blocks] or [pa.nulls(0, kind)])


def content_digests(columns: Sequence[Any], n: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the digests of rows that are known by what they hold, and which hold nothing.

    Parameters
    ----------
    columns : sequence of pyarrow.Array, length n each
        All columns but those of labels.

    Returns
    -------
    (ndarray of uint64, ndarray of bool)
        Shapes (n,); the digest of a row that holds nothing means nothing.
    """
    columns = [column for column in columns if kind_of(column.type) != "null"]
    decimal = [kind_of(item.type) == "float" or _spells_decimals(item) for item in columns]
    floats = [numbers_of(item, n) for item in compress(columns, decimal)]
    words = [coded(item) for item, number in zip(columns, decimal, strict=True) if not number]
    digests, empty = np.zeros(n, np.uint64), np.zeros(n, np.bool_)
    matrix = np.array(floats).reshape(len(floats), n).T
    with np.errstate(invalid="ignore"):
        # Numbers that `spelling` writes as the four bytes of a float32.
        in_bytes = ~np.isnan(matrix) & ((matrix != np.floor(matrix)) | np.isinf(matrix))
    quick = in_bytes.all(axis=1) & bool(floats) & (not words)
    if quick.any():
        bits = np.sort(matrix[quick].astype(">f4").view(">u4"), axis=1)
        text, width = bits.tobytes().hex(bytes_per_sep=4, sep="\x1f"), 9 * len(floats)
        content = text.encode()
        parts = [content[at : at + width - 1] for at in range(0, len(content), width)]
        digests[quick] = _hashed(b"content", parts)
    rest = np.flatnonzero(~quick)
    cells = [list(map(spelling, matrix[rest, i].tolist())) for i in range(len(floats))]
    for values, codes in words:
        spelt = list(map(spelling, values))
        cells.append([spelt[code] for code in codes[rest].tolist()])
    held = [
        "\x1f".join(sorted(filter(None, row))).encode("utf-8", "surrogatepass")
        for row in (zip(*cells, strict=True) if cells else [()] * len(rest))
    ]
    empty[rest] = [not content for content in held]
    digests[rest] = _hashed(b"content", held)
    return digests, empty


def _hashed(kind: bytes, texts: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return the digests of texts as `Example.digest` takes them, after what they are."""
    head = len(kind).to_bytes(8, "big") + kind
    heads = {size: head + size.to_bytes(8, "big") for size in set(map(len, texts))}
    whole = b"".join([sha256(heads[len(text)] + text).digest() for text in texts])
    return np.frombuffer(whole, ">u8")[::4].astype(np.uint64)


#: Rows that are read at a time.
ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Usable rows as columns.

    Attributes
    ----------
    ids, groups : pyarrow.Array of strings
        Names of the n rows, and of what they belong to.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful, -1 = not labelled.
    numbers : mapping of str to ndarray of float64, shape (n,)
        Columns of scores; NaN where a cell is empty.
    kept : mapping of str to ndarray of object, shape (n,)
        Further columns.
    digests : ndarray of uint64, shape (n,)
        ``Example.digest`` as a number.
    by_content, by_nothing : ndarray of bool, shape (n,)
        Which rows are known by what they hold, and which by nothing; all others by their ids.
    """

    ids: pa.Array
    groups: pa.Array
    labels: NDArray[np.int8]
    numbers: Mapping[str, NDArray[np.float64]]
    kept: Mapping[str, NDArray[np.object_]]
    digests: NDArray[np.uint64]
    by_content: NDArray[np.bool_]
    by_nothing: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.labels)


class ColumnReader:
    """Turns batches into blocks, and what is not usable into what stands in the way.

    Parameters
    ----------
    columns, needs, interpreter
        Of the reading.
    scores : collection of str
        Which of the columns that are kept are scores.

    Raises
    ------
    NotPlainError
        The rows hold texts, or something else that only a row of its own tells.
    """

    def __init__(
        self, columns: ColumnMapping, needs: Needs, interpreter: RowParser, scores: Collection[str]
    ) -> None:
        by_row = needs.require or needs.expect or needs.allow_none or columns.labels.spans
        by_row = by_row or len(columns.label_columns) > 1 or columns.marks is not None
        by_row = by_row or bool(columns.decimals or columns.rivals)
        if by_row or {ALL_COLUMNS, CHARACTERS} & {*needs.keep}:
            raise NotPlainError
        self._columns, self._needs, self._interpreter = columns, needs, interpreter
        texts = (columns.by_field[field] for field in (*TEXT_FIELDS, "samples"))
        self._texts = {name.partition(".")[0] for name in texts}
        self._scores = frozenset(scores)
        self._kept = [name for name in needs.keep if name not in self._scores]

    def __call__(self, batch: RowBatch) -> tuple[Block, list[RowProblem | Filtered]]:
        """Return the usable rows, and the others in their order.

        Raises
        ------
        NotPlainError
            The batch holds something that only a row of its own tells.
        """
        rows = batch.rows
        try:
            rows.validate(full=True)
            labels, odd = self._labels(rows)
            usable, left_out = np.flatnonzero(~odd), list[RowProblem | Filtered]()
            if odd.any():
                places = np.flatnonzero(odd)
                odd_rows = rows.take(number_array(places)).to_pylist()
                for number, values in zip(batch.start + places, odd_rows, strict=True):
                    result = self._interpreter(SourceRow(int(number), values, batch.file))
                    if not isinstance(result, RowProblem | Filtered):
                        raise NotPlainError
                    left_out.append(result)
                rows = rows.take(number_array(usable))
            block = self._block(rows, labels[usable], batch.start + usable, batch.file)
        except DAMAGE as error:
            # Texts that are not UTF-8 or of more than 2 GiB; a date that Python does not have.
            raise NotPlainError from error
        return block, left_out

    def check(self, schema: Any) -> None:
        """Refuse columns of which a cell is more than one value, and texts; count nothing.

        Raises
        ------
        NotPlainError
            The rows of a file with these columns must be read one by one.
        """
        names, by_field = set(schema.names), self._columns.by_field
        labels, named = self._columns.label_columns, (by_field["id"], by_field["group"])
        paths = [name for name in (*labels, *named, *self._needs.keep) if name not in names]
        if self._texts & names or any(name.partition(".")[0] in names for name in paths):
            raise NotPlainError
        kinds = {name: kind_of(schema.field(name).type) for name in schema.names}
        for columns, plain in (
            (named, "text whole null"),
            ((*self._scores, *labels, *self._kept), "text whole float flag null"),
        ):
            if any(kinds.get(name, "null") not in plain.split() for name in columns):
                raise NotPlainError
        if self._interpreter.whole and "" in kinds.values():
            raise NotPlainError

    def _labels(self, rows: Any) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
        """Return the labels, and which rows have none though they need one."""
        values, codes = _coded(rows, self._columns.label_columns[0])
        counts = np.bincount(codes, minlength=len(values)).tolist()
        meanings = self._columns.labels.of_many(list(zip(values, counts, strict=True)))
        if meanings is None:
            raise NotPlainError
        of_value = [meaning if isinstance(meaning, int) else -1 for meaning in meanings]
        needed = self._needs.labelled
        odd_value = [isinstance(it, str) or (it is None and needed) for it in meanings]
        return np.array(of_value, np.int8)[codes], np.array(odd_value, np.bool_)[codes]

    def _block(
        self, rows: Any, labels: NDArray[np.int8], numbers: NDArray[np.int64], file: str
    ) -> Block:
        by_field, n = self._columns.by_field, rows.num_rows
        ids: Any = names_in(_column(rows, by_field["id"]))
        unnamed = np.ones(n, np.bool_) if ids is None else ~present(ids)
        if ids is None or unnamed.any():
            names = row_names(file, numbers)
            ids = names if ids is None else pc.coalesce(ids, names)
        by_content = np.zeros(n, np.bool_)
        digests = np.zeros(n, np.uint64)
        if unnamed.any() and self._interpreter.whole:
            passed_over = {*self._columns.label_columns, *self._columns.numbering}
            held = (name for name in rows.schema.names if name not in passed_over)
            digests, empty = content_digests([rows.column(name) for name in held], n)
            by_content = unnamed & ~empty
        by_id = np.flatnonzero(~by_content)
        if len(by_id):
            named = ids.take(number_array(by_id)).cast("binary")
            digests[by_id] = _hashed(b"id", named.to_pylist())
        groups = names_in(_column(rows, by_field["group"]))
        return Block(
            ids,
            pa.nulls(n, pa.string()) if groups is None else groups,
            labels,
            {name: numbers_of(_column(rows, name), n) for name in self._scores},
            {name: _cells(rows, name) for name in self._kept},
            digests,
            by_content,
            unnamed & ~by_content,
        )


def _coded(rows: Any, name: str) -> tuple[list[Any], NDArray[np.int64]]:
    column = _column(rows, name)
    return ([None], np.zeros(rows.num_rows, np.int64)) if column is None else coded(column)


def _cells(rows: Any, name: str) -> NDArray[np.object_]:
    """Return the values of a column, each different one once in memory."""
    values, codes = _coded(rows, name)
    different = np.empty(len(values), np.object_)
    # Of a list numpy would take the numbers without their names.
    for place, value in enumerate(values):
        different[place] = column_value(value)
    return np.asarray(different[codes])


def _column(rows: Any, name: str) -> Any:
    return rows.column(name) if name in rows.schema.names else None


def hex_digests(numbers: NDArray[np.uint64]) -> list[str]:
    """Return digests as `Example.digest` writes them.

    >>> hex_digests(np.array([1, 255], np.uint64))
    ['0000000000000001', '00000000000000ff']
    """
    text = numbers.astype(">u8").tobytes().hex()
    return [text[place : place + 16] for place in range(0, len(text), 16)]
