"""Who has which answer on the screen, and who has put which one off?"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from calibrail.errors import DataError
from calibrail.labelling.store import Line

#: Labels and skips after which an answer that was put off comes back.
ROUND: Final = 20

#: For how long an answer stays with the one who has it on the screen.
HELD_FOR: Final = timedelta(minutes=30)

Event = Literal["shown", "skipped", "exported", "exhausted", "helped", "undone"]


@dataclass(frozen=True, slots=True)
class Screen:
    """What an annotator looks at, and since when."""

    order: int
    since: datetime


#: Who sits there, and whether to settle what annotators disagree about.
Seat: TypeAlias = tuple[str, bool]


class Desk:
    """What happened to answers besides their labels; lines of ``handed.jsonl``.

    Who labels and settles sits on two seats, which do not know of each other.
    """

    def __init__(self) -> None:
        self.screens: dict[Seat, Screen] = {}
        #: For each seat the answers put off, with the number of actions from which on each
        #: comes back.
        self.put_off: dict[Seat, dict[int, int]] = defaultdict(dict)
        #: Answers that each annotator labels elsewhere, in a file.
        self.away: dict[str, set[int]] = defaultdict(set)
        #: Answers with which somebody on each seat has asked for help.
        self.helped: dict[Seat, set[int]] = defaultdict(set)
        #: How many answers were drawn when no more were left; 0 while none is known to be missing.
        self.exhausted_at = 0
        #: Labels taken back, and how many of these when the verdict had fallen.
        self.undone = self.undone_decided = 0
        #: Labels that each annotator had when something happened last, and those that were gone
        #: by then though nobody had taken them back.
        self._had: dict[str, int] = defaultdict(int)
        self._gone: dict[str, int] = defaultdict(int)
        self._skips: dict[Seat, int] = defaultdict(int)
        self._last_skip: dict[Seat, tuple[int, int]] = {}

    def take(self, line: Line) -> None:
        """Take in a line.

        Raises
        ------
        DataError
            It lacks a field.
        """
        content = line.content
        try:
            seat, order = seat_of(content), int(content["order"])
            name, labels, undone = seat[0], int(content["labels"]), content["event"] == "undone"
            self._gone[name] += max(0, self._had[name] - undone - labels)
            self._had[name] = labels
            if content["event"] == "skipped":
                self._skips[seat] += 1
                actions = int(content["labels"]) + self._skips[seat]
                self.put_off[seat][order] = actions + ROUND
                self._last_skip[seat] = (order, int(content["labels"]))
                self.screens.pop(seat, None)
            elif content["event"] == "exported":
                self.put_off[seat].pop(order, None)
                self.away[seat[0]].add(order)
            elif content["event"] == "exhausted":
                self.exhausted_at = order
            elif content["event"] == "helped":
                self.helped[seat].add(order)
            elif undone:
                self.undone += 1
                self.undone_decided += bool(content.get("decided"))
            else:
                since = datetime.fromisoformat(content["time"])
                self.put_off[seat].pop(order, None)
                self.screens[seat] = Screen(order, since)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"handed.jsonl, line {line.number} is damaged ({error}); take the line out"
            ) from error

    def lost(self, name: str, labels: int) -> int:
        """Return how many labels of an annotator, who has so many now, are gone."""
        return self._gone[name] + max(0, self._had[name] - labels)

    def annotators(self) -> list[str]:
        """Return the names of all to whom anything happened."""
        return sorted(self._had)

    def labelled(self, seat: Seat, order: int) -> None:
        """Clear the screen of a seat from which what was on it is labelled."""
        if (screen := self.screens.get(seat)) is not None and screen.order == order:
            del self.screens[seat]
        self.put_off[seat].pop(order, None)

    def held_by_others(self, order: int, seat: Seat, now: datetime) -> int:
        """Return how many others have an answer on their screen, or in a file to label it."""
        annotator, settles = seat
        holding = {
            name
            for (name, other), screen in self.screens.items()
            if other == settles and screen.order == order and now - screen.since < HELD_FOR
        }
        if not settles:
            holding |= {name for name, orders in self.away.items() if order in orders}
        return len(holding - {annotator})

    def due(self, seat: Seat, labels: int) -> list[int]:
        """Return answers put off that come back by now, the first first."""
        actions = labels + self._skips[seat]
        waiting = self.put_off[seat]
        return sorted(
            (item for item in waiting if waiting[item] <= actions), key=waiting.__getitem__
        )

    def just_skipped(self, seat: Seat, labels: int) -> int | None:
        """Return the answer that an annotator skipped last, if nothing was labelled since."""
        order, at = self._last_skip.get(seat, (0, -1))
        return order if at == labels and order in self.put_off[seat] else None


def seat_of(content: Mapping[str, Any]) -> Seat:
    """Return the seat that a line of labels, or of what happened, is about."""
    return str(content["annotator"]), bool(content.get("settles"))


def event_line(event: Event, seat: Seat, order: int, labels: int) -> Mapping[str, Any]:
    """Return the line of what happens now; ``labels`` counts those of the annotator so far."""
    annotator, settles = seat
    line: dict[str, Any] = {"order": order, "annotator": annotator, "event": event}
    line |= {"labels": labels, "time": now().isoformat(timespec="seconds")}
    return line | ({"settles": True} if settles else {})


def now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)
