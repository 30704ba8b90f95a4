"""How is it kept why scores are undefined, where millions are?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, ValuesView

import numpy as np
from numpy.typing import NDArray


class Reasons(Mapping[int, str]):
    """Why the score of a row is undefined, by its row: few texts for many rows.

    Examples
    --------
    >>> reasons = Reasons()
    >>> reasons.add(np.array([2, 5]), "column dae is empty")
    >>> reasons[5], 4 in reasons, list(reasons.values())
    ('column dae is empty', False, ['column dae is empty', 'column dae is empty'])
    """

    def __init__(self) -> None:
        self._rows: list[NDArray[np.int64]] = []
        self._codes: list[NDArray[np.int16]] = []
        self._texts: dict[str, int] = {}

    def add(self, rows: NDArray[np.int64], text: str) -> None:
        """Add rows, rising, behind all that are there."""
        if len(rows):
            code = self._texts.setdefault(text, len(self._texts))
            self._rows.append(rows)
            self._codes.append(np.full(len(rows), code, np.int16))

    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        if len(self._rows) > 1:
            rows, codes = np.concatenate(self._rows), np.concatenate(self._codes)
            order = np.argsort(rows, kind="stable")
            self._rows, self._codes = [rows[order]], [codes[order]]
        if not self._rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int16)
        return self._rows[0], self._codes[0]

    def __getitem__(self, row: int) -> str:
        rows, codes = self._sorted()
        place = int(np.searchsorted(rows, row))
        if place == len(rows) or rows[place] != row:
            raise KeyError(row)
        return list(self._texts)[int(codes[place])]

    def __len__(self) -> int:
        return sum(map(len, self._rows))

    def __iter__(self) -> Iterator[int]:
        """Yield the rows in their order."""
        return iter(self._sorted()[0].tolist())

    def between(self, start: int, stop: int) -> dict[int, str]:
        """Return those of some rows."""
        rows, codes = self._sorted()
        part = slice(*np.searchsorted(rows, [start, stop]))
        texts = list(self._texts)
        return {
            row: texts[code]
            for row, code in zip(rows[part].tolist(), codes[part].tolist(), strict=True)
        }

    def values(self) -> ValuesView[str]:
        """Return the reasons in the order of their rows."""
        return _Texts(self)

    def in_order(self) -> Iterator[str]:
        """Yield the reasons in the order of their rows."""
        return map(list(self._texts).__getitem__, self._sorted()[1].tolist())


class _Texts(ValuesView[str]):
    """The reasons, without a search for each."""

    _mapping: Reasons

    def __iter__(self) -> Iterator[str]:
        return self._mapping.in_order()
