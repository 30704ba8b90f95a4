"""Parquet, Arrow, frames in memory."""

from __future__ import annotations

import hashlib
import json
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import (
    WHOLE_ROW,
    Example,
    RowBatch,
    RowProblem,
    SourceRow,
    TableItem,
    own_values,
    shorten,
)
from calibrail.data.files import (
    ARROW,
    MOST_COLUMNS,
    MOST_RATIO,
    ROW_LIMIT,
    refuse_unpacked,
    seekable,
)
from calibrail.data.values import in_microseconds, native
from calibrail.errors import DataError, InputError, Library, error_text
from calibrail.options.fields import doubles, small_float

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Library("pyarrow")


#: Rows at a time, and values where there are so many columns that they are more.
_BATCH: Final = 1024
_VALUES: Final = 1 << 22

#: Values that become Python objects at a time.
_CONVERTED: Final = 1 << 17

#: Bytes that a row and a cell of a table count at least, and that all of them may take.
_ROW: Final = 256
_CELL: Final = 16
_LISTED: Final = 64
_UNFOLDED: Final = 1 << 31

#: How a file of Feather began before it became one of Arrow.
_FEATHER_1: Final = b"FEA1"

#: Of a whole number; with more, Python writes no digits.
_BITS: Final = 2048

#: Parquet's encoding of texts by what they have in common with the one before.
_COPIES: Final = "DELTA_BYTE_ARRAY"

#: What pyarrow raises, beside its own errors, where a file's bytes do not mean what they should.
DAMAGE: Final = (
    *(OSError, ValueError, ArithmeticError, LookupError, NotImplementedError, TypeError),
    *(MemoryError, RecursionError, SystemError, struct.error),
)


class NotPlainError(Exception):
    """Rows must be read one by one; never leaves the reading."""


def parquet_batches(
    path: Path, columns: Collection[str] | None = None, rows: int = _BATCH
) -> Iterator[Any]:
    """Yield the record batches of a Parquet file.

    Parameters
    ----------
    path : Path
        The file, plain or compressed with gzip or zstd.
    columns : collection of str or None
        The columns to read; a name such as ``metadata.label`` stands for its ``metadata``. None
        reads all.
    rows : int
        How many a batch has at most.

    Raises
    ------
    DataError
        The file is not Parquet, is damaged, names a column twice, or unfolds to too much.

    Notes
    -----
    Texts are read as places in their dictionaries: a batch takes no more memory than its pages do.
    """
    import pyarrow.parquet as pq

    number = 0
    try:
        with seekable(path) as source, pq.ParquetFile(source, pre_buffer=False) as file:
            if b"pandas." in bytes(file.schema_arrow.serialize()):
                # It knows its periods when it is there; else they are numbers.
                with suppress(ImportError):
                    import_module("pandas.core.arrays.arrow.extension_types")
            chosen = _chosen(path, file.schema_arrow, columns)
            size, texts = _form(path, file, chosen)
            how: Any = {"metadata": file.metadata, "pre_buffer": False, "read_dictionary": texts}
            with pq.ParquetFile(source, **how) as folded:
                how = {"batch_size": min(size, max(rows, 8 * _BATCH))}
                only = None if columns is None else chosen
                # Each has dictionaries of its own, which no batch may mix within lists.
                groups = range(file.num_row_groups)
                read = (folded.iter_batches(**how, row_groups=[it], columns=only) for it in groups)
                for batch in _unfolded(path, chain.from_iterable(read), rows):
                    yield batch
                    number += batch.num_rows
    except DAMAGE as error:
        raise DataError(_unreadable(path, "Parquet", number, error)) from error


