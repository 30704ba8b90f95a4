"""How do strings and numbers become Arrow arrays without importing pandas?

``pyarrow.array`` imports pandas wherever it is installed, which costs half a second and 60 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def string_array(values: Sequence[str | None]) -> pa.Array:
    """Return an Arrow string array; None becomes null, a lone surrogate a replacement character.

    >>> string_array(["a", None, ""]).to_pylist()
    ['a', None, '']
    """
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
    kept = np.ascontiguousarray(np.where(valid, values, np.zeros(1, values.dtype)))
    kind = pa.from_numpy_dtype(kept.dtype)
    return pa.Array.from_buffers(kind, len(kept), [_bitmap(valid), pa.py_buffer(kept)])


def _bitmap(valid: NDArray[np.bool_]) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
