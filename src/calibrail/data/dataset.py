"""One Arrow-backed Dataset, with the texts; blocks of rows that hold scores alone.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, Self, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from calibrail.data.columns import ALL_COLUMNS, CHARACTERS, ColumnMapping, Needs
from calibrail.data.example import TEXT_FIELDS, Example, GivenSentence, SourceIds
from calibrail.data.row_parser import NUMBERING, RowParser, duplicate
from calibrail.data.rows import Filtered, RowBatch, RowProblem, SourceRow
from calibrail.data.tables import DAMAGE, byte_array, string_array, validated
from calibrail.data.values import column_value, name_of, spelling
from calibrail.errors import file_errors

if TYPE_CHECKING:
    import pyarrow as pa


#: Bytes of texts that are held in memory; with more, all of them lie in a temporary file.
SPILL: Final = 1 << 26
#: Answers, and characters of theirs, that become one batch.
_BATCH_ROWS: Final = 1024
_BATCH_CHARACTERS: Final = 1 << 22

_TEXTS: Final = ("question", "response", "id", "group", "content", "before")
_LISTS: Final = ("contexts", "samples")


class Dataset(Sequence[Example]):
    """The usable answers of one source, texts included, by row number.

    A source is read once, into this; what needs an answer again takes its row. Texts are UTF-8
    bytes in Arrow batches, since no Arrow string holds a lone surrogate. Where they are large, the
    batches lie in a temporary file that is mapped into memory and goes with the data set.

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
        self._batches: list[pa.RecordBatch] = []
        self._starts = [0]
        held, spilled = 0, None
        with ExitStack() as stack:
            for rows in _batches_of(examples):
                batch = _to_batch(rows)
                self._starts.append(self._starts[-1] + len(rows))
                held += batch.nbytes
                self._batches.append(batch)
                if held > spill:
                    spilled = spilled or stack.enter_context(_Spilled(batch.schema))
                    spilled.write(self._batches)
                    self._batches.clear()
            if spilled is not None:
                spilled.write(self._batches)
                self._batches = spilled.mapped()

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
        batch = bisect_right(self._starts, row) - 1
        return next(_to_examples(self._batches[batch].slice(row - self._starts[batch], 1)))

    def __iter__(self) -> Iterator[Example]:
        """Yield every answer."""
        return chain.from_iterable(map(_to_examples, self._batches))