def _form(path: Path, file: Any, chosen: Sequence[str]) -> tuple[int, list[str]]:
    """Return how many rows are to be read at a time, and which columns as places of their texts."""
    leaves, about = list(map(file.schema.column, range(len(file.schema)))), file.metadata
    sound = list[Any]()
    # To ask for a damaged column's metadata ends the process; to read from it is an error, which
    # is told where the rows are read.
    with suppress(*DAMAGE):
        for number in range(about.num_row_groups):
            next(file.iter_batches(batch_size=1, row_groups=[number]), None)
            sound.append(about.row_group(number))
    parts = [(leaf, group.column(i)) for group in sound for i, leaf in enumerate(leaves)]
    n_bytes, copied = _ROW * about.num_rows, 0
    for leaf, part in parts:
        cell = _LISTED if leaf.max_repetition_level else _CELL
        n_bytes += max(cell * part.num_values, part.total_uncompressed_size)
        if _COPIES in part.encodings:
            copied = max(copied, part.total_uncompressed_size)
    refuse_bomb(path, n_bytes)
    # Made anew at every look.
    schema = file.schema_arrow
    width = sum(_width(schema.field(name).type) or 0 for name in chosen)
    limits = (
        _VALUES // max(1, len(chosen)),
        ROW_LIMIT * about.num_rows // max(1, n_bytes),
        ROW_LIMIT // max(1, width),
        ROW_LIMIT // max(1, copied),
    )
    plain = {leaf.path for leaf, part in parts if _COPIES in part.encodings}
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    return max(1, min(limits)), [text for text in texts if text not in plain]


def refuse_bomb(path: Path, n_bytes: int) -> None:
    """Refuse a file whose rows take more bytes than one of its size should hold."""
    if n_bytes > max(_UNFOLDED, MOST_RATIO * path.stat().st_size):
        raise DataError.on("unfolds_to_too_much", path=path, most=MOST_RATIO)


