"""How do frames, tables, dicts and examples that are in memory become the rows of a source?"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from decimal import Decimal
from itertools import chain, islice
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from calibrail.data.arrow import table_rows
from calibrail.data.example import Example
from calibrail.data.rows import WHOLE_ROW, Problem, Row, TableItem, own_values, shorten
from calibrail.errors import DataError, InputError

#: Rows of a frame that are turned into Python's own values at a time.
_BLOCK: Final = 1024

#: What every function that reads data takes, in words.
ACCEPTED: Final = (
    "a path, a pandas or polars DataFrame, an Arrow table, a dict of columns, or a list of dicts "
    "or of Examples"
)

#: What pandas writes where nothing is, besides NaN.
_ABSENT: Final = ("NAType", "NaTType")


@runtime_checkable
class Interchanged(Protocol):
    """A data frame that offers itself by the interchange protocol alone."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
        """Return what the protocol asks for."""


@runtime_checkable
class ArrowStream(Protocol):
    """What offers its rows to Arrow: a pyarrow or polars table, a query's result."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the capsule of a stream of record batches."""


#: Data that is in memory.
InMemory: TypeAlias = (
    ArrowStream | Mapping[str, Sequence[Any]] | Iterable[Example] | Iterable[Mapping[str, Any]]
)


class Rows:
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
        self.n = _length(source)
        self._digest: str | None = None

    def __call__(self) -> Iterator[TableItem]:
        """Yield the rows from the first one on, numbered from 1, in Python's own values."""
        hasher = hashlib.sha256()
        for item in self._open():
            if isinstance(item, Row):
                item = Row(item.number, {str(k): native(v) for k, v in item.values.items()})
                hasher.update(_canonical(item.values))
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


def native(value: Any) -> Any:
    """Return a value as a file would give it: Python's own types, None where nothing is.

    >>> native(float("nan")), native({"scores": (1, Decimal("0.5"))})
    (None, {'scores': [1, 0.5]})
    """
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): native(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [native(item) for item in value]
    if isinstance(value, Decimal):
        return native(int(value) if value == value.to_integral_value() else float(value))
    if type(value).__name__ in _ABSENT:
        return None
    for convert in ("tolist", "to_pylist", "to_list"):
        if callable(method := getattr(value, convert, None)):
            converted = method()
            return converted if type(converted) is type(value) else native(converted)
    return value


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
            raise InputError(
                f"{name} must be a list, an array or a column of a frame with one value per "
                f"answer; got {_given(values)}"
            )
        if len(shape := getattr(values, "shape", ())) > 1 and tuple(shape)[1:] != (1,):
            raise InputError(
                f"{name} must hold one value per answer; got an array of shape {tuple(shape)}"
            )
        cells = native(values if hasattr(values, "__len__") else list(values))
        cells = cells if isinstance(cells, list) else [native(cell) for cell in values]
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
        first = first or (name, values.index)
        one, index = first[0], first[1]
        if len(values) != len(index) or values.index.equals(index):
            continue
        if not (index.is_unique and values.index.is_unique and values.index.isin(index).all()):
            raise InputError(
                f"the indexes of {one} and {name} differ, so that it is unclear which values are "
                f"one answer's; give both the same index, each name once, or {name}.to_numpy() and "
                f"{one}.to_numpy() if their order is the same"
            )
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
            raise InputError(
                f"a {type(source).__name__} holds several tables ({', '.join(tables)}); give one "
                f"of them, e.g. data[{tables[0]!r}]"
            )
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


def _length(source: object) -> int | None:
    if isinstance(source, Mapping):
        source = next(iter(source.values()), ())
    if (n := getattr(source, "num_rows", None)) is not None:
        return int(n) if isinstance(n, int) else None
    return len(source) if isinstance(source, Sized) else None


def _is_table(source: object) -> bool:
    return _of_pandas(source) or isinstance(source, ArrowStream | Interchanged)


def _of_pandas(source: object) -> bool:
    return hasattr(source, "iloc") and hasattr(source, "columns")


def _item_rows(items: Iterable[object]) -> Iterator[TableItem]:
    """Yield dicts and examples, the latter under calibrail's own names."""
    for number, item in enumerate(items, start=1):
        if isinstance(item, Example):
            yield Row(number, own_values(item))
        elif isinstance(item, Mapping):
            yield Row(number, item)
        else:
            remedy = "give a dict or an Example"
            yield Problem(number, WHOLE_ROW, "wrong type", shorten(item), "", remedy)


def _column_rows(columns: Mapping[str, Sequence[Any]]) -> Iterator[TableItem]:
    for number, cells in enumerate(zip(*columns.values(), strict=True), start=1):
        yield Row(number, dict(zip(columns, cells, strict=True)))


def _frame_rows(frame: Any) -> Iterator[TableItem]:
    """Yield the rows of a pandas DataFrame; Arrow would refuse a column of mixed types."""
    names = [str(name) for name in frame.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(
            f"the DataFrame has several columns {twice[0]!r}; give every column its own name"
        )
    number = 0
    for start in range(0, len(frame), _BLOCK):
        part = frame.iloc[start : start + _BLOCK]
        cells = [part.iloc[:, place].tolist() for place in range(len(names))]
        for row in zip(*cells, strict=True):
            number += 1
            yield Row(number, dict(zip(names, row, strict=True)))


def _column(name: str, values: Any) -> Sequence[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError(
            f"a dict must hold a list or an array for every column; {name!r} holds "
            f"{_given(values)}. Several rows are a list of dicts"
        )
    return values if isinstance(values, list | tuple) else list(values)


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


def _canonical(values: Mapping[str, object]) -> bytes:
    cells = {name: cell for name, cell in values.items() if cell is not None}
    text = json.dumps(cells, sort_keys=True, ensure_ascii=False, default=str)
    return text.encode("utf-8", "surrogatepass") + b"\n"
