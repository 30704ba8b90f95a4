"""How are Arrow tables read, one batch at a time, and columns made for them without pandas?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.rows import WHOLE_ROW, Problem, Row, TableItem
from calibrail.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH: Final = 1024


def parquet_rows(path: Path) -> Iterator[TableItem]:
    """Yield the rows of a Parquet file, numbered from 1.

    Raises
    ------
    DataError
        The file is not Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield from _batched(file.iter_batches(batch_size=_BATCH))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {_first_line(error)}") from error


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
        return tuple(folder / str(item["filename"]) for item in state["_data_files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder} is not a data set written by save_to_disk: {error}") from error


def saved_rows(folder: Path, split: object = None) -> Iterator[TableItem]:
    """Yield the rows of a folder written by ``save_to_disk``, numbered from 1 over its files."""
    return _batched(_stream_batches(saved_files(folder, split)))


def table_rows(source: object) -> Iterator[TableItem]:
    """Yield the rows of a table in memory that offers itself to Arrow, numbered from 1.

    Raises
    ------
    DataError
        It is no table, or two of its columns have one name.
    """
    import pyarrow as pa

    try:
        table = pa.table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"a {type(source).__name__} cannot be read as an Arrow table: {_first_line(error)}"
        ) from error
    names = table.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"the table has several columns {twice[0]!r}; give each its own name")
    yield from _batched(table.to_batches(max_chunksize=_BATCH))


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


def _stream_batches(paths: Iterable[Path]) -> Iterator[Any]:
    import pyarrow as pa

    for path in paths:
        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
                for batch in reader:
                    for start in range(0, batch.num_rows, _BATCH):
                        yield batch.slice(start, _BATCH)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{path} cannot be read as Arrow: {_first_line(error)}") from error


def _batched(batches: Iterable[Any]) -> Iterator[TableItem]:
    number = 0
    for batch in batches:
        try:
            rows = batch.to_pylist()
        except UnicodeDecodeError:
            # One text of the batch is not UTF-8: find it, and lose no other row.
            rows = [_single(batch, i) for i in range(batch.num_rows)]
        for values in rows:
            number += 1
            if values is not None:
                yield Row(number, values)
            else:
                remedy = "write the texts as UTF-8"
                yield Problem(number, WHOLE_ROW, "invalid UTF-8", "", "", remedy)


def _single(batch: Any, position: int) -> dict[str, object] | None:
    try:
        row: dict[str, object] = batch.slice(position, 1).to_pylist()[0]
    except UnicodeDecodeError:
        return None
    return row


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _bitmap(valid: NDArray[np.bool_]) -> pa.Buffer | None:
    import pyarrow as pa

    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
