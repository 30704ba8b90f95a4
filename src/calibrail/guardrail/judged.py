"""What does a score mean, whatever the batch it was computed in?

The last digits of a neural network's scores depend on the batch. A decision must not: where the
score's tolerance leaves open what would be said of an answer, it is said to be uncertain, and is
scored again by itself.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.rule import Groups, Rule
from calibrail.errors import GuardrailError
from calibrail.guardrail.frozen import FrozenConfig

#: A score is shown to digits this many times as wide as its tolerance, so that few need a second
#: look: one in fifteen at most.
_WIDTH: Final = 30
#: How much of its tolerance a score may have moved. The rest keeps ties apart from neighbours.
_MOVED: Final = 1.0 - 1e-6


@dataclass(frozen=True, slots=True)
class Judged:
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
        raise GuardrailError(
            f"policy.undefined is {config.policy.undefined!r} but the calibration counted "
            f"undefined scores as {rule.undefined!r}; calibrate again"
        )
    return rule


def judge(
    rule: Rule,
    values: NDArray[np.float64],
    groups: Groups,
    tolerance: float,
    *,
    alone: bool = False,
) -> Judged:
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

    def said(scores: NDArray[np.float64]) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        p_values = rule.p_value(np.where(missing, 0.0, scores), groups, tolerance)
        return rule.decide(scores, groups, tolerance), p_values

    codes, p_values = said(values)
    thresholds = rule.thresholds(len(values), groups)
    if tolerance == 0.0:
        return Judged(codes, thresholds, p_values, values, np.ones(len(values), dtype=np.bool_))
    digits = _digits(tolerance)
    rounded = np.round(values, digits)
    faithful = rule.decide(rounded, groups, tolerance) == codes
    shown = np.where(faithful, rounded, values)
    if alone:
        return Judged(codes, thresholds, p_values, shown, np.ones(len(values), dtype=np.bool_))
    certain = missing | faithful
    # What does not change from the lowest to the highest value changes nowhere between.
    moved = _MOVED * tolerance
    low, high = values - moved, values + moved
    for before, after in zip(said(low), said(high), strict=True):
        certain &= missing | (before == after)
    certain &= missing | (np.round(low, digits) == np.round(high, digits))
    return Judged(codes, thresholds, p_values, shown, certain)


def shown_within(tolerance: float) -> float:
    """Return how far a score that is shown may lie from the one that was decided about.

    >>> shown_within(0.0), shown_within(1e-4)
    (0.0, 0.005)
    """
    return 0.0 if tolerance == 0.0 else 0.5 * 10.0 ** -_digits(tolerance)


def _digits(tolerance: float) -> int:
    return math.floor(-math.log10(_WIDTH * tolerance))
