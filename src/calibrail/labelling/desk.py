"""Who has which answer on the screen, and who has put which one off?"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from calibrail.errors import DataError
from calibrail.labelling.store import Line

#: Labels and skips after which an answer that was put off comes back.
ROUND: Final = 20

#: For how long an answer stays with the one who has it on the screen.
HELD_FOR: Final = timedelta(minutes=30)

Event = Literal["shown", "skipped", "exported"]


@dataclass(frozen=True, slots=True)
class Screen:
    """What an annotator looks at, and since when."""

    order: int
    since: datetime


class Desk:
    """What happened to answers besides their labels; lines of ``handed.jsonl``."""

    def __init__(self) -> None:
        self.screens: dict[str, Screen] = {}
        #: For each annotator the answers put off, with the number of actions from which on each
        #: comes back.
        self.put_off: dict[str, dict[int, int]] = defaultdict(dict)
        #: Answers that each annotator labels elsewhere, in a file.
        self.away: dict[str, set[int]] = defaultdict(set)
        self._skips: dict[str, int] = defaultdict(int)
        self._last_skip: dict[str, tuple[int, int]] = {}

    def take(self, line: Line) -> None:
        """Take in a line.

        Raises
        ------
        DataError
            It lacks a field.
        """
        content = line.content
        try:
            annotator, order = str(content["annotator"]), int(content["order"])
            if content["event"] == "skipped":
                self._skips[annotator] += 1
                actions = int(content["labels"]) + self._skips[annotator]
                self.put_off[annotator][order] = actions + ROUND
                self._last_skip[annotator] = (order, int(content["labels"]))
                self.screens.pop(annotator, None)
            elif content["event"] == "exported":
                self.put_off[annotator].pop(order, None)
                self.away[annotator].add(order)
            else:
                since = datetime.fromisoformat(content["time"])
                self.put_off[annotator].pop(order, None)
                self.screens[annotator] = Screen(order, since)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"handed.jsonl, line {line.number} is damaged ({error}); take the line out"
            ) from error

    def labelled(self, annotator: str, order: int) -> None:
        """Clear the screen of an annotator who has labelled what was on it."""
        if (screen := self.screens.get(annotator)) is not None and screen.order == order:
            del self.screens[annotator]
        self.put_off[annotator].pop(order, None)
        self.away[annotator].discard(order)

    def held_by_others(self, order: int, annotator: str, now: datetime) -> int:
        """Return how many others have an answer on their screen, or in a file."""
        on_screen = {
            name
            for name, screen in self.screens.items()
            if screen.order == order and now - screen.since < HELD_FOR
        }
        in_file = {name for name, orders in self.away.items() if order in orders}
        return len((on_screen | in_file) - {annotator})

    def due(self, annotator: str, labels: int) -> list[int]:
        """Return answers put off that come back by now, the first first."""
        actions = labels + self._skips[annotator]
        waiting = self.put_off[annotator]
        return sorted(
            (item for item in waiting if waiting[item] <= actions), key=waiting.__getitem__
        )

    def just_skipped(self, annotator: str, labels: int) -> int | None:
        """Return the answer that an annotator skipped last, if nothing was labelled since."""
        order, at = self._last_skip.get(annotator, (0, -1))
        return order if at == labels and order in self.put_off[annotator] else None


def event_line(
    event: Event, annotator: str, order: int, labels: int, *, settles: bool
) -> Mapping[str, Any]:
    """Return the line of what happens now; ``labels`` counts those of the annotator so far."""
    line: dict[str, Any] = {"order": order, "annotator": annotator, "event": event}
    line |= {"labels": labels, "time": now().isoformat(timespec="seconds")}
    return line | ({"settles": True} if settles else {})


def now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)
