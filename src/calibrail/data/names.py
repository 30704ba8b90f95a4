"""How are the names of a hundred million rows kept, most of which follow from their numbers?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.arrow import string_array
from calibrail.data.arrow_values import offsets_of, present, whole_array

if TYPE_CHECKING:
    import pyarrow as pa

#: Stored names that become one array; one array holds 2 GiB at most.
_TOGETHER: Final = 64


@dataclass(frozen=True, slots=True)
class RowNames:
    """The names of n rows without ids, from the row ``start`` on; ``file`` as in a `Row`."""

    file: str
    start: int
    n: int

    def __len__(self) -> int:
        return self.n

    def strings(self, start: int, stop: int) -> pa.Array:
        """Return some of the names."""
        import pyarrow as pa
        import pyarrow.compute as pc

        before = f"{self.file}:row-" if self.file else "row-"
        numbers = whole_array(np.arange(self.start + start, self.start + stop))
        return pc.binary_join_element_wise(before, numbers.cast(pa.string()), "")


@dataclass(frozen=True, slots=True)
class _Nothing:
    """Rows without a name."""

    n: int

    def __len__(self) -> int:
        return self.n

    def strings(self, start: int, stop: int) -> pa.Array:
        import pyarrow as pa

        return pa.nulls(stop - start, pa.string())


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    """Names that the source gave; null where it gave none."""

    array: Any

    def __len__(self) -> int:
        return len(self.array)

    def strings(self, start: int, stop: int) -> pa.Array:
        return self.array.slice(start, stop - start)


class Texts:
    """A text, or nothing, for each of n rows: as much of an Arrow string array as is needed.

    Parameters
    ----------
    parts : iterable
        Runs of rows, one after the other.
    """

    def __init__(self, parts: Iterable[RowNames | _Stored | _Nothing]) -> None:
        self.parts = tuple(parts)
        self._starts = np.cumsum([0, *map(len, self.parts)])

    @classmethod
    def numbered(cls, file: str, start: int, n: int) -> Texts:
        """Return the names of rows that have no ids."""
        return cls([RowNames(file, start, n)])

    @classmethod
    def nothing(cls, n: int) -> Texts:
        """Return no text for n rows."""
        return cls([_Nothing(n)])

    @classmethod
    def of(cls, column: Any) -> Texts | None:
        """Return a column's texts and whole numbers, null where blank; None without any.

        Parameters
        ----------
        column : pyarrow.Array or None
            Of texts (by a dictionary or not), whole numbers or nothing.
        """
        import pyarrow as pa

        if column is None or column.null_count == len(column):
            return None
        array = column.cast(pa.string())
        blank = _blank(array)
        if blank.any():
            array = array.take(whole_array(np.arange(len(array)), present(array) & ~blank))
        return None if array.null_count == len(array) else cls([_Stored(array)])

    @classmethod
    def joined(cls, several: Iterable[Texts]) -> Texts:
        """Return texts one after the other; runs of the same kind become one."""
        parts: list[RowNames | _Stored | _Nothing] = []
        for part in chain.from_iterable(texts.parts for texts in several):
            last = parts[-1] if parts else None
            if isinstance(part, _Nothing) and isinstance(last, _Nothing):
                parts[-1] = _Nothing(last.n + part.n)
            elif (
                isinstance(part, RowNames)
                and isinstance(last, RowNames)
                and (last.file, last.start + last.n) == (part.file, part.start)
            ):
                parts[-1] = RowNames(last.file, last.start, last.n + part.n)
            elif len(part):
                parts.append(part)
        return cls(parts)

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self._starts[-1])

    def __getitem__(self, rows: int | slice) -> Any:
        """Return the text of a row, or the string array of several, as Arrow has them."""
        if not isinstance(rows, slice):
            return self[rows : rows + 1][0]
        start, stop, _ = rows.indices(len(self))
        return _whole(self._strings(start, stop))

    @property
    def null_count(self) -> int:
        """How many rows have no text."""
        counts = (
            part.n
            if isinstance(part, _Nothing)
            else part.array.null_count
            if isinstance(part, _Stored)
            else 0
            for part in self.parts
        )
        return sum(counts)

    def missing(self) -> NDArray[np.bool_]:
        """Return which rows have no text, shape (n,)."""
        masks = [
            ~present(part.array)
            if isinstance(part, _Stored)
            else np.full(len(part), isinstance(part, _Nothing))
            for part in self.parts
        ]
        return np.concatenate([np.zeros(0, np.bool_), *masks])

    def filled(self, others: Texts) -> Texts:
        """Return the texts with those of others where there is none."""
        import pyarrow.compute as pc

        if not self.null_count:
            return self
        return Texts([_Stored(pc.coalesce(self[:], others[:]))])

    def renamed(self, names: Mapping[int, str]) -> Texts:
        """Return the texts with other ones for some rows."""
        texts = self.to_pylist()
        for row, name in names.items():
            texts[row] = name
        return Texts([_Stored(string_array(texts))])

    def only(self, rows: NDArray[np.bool_]) -> Texts:
        """Return the texts of some rows."""
        if rows.all():
            return self
        return Texts([_Stored(self[:].filter(_flags(rows)))])

    def to_pylist(self) -> list[str | None]:
        """Return all of them."""
        texts: list[str | None] = self[:].to_pylist()
        return texts

    def dictionary_encode(self) -> pa.DictionaryArray:
        """Return all of them, each different one stored once."""
        return self[:].dictionary_encode()

    def _strings(self, start: int, stop: int) -> Iterator[pa.Array]:
        first = max(0, int(np.searchsorted(self._starts, start, side="right")) - 1)
        for place in range(first, len(self.parts)):
            before = int(self._starts[place])
            if before >= stop:
                return
            part = self.parts[place]
            yield part.strings(max(start - before, 0), min(stop - before, len(part)))


class TextsOfBlocks:
    """Collects the texts of many blocks; every so many stored arrays become one."""

    def __init__(self) -> None:
        self._joined: list[Texts] = []
        self._open: list[Texts] = []

    def add(self, texts: Texts) -> None:
        """Add those of the next rows."""
        self._open.append(texts)
        if len(self._open) == _TOGETHER:
            self._close()

    def finish(self) -> Texts:
        """Return all."""
        self._close()
        return Texts.joined(self._joined)

    def _close(self) -> None:
        kinds = {type(part) for texts in self._open for part in texts.parts}
        if _Stored in kinds:
            stored = _whole([texts[:] for texts in self._open])
            self._joined.append(Texts([_Stored(stored)]))
        else:
            self._joined.append(Texts.joined(self._open))
        self._open.clear()


def _whole(arrays: Iterable[pa.Array]) -> pa.Array:
    import pyarrow as pa

    listed = list(arrays)
    return pa.concat_arrays(listed) if listed else pa.nulls(0, pa.string())


def _blank(array: pa.Array) -> NDArray[np.bool_]:
    """Return which texts hold nothing but space."""
    offsets, data = offsets_of(array)
    starts, sizes = offsets[:-1], np.diff(offsets)
    first = np.zeros(len(array), np.uint8)
    filled = sizes > 0
    first[filled] = np.frombuffer(data, np.uint8)[starts[filled]]
    blank = ~filled
    # What begins with a letter, a digit or a sign is not blank.
    for row in np.flatnonzero(filled & ~((first > 0x20) & (first < 0x7F))).tolist():
        blank[row] = not data[offsets[row] : offsets[row + 1]].decode().strip()
    return blank & present(array)


def _flags(mask: NDArray[np.bool_]) -> pa.Array:
    import pyarrow as pa

    bits = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])
