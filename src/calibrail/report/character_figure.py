"""How do shares with their intervals look in characters of one width, where nothing is drawn?"""

from collections.abc import Iterable, Iterator
from typing import Final

from calibrail.report.blocks import Json
from calibrail.report.phrases import interval, share
from calibrail.report.plot import axis_text

#: What a row shows: its name, a share with its ends, and the share that was asked, if any.
Row = tuple[str, Json, float | None]

#: Characters from 0 to 100 %.
_WIDTH: Final = 40


def interval_lines(rows: Iterable[Row], what: str = "") -> list[str]:
    """Return shares on their intervals, a line each below an axis from 0 to 100 %.

    Parameters
    ----------
    rows : iterable of (str, mapping, float or None)
        The name, ``estimate``, ``lower`` and ``upper`` of a share, and the share that was asked.
        Rows without an estimate are left out.
    what : str
        What the shares are of, where the names do not say it.

    Returns
    -------
    list of str
        Empty where no row is left.

    Examples
    --------
    >>> caught = {"estimate": 0.8, "lower": 0.7, "upper": 0.875}
    >>> for line in interval_lines([("caught", caught, 0.9)]):
    ...     print(line)
            0%        25%       50%       75%       100%
            ┼─────────┼─────────┼─────────┼─────────┼
    caught                              ├───●──┤┃      80% (70 to 87.5%)
    <BLANKLINE>
            ● measured   ├─┤ its interval   ┃ asked
    """
    shown = [row for row in rows if row[1]["estimate"] is not None]
    if not shown:
        return []
    names = [axis_text(name, narrow=True) for name, _, _ in shown]
    margin = max(map(len, [what, *names])) + 2
    ticks = "".join(text.ljust(_WIDTH // 4) for text in ("0%", "25%", "50%", "75%", "100%"))
    lines = [f"{what:{margin}}{ticks}", f"{'':{margin}}{'┼'.join(['', *['─' * 9] * 4, ''])}"]
    for name, (_, value, asked) in zip(names, shown, strict=True):
        ends = f" ({interval(value)})" if value["lower"] is not None else ""
        lines.append(f"{name:{margin}}{_bar(value, asked)}  {share(value)}{ends}")
    limit = "   ┃ asked" if any(asked is not None for _, _, asked in shown) else ""
    lines += ["", f"{'':{margin}}● measured   ├─┤ its interval{limit}"]
    return [line.rstrip() for line in lines]


def _bar(value: Json, asked: float | None) -> str:
    """Return one row; what was measured stands before what was asked, and both before ends."""
    marks = [" "] * (_WIDTH + 1)
    for place, mark in _marks(value, asked):
        marks[place] = mark
    return "".join(marks)


def _marks(value: Json, asked: float | None) -> Iterator[tuple[int, str]]:
    if value["lower"] is not None and value["upper"] is not None:
        lower, upper = _place(value["lower"]), _place(value["upper"])
        for place in range(lower, upper + 1):
            yield place, "─"
        yield lower, "├"
        yield upper, "┤"
    if asked is not None:
        yield _place(asked), "┃"
    yield _place(value["estimate"]), "●"


def _place(of: float) -> int:
    return round(of * _WIDTH)