class _Spilled:
    """A temporary file without a name that holds batches."""

    def __init__(self, schema: pa.Schema) -> None:
        from pyarrow import ipc

        with self._writing():
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
            self._writer = ipc.new_file(self._file, schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # A mapping outlives its file.
        self._file.close()

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        with self._writing():
            for batch in batches:
                self._writer.write_batch(batch)

    def mapped(self) -> list[pa.RecordBatch]:
        """Return all batches as they lie in the file."""
        import pyarrow as pa
        from pyarrow import ipc

        with self._writing():
            self._writer.close()
            self._file.flush()
            held = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        batches = ipc.open_file(pa.py_buffer(held))
        return [batches.get_batch(place) for place in range(batches.num_record_batches)]

    @staticmethod
    def _writing() -> AbstractContextManager[None]:
        return file_errors(
            "cannot write the texts to a temporary file", "; TMPDIR names another folder for it"
        )


def _batches_of(examples: Iterable[Example]) -> Iterator[list[Example]]:
    rows, size = list[Example](), 0
    for example in examples:
        rows.append(example)
        size += len(example.response) + sum(map(len, example.contexts))
        if len(rows) == _BATCH_ROWS or size > _BATCH_CHARACTERS:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _to_batch(rows: Sequence[Example]) -> pa.RecordBatch:
    """Return examples as Arrow has them; what few of them hold is one JSON text."""
    import pyarrow as pa

    columns = {name: byte_array([getattr(row, name) for row in rows]) for name in _TEXTS}
    for name in _LISTS:
        lists = [getattr(row, name) for row in rows]
        offsets = whole_array(np.cumsum([0, *map(len, lists)]))
        values = byte_array(list(chain.from_iterable(lists)))
        columns[name] = pa.LargeListArray.from_arrays(offsets, values)
    labels = np.array([-1 if row.label is None else row.label for row in rows])
    columns["label"] = whole_array(labels, labels >= 0)
    columns["more"] = byte_array(list(map(_more, rows)))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _more(row: Example) -> str | None:
    if not row.columns and row.spans is None and row.sentences is None:
        return None
    sentences = None
    if row.sentences is not None:
        sentences = [(it.start, it.end, it.label, dict(it.columns)) for it in row.sentences]
    return json.dumps([dict(row.columns), row.spans, sentences])


def _to_examples(batch: pa.RecordBatch) -> Iterator[Example]:
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    for name in _TEXTS:
        columns[name] = [None if cell is None else _text(cell) for cell in columns[name]]
    for name in _LISTS:
        columns[name] = [tuple(map(_text, cells)) for cells in columns[name]]
    more = columns.pop("more")
    for cell, *values in zip(more, *columns.values(), strict=True):
        example = Example(**dict(zip(columns, values, strict=True)))
        if cell is None:
            yield example
            continue
        further, spans, sentences = json.loads(cell)
        yield replace(
            example,
            columns=further,
            spans=None if spans is None else tuple((start, end) for start, end in spans),
            sentences=None if sentences is None else tuple(GivenSentence(*it) for it in sentences),
        )


def _text(cell: bytes) -> str:
    return cell.decode("utf-8", "surrogatepass")


def kind_of(kind: Any) -> str:
    """Return what an Arrow type holds: text, whole, float, flag, null, time, or "" for others."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        kind = kind.value_type
        return "text" if types.is_string(kind) or types.is_large_string(kind) else ""
    tests: tuple[tuple[str, Callable[[Any], bool]], ...] = (
        ("text", types.is_string),
        ("text", types.is_large_string),
        ("whole", types.is_integer),
        ("float", types.is_floating),
        ("flag", types.is_boolean),
        ("null", types.is_null),
        ("time", types.is_temporal),
    )
    return next((name for name, test in tests if test(kind)), "")


def coded(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return a column's values in the order in which they first appear, and each row's place."""
    import pyarrow.types as types

    if not types.is_dictionary(column.type):
        encoded = column.dictionary_encode("encode")
        return encoded.dictionary.to_pylist(), stored(encoded.indices, np.int32).astype(np.int64)
    return coded(column.cast(column.type.value_type))


def numbers_of(column: Any, n: int) -> NDArray[np.float64]:
    """Return a column's n numbers; NaN where a cell is empty, or where there is no column.

    Whole numbers become the nearest of double precision, true and false 1 and 0.
    """
    import pyarrow as pa

    if column is None or pa.types.is_null(column.type):
        return np.full(n, np.nan)
    values = stored(column.cast(pa.float64(), safe=False), np.float64)
    return np.where(present(column), values, np.nan) if column.null_count else values.copy()


def stored(column: Any, dtype: DTypeLike) -> NDArray[Any]:
    """Return the values of an array of numbers as they are stored; anything where there is none."""
    # Arrow's own conversion imports pandas where it is installed.
    data = np.frombuffer(column.buffers()[1] or b"", dtype=dtype)
    return data[column.offset : column.offset + len(column)]


def present(column: Any) -> NDArray[np.bool_]:
    """Return which cells of an array are not null, shape (n,)."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    if column.null_count == len(column):
        return np.zeros(len(column), np.bool_)
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    first = column.offset // 8
    needed = bits[first : (column.offset + len(column) + 7) // 8]
    unpacked = np.unpackbits(needed, bitorder="little")[column.offset - 8 * first :]
    return unpacked[: len(column)].astype(np.bool_)


def offsets_of(column: Any) -> tuple[NDArray[np.int64], bytes]:
    """Return where each text of a string array begins and ends, shape (n + 1,), and their bytes."""
    ends = np.frombuffer(column.buffers()[1] or b"", np.int32)
    offsets = ends[column.offset : column.offset + len(column) + 1].astype(np.int64)
    if not len(offsets):
        return np.zeros(1, np.int64), b""
    first, last = int(offsets[0]), int(offsets[-1])
    data = column.buffers()[2]
    return offsets - first, bytes(memoryview(data)[first:last]) if last > first else b""


def whole_array(values: NDArray[np.int64], valid: NDArray[np.bool_] | None = None) -> Any:
    """Return an Arrow array of whole numbers, null where ``valid`` is False."""
    import pyarrow as pa

    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.int64(), len(values), [bits, pa.py_buffer(values)])


def row_names(file: str, start: int, n: int) -> pa.Array:
    """Return the names of n rows without ids, from the row ``start`` on.

    >>> row_names("a.csv", 7, 2).to_pylist()
    ['a.csv:row-7', 'a.csv:row-8']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    before = f"{file}:row-" if file else "row-"
    numbers = whole_array(np.arange(start, start + n))
    return pc.binary_join_element_wise(before, numbers.cast(pa.string()), "")


def names_in(column: Any) -> pa.Array | None:
    """Return a column's names, as `name_of` has them, null where blank; None without any.

    Parameters
    ----------
    column : pyarrow.Array or None
        Of texts (by a dictionary or not), whole numbers or nothing.
    """
    import pyarrow as pa

    if column is None or column.null_count == len(column):
        return None
    array = column.cast(pa.string())
    if (odd := _odd(array)).any():
        names = array.to_pylist()
        for row in np.flatnonzero(odd).tolist():
            names[row] = name_of(names[row])
        array = string_array(names)
    return None if array.null_count == len(array) else array


def joined_names(blocks: list[pa.Array]) -> pa.Array:
    """Return the names of all blocks, which are given up; a large string array beyond 2 GiB."""
    import pyarrow as pa

    large = sum(block.nbytes for block in blocks) >= 1 << 31
    kind = pa.large_string() if large else pa.string()
    whole = pa.concat_arrays([block.cast(kind) for block in blocks] or [pa.nulls(0, kind)])
    blocks.clear()
    return whole


def _odd(array: pa.Array) -> NDArray[np.bool_]:
    """Return which texts may not be names as `name_of` writes them."""
    offsets, data = offsets_of(array)
    octets = np.frombuffer(data, np.uint8)
    filled = np.diff(offsets) > 0
    odd = ~filled
    starts, ends = offsets[:-1][filled], offsets[1:][filled]
    odd[filled] = (octets[starts] <= 0x20) | (octets[ends - 1] <= 0x20)
    if b"." in data:
        odd[filled] |= octets[ends - 1] == 0x30
    if not data.isascii() or b"\r" in data:
        strange = np.append(0, np.cumsum((octets >= 0x80) | (octets == 0x0D)))
        odd |= strange[offsets[1:]] > strange[offsets[:-1]]
    return odd & present(array)


def _flags(mask: NDArray[np.bool_]) -> pa.Array:
    import pyarrow as pa

    bits = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])


