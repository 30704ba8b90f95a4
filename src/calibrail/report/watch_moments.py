"""Where on a figure of a watch does a moment stand, or a label where times are unknown?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any, Self

from calibrail.report.blocks import Json
from calibrail.report.plot import Plot


@dataclass(frozen=True, slots=True)
class Moments:
    """Where the points of a course stand: at their times, or at numbers where times are unknown.

    Attributes
    ----------
    x : list of float
        Where each stands.
    dated : bool
        Whether these are times, in days.
    unit : str
        What is counted where they are not.
    """

    x: list[float]
    dated: bool
    unit: str

    @classmethod
    def of_periods(cls, periods: Sequence[Json]) -> Self:
        """Return the middles of periods, which hold ``from``, ``to``, ``row`` and ``n``."""
        if periods and all(item["from"] and item["to"] for item in periods):
            ends = [_days([item["from"], item["to"]]) for item in periods]
            return cls([(low + high) / 2.0 for low, high in ends], True, "")
        return cls([item["row"] + item["n"] / 2.0 for item in periods], False, "answers")

    @classmethod
    def of_course(cls, course: Json) -> Self:
        """Return the latest times up to draws, or else their numbers.

        A batch is drawn by lot, so that the times of its draws go forth and back.
        """
        if course["time"] and None not in course["time"]:
            return cls(list(accumulate(_days(course["time"]), max)), True, "")
        return cls([float(n) for n in course["draw"]], False, "drawn answers")

    def of(self, place: Json | None) -> float | None:
        """Return where a row or a time stands; None where it cannot be told."""
        if not place:
            return None
        if self.dated:
            return _days([place["time"]])[0] if place.get("time") else None
        row = place.get("row", place.get("draw"))
        return None if row is None else float(row)

    def line(
        self,
        plot: Plot,
        values: Sequence[float | None],
        colour: str,
        label: str | None = None,
        *,
        scale: float = 100.0,
        linestyle: Any = "-",
    ) -> None:
        """Draw values over time; a lonely one as a dot."""
        shown = [math.nan if value is None else scale * value for value in values]
        alone = "o" if len(shown) == 1 else ""
        style: Json = {"color": colour, "linewidth": 1.5, "linestyle": linestyle, "marker": alone}
        plot.axes.plot(self.x, shown, label=label, **style)

    def band(
        self, plot: Plot, values: Sequence[Json | None], colour: str, label: str | None = None
    ) -> None:
        """Draw from lower to upper bounds, in percent; nothing where there are none."""
        low, high = (
            [
                math.nan if not value or value[end] is None else 100.0 * value[end]
                for value in values
            ]
            for end in ("lower", "upper")
        )
        if len(self.x) == 1:
            plot.axes.plot(self.x * 2, [low[0], high[0]], color=colour, linewidth=2.0, label=label)
        else:
            plot.axes.fill_between(
                self.x, low, high, label=label, color=colour, alpha=0.22, linewidth=0
            )


def _days(times: Sequence[str]) -> list[float]:
    """Return times as figures count them."""
    from matplotlib.dates import date2num

    return [float(date2num(datetime.fromisoformat(time))) for time in times]
