"""What do the columns of an Arrow batch hold, as arrays and without pandas?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


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
