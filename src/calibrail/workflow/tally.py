"""What did a guardrail decide about labelled answers, and which of these count?"""

from collections import Counter
from math import nan
from typing import NamedTuple, TypeAlias

from calibrail.conformal import Counts
from calibrail.data.example import Example
from calibrail.data.ids import SeenIds
from calibrail.data.sketches import TELLING
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.runtime import group_name
from calibrail.workflow.look import LookedAt
from calibrail.workflow.lot import lot

#: The name of a group, or the digest of texts that stand in several rows.
_Group: TypeAlias = str | int


class _Cell(NamedTuple):
    """What counts of an answer: its class, whether it was stopped and flagged, and where it is."""

    label: int
    stopped: bool
    flagged: bool
    name: str


class Tally:
    """Counts decisions, one answer of each group and class, in any order of the answers.

    The same texts again are a group, too, where nothing else names one. Answers of one group are
    kept apart until the end: the one with the lowest lot counts. All others are counted at once.

    Parameters
    ----------
    by : str or None
        Column whose values are counted each by itself, too.
    once : bool
        Whether one answer of a group counts, or every answer.
    """

    def __init__(self, by: str | None, *, once: bool = True) -> None:
        self._by, self._once = by, once
        self._alone: Counter[_Cell] = Counter()
        #: By group, class and value of the column: lot and cell of the answer that counts.
        self._drawn: dict[tuple[_Group, int, str], tuple[int, _Cell]] = {}
        self._seen = SeenIds()
        #: All of these answers, whichever count.
        self.looked_at = LookedAt()
        self.n_answers = self.n_sharing = self.n_undefined = self.n_errors = 0

    def add(self, example: Example, decision: Decision) -> None:
        """Count one answer; one that was not passed counts as stopped."""
        outcome, label = decision.outcome, int(example.label or 0)
        digest = int(example.digest(), 16)
        self.n_answers += 1
        self.looked_at.add(example, decision.score)
        self.n_errors += outcome == "error"
        self.n_undefined += decision.score is None and outcome != "error"
        name = "" if self._by is None else group_name(example.columns.get(self._by))
        cell = _Cell(label, outcome != "pass", outcome == "flag", name)
        group: _Group | None = example.group
        if group is None and _told(example):
            group = digest
        if group is not None:
            self.n_sharing += not self._seen.add(f"{label} {group!r}")
        if group is None or not self._once:
            self._alone[cell] += 1
            return
        key = group, label, name
        score = nan if decision.score is None else decision.score
        drawn = lot(digest, score, label)
        if key not in self._drawn or drawn < self._drawn[key][0]:
            self._drawn[key] = drawn, cell

    def counts(self, *, per_class: bool = True) -> Counts:
        """Return what counts of all answers: one of each group and class, or of each group."""
        return _counts(self._cells(per_class=per_class))

    def by_group(self) -> dict[str, Counts]:
        """Return what counts of each value of the column: one of each group and class in it."""
        by_name: dict[str, Counter[_Cell]] = {}
        cells = self._alone + Counter(cell for _, cell in self._drawn.values())
        for cell, n in cells.items():
            by_name.setdefault(cell.name, Counter())[cell] += n
        return {name: _counts(by_name[name]) for name in sorted(by_name)}

    def n_flagged(self) -> int:
        """Return how many of the faithful answers that count were flagged, not merely reviewed."""
        cells = self._cells(per_class=True)
        return sum(n for cell, n in cells.items() if cell.flagged and not cell.label)

    def _cells(self, *, per_class: bool) -> Counter[_Cell]:
        lowest: dict[tuple[_Group, int | None], tuple[int, _Cell]] = {}
        for (group, label, _), drawn in self._drawn.items():
            key = group, label if per_class else None
            lowest[key] = min(drawn, lowest.get(key, drawn))
        return self._alone + Counter(cell for _, cell in lowest.values())


def _told(example: Example) -> bool:
    """Return whether the same texts again are a copy, and not alike by chance."""
    if example.known_by != "texts":
        return False
    alone = not (example.question or any(example.contexts))
    return not alone or len(example.response.split()) >= TELLING


def _counts(cells: Counter[_Cell]) -> Counts:
    numbers = [0, 0, 0, 0]
    for cell, n in cells.items():
        at = 2 - 2 * cell.label
        numbers[at] += n * cell.stopped
        numbers[at + 1] += n
    return Counts(*numbers)