_Digests = NDArray[np.uint64]


def id_digests(ids: pa.Array) -> _Digests:
    """Return the digests of rows that are known by their ids, shape (n,)."""
    offsets, data = offsets_of(ids)
    ends = offsets.tolist()
    heads = {size: _head(b"id", size) for size in np.unique(np.diff(offsets)).tolist()}
    return _hashed(heads[stop - start] + data[start:stop] for start, stop in pairwise(ends))


def content_digests(columns: Sequence[Any], n: int) -> tuple[_Digests, NDArray[np.bool_]]:
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
    floats: list[NDArray[np.float64]] = []
    words: list[tuple[list[str], NDArray[np.int64]]] = []
    for column in columns:
        kind = kind_of(column.type)
        if kind == "null":
            continue
        if kind == "float":
            floats.append(numbers_of(column, n))
        else:
            values, codes = coded(column)
            words.append((list(map(spelling, values)), codes))
    digests = np.zeros(n, np.uint64)
    matrix = np.array(floats).reshape(len(floats), n).T
    with np.errstate(invalid="ignore"):
        # Numbers that are written as the four bytes of a float32.
        in_bytes = ~np.isnan(matrix) & ((matrix != np.floor(matrix)) | np.isinf(matrix))
    quick = in_bytes.all(axis=1) & (len(floats) > 0)
    word = np.zeros(n, np.int64)
    if len(words) == 1 and len(words[0][0]) <= 64:
        word = words[0][1]
        kinds = words[0][0]
        quick &= np.array([not text.endswith("\0") for text in kinds], np.bool_)[word]
    elif words:
        quick[:] = False
    else:
        kinds = [""]
    if quick.any():
        bits = np.sort(matrix[quick].astype(">f4").view(">u4").astype(np.uint32), axis=1)
        digests[quick] = _of_numbers(bits, kinds, word[quick])
    rest = np.flatnonzero(~quick)
    empty = np.zeros(n, np.bool_)
    if len(rest):
        cells = [
            [spelling(value) for value in matrix[rest, i].tolist()] for i in range(len(floats))
        ]
        cells += [[texts[code] for code in codes[rest].tolist()] for texts, codes in words]
        held = (
            "\x1f".join(sorted(filter(None, row))).encode("utf-8", "surrogatepass")
            for row in (zip(*cells, strict=True) if cells else [()] * len(rest))
        )
        contents = list(held)
        empty[rest] = [not content for content in contents]
        digests[rest] = _hashed(_head(b"content", len(text)) + text for text in contents)
    return digests, empty


