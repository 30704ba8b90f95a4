"""What does a frozen rule say of answers, or of their sentences, as its detector scores them?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrail.conformal import DECISIONS
from calibrail.conformal.group_keys import By, group_key
from calibrail.conformal.rule import Decision as Said
from calibrail.conformal.rule import Rule
from calibrail.data.columns import CHARACTERS
from calibrail.data.example import Example
from calibrail.errors import ModelError
from calibrail.guardrail.cause import Cause, reason_of_cause
from calibrail.guardrail.judged import judge
from calibrail.guardrail.reasons import reason_of
from calibrail.models.call_limits import BudgetError
from calibrail.scale import Scale
from calibrail.scores.alone import background_of, scored_alone
from calibrail.scores.base import DetectorFailure, Score, Scores
from calibrail.scores.registry import scale_of


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rule says of one row: an answer, or a sentence of one.

    Attributes
    ----------
    outcome : {"pass", "flag", "review"}
        By the threshold, or by the policy for undefined scores. Without meaning after an error.
    score : float or None
        As it is shown; None where it is undefined, or the detector failed.
    threshold : float or None
        That of the row's group; None where everything is flagged.
    p_value : float or None
        None without a score.
    reason : str
        Why, in one sentence.
    evidence : mapping or None
        What the score rests on.
    error : BaseException or None
        What the detector raised.
    """

    outcome: Said
    score: float | None
    threshold: float | None
    p_value: float | None
    reason: str
    evidence: Mapping[str, Any] | None = None
    error: BaseException | None = None


class Judge:
    """Judges rows by a rule and a detector; a verdict does not depend on what is judged beside it.

    Parameters
    ----------
    rule : Rule
        The thresholds.
    score : Score
        The detector.
    by : str, tuple of str, or None
        The columns of each row's groups, where groups have thresholds of their own.
    """

    def __init__(self, rule: Rule, score: Score, by: By) -> None:
        self._rule, self._score, self._by = rule, score, by

    @property
    def scale(self) -> Scale:
        """In which numbers the detector's user knows its score."""
        return scale_of(self._score)

    def of(self, rows: Sequence[Example], *, alone: bool = False) -> list[Verdict]:
        """Return a verdict on each row.

        Parameters
        ----------
        rows : sequence of Example
            Answers or sentences.
        alone : bool
            Whether each is scored with nothing remembered, so that its evidence is the same, too.
        """
        if alone:
            return list(map(self._alone, rows))
        if not rows:
            return []
        try:
            scores = self._score.score(rows)
        except Exception as error:
            # A detector is foreign code: whatever it raises costs one row, not the batch, and
            # is reported as the failure that it is.
            if len(rows) == 1 or isinstance(error, ModelError | BudgetError):
                # A model that cannot be had, or may not be asked, fails on every row alike.
                return [self.failed(row, error) for row in rows]
            return [self.of([row])[0] for row in rows]
        return self.judged(rows, scores)

    def judged(
        self, rows: Sequence[Example], scores: Scores, *, alone: bool = False
    ) -> list[Verdict]:
        """Return a verdict on each row by its score.

        Parameters
        ----------
        rows : sequence of Example
            Answers or sentences.
        scores : Scores
            Theirs.
        alone : bool
            Whether the one row was scored with nothing remembered.
        """
        groups, tolerance = self._groups(rows), self._score.tolerance
        said = judge(self._rule, scores.values, groups, tolerance, alone=alone)
        scale, verdicts = self.scale, []
        for place, row in enumerate(rows):
            if not said.certain[place]:
                verdicts.append(self._alone(row))
                continue
            if isinstance(why := scores.reasons.get(place), DetectorFailure):
                verdicts.append(self.failed(row, ModelError(why)))
                continue
            outcome, threshold = DECISIONS[said.codes[place]], _finite(said.thresholds[place])
            evidence = (scores.evidence[place] or None) if scores.evidence else None
            if np.isnan(scores.values[place]):
                value, p_value = None, None
                reason = reason_of_cause(Cause("score_undefined"), outcome, str(why))
            else:
                value, p_value = float(said.shown[place]), float(said.p_values[place])
                reason = reason_of(self._rule, scale, value, threshold, outcome)
            verdicts.append(Verdict(outcome, value, threshold, p_value, reason, evidence))
        return verdicts

    def holds(self, row: Example, scores: Scores) -> bool:
        """Return whether a row's outcome is the same wherever its score lies within tolerance."""
        tolerance, groups = self._score.tolerance, self._groups([row])
        low, high = (
            self._rule.decide(scores.values + by, groups, tolerance)
            for by in (-tolerance, tolerance)
        )
        return bool(low[0] == high[0])

    def alone_costs_no_more(self, row: Example) -> bool:
        """Return whether sentences like this are best scored alone at once.

        Nothing runs beside the one that a model has just written, and a near tie would be scored
        alone after all.
        """
        return self._score.tolerance > 0.0 and background_of(self._score, row) is not None

    def threshold(self, row: Example) -> float | None:
        """Return the threshold of a row's group; None where everything is flagged."""
        return _finite(self._rule.thresholds(1, self._groups([row]))[0])

    def failed(self, row: Example, error: BaseException) -> Verdict:
        """Return the verdict on a row that could not be judged."""
        return Verdict("flag", None, self.threshold(row), None, "", error=error)

    def group_of(self, row: Example) -> str:
        """Return the name of a row's group, or of its groups where several columns name them.

        One without a group belongs to no known one; without groups it is empty. The length is that
        of the answer, which a sentence of it carries along.
        """
        if self._by is None:
            return ""
        characters = row.columns.get(CHARACTERS)
        length = len(row.response) if characters is None else float(characters)
        return group_key(self._by, row.columns, length, getattr(self._rule.groups, "cuts", None))

    def _groups(self, rows: Sequence[Example]) -> list[str] | None:
        return None if self._by is None else [self.group_of(row) for row in rows]

    def _alone(self, row: Example) -> Verdict:
        """Judge one row as if no other had been seen before."""
        try:
            scores = scored_alone(self._score, row)
        except Exception as error:
            return self.failed(row, error)
        return self.judged([row], scores, alone=True)[0]


def _finite(threshold: float) -> float | None:
    return None if np.isinf(threshold) else float(threshold)
