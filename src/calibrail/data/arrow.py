"""How are Arrow tables read, one batch at a time, and columns made for them without pandas?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.files import seekable
from calibrail.data.json_text import DEPTH
from calibrail.data.rows import WHOLE_ROW, Problem, Row, TableItem, shorten
from calibrail.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows at a time, and values where there are so many columns that they are more.
_BATCH: Final = 1024
_VALUES: Final = 1 << 22

#: Values that become Python objects at a time.
_CONVERTED: Final = 1 << 17

#: What pyarrow raises, beside its own errors, where a file's bytes do not mean what they should.
DAMAGE: Final = (
    *(OSError, ValueError, ArithmeticError, LookupError, NotImplementedError, TypeError),
    *(MemoryError, RecursionError, SystemError),
)


def parquet_rows(path: Path, columns: Collection[str] | None = None) -> Iterator[TableItem]:
    """Yield the rows of a Parquet file, numbered from 1.

    Parameters
    ----------
    path : Path
        The file, plain or compressed with gzip or zstd.
    columns : collection of str or None
        The columns to read; a name such as ``metadata.label`` stands for its ``metadata``. None
        reads all.

    Raises
    ------
    DataError
        The file is not Parquet, is damaged, or names a column twice.
    """
    return _batched(parquet_batches(path, columns))


def parquet_batches(
    path: Path, columns: Collection[str] | None = None, rows: int = _BATCH
) -> Iterator[Any]:
    """Yield the record batches of a Parquet file, so many rows at a time; see `parquet_rows`."""
    import pyarrow.parquet as pq

    number = 0
    try:
        with seekable(path) as source, pq.ParquetFile(source, pre_buffer=False) as file:
            chosen = _chosen(path, file.schema_arrow, columns)
            size = max(1, min(rows, _VALUES // max(1, len(chosen))))
            only = None if columns is None else chosen
            for batch in file.iter_batches(batch_size=size, columns=only):
                yield batch
                number += batch.num_rows
    except DAMAGE as error:
        raise DataError(_unreadable(path, "Parquet", number, error)) from error


def _chosen(path: Path, schema: Any, columns: Collection[str] | None) -> list[str]:
    """Return the names of the columns to read; refuse two of one name, and endless nesting."""
    names = chosen = list(schema.names)
    if twice := _twice(names):
        raise DataError(f"{path} names columns twice: {', '.join(twice[:10])}; rename one")
    if columns is not None:
        paths = [column.split(".") for column in columns]
        wanted = {".".join(path[: n + 1]) for path in paths for n in range(len(path))}
        chosen = [name for name in names if name in wanted]
    for name in chosen:
        if _nesting(schema.field(name).type) > DEPTH:
            raise DataError(f"{path}: column {name} is nested more than {DEPTH} deep; leave it out")
    return chosen


def _nesting(kind: Any) -> int:
    depth, kinds = 0, [kind]
    while kinds := [inner.field(i).type for inner in kinds for i in range(inner.num_fields)]:
        depth += 1
    return depth


def saved_files(folder: Path, split: object = None) -> tuple[Path, ...]:
    """Return the Arrow files of a folder that ``datasets`` wrote with ``save_to_disk``.

    Parameters
    ----------
    folder : Path
        The folder; with several splits, it holds ``dataset_dict.json`` and a folder for each.
    split : str or None
        Which split, needed only where there are several.

    Raises
    ------
    DataError
        No such split, or the folder's own description cannot be read.
    """
    listing = folder / "dataset_dict.json"
    chosen = None if split is None else str(split)
    try:
        if listing.is_file():
            splits = [str(name) for name in json.loads(listing.read_text("utf-8"))["splits"]]
            if chosen is None and len(splits) == 1:
                chosen = splits[0]
            if chosen not in splits:
                raise DataError(
                    f"{folder} holds the splits {', '.join(splits)}; choose one with the reader "
                    f"option split (got {chosen!r})"
                )
            folder = folder / chosen
        state = json.loads((folder / "state.json").read_text("utf-8"))
        files = tuple(folder / str(item["filename"]) for item in state["_data_files"])
        if absent := [file.name for file in files if not file.is_file()]:
            raise DataError(f"{folder}: state.json names {shorten(absent[0])}, which is not there")
        return files
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{folder} is not a data set written by save_to_disk: {_first_line(error)}"
        ) from error


def saved_rows(
    folder: Path, split: object = None, columns: Collection[str] | None = None
) -> Iterator[TableItem]:
    """Yield the rows of a folder written by ``save_to_disk``, numbered from 1 over its files.

    Parameters
    ----------
    folder, split
        As `saved_files` takes them.
    columns : collection of str or None
        As `parquet_rows` takes them.
    """
    return _batched(saved_batches(folder, split, columns))


def saved_batches(
    folder: Path,
    split: object = None,
    columns: Collection[str] | None = None,
    rows: int = _BATCH,
) -> Iterator[Any]:
    """Yield the record batches of such a folder, so many rows at a time; see `saved_rows`."""
    for batch in _stream_batches(saved_files(folder, split), columns):
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def table_rows(source: object) -> Iterator[TableItem]:
    """Yield the rows of a table in memory that offers itself to Arrow or for interchange.

    Raises
    ------
    DataError
        It is no table, or two of its columns have one name.
    """
    import pyarrow as pa

    try:
        if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
            table = pa.table(source)
        else:
            from pyarrow.interchange import from_dataframe

            table = from_dataframe(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"a {type(source).__name__} cannot be read as an Arrow table: {_first_line(error)}"
        ) from error
    names = table.column_names
    if twice := _twice(names):
        raise DataError(f"the table has several columns {twice[0]!r}; give each its own name")
    yield from _batched(table.to_batches(max_chunksize=_BATCH))


def sound(batch: Any) -> Any:
    """Return a batch all of whose values can be read; raise one of `DAMAGE` else."""
    batch.validate(full=True)
    return batch


def string_array(values: Sequence[str | None]) -> pa.Array:
    """Return an Arrow string array; None becomes null, a lone surrogate a replacement character.

    ``pyarrow.array`` imports pandas wherever it is installed: half a second and 60 MiB.

    >>> string_array(["a", None, ""]).to_pylist()
    ['a', None, '']
    """
    import pyarrow as pa

    encoded = [b"" if value is None else value.encode("utf-8", "replace") for value in values]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int32)
    np.cumsum([len(item) for item in encoded], out=offsets[1:])
    valid = np.array([value is not None for value in values], dtype=bool)
    return pa.StringArray.from_buffers(
        len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)), _bitmap(valid)
    )


def number_array(
    values: NDArray[np.float64] | NDArray[np.int8], valid: NDArray[np.bool_]
) -> pa.Array:
    """Return an Arrow array of the same type, null where ``valid`` is False.

    >>> number_array(np.array([1.5, np.nan]), np.array([True, False])).to_pylist()
    [1.5, None]
    """
    import pyarrow as pa

    kept = np.ascontiguousarray(np.where(valid, values, np.zeros(1, values.dtype)))
    kind = pa.from_numpy_dtype(kept.dtype)
    return pa.Array.from_buffers(kind, len(kept), [_bitmap(valid), pa.py_buffer(kept)])


def _twice(names: Iterable[str]) -> list[str]:
    return sorted(name for name, n in Counter(names).items() if n > 1)


def _stream_batches(paths: Iterable[Path], columns: Collection[str] | None) -> Iterator[Any]:
    import pyarrow as pa

    for path in paths:
        number = 0
        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
                chosen = _chosen(path, reader.schema, columns)
                for batch in reader:
                    # What is mapped is read when it is used: damage must show here.
                    batch.validate()
                    yield batch.select(chosen)
                    number += batch.num_rows
        except DAMAGE as error:
            raise DataError(_unreadable(path, "Arrow", number, error)) from error


def _batched(batches: Iterable[Any]) -> Iterator[TableItem]:
    number = 0
    for batch in batches:
        size = max(1, min(_BATCH, _CONVERTED // max(1, batch.num_columns)))
        for start in range(0, batch.num_rows, size):
            for values in _values(batch.slice(start, size)):
                number += 1
                if isinstance(values, dict):
                    yield Row(number, values)
                else:
                    yield Problem(number, WHOLE_ROW, *values)


def _values(batch: Any) -> list[Any]:
    """Return the values of every row, or why a row has none: reason, value, detail, remedy."""
    try:
        # Texts that are not UTF-8, and places of texts that lie outside their buffer.
        rows: list[Any] = sound(batch).to_pylist()
    except DAMAGE:
        # A value of the batch cannot be read: find it, and lose no other row.
        rows = [_single(batch.slice(i, 1)) for i in range(batch.num_rows)]
    return rows


def _single(row: Any) -> dict[str, object] | tuple[str, str, str, str]:
    import pyarrow as pa

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
    return (
        f"{path} cannot be read as {kind}{where}: {_first_line(error)}; if it was read before, "
        "it is damaged: write or download it again"
    )


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


def _bitmap(valid: NDArray[np.bool_]) -> pa.Buffer | None:
    import pyarrow as pa

    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
