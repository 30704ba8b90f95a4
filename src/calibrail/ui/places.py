"""Where in a text is a place that a browser counted, and the other way round?

Python counts code points; JavaScript counts UTF-16 code units, two for what lies beyond U+FFFF,
such as most emoji. Half of a pair, which is no character, is one of both.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

Place = tuple[int, int]


class Places:
    """Places of one text, in code points and in UTF-16 code units.

    Examples
    --------
    >>> places = Places("a😀b")
    >>> places.from_browser([(1, 3), (3, 4)]), places.to_browser([(1, 2), (2, 3)])
    ([(1, 2), (2, 3)], [(1, 3), (3, 4)])
    """

    def __init__(self, text: str) -> None:
        self._length = len(text)
        # Where the wide ones stand, by code points and by code units.
        wide = [index for index, letter in enumerate(text) if letter > "\uffff"]
        self._wide = wide
        self._wide_units = [place + before for before, place in enumerate(wide)]

    @property
    def units(self) -> int:
        """Length of the text in UTF-16 code units."""
        return self._length + len(self._wide)

    def to_browser(self, spans: Iterable[Sequence[int]]) -> list[Place]:
        """Return places in code units, of places in code points."""
        return [(self._to(start), self._to(end)) for start, end in spans]

    def from_browser(self, spans: Iterable[Sequence[int]]) -> list[Place]:
        """Return places in code points; one that cuts a character in two holds all of it."""
        return [(self._from(start), self._from(end, up=True)) for start, end in spans]

    def _to(self, place: int) -> int:
        return place + bisect_left(self._wide, place)

    def _from(self, unit: int, *, up: bool = False) -> int:
        before = bisect_left(self._wide_units, unit)
        place = unit - before
        inside = before > 0 and self._wide_units[before - 1] + 1 == unit
        return place + 1 if inside and up else place