def _of_numbers(
    bits: NDArray[np.uint32], words: Sequence[str], word: NDArray[np.int64]
) -> _Digests:
    """Return the digests of rows that hold numbers, rising, and at most one text beside them."""
    n, k = bits.shape
    digests = np.empty(n, np.uint64)
    digits = np.frombuffer(bits.astype(">u4").tobytes().hex().encode(), np.uint8).reshape(n, k, 8)
    spelled = np.full((n, k, 9), 0x1F, np.uint8)
    spelled[:, :, 1:] = digits
    numbers = digits.reshape(n, k * 8).view("S8")
    for code in np.unique(word).tolist():
        text = words[code].encode("utf-8", "surrogatepass")
        rows = word == code
        # How many numbers stand before the text; UTF-8 sorts as what it spells.
        before = (numbers[rows] < text).sum(axis=1) if text else np.zeros(rows.sum(), np.int64)
        for place in np.unique(before).tolist():
            chosen = np.flatnonzero(rows)[before == place]
            parts = [spelled[chosen, :place].reshape(len(chosen), place * 9)]
            if text:
                piece = np.frombuffer(b"\x1f" + text, np.uint8)
                parts.append(np.broadcast_to(piece, (len(chosen), len(piece))))
            parts.append(spelled[chosen, place:].reshape(len(chosen), (k - place) * 9))
            content = np.concatenate(parts, axis=1)[:, 1:]
            head = np.frombuffer(_head(b"content", content.shape[1]), np.uint8)
            whole = np.empty((len(chosen), len(head) + content.shape[1]), np.uint8)
            whole[:, : len(head)], whole[:, len(head) :] = head, content
            digests[chosen] = _hashed(whole.view(f"S{whole.shape[1]}").ravel().tolist())
    return digests


def _head(kind: bytes, size: int) -> bytes:
    """Return what stands before a text of so many bytes in what is hashed."""
    return len(kind).to_bytes(8, "big") + kind + size.to_bytes(8, "big")


def _hashed(messages: Iterable[bytes]) -> _Digests:
    whole = b"".join([sha256(message).digest() for message in messages])
    return np.frombuffer(whole, ">u8")[::4].astype(np.uint64)


#: Rows that are read at a time.
ROWS: Final = 1 << 16


