"""What did a guardrail decide about labelled answers, and which of these count?"""

from array import array
from collections.abc import Iterable, Sequence
from math import nan
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Counts
from calibrail.conformal.group_keys import group_name
from calibrail.data.copies import Copies, CopyFinder, united
from calibrail.data.example import Example
from calibrail.data.splits import group_numbers
from calibrail.guardrail.decision import Decision
from calibrail.workflow.freshness import KnownBy, told_apart
from calibrail.workflow.looked_at import LookedAt
from calibrail.workflow.lot import lot

#: What is kept of an outcome: passed, stopped for review or by an error, flagged.
_FLAGGED: Final = 2


class Tally:
    """Counts decisions, one answer of each group and class, in any order of the answers.

    Copies of an answer and all of their groups are one group. Of each the answer with the lowest
    lot counts. About 400 bytes are kept of an answer, and no text.

    Parameters
    ----------
    by : str or None
        Column whose values are counted each by itself, too.
    once : bool
        Whether one answer of a group counts, or every answer.
    columns : iterable of str
        Columns that the detector reads.
    """

    def __init__(self, by: str | None, *, once: bool = True, columns: Iterable[str] = ()) -> None:
        self._by, self._once = by, once
        self._lots, self._labels, self._outcomes = array("Q"), array("b"), array("b")
        self._groups: list[str | None] = []
        self._names: list[str] = []
        self._finder = CopyFinder(columns)
        self._found: Copies | None = None
        #: All of these answers, whichever count.
        self.looked_at = LookedAt()
        self._known_by = KnownBy()
        self.n_undefined = self.n_errors = 0

    @property
    def n_answers(self) -> int:
        """All answers, whichever count."""
        return len(self._labels)

    def add(self, example: Example, decision: Decision) -> None:
        """Count one answer; one that was not passed counts as stopped."""
        outcome, label = decision.outcome, int(example.label or 0)
        score = nan if decision.score is None else decision.score
        self.looked_at.add(example, decision.score)
        self._known_by.add(example)
        self.n_errors += outcome == "error"
        self.n_undefined += self._lacks_a_score(decision)
        self._finder.add(example)
        self._lots.append(lot(int(example.digest(), 16), score, label))
        self._labels.append(label)
        self._outcomes.append((outcome != "pass") + (outcome == "flag"))
        self._groups.append(example.group)
        if self._by is not None:
            self._names.append(group_name(example.columns.get(self._by)))

    @property
    def copies(self) -> Copies:
        """Which answers are copies of one another."""
        if self._found is None or len(self._found.groups) != self.n_answers:
            self._found = self._finder.finish()
        return self._found

    @property
    def n_alike(self) -> int:
        """Rows of scores that are the same as another one, where groups do not say which are."""
        known = self._known_by.counts(self.looked_at.digests, self.copies.groups)
        grouped = any(group is not None for group in self._groups)
        return 0 if grouped or told_apart(known) else known["alike"]

    @property
    def n_sharing(self) -> int:
        """Answers that share their group with an earlier one of their class."""
        return self.n_answers - len(self._drawn(np.array(self._labels)))

    def counts(self, *, per_class: bool = True) -> Counts:
        """Return what counts of all answers: one of each group and class, or of each group."""
        return self._counts(self._counting(*([np.array(self._labels)] if per_class else [])))

    def by_group(self) -> dict[str, Counts]:
        """Return what counts of each value of the column: one of each group and class in it."""
        names, numbers = np.unique(np.array(self._names, dtype=object), return_inverse=True)
        rows = self._counting(np.array(self._labels), numbers)
        return {
            name: self._counts(rows[numbers[rows] == number])
            for number, name in enumerate(names.tolist())
        }

    def n_flagged(self) -> int:
        """Return how many of the faithful answers that count were flagged, not merely reviewed."""
        labels, outcomes = np.array(self._labels), np.array(self._outcomes)
        rows = self._counting(labels)
        return int(np.count_nonzero((outcomes[rows] == _FLAGGED) & (labels[rows] == 0)))

    def _counting(self, *apart: NDArray[Any]) -> NDArray[np.intp]:
        """Return the rows that count: of each group, and of each value of the arrays, one."""
        return self._drawn(*apart) if self._once else np.arange(self.n_answers)

    def _drawn(self, *apart: NDArray[Any]) -> NDArray[np.intp]:
        keys: Sequence[NDArray[Any]] = (np.array(self._lots, np.uint64), *apart, self._grouped())
        order = np.lexsort(keys)
        new = np.zeros(len(order), np.bool_)
        new[:1] = True
        for key in keys[1:]:
            new[1:] |= key[order][1:] != key[order][:-1]
        return order[new]

    def _grouped(self) -> NDArray[np.int64]:
        """Return one number per group, copies and all of their groups being one."""
        return united(group_numbers(self._groups, self.n_answers), self.copies.groups)

    def _lacks_a_score(self, decision: Decision) -> bool:
        """Return whether the detector judged an answer, and its policy for no score decided."""
        return decision.score is None and decision.outcome != "error"

    def _stopped(self) -> NDArray[np.bool_]:
        """Return which answers were not passed, shape (n,)."""
        stopped: NDArray[np.bool_] = np.array(self._outcomes) > 0
        return stopped

    def _counts(self, rows: NDArray[np.intp]) -> Counts:
        hallucinated = np.array(self._labels)[rows] == 1
        stopped = self._stopped()[rows]
        numbers = [(stopped & part, part) for part in (hallucinated, ~hallucinated)]
        return Counts(*(int(np.count_nonzero(item)) for pair in numbers for item in pair))
