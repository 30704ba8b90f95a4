"""Is every row counted in its period, with clocks that are unknown, go back or jump?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from calibrail.monitoring.history import MOST_PERIODS, RowRun, Rows, Timeline

DAY = 86_400.0


def followed(rows: Rows, step: int = 512, timeline: Timeline | None = None) -> Timeline:
    """Return a timeline of rows, which come ``step`` at a time."""
    codes: dict[str, int] = {}
    timeline, part = timeline or Timeline(), RowRun.from_rows(0, rows, codes)
    for start in range(0, len(rows), step):
        piece = part.cut(start, start + step)
        timeline.follow(piece, np.zeros(len(piece)), [*codes])
    return timeline


def alike(n: int, **columns: Any) -> Rows:
    return Rows.of(np.linspace(0.0, 1.0, n), np.arange(n) % 2 == 0, **columns)


def test_a_day_is_a_period_and_a_clock_that_goes_back_opens_none() -> None:
    time = np.array([0.1, 0.2, 1.5, 0.9, 1.49999, 2.0, np.nan, 5.0]) * DAY
    timeline = followed(alike(8, time=time, chunks=[1, 2, 3, 4, np.nan, 6, 7, 8]))
    periods = [period.summary() for period in timeline.periods]
    assert [period["n"] for period in periods] == [2, 3, 2, 1]
    assert [period["flagged"] for period in periods] == [1, 2, 1, 0]
    assert [period["from"] for period in periods] == [
        "1970-01-01T02:24:00Z",
        "1970-01-02T12:00:00Z",
        "1970-01-03T00:00:00Z",
        "1970-01-06T00:00:00Z",
    ]
    assert periods[1]["to"] == "1970-01-02T12:00:00Z"
    assert periods[1]["means"]["chunks"] == 3.5 and "response_length" not in periods[1]["means"]
    # 0.9 days come after 1.5, by more than a second; 1.49999 by less.
    assert timeline.clock_back == 1


def test_where_no_time_is_known_a_thousand_rows_are_a_period() -> None:
    timeline = followed(alike(2_500))
    periods = [period.summary() for period in timeline.periods]
    assert [period["n"] for period in periods] == [1_000, 1_000, 500]
    assert [period["row"] for period in periods] == [0, 1_000, 2_000]
    assert {period["from"] for period in periods} == {None}


def test_many_periods_are_merged_and_none_is_lost() -> None:
    n = 3 * (2 * MOST_PERIODS + 10)
    names = [f"l{at % 40}" for at in range(n)]
    rows = alike(n, time=np.arange(n) * DAY / 3, language=names)
    timeline = followed(rows)
    periods = timeline.periods
    assert MOST_PERIODS // 2 <= len(periods) <= MOST_PERIODS
    assert sum(period.n for period in periods) == n
    assert sum(sum(period.languages.values()) for period in periods) == n
    assert sum(period.flagged for period in periods) == int(rows.flagged.sum())
    assert [period.row for period in periods] == list(
        np.cumsum([0, *[period.n for period in periods[:-1]]])
    )
    assert max(len(period.languages) for period in periods) <= 16
    assert Timeline.from_dict(asdict(timeline)) == timeline


def test_times_that_no_calendar_has_are_not_known() -> None:
    (period,) = followed(alike(3, time=[1e17, 1e17, 1e17])).periods
    assert period.summary()["from"] is None and period.n == 3