class NotPlainError(Exception):
    """Rows must be read one by one; never leaves the reading."""


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

    def only(self, rows: NDArray[np.bool_]) -> Block:
        """Return some of the rows."""
        if rows.all():
            return self
        chosen = _flags(rows)
        return Block(
            self.ids.filter(chosen),
            self.groups.filter(chosen),
            self.labels[rows],
            {name: values[rows] for name, values in self.numbers.items()},
            {name: cells[rows] for name, cells in self.kept.items()},
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
        columns: ColumnMapping,
        needs: Needs,
        interpreter: RowParser,
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
        self._kept = [name for name in needs.keep if name not in self._scores]
        self._repeated, self._seen = repeated, SourceIds()
        self._seen_schema: Any = None

    def __call__(self, batch: RowBatch) -> tuple[Block, list[RowProblem | Filtered]]:
        """Return the usable rows, and the others in their order.

        Raises
        ------
        NotPlainError
            The batch holds something that only a row of its own tells.
        """
        rows = batch.rows
        try:
            validated(rows)
        except DAMAGE as error:
            raise NotPlainError from error
        labels, odd = self._labels(rows)
        try:
            block = self._block(rows, labels, batch)
        except (ValueError, OverflowError) as error:
            # A date that Python does not have; texts of more than 2 GiB.
            raise NotPlainError from error
        left_out: list[RowProblem | Filtered] = []
        if odd.any():
            places = np.flatnonzero(odd)
            odd_rows = rows.take(whole_array(places)).to_pylist()
            for place, values in zip(places.tolist(), odd_rows, strict=True):
                result = self._interpreter(SourceRow(batch.start + place, values, batch.file))
                if not isinstance(result, RowProblem | Filtered):
                    raise NotPlainError
                left_out.append(result)
        if self._repeated is not None:
            block, again = self._once(block, ~odd & among(block.digests, self._repeated), batch)
            odd[[problem.row - batch.start for problem in again]] = True
            left_out = sorted([*left_out, *again], key=lambda result: result.row)
        return block.only(~odd), left_out

    def _once(
        self, block: Block, suspects: NDArray[np.bool_], batch: RowBatch
    ) -> tuple[Block, list[RowProblem]]:
        """Return the rows by names of their own, and those whose id their file has already."""
        names, again, renamed = block.ids, list[RowProblem](), dict[int, str]()
        for row in np.flatnonzero(suspects).tolist():
            name = names[row].as_py()
            unique = self._seen.unique(name, batch.file)
            if unique is None:
                again.append(duplicate(batch.start + row, name, batch.file))
            elif unique != name:
                renamed[row] = unique
        if not renamed:
            return block, again
        listed = names.to_pylist()
        for row, name in renamed.items():
            listed[row] = name
        ids = string_array(listed)
        by_id = ~block.by_content & suspects
        digests = block.digests.copy()
        digests[by_id] = id_digests(ids.filter(_flags(by_id)))
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
        for name in (*self._columns.label_columns, *self._kept):
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

    def _block(self, rows: Any, labels: NDArray[np.int8], batch: RowBatch) -> Block:
        import pyarrow as pa
        import pyarrow.compute as pc

        by_field, n = self._columns.by_field, rows.num_rows
        ids: Any = names_in(_column(rows, by_field["id"]))
        unnamed = np.ones(n, np.bool_) if ids is None else ~present(ids)
        if unnamed.any():
            numbered = row_names(batch.file, batch.start, n)
            ids = numbered if ids is None else pc.coalesce(ids, numbered)
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
            digests[by_id] = id_digests(ids if by_id.all() else ids.filter(_flags(by_id)))
        groups = names_in(_column(rows, by_field["group"]))
        return Block(
            ids,
            pa.nulls(n, pa.string()) if groups is None else groups,
            labels,
            {name: numbers_of(_column(rows, name), n) for name in self._scores},
            {name: _cells(_column(rows, name), n) for name in self._kept},
            digests,
            by_content,
            unnamed & ~by_content,
        )


def among(numbers: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which numbers are among others, which rise."""
    places = np.minimum(np.searchsorted(known, numbers), max(0, len(known) - 1))
    found: NDArray[np.bool_] = known[places] == numbers if len(known) else numbers != numbers
    return found


def _cells(column: Any, n: int) -> NDArray[np.object_]:
    """Return the values of n rows, each different one once in memory."""
    values, codes = ([None], np.zeros(n, np.int64)) if column is None else coded(column)
    different = np.empty(len(values), np.object_)
    different[:] = list(map(column_value, values))
    cells: NDArray[np.object_] = different[codes]
    return cells


def _column(rows: Any, name: str) -> Any:
    return rows.column(name) if name in rows.schema.names else None


#: Digests that become texts at a time.
_AT_A_TIME: Final = 1 << 14


class Digests(Sequence[str]):
    """Digests as `Example.digest` writes them, of numbers of 8 bytes each.

    >>> digests = Digests(np.array([1, 255], np.uint64))
    >>> digests[1], list(digests)
    ('00000000000000ff', ['0000000000000001', '00000000000000ff'])
    """

    def __init__(self, numbers: NDArray[np.uint64]) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Digests: ...
    def __getitem__(self, place: int | slice) -> Any:
        """Return one of them, or some."""
        if isinstance(place, slice):
            return Digests(self._numbers[place])
        return f"{self._numbers[place]:016x}"

    def __iter__(self) -> Iterator[str]:
        """Yield all of them."""
        for start in range(0, len(self), _AT_A_TIME):
            text = self._numbers[start : start + _AT_A_TIME].astype(">u8").tobytes().hex()
            yield from (text[place : place + 16] for place in range(0, len(text), 16))

    def __eq__(self, other: object) -> bool:
        """Say whether another sequence holds the same."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
