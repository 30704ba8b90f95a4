"""Which answers set a threshold, and which others does it have to stand?"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from calibrail.errors import DataError, InputError
from calibrail.evaluation.sample import CALIBRATION, FIT, TEST, Codes, Mask
from calibrail.settings.option import either

#: Groups tested at most; a column with more holds no groups.
MOST_GROUPS: Final = 50


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One test: answers that calibrate, answers that are tested, and the rest.

    Attributes
    ----------
    calibrated_on, tested_on : str
        What they are called.
    home, away : ndarray of bool, shape (n,)
        Which they are.
    """

    calibrated_on: str
    tested_on: str
    home: Mask
    away: Mask

    @property
    def split(self) -> Codes:
        """CALIBRATION and TEST; FIT where an answer belongs to neither."""
        split: Codes = np.select([self.home, self.away], [CALIBRATION, TEST], FIT).astype(np.int8)
        return split


def group_parts(cells: Sequence[Any], by: str, calibrate_on: Sequence[str]) -> list[Part]:
    """Test every group by the others, or by those that are named.

    Parameters
    ----------
    cells : sequence, shape (n,)
        Each answer's group; None where it has none.
    by : str
        The column that holds them.
    calibrate_on : sequence of str
        Groups that calibrate; all others when empty.
    """
    names = np.array(["" if cell is None else str(cell) for cell in cells], dtype=object)
    groups = sorted(set(names.tolist()))
    if len(groups) < 2:
        raise DataError(f"the column {by!r} holds one value only; a shift needs two groups")
    if len(groups) > MOST_GROUPS:
        raise DataError(
            f"the column {by!r} holds {len(groups):,} different values, more than {MOST_GROUPS}; "
            f"name a column of groups, or use {either('--time', 'time=...')}"
        )
    if unknown := [name for name in calibrate_on if name not in groups]:
        raise InputError(
            f"{by} holds no group {unknown[0]!r}; it holds {', '.join(map(repr, groups[:10]))}"
        )
    home = np.isin(names, list(calibrate_on))
    parts = []
    for group in groups:
        if group not in calibrate_on:
            name, away = group or "(none)", names == group
            calibrated_on = ", ".join(calibrate_on) or f"all but {name}"
            parts.append(Part(calibrated_on, name, home if calibrate_on else ~away, away))
    if not parts:
        raise InputError(f"every group of {by} calibrates, and none is left to test")
    return parts


def time_parts(cells: Sequence[Any], time: str, periods: int) -> list[Part]:
    """Test later answers, in their order, by the earlier half.

    Parameters
    ----------
    cells : sequence, shape (n,)
        Each answer's time: a number, or an ISO date with or without a time of day.
    time : str
        The column that holds them.
    periods : int
        Parts of the later half; those without an answer are left out.
    """
    moments = np.array([_moment(cell) for cell in cells])
    if len(unread := np.flatnonzero(~np.isfinite(moments))):
        row = int(unread[0])
        raise DataError(
            f"{time}: {str(cells[row])[:40]!r} (answer {row + 1}) is neither a number nor a date "
            "such as 2026-03-31 or 2026-03-31T12:00:00"
        )
    order = np.argsort(moments, kind="stable")
    middle = int(order[len(order) // 2])
    # Answers of one moment stay together.
    home, later = moments < moments[middle], moments >= moments[middle]
    if not home.any():
        raise DataError(f"the column {time!r} holds one time for most answers; nothing is later")
    edges = np.quantile(moments[later], np.linspace(0.0, 1.0, periods + 1)[1:-1], method="higher")
    period = np.searchsorted(edges, moments, "right")
    parts = []
    for index in range(periods):
        away = later & (period == index)
        if away.any():
            inside = np.flatnonzero(away)
            ends = np.argmin(moments[inside]), np.argmax(moments[inside])
            name = " to ".join(_shown(cells[int(inside[end])]) for end in ends)
            parts.append(Part(f"before {_shown(cells[middle])}", name, home, away))
    return parts


def _shown(cell: Any) -> str:
    """Return a time as the data spells it: a whole number without decimals."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _moment(cell: Any) -> float:
    """Return a time as a number; NaN where it cannot be read."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        pass
    try:
        moment = datetime.fromisoformat(str(cell).strip())
    except ValueError:
        return float("nan")
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
