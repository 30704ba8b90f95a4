"""The rule that turns scores into decisions, and the reasons that these carry.

The last digits of a neural network's scores depend on the batch. A decision must not: where the
score's tolerance leaves open what would be said of an answer, it is said to be uncertain, and is
scored again by itself.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import DECISIONS
from calibrail.conformal.argument_checks import Floats
from calibrail.conformal.group_thresholds import By, columns_of_groups, group_key
from calibrail.conformal.overlapping_groups import OverlappingCalibration
from calibrail.conformal.threshold_rule import Decision as Said
from calibrail.conformal.threshold_rule import Groups, Rule
from calibrail.data.columns import CHARACTERS
from calibrail.data.example import Example
from calibrail.data.values import group_name
from calibrail.errors import GuardrailError, ModelError, extra
from calibrail.formatting import Scale, count
from calibrail.guardrail.decision import UNDEFINED, Cause, Outcome, reason_of_cause
from calibrail.guardrail.file import ClassScores, FrozenConfig
from calibrail.models.llm.transport import BudgetError
from calibrail.options.guarantee import Undefined
from calibrail.scores.base import DetectorFailure, Score, Scores, background_of, scored_alone
from calibrail.scores.registry import scale_of
from calibrail.text.removal import TEARS, Tear

#: Of a sentence that goes though its score does not reach the threshold.
NOTHING_LEFT: Final = "nothing is left of what it introduces"


def reason_of(
    rule: Rule, scale: Scale, value: float, threshold: float | None, outcome: Outcome
) -> str:
    """Return the sentence.

    Parameters
    ----------
    rule : Rule
        The thresholds.
    scale : Scale
        In which numbers its user knows the score.
    value : float
        The nonconformity score, as it is shown.
    threshold : float or None
        That of the answer's group; None when everything is flagged.
    outcome : str
        What was decided.
    """
    if threshold is None and isinstance(rule.groups, OverlappingCalibration):
        return "flagged whatever the score: too few calibration answers share the answer's groups"
    if threshold is None:
        return "this guardrail flags everything: there were too few calibration answers"
    upper = rule.flag_above
    score = f"{scale.column or 'score'} {scale.cell(value)}"
    edge = f"the threshold {scale.cell(threshold)}"
    if upper is not None and outcome != "pass" and (upper >= threshold or outcome == "review"):
        flagging = f"the one for flagging, {scale.cell(upper)}"
        if outcome == "review":
            return f"{score} is {scale.reaching} {edge} but not {scale.suspicious} {flagging}"
        return f"{score} is {scale.suspicious} {flagging.replace('one', 'threshold')}"
    if outcome == "pass":
        return f"{score} is {scale.harmless} {edge}"
    if value < threshold:
        return f"{score} is within rounding of {edge}"
    return f"{score} is {scale.reaching} {edge}"


def reason_of_trimming(
    outcome: Outcome,
    *,
    n: int,
    n_removed: int,
    n_undefined: int,
    worst: str | None,
    tear: Tear | None,
    policy: Undefined,
) -> str:
    """Return the sentence about an answer whose sentences were judged; it quotes nothing.

    Parameters
    ----------
    outcome : str
        What was decided.
    n, n_removed, n_undefined : int
        Sentences of the answer; those that go; those without a score.
    worst : str or None
        The reason of the sentence with the highest score; None where none has one.
    tear : str or None
        Why the answer cannot be trimmed.
    policy : str
        What becomes of a sentence without a score.
    """
    if n == 0:
        return reason_of_cause(Cause("score_undefined"), policy, "the response holds no sentence")
    parts = []
    if n_undefined:
        parts.append(f"{UNDEFINED} of {n_undefined} of {count(n, 'sentence')}; policy: {policy}")
    if outcome == "review" and tear is not None:
        parts.append(TEARS[tear])
    elif outcome != "review":
        parts.append(f"{n_removed} of {count(n, 'sentence')} removed" if n_removed else "all stays")
    if worst is not None:
        parts.append(f"of the worst sentence, {worst}")
    return "; ".join(parts)


#: A score is shown to digits this many times as wide as its tolerance, so that few need a second
#: look: one in fifteen at most.
_WIDTH: Final = 30
#: How much of its tolerance a score may have moved. The rest keeps ties apart from neighbours.
_MOVED: Final = 1.0 - 1e-6


@dataclass(frozen=True, slots=True)
class StableDecisions:
    """What a rule says of scores.

    Attributes
    ----------
    codes : ndarray of int8, shape (n,)
        Positions in ``calibrail.conformal.DECISIONS``.
    thresholds, p_values : ndarray of float64, shape (n,)
        The threshold of each answer's group; the p-value, without meaning where the score is NaN.
    shown : ndarray of float64, shape (n,)
        The scores to the digits that are certain, or as they are where these digits would stand on
        the other side of a threshold.
    certain : ndarray of bool, shape (n,)
        Whether all of this is the same within the tolerance.
    """

    codes: NDArray[np.int8]
    thresholds: NDArray[np.float64]
    p_values: NDArray[np.float64]
    shown: NDArray[np.float64]
    certain: NDArray[np.bool_]


def frozen_rule(config: FrozenConfig) -> Rule:
    """Return the thresholds of a frozen guardrail.

    Raises
    ------
    GuardrailError
        If they are not those of its promise and policy.
    """
    rule = Rule.from_dict(vars(config))
    if (config.promise.by is None) != (config.groups is None):
        raise GuardrailError("by and groups must stand together; calibrate again")
    columns = getattr(rule.groups, "columns", None)
    if columns is not None and columns != config.promise.by:
        raise GuardrailError("by and the columns of groups differ; calibrate again")
    if rule.undefined != config.policy.undefined:
        raise GuardrailError.on("policy_of_undefined", config=config, rule=rule)
    return rule


def decide_stably(
    rule: Rule,
    values: NDArray[np.float64],
    groups: Groups,
    tolerance: float,
    *,
    alone: bool = False,
) -> StableDecisions:
    """Return what a rule says of scores, and of which of them it would say it in any batch.

    Parameters
    ----------
    rule : Rule
        The thresholds.
    values : ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated; NaN where undefined.
    groups : sequence of str, or None
        The answers' groups, where the rule has thresholds by group.
    tolerance : float
        How far two computations of one score may differ.
    alone : bool
        Whether each was scored by itself, so that there is no other score to be told apart from.
    """
    missing = np.isnan(values)

    def said(scores: Floats) -> tuple["NDArray[np.int8]", Floats]:
        p_values = rule.p_value(np.where(missing, 0.0, scores), groups, tolerance)
        return rule.decide(scores, groups, tolerance), p_values

    codes, p_values = said(values)
    thresholds = rule.thresholds(len(values), groups)
    certain = np.ones(len(values), dtype=np.bool_)
    if tolerance == 0.0:
        return StableDecisions(codes, thresholds, p_values, values, certain)
    digits = _digits(tolerance)
    rounded = np.round(values, digits)
    faithful = rule.decide(rounded, groups, tolerance) == codes
    shown = np.where(faithful, rounded, values)
    if alone:
        return StableDecisions(codes, thresholds, p_values, shown, certain)
    certain = missing | faithful
    # What does not change from the lowest to the highest value changes nowhere between.
    moved = _MOVED * tolerance
    low, high = values - moved, values + moved
    for before, after in zip(said(low), said(high), strict=True):
        certain &= missing | (before == after)
    certain &= missing | (np.round(low, digits) == np.round(high, digits))
    return StableDecisions(codes, thresholds, p_values, shown, certain)


def shown_within(tolerance: float) -> float:
    """Return how far a score that is shown may lie from the one that was decided about.

    >>> shown_within(0.0), shown_within(1e-4)
    (0.0, 0.005)
    """
    return 0.0 if tolerance == 0.0 else 0.5 * 10.0 ** -_digits(tolerance)


def _digits(tolerance: float) -> int:
    return math.floor(-math.log10(_WIDTH * tolerance))


class HallucinationProbability:
    """Tells P(hallucinated) of a score as a Venn-Abers interval (Vovk and Petej, 2014).

    Its ends are what isotonic regression on the calibration scores and the new one says of it where
    that is faithful, and where it is hallucinated. Another base rate multiplies the odds of both:
    right where the classes' scores are those of the calibration, however frequent each class is.

    Parameters
    ----------
    scores : ClassScores
        Of both classes, and the base rate, that of the scores where none is named.
    tolerance : float
        Of the score: no digit that a batch may change plays a part.

    Raises
    ------
    MissingExtraError
        If the library is not installed.
    """

    def __init__(self, scores: ClassScores, tolerance: float) -> None:
        self._digits = _digits(tolerance) if tolerance else None
        self._own, self._rate = scores.own_rate, scores.base_rate or scores.own_rate
        n, m = len(scores.hallucinated), len(scores.faithful)
        # The library turns warnings of numpy off for whoever imports it.
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with extra("probability", "P(hallucinated) of a decision"):
                from venn_abers import VennAbers
            values = self._columns([*scores.hallucinated, *scores.faithful])
            self._fitted = VennAbers().fit(values, np.repeat([1.0, 0.0], [n, m]))

    def _columns(self, values: Sequence[float]) -> NDArray[np.float64]:
        known = np.asarray(values if self._digits is None else np.round(values, self._digits))
        return np.column_stack([-known, known])

    def of(self, score: float, base_rate: float | None = None) -> dict[str, float]:
        """Return ``lower`` and ``upper`` of a score, and the ``base_rate`` they are for."""
        rate = self._rate if base_rate is None else base_rate
        shift = rate / (1.0 - rate) / (self._own / (1.0 - self._own))
        ends = self._fitted.predict_proba(self._columns([score]))[1][0]
        lower, upper = sorted(
            float(end * shift / (end * shift + (1.0 - end))) for end in np.clip(ends, 0, 1)
        )
        return {"lower": lower, "upper": upper, "base_rate": rate}


@dataclass(frozen=True, slots=True)
class RowDecision:
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


class DecisionRule:
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

    @cached_property
    def scale(self) -> Scale:
        """In which numbers the detector's user knows its score."""
        return scale_of(self._score)

    def decide(self, rows: Sequence[Example], *, alone: bool = False) -> list[RowDecision]:
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
            return [self.decide([row])[0] for row in rows]
        return self.judged(rows, scores)

    def judged(
        self, rows: Sequence[Example], scores: Scores, *, alone: bool = False
    ) -> list[RowDecision]:
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
        said = decide_stably(self._rule, scores.values, groups, tolerance, alone=alone)
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
            verdicts.append(RowDecision(outcome, value, threshold, p_value, reason, evidence))
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

    def failed(self, row: Example, error: BaseException) -> RowDecision:
        """Return the verdict on a row that could not be judged."""
        return RowDecision("flag", None, self.threshold(row), None, "", error=error)

    def group_of(self, row: Example) -> str:
        """Return the name of a row's group, or of its groups where several columns name them.

        One without a group belongs to no known one; without groups it is empty. The length is that
        of the answer, which a sentence of it carries along.
        """
        if self._by is None:
            return ""
        characters = row.columns.get(CHARACTERS)
        length = len(row.response) if characters is None else float(characters)
        grouped = self._rule.groups
        names = {
            name: group_name(row.columns.get(name), as_number=not getattr(grouped, "named", True))
            for name in columns_of_groups(self._by)
        }
        return group_key(self._by, names, length, getattr(grouped, "cuts", None))

    def _groups(self, rows: Sequence[Example]) -> list[str] | None:
        return None if self._by is None else [self.group_of(row) for row in rows]

    def _alone(self, row: Example) -> RowDecision:
        """Judge one row as if no other had been seen before."""
        try:
            scores = scored_alone(self._score, row)
        except Exception as error:
            return self.failed(row, error)
        return self.judged([row], scores, alone=True)[0]


def _finite(threshold: float) -> float | None:
    return None if np.isinf(threshold) else float(threshold)
