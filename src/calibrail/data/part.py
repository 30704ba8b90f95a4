"""Which part of a source is read, where not all of it is?"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import blake2b
from math import sqrt
from typing import Any, Final

from calibrail.data.rows import Batch, ParsedItem, Row
from calibrail.settings import ReadOptions

_SLACK: Final = 1000


class Part:
    """The first rows of a source, or rows drawn by lot; counts what it takes, and from how many.

    Parameters
    ----------
    reading : ReadOptions
        How many rows are wanted.
    group_of : callable
        The group of a row, None where it has none.
    """

    def __init__(self, reading: ReadOptions, group_of: Callable[[Row], object]) -> None:
        self._reading, self._group_of = reading, group_of
        self.n_passed = self.n_taken = 0
        #: How many rows the lot has drawn; None before it is drawn.
        self.n_drawn: int | None = None
        self.grouped = self._left = False

    def __call__(self, items: Iterator[ParsedItem]) -> Iterator[ParsedItem]:
        """Return the items of the rows that are wanted, in their order."""
        if self._reading.limit is not None:
            items = self._first(items, self._reading.limit)
        if self._reading.sample is not None:
            items = self._drawn(items, self._reading.sample)
        return self._counted(items)

    def of_batches(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Return the rows that are wanted, many at a time, where none are drawn by lot."""
        limit = self._reading.limit
        for batch in batches:
            rows = batch.rows if limit is None else batch.rows.slice(0, limit - self.n_taken)
            self._left |= rows.num_rows < batch.rows.num_rows
            self.n_taken += rows.num_rows
            if rows.num_rows:
                yield replace(batch, rows=rows)
            if self._left:
                return

    def to_dict(self) -> dict[str, Any] | None:
        """Return what was asked for, what was read, and of what; None where nothing was left out.

        Final once the source has been read.
        """
        limit, sample = self._reading.limit, self._reading.sample
        drawn = sample is not None and self.n_taken < self.n_passed
        if not (drawn or self._left):
            return None
        return {
            "limit": limit if self._left else None,
            "sample": sample if drawn else None,
            "rows": self.n_taken,
            "sample_seed": self._reading.sample_seed if drawn else None,
            "drawn_from": self.n_passed if drawn else None,
            "whole_groups": self.grouped if drawn else None,
        }

    def _counted(self, items: Iterator[ParsedItem]) -> Iterator[ParsedItem]:
        last = ("", 0)
        for item in items:
            self.n_taken += _place(item) != last
            last = _place(item)
            yield item

    def _first(self, items: Iterator[ParsedItem], limit: int) -> Iterator[ParsedItem]:
        n, last = 0, ("", 0)
        for item in items:
            n, last = n + (_place(item) != last), _place(item)
            if n > limit:
                self._left = True
                return
            yield item

    def _drawn(self, items: Iterator[ParsedItem], n: int) -> Iterator[ParsedItem]:
        """Draw rows; where rows have groups, each group by lot, whatever its size.

        Every row or group draws a number in [0, 1). A group is in where its number lies below the
        share that is wanted, so that large groups are as likely as small ones and about ``n`` rows
        come of it; without groups, the ``n`` rows with the lowest numbers are.
        """
        kept: list[tuple[float, ParsedItem]] = []
        last, allowed = ("", 0), 2 * n + _SLACK
        for item in items:
            self.n_passed += _place(item) != last
            last = _place(item)
            group = self._group_of(item) if isinstance(item, Row) else None
            self.grouped |= group not in (None, "")
            unit = ("row", *last) if group in (None, "") else ("group", group)
            kept.append((self._lot(unit), item))
            if len(kept) > allowed:
                # More than can be in, but for a chance of one in a thousand million.
                edge = (n + 6.0 * sqrt(n) + 20.0) / self.n_passed
                kept = [pair for pair in kept if pair[0] < edge]
                allowed = 2 * len(kept) + _SLACK
        if self.grouped:
            edge = n / max(1, self.n_passed)
        else:
            lots = sorted({lot for lot, _ in kept})
            edge = lots[n] if n < len(lots) else 1.0
        drawn = [item for lot, item in kept if lot < edge]
        self.n_drawn = len(set(map(_place, drawn)))
        yield from drawn

    def _lot(self, unit: tuple[object, ...]) -> float:
        drawn = f"sample\x1f{self._reading.sample_seed}\x1f{unit!r}".encode("utf-8", "replace")
        return int.from_bytes(blake2b(drawn, digest_size=8).digest(), "big") / 2.0**64


def _place(item: ParsedItem) -> tuple[str, int]:
    return item.file, item.number if isinstance(item, Row) else item.row
