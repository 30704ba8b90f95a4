"""Which column types does a Parquet or Arrow file hold that no text, number or list is?"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from tests.fuzz.seeds import arrow_bytes, parquet_bytes

_N: Final = 6
_NAMES: Final = ("question", "contexts", "response", "label", "group", "id", "samples", "score")


def _nested(value: Any, wrap: Callable[[Any], Any], times: int) -> Any:
    for _ in range(times):
        value = wrap(value)
    return value


_TYPES: Final[tuple[tuple[Any, Callable[[int], Any]], ...]] = (
    (pa.null(), lambda i: None),
    (pa.bool_(), bool),
    (pa.uint64(), lambda i: 2**64 - 1 - i),
    (pa.float16(), float),
    (pa.float32(), lambda i: float("nan") if i == 1 else i / 3),
    (pa.decimal128(38, 10), lambda i: i % 2),
    (pa.decimal256(60, 0), lambda i: i),
    (pa.string(), lambda i: str(i % 2)),
    (pa.large_string(), lambda i: f"text {i}"),
    (pa.binary(), lambda i: b"\xff" * i),
    (pa.binary(2), lambda i: b"\xff\xfe"),
    (pa.date32(), lambda i: i * 10**6),
    (pa.date64(), lambda i: i * 86_400_000 * 10**6),
    (pa.timestamp("ns"), lambda i: 2**62 + i),
    (pa.timestamp("s", "Mars/Olympus"), lambda i: i),
    (pa.timestamp("s"), lambda i: 10**15 * i),
    (pa.time64("ns"), lambda i: i),
    (pa.duration("s"), lambda i: 10**17 * i),
    (pa.list_(pa.string()), lambda i: ["a", None]),
    (pa.list_(pa.list_(pa.int8())), lambda i: [[i], []]),
    (pa.struct([("text", pa.string())]), lambda i: {"text": "a"}),
    (pa.map_(pa.string(), pa.int8()), lambda i: [("a", i), ("a", i)]),
    (_nested(pa.int8(), pa.list_, 60), lambda i: _nested(i, lambda value: [value], 60)),
    (pa.dictionary(pa.int8(), pa.string()), lambda i: str(i % 2)),
)


def odd_table(rng: random.Random) -> tuple[str, bytes]:
    """Return a file's name and bytes: every column of some type at random."""
    names = list(_NAMES)
    if rng.random() < 0.2:
        names.append(rng.choice(names))
    arrays = []
    for name in names:
        kind, value = rng.choice(_TYPES)
        if name == "label" and rng.random() < 0.5:
            kind, value = pa.int8(), lambda i: i % 2
        arrays.append(_array(kind, [value(i) for i in range(_N)]))
    table = pa.Table.from_arrays(arrays, names=names)
    # Neither format holds every type.
    if rng.random() < 0.5:
        try:
            return "data.arrow", arrow_bytes(table)
        except pa.ArrowException:
            return "rows.parquet", parquet_bytes(table)
    try:
        return "rows.parquet", parquet_bytes(table)
    except pa.ArrowException:
        return "data.arrow", arrow_bytes(table)


def _array(kind: Any, values: list[Any]) -> pa.Array:
    """Return an array; dates and times are given as the whole numbers that are stored."""
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(kind)
    if pa.types.is_float16(kind):
        return pa.array(values, pa.float32()).cast(kind)
    return pa.array(values, kind)