def _unfolded(path: Path, wholes: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield the rows of batches in parts that fit into memory.

    What is written once and stands for many cells counts for each of them.
    """
    n_rows = n_bytes = 0
    for whole in wholes:
        refuse_bomb(path, n_bytes + _ROW * whole.num_rows)
        batches = [whole.slice(at, rows) for at in range(0, whole.num_rows, rows)]
        measured = [sum(map(_sizes, it.columns), np.full(it.num_rows, _ROW)) for it in batches]
        # Before work that texts of many megabytes take.
        refuse_bomb(path, n_bytes := n_bytes + int(sum(map(np.sum, measured))))
        for batch, sizes in zip(batches, measured, strict=True):
            ends = np.cumsum(sizes)
            if sizes.max() > ROW_LIMIT:
                row = n_rows + int(sizes.argmax()) + 1
                raise DataError.on("row_too_large", path=path, row=row, most=ROW_LIMIT)
            n_rows, start = n_rows + batch.num_rows, 0
            while start < batch.num_rows:
                until = int(np.searchsorted(ends, ends[start] - sizes[start] + ROW_LIMIT, "right"))
                part = batch.slice(start, until - start)
                names, rest = part.schema.names, number_array(np.arange(part.num_rows))
                # A cast of lists unfolds those before and behind the part, too: it is a copy first.
                columns = [
                    column
                    if (kind := _changed(column.type, _unfolded_type)) == column.type
                    else column.take(rest).cast(kind)
                    for column in part.columns
                ]
                yield widened(pa.RecordBatch.from_arrays(columns, names))
                start = until


def _sizes(column: Any) -> NDArray[np.int64]:
    """Return about how many bytes each cell of an Arrow column takes, shape (n,)."""
    import pyarrow.compute as pc

    kind, n = column.type, len(column)
    if (width := _width(kind)) is not None:
        return np.full(n, width)
    if isinstance(kind, pa.BaseExtensionType):
        return _sizes(column.storage)
    if pa.types.is_dictionary(kind):
        sizes: NDArray[np.int64] = np.append(_sizes(column.dictionary), _CELL)
        places = np.asarray(column.indices.cast(pa.int64()).fill_null(len(sizes) - 1))
        return np.array(sizes[places])
    if pa.types.is_struct(kind):
        return np.array(sum(map(_sizes, column.flatten()), np.full(n, _CELL)))
    if pa.types.is_fixed_size_list(kind):
        ends = (column.offset + np.arange(n + 1)) * kind.list_size
    elif pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        ends = np.asarray(column.offsets).astype(np.int64)
    elif pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)
        return views[column.offset :][:n, 0].astype(np.int64) + _CELL
    else:
        return np.asarray(pc.binary_length(column).fill_null(0)).astype(np.int64) + _CELL
    total = np.full(n, _CELL)
    for held in (column.keys, column.items) if pa.types.is_map(kind) else (column.values,):
        if (width := _width(held.type)) is not None:
            total += np.diff(ends) * width
        else:
            sums = np.cumsum(np.append(0, _sizes(held.slice(ends[0], ends[-1] - ends[0]))))
            total += np.diff(sums[ends - ends[0]])
    return total


def _width(kind: Any) -> int | None:
    """Return how many bytes each cell of an Arrow type takes; None where they differ."""
    if pa.types.is_null(kind):
        return _CELL
    if pa.types.is_dictionary(kind):
        return None
    if pa.types.is_struct(kind):
        widths = [_width(part.type) for part in kind]
        return None if None in widths else sum(filter(None, widths), _CELL)
    if pa.types.is_fixed_size_list(kind):
        width = _width(kind.value_type)
        return None if width is None else kind.list_size * width + _CELL
    with suppress(ValueError):
        return int(kind.bit_width) // 8 + _CELL
    return None


def _chosen(path: Path, schema: Any, columns: Collection[str] | None) -> list[str]:
    """Return the names of the columns to read; refuse two of one name."""
    names = chosen = sound_names(path, list(schema.names))
    if columns is not None:
        paths = [column.split(".") for column in columns]
        wanted = {".".join(path[: n + 1]) for path in paths for n in range(len(path))}
        chosen = [name for name in names if name in wanted]
    return chosen


def arrow_batches(
    path: Path, columns: Collection[str] | None = None, rows: int = _BATCH
) -> Iterator[Any]:
    """Yield the record batches of a file or stream of Arrow; see `parquet_batches`."""
    number = 0
    try:
        with open_arrow(path) as reader:
            chosen = _chosen(path, reader.schema, columns)
            # What is mapped is read when it is used: damage must show here.
            batches = (batch.select(chosen) for batch in reader if not batch.validate(full=True))
            for batch in _unfolded(path, batches, rows):
                yield batch
                number += batch.num_rows
    except DAMAGE as error:
        raise DataError(_unreadable(path, "Arrow", number, error)) from error


@contextmanager
def open_arrow(path: Path) -> Iterator[Any]:
    """Give the reader of an Arrow file, which is a stream between two marks, or of a stream.

    Raises
    ------
    DataError
        Its compressed batches unpack to too much, or it is Feather of version 1.
    """
    with seekable(path) as held:
        named = isinstance(held, Path)
        with pa.memory_map(str(held)) if named else pa.PythonFile(held, "r") as source:
            begins = source.read(len(ARROW))
            if begins.startswith(_FEATHER_1):
                raise DataError.on("feather_of_version_1", path=path)
            start = len(ARROW) + 2 if begins == ARROW else 0
            n_bytes = source.seek(start) - start
            for message in pa.ipc.MessageReader.open_stream(source):
                n_bytes += _unpacked_bytes(message)
                refuse_unpacked(path, n_bytes, path.stat().st_size)
            source.seek(start)
            with pa.ipc.open_stream(source) as reader:
                yield reader


def _unpacked_bytes(message: Any) -> int:
    """Return how many bytes the compressed buffers of a message take, by Message.fbs."""
    raw = message.metadata.to_pybytes()

    def field(table: int, n: int) -> int:
        fields = table - struct.unpack_from("<i", raw, table)[0]
        held = 4 + 2 * n < struct.unpack_from("<H", raw, fields)[0]
        at = struct.unpack_from("<H", raw, fields + 4 + 2 * n)[0] if held else 0
        return table + at if at else 0

    def follow(at: int) -> int:
        return at + int(struct.unpack_from("<I", raw, at)[0])

    if message.type not in ("record batch", "dictionary"):
        return 0
    batch = follow(field(follow(0), 2))
    batch = follow(field(batch, 1)) if message.type == "dictionary" else batch
    if not field(batch, 3):
        return 0
    listed, total = follow(field(batch, 2)), 0
    for number in range(struct.unpack_from("<I", raw, listed)[0]):
        at, length = struct.unpack_from("<qq", raw, listed + 4 + 16 * number)
        total += max(0, *struct.unpack_from("<q", message.body, at)) if length else 0
    return total


def table_rows(source: object) -> Iterator[TableItem]:
    """Yield the rows of a table in memory that offers itself to Arrow.

    Raises
    ------
    DataError
        It is no table, or two of its columns have one name.
    """
    try:
        table = pa.table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError.on("no_arrow", of=source, why=_first_line(error)) from error
    if twice := _twice(table.column_names):
        raise DataError(f"the table has several columns {twice[0]!r}; give each its own name")
    yield from batch_rows(numbered(map(widened, table.to_batches(max_chunksize=_BATCH))))


def widened(batch: Any) -> Any:
    """Return a batch whose numbers of single and half precision are doubles of the same digits."""
    columns = list(map(widened_column, batch.columns))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def widened_column(column: Any) -> Any:
    """Return a column of Arrow as `widened` does a batch."""
    if getattr(column.type, "extension_name", "").startswith("pandas."):
        cells = zip(column.to_pandas(), column.is_valid().to_pylist(), strict=True)
        return string_array([str(cell) if valid else None for cell, valid in cells])
    if pa.types.is_dictionary(column.type) and pa.types.is_floating(column.type.value_type):
        column = column.cast(column.type.value_type)
    small = (pa.float16(), pa.float32())
    wide = _changed(column.type, lambda kind: pa.float64() if kind in small else None)
    text = _changed(column.type, lambda kind: pa.string() if kind in small else None)
    if wide == column.type:
        return column
    if "halffloat" in str(column.type):
        return pa.array(_halves(column.to_pylist()), wide)
    return column.cast(text).cast(wide)


def _unfolded_type(kind: Any) -> Any:
    """Return the type of what a dictionary holds; None of any other type."""
    return kind.value_type if pa.types.is_dictionary(kind) else None


def _changed(kind: Any, change: Callable[[Any], Any]) -> Any:
    """Return a type with others in place of those for which ``change`` does not say None."""
    if (made := change(kind)) is not None:
        return made
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_changed(part.type, change)) for part in kind])
    for is_list, make in (
        (pa.types.is_list, pa.list_),
        (pa.types.is_large_list, pa.large_list),
        (pa.types.is_fixed_size_list, lambda held: pa.list_(held, kind.list_size)),
    ):
        if is_list(kind):
            part = kind.value_field
            return make(part.with_type(_changed(part.type, change)))
    return kind


def _halves(cell: Any) -> Any:
    if isinstance(cell, list):
        return list(map(_halves, cell))
    return doubles(np.float16(cell)).item() if isinstance(cell, float) else cell


def string_array(values: Sequence[str | None]) -> pa.Array:
    """Return an Arrow string array; None becomes null, a lone surrogate a replacement character.

    ``pyarrow.array`` imports pandas wherever it is installed: half a second and 60 MiB.

    >>> string_array(["a", None, ""]).to_pylist()
    ['a', None, '']
    """
    # A cast would load pyarrow.compute, which wraps hundreds of functions first.
    return byte_array(values, "replace").view(pa.string())


def byte_array(values: Sequence[str | None], surrogates: str = "surrogatepass") -> pa.Array:
    """Return an Arrow array of texts in UTF-8; None becomes null."""
    encoded = [b"" if value is None else value.encode("utf-8", surrogates) for value in values]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int32)
    np.cumsum([len(item) for item in encoded], out=offsets[1:])
    valid = np.array([value is not None for value in values], dtype=bool)
    buffers = [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(encoded), buffers)


def number_array(
    values: NDArray[np.float64] | NDArray[np.int8] | NDArray[np.int64],
    valid: NDArray[np.bool_] | None = None,
) -> pa.Array:
    """Return an Arrow array of the same type, null where ``valid`` is False.

    >>> number_array(np.array([1.5, np.nan]), np.array([True, False])).to_pylist()
    [1.5, None]
    """
    held = values if valid is None else np.where(valid, values, np.zeros(1, values.dtype))
    held, bits = np.ascontiguousarray(held), None if valid is None else _bitmap(valid)
    kind = pa.from_numpy_dtype(held.dtype)
    return pa.Array.from_buffers(kind, len(held), [bits, pa.py_buffer(held)])


def _twice(names: Iterable[str]) -> list[str]:
    return sorted(name for name, n in Counter(names).items() if n > 1)[:10]


def sound_names(path: Path, names: list[str]) -> list[str]:
    """Return the names of columns, which are not too many, and no two of which are one."""
    if (n := len(names)) > MOST_COLUMNS:
        raise DataError.on("too_many_columns", path=path, n=n, most=MOST_COLUMNS)
    if twice := _twice(names):
        raise DataError(f"{path} names columns twice: {', '.join(twice)}; rename one")
    return names


def numbered(batches: Iterable[Any]) -> Iterator[RowBatch]:
    """Yield record batches with the numbers of their first rows, from 1 on."""
    start = 1
    for batch in batches:
        yield RowBatch(batch, start)
        start += batch.num_rows


def batch_rows(batches: Iterable[RowBatch]) -> Iterator[TableItem]:
    """Yield the rows of numbered batches."""
    for batch in batches:
        size = max(1, _CONVERTED // max(1, batch.rows.num_columns))
        for start in range(0, batch.rows.num_rows, size):
            rows = batch.rows.slice(start, size)
            try:
                # Texts that are not UTF-8, and places of texts that lie outside their buffer.
                rows.validate(full=True)
                held: list[Any] = rows.to_pylist()
            except DAMAGE:
                # A value of the batch cannot be read: find it, and lose no other row.
                held = [_single(rows.slice(i, 1)) for i in range(rows.num_rows)]
            for number, values in enumerate(held, batch.start + start):
                if isinstance(values, dict):
                    yield SourceRow(number, values, batch.file)
                else:
                    yield replace(RowProblem(number, WHOLE_ROW, *values), file=batch.file)


def _single(row: Any) -> dict[str, object] | tuple[str, str, str, str]:
    values: dict[str, object] = {}
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            column.validate(full=True)
            values[name] = column[0].as_py()
        except DAMAGE as error:
            if pa.types.is_temporal(column.type):
                # A date beyond the year 9999, or in no known time zone: the number that is stored.
                width = pa.int32() if column.type.bit_width == 32 else pa.int64()
                values[name] = column.view(width)[0].as_py()
            elif isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
                return "invalid UTF-8", "", f"in column {name}", "write the texts as UTF-8"
            else:
                detail = f"in column {name}: {_first_line(error)}"
                return "unreadable value", "", detail, "write the file again"
    return values


def _unreadable(path: Path, kind: str, number: int, error: BaseException) -> str:
    """Say what cannot be read, after how many rows, and why."""
    where = f" from row {number + 1} on" if number else ""
    return error_text("table_unread", path=path, kind=kind, where=where, why=_first_line(error))


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


def _bitmap(valid: NDArray[np.bool_]) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


#: What every function that reads data takes, in words.
ACCEPTED: Final = (
    "a path, a pandas or polars DataFrame, an Arrow table, a dict of columns, or a list of dicts "
    "or of Examples"
)


class ArrowStream(Protocol):
    """What offers its rows to Arrow: a pyarrow or polars table, a query's result."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the capsule of a stream of record batches."""


#: Data that is in memory.
InMemory: TypeAlias = (
    ArrowStream | Mapping[str, Sequence[Any]] | Iterable[Example] | Iterable[Mapping[str, Any]]
)


def _too_long(cell: tuple[str, object]) -> bool:
    """Say whether a cell is a whole number of more digits than Python writes."""
    return type(cell[1]) is int and abs(cell[1]) >> _BITS > 0


class MemoryRows:
    """The rows of data in memory, with the digest of what has been read of them.

    Attributes
    ----------
    format : str
        ``examples``, ``rows``, ``columns`` or ``table``.
    n : int or None
        How many there are, where the source says so without being read.
    """

    def __init__(self, source: object) -> None:
        self.format, self._open = _opened(source)
        held = next(iter(source.values()), ()) if isinstance(source, Mapping) else source
        n = getattr(held, "num_rows", None)
        self.n = n if isinstance(n, int) else len(held) if isinstance(held, Sized) else None
        self._digest: str | None = None

    def __call__(self) -> Iterator[TableItem]:
        """Yield the rows from the first one on, numbered from 1, in Python's own values."""
        hasher = hashlib.sha256()
        for item in self._open():
            if isinstance(item, SourceRow):
                item = SourceRow(item.number, {str(k): native(v) for k, v in item.values.items()})
                if (long := next(filter(_too_long, item.values.items()), None)) is not None:
                    reason, remedy = "a number that is too long", "leave it out, or give a text"
                    yield RowProblem(item.number, long[0], reason, "", "", remedy)
                    continue
                cells = {name: cell for name, cell in item.values.items() if cell is not None}
                text = json.dumps(cells, sort_keys=True, ensure_ascii=False, default=str) + "\n"
                hasher.update(text.encode("utf-8", "surrogatepass"))
            yield item
        self._digest = hasher.hexdigest()

    def digest(self) -> str | None:
        """Return the SHA-256 of all rows; None before they were read to their end.

        Rows that hold the same have the same digest, as a frame or as dicts; the order of columns
        and cells that hold nothing make no difference.
        """
        return self._digest


def describe(source: object) -> str:
    """Return how reports and messages call data in memory.

    >>> describe([{"label": 1}])
    'rows in memory'
    """
    if isinstance(source, Mapping):
        kind = "columns"
    elif _is_table(source) or hasattr(source, "column_names"):
        kind = type(source).__name__
    else:
        first = source[0] if isinstance(source, Sequence) and source else None
        kind = "rows" if isinstance(first, Mapping) else "examples"
    return f"{kind} in memory"


def columns_of(**columns: Any) -> dict[str, list[Any]]:
    """Return arguments that hold one value per answer as columns of one length.

    Raises
    ------
    InputError
        If one is no sequence, holds more than one value per answer, or is of another length; or if
        indexes differ.
    """
    listed = {}
    for name, values in _aligned(columns).items():
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise InputError.on("values_no_list", name=name, given=_given(values))
        if len(shape := getattr(values, "shape", ())) > 1 and tuple(shape)[1:] != (1,):
            raise InputError.on("values_of_two_dimensions", name=name, part=tuple(shape))
        cells = native(_cells(values))
        listed[name] = [cell[0] if isinstance(cell, list) and shape else cell for cell in cells]
    _same_length(listed)
    return listed


def _aligned(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns with those that have an index in the order of the first one's.

    Raises
    ------
    InputError
        If an index holds other names than the first, or, in another order, one twice.
    """
    aligned: dict[str, Any] = {}
    first: tuple[str, Any] | None = None
    for name, values in columns.items():
        aligned[name] = values
        if not hasattr(values, "iloc"):
            continue
        one, index = first = first or (name, values.index)
        if len(values) != len(index) or values.index.equals(index):
            continue
        if not (index.is_unique and values.index.is_unique and values.index.isin(index).all()):
            raise InputError.on("indexes_differ", one=one, name=name)
        aligned[name] = values.reindex(index)
    return aligned


def _opened(source: object) -> tuple[str, Callable[[], Iterable[TableItem]]]:
    """Return the kind of a source in memory, and what reads it.

    Raises
    ------
    InputError
        If it is of a type that is not read.
    """
    if _is_table(source):
        return "table", lambda: _frame_rows(source) if _of_pandas(source) else table_rows(source)
    if isinstance(source, Mapping):
        if tables := [str(name) for name, held in source.items() if hasattr(held, "column_names")]:
            kind, names = type(source).__name__, ", ".join(tables)
            raise InputError.on("several_tables", kind=kind, names=names, first=tables[0])
        given = _aligned({str(name): values for name, values in source.items()})
        columns = {name: _column(name, values) for name, values in given.items()}
        _same_length(columns)
        return "columns", lambda: _column_rows(columns)
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        # A polars LazyFrame and its kin are no data yet.
        remedy = "; collect() it first" if callable(getattr(source, "collect", None)) else ""
        raise InputError(f"the data must be {ACCEPTED}; got {_given(source)}{remedy}")
    items = iter(source)
    first = list(islice(items, 1))
    if first and not isinstance(first[0], Example | Mapping):
        raise InputError(f"the data must be {ACCEPTED}; got {_given(source)} of {_given(first[0])}")
    kind = "rows" if first and isinstance(first[0], Mapping) else "examples"
    if kind == "examples":
        return kind, lambda: _item_rows(chain(first, items))
    # Whether dicts are a benchmark's rows takes a look before they are read.
    rows = [*first, *items] if items is source else source
    return kind, lambda: _item_rows(rows)


def _is_table(source: object) -> bool:
    offers = ("__arrow_c_stream__", "__arrow_c_array__")
    return _of_pandas(source) or any(hasattr(source, offer) for offer in offers)


def _of_pandas(source: object) -> bool:
    return hasattr(source, "iloc") and hasattr(source, "columns")


def _item_rows(items: Iterable[object]) -> Iterator[TableItem]:
    """Yield dicts and examples, the latter under calibrail's own names."""
    for number, item in enumerate(items, start=1):
        if isinstance(item, Example | Mapping):
            yield SourceRow(number, own_values(item) if isinstance(item, Example) else item)
        else:
            remedy = "give a dict or an Example"
            yield RowProblem(number, WHOLE_ROW, "wrong type", shorten(item), "", remedy)


def _column_rows(columns: Mapping[str, Sequence[Any]], start: int = 1) -> Iterator[TableItem]:
    for number, cells in enumerate(zip(*columns.values(), strict=True), start):
        yield SourceRow(number, dict(zip(columns, cells, strict=True)))


def _frame_rows(frame: Any) -> Iterator[TableItem]:
    """Yield the rows of a pandas DataFrame; Arrow would refuse a column of mixed types."""
    names = [str(name) for name in frame.columns]
    if twice := _twice(names):
        raise DataError.on("frame_column_twice", value=twice[0])
    for start in range(0, len(frame), _BATCH):
        part = frame.iloc[start : start + _BATCH]
        cells = (_cells(part.iloc[:, place]) for place in range(len(names)))
        yield from _column_rows(dict(zip(names, cells, strict=True)), start + 1)


def _column(name: str, values: Any) -> Sequence[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError.on("column_no_list", name=name, given=_given(values))
    return values if isinstance(values, list | tuple) else _cells(values)


def _cells(values: Any) -> list[Any]:
    """Return the cells of a column of any kind, its numbers as a file of text would give them."""
    if getattr(getattr(getattr(values, "dtype", None), "pyarrow_dtype", None), "num_fields", 0):
        # Of lists and structures in a frame.
        values = values.array.__arrow_array__()
    if hasattr(values, "to_pylist"):
        values = widened_column(values).to_pylist()
    elif small_float(values):
        values = doubles(values)
    values = in_microseconds(values)
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _same_length(columns: Mapping[str, Sequence[Any]]) -> None:
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise InputError(f"all columns must have one value per answer; their lengths: {listed}")


def _given(value: object) -> str:
    """Return what was given, as an error names it."""
    kind = type(value)
    if value is None:
        return "None"
    if isinstance(value, str | bytes | int | float):
        return f"{shorten(value)} ({kind.__name__})"
    if kind.__module__ in ("builtins", "__main__"):
        return f"a {kind.__name__}"
    return f"a {kind.__module__.partition('.')[0]} {kind.__name__}"
