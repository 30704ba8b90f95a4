"""Which threshold do answers audited in production allow, whose labels are not all known?

Answers are drawn from what a frozen guardrail decided about, and labelled one after another; a new
threshold may be made whenever labels come in. Let t be a threshold. Where each answer drawn is
labelled, the hallucinated ones with a score below t are misses, the others are caught, and the
threshold sought is the highest at which a bet on "less than alpha is missed" has won 1 / delta
(``anytime`` in ``calibrail.conformal.rank``). An answer without a label so far counts as whatever
speaks against t: as a miss below it, not at all above. The wealth is then at most what all labels
would make of it, whichever labels are late, and for whatever reason.

Where answers are labelled with different probabilities (``calibrail.conformal.betting``) the
weighted wealth is no function of what lies below t alone. So thresholds are tried one after the
other, from the lowest, on a grid that was fixed before the first answer was drawn, and the last one
before the first that is not shown is taken. Of those that miss too much the first one is taken, or
any above it, only if the wealth won against that one ever reached 1 / delta: with probability at
most delta, however often one looks.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.betting import FRACTIONS, largest_bets, mixture
from calibrail.conformal.eprocess import wealth_of_counts
from calibrail.conformal.pvalues import add_tolerance, count_at_most
from calibrail.conformal.rank import minimum_n
from calibrail.conformal.threshold import Calibration, calibrate_threshold, flags_under
from calibrail.conformal.validation import Bools, Floats
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.settings.drawing import Drawing
from calibrail.settings.promise import Promise

#: Thresholds of a grid, and how many lie below all scores that it is made of.
_GRID: Final = 400
_BELOW: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class AuditedCalibration(Calibration):
    """A threshold from audited answers that do not all count alike, or are not all labelled.

    ``n``, ``rank`` and ``scores`` are about those labelled hallucinated; the threshold need not be
    one of their scores.

    Attributes
    ----------
    weights : ndarray of float64, shape (n,)
        1 / probability of a label, of the defined scores in ascending order, then of the others.
    n_open : int
        Answers without a label that count as missed.
    """

    weights: Floats
    n_open: int

    counted: ClassVar[str] = "labels"

    def p_value(self, values: ArrayLike, tolerance: float = 0.0) -> Floats:
        """Return weighted p-values of defined scores; no NaN is accepted.

        (W + sum of the weights of the scores <= S) / (W + sum of all weights), W the largest one
        (Tibshirani, Foygel Barber, Candes and Ramdas, 2019). The new answer's own weight is not
        known, and is at most W but for chance; no decision rests on these.
        """
        queries = add_tolerance(validation.defined(values, "values"), tolerance)
        n = len(self.scores)
        more = float(self.weights[n:].sum()) if self.undefined == "pass" else 0.0
        sums = np.append(0.0, np.cumsum(self.weights[:n]))
        own = float(self.weights.max(initial=1.0))
        counted = sums[count_at_most(self.scores, queries)]
        return np.asarray((own + more + counted) / (own + float(self.weights.sum())))

    @classmethod
    def _again(cls, scores: Floats, promise: Promise, content: Mapping[str, Any]) -> Self:
        defined = np.sort(scores[~np.isnan(scores)])
        weights = validation.finite(content["weights"], "weights")
        validation.paired(weights, len(scores), "weights", "score")
        threshold = validation.number(content["threshold"], "threshold")
        if (len(weights) and weights.min() < 1.0) or not math.isfinite(threshold):
            raise InputError("the calibration contradicts itself; calibrate again")
        n_open = validation.whole(content["n_open"], "n_open")
        return cast(Self, _built(defined, len(scores), promise, threshold, weights, n_open))


@dataclass(frozen=True, slots=True, eq=False)
class AuditedScores:
    """Answers drawn from what a frozen guardrail decided about, in the order drawn: shape (n,).

    Attributes
    ----------
    score : ndarray of float64
        Higher = more likely hallucinated, as low as what was logged leaves open; NaN where there is
        none.
    flagged : ndarray of bool
        What the guardrail that made the log decided; what stays so where there is no score.
    label : ndarray of float64
        1 hallucinated, 0 faithful, NaN where there is no label.
    handed_out : ndarray of bool
        Whether the lot of its probability fell so that it is to be labelled.
    probability, guess : ndarray of float64
        With which it was to be labelled, and P(hallucinated) as guessed; both known before.
    drawing : Drawing
        How they were drawn.
    threshold : float
        The one that decided then.
    tolerance : float
        Of the score: what lies as little below a threshold is flagged.
    spread : float
        How much higher a score may have been: a log rounds it.
    """

    score: Floats
    flagged: Bools
    label: Floats
    handed_out: Bools
    probability: Floats
    guess: Floats
    drawing: Drawing
    threshold: float
    tolerance: float = 0.0
    spread: float = 0.0

    @property
    def weighted(self) -> bool:
        """Whether they were labelled with different probabilities."""
        return self.drawing.design == "active"

    @property
    def open(self) -> Bools:
        """Those to be labelled that have no label."""
        return np.asarray(self.handed_out & np.isnan(self.label))

    def flags(self, threshold: float, *, most: bool = False) -> Bools:
        """Return what another threshold of the same detector flags: surely, or at the ``most``."""
        within = self.tolerance + (self.spread if most else 0.0)
        decided = flags_under("flag", self.score, threshold, within)
        return np.asarray(np.where(np.isnan(self.score), self.flagged, decided))

    def estimated(self, open_as: Bools) -> Floats:
        """Return W, what each answer adds to the number of hallucinated ones.

        Parameters
        ----------
        open_as : ndarray of bool, shape (n,)
            What those without a label are taken as.
        """
        label = np.where(self.open, open_as, self.label)
        g = np.where(np.isnan(self.guess), 0.0, self.guess)
        known = self.handed_out
        return np.asarray(
            np.where(known, g + (np.where(known, label, 0.0) - g) / self.probability, g)
        )

    def floors(self, threshold: float | None = None) -> tuple[float, float]:
        """Return the least probabilities of a label among those that a threshold flags, and passes.

        Of a higher one than decided then, those passed are of both kinds; and without one, all are.
        Nothing of it depends on the answers: it says how much may be bet on each of them.
        """
        flagged, passed = self.drawing.floors
        lower = threshold is not None and threshold <= self.threshold - self.spread
        return min(flagged, passed), passed if lower else min(flagged, passed)


def grid_of(calibration: Calibration) -> Floats:
    """Return thresholds to try, ascending: all fixed by what set an earlier threshold.

    Its calibration scores, or evenly spaced ranks among them, and some below them all, down again
    as far as they reach up.
    """
    scores = np.unique(calibration.scores)
    if not len(scores):
        raise InputError("the guardrail holds no calibration scores; calibrate again")
    ranks = np.unique(np.rint(np.linspace(0, len(scores) - 1, _GRID)).astype(np.int64))
    reach = float(scores[-1] - scores[0]) or max(1.0, abs(float(scores[0])))
    below = scores[0] - reach * np.arange(_BELOW, 0, -1) / _BELOW
    return np.append(below, scores[ranks])


def calibrate_audited(
    answers: AuditedScores, promise: Promise, grid: ArrayLike | None = None
) -> Calibration:
    """Find a threshold that keeps the ``anytime`` promise, whenever and how often one looks.

    Parameters
    ----------
    answers : AuditedScores
        Everything drawn so far.
    promise : Promise
        With the guarantee ``anytime``.
    grid : array-like of float, optional
        Thresholds to try, ascending, fixed before the first answer was drawn; needed where answers
        were labelled with different probabilities.

    Returns
    -------
    Calibration
        A plain one, as ``calibrate_threshold`` makes it, where every answer counts alike and no
        open one lies below the threshold.

    Raises
    ------
    TooFewExamplesError
        If no threshold is shown to keep the promise; says what is missing.
    """
    if promise.guarantee != "anytime":
        raise InputError(f"guarantee must be anytime; got {promise.guarantee!r}")
    hallucinated = answers.label == 1.0
    scores = answers.score[hallucinated]
    if answers.weighted:
        if grid is None:
            raise InputError("grid must be given where answers were labelled with probabilities")
        threshold = _walk(answers, promise, validation.finite(grid, "grid"))
    else:
        threshold = _highest(answers, scores, promise)
        plain = calibrate_threshold(scores, promise)
        # An open answer that is no miss plays no part.
        if not _missed_open(answers, promise, plain.threshold):
            return plain
    order = np.argsort(scores, kind="stable")
    weights = (1.0 / answers.probability[hallucinated])[order]
    defined = np.sort(scores[~np.isnan(scores)])
    n_open = _missed_open(answers, promise, threshold)
    return _built(defined, len(scores), promise, threshold, weights, n_open)


def fpr_shown(
    answers: AuditedScores, thresholds: Floats, max_fpr: float, goal: float, *, above: bool
) -> Iterator[bool]:
    """Yield for each threshold whether a weighted bet on its FPR has ever won its goal.

    On an FPR ``above`` the limit, or below it. Open answers count as what speaks against the bet.
    """
    for threshold in thresholds.tolist():
        flags = answers.flags(threshold, most=not above)
        # Of (1 - W)(F - limit), with the sign of the bet.
        side = np.where(flags, 1.0, 0.0) - max_fpr
        side = side if above else -side
        faithful = 1.0 - answers.estimated(side > 0.0)
        bets = largest_bets(np.array(max_fpr), answers.floors(threshold))[0 if above else 1]
        yield _ever(faithful * side, bets, goal)


def _walk(answers: AuditedScores, promise: Promise, grid: Floats) -> float:
    """Return the last threshold of the grid before the first that is not shown to keep enough."""
    limit, goal = 1.0 - promise.alpha, -math.log(promise.delta)
    last = None
    for threshold in grid.tolist():
        flags = answers.flags(threshold)
        side = np.where(flags, 1.0, 0.0) - limit
        hallucinated = answers.estimated(side < 0.0)
        bets = largest_bets(np.array(limit), answers.floors(threshold))[0]
        if not _ever(hallucinated * side, bets, goal):
            break
        last = threshold
    if last is None:
        raise _too_few(answers, promise)
    return float(last)


def _ever(gains: Floats, largest: Floats, goal: float) -> bool:
    """Return whether the mixture of bets on gains has at any time won its goal."""
    change = np.log1p(gains[:, None] * (largest * FRACTIONS))
    wealth = mixture(np.add.accumulate(change, axis=0))
    return bool(wealth.max(initial=0.0) >= goal)


def _highest(answers: AuditedScores, scores: Floats, promise: Promise) -> float:
    """Return the highest of the hallucinated scores that is shown to keep the promise."""
    passed = promise.undefined == "pass"
    defined = np.sort(scores[~np.isnan(scores)])
    waiting = np.sort(_below_all(answers.score[answers.open], passed=passed))
    # Sorted ascending, the number of scores below each.
    missed = np.searchsorted(defined, defined).astype(np.float64)
    missed += (len(scores) - len(defined)) * passed
    caught = len(scores) - missed
    missed += np.searchsorted(waiting, defined)
    wealth = wealth_of_counts(missed, caught, promise.alpha, above=False)
    # The wealth falls with the threshold. Without open answers the rank is decided exactly.
    shown = np.flatnonzero(wealth >= -math.log(promise.delta) - 1e-9)
    if not len(shown):
        raise _too_few(answers, promise)
    return float(defined[shown[-1]])


def _below_all(scores: Floats, *, passed: bool) -> Floats:
    """Return scores of which the undefined lie below all thresholds, or above them all."""
    lowest: Floats = np.where(np.isnan(scores), -np.inf if passed else np.inf, scores)
    return lowest


def _missed_open(answers: AuditedScores, promise: Promise, threshold: float) -> int:
    """Return how many open answers count as missed."""
    waiting = _below_all(answers.score[answers.open], passed=promise.undefined == "pass")
    return int(np.count_nonzero(waiting < threshold))


def _built(
    defined: Floats, n: int, promise: Promise, threshold: float, weights: Floats, n_open: int
) -> AuditedCalibration:
    n_undefined = n - len(defined)
    below = int(np.searchsorted(defined, threshold))
    below += n_undefined if promise.undefined == "pass" else 0
    weights.flags.writeable = False
    return AuditedCalibration.build(
        defined, n_undefined, promise, below + 1, threshold, weights=weights, n_open=n_open
    )


def _too_few(answers: AuditedScores, promise: Promise) -> TooFewExamplesError:
    n, n_open = int(np.count_nonzero(answers.label == 1.0)), int(np.count_nonzero(answers.open))
    least = minimum_n(promise.alpha, promise.guarantee, promise.delta)
    said = f"{n} audited answers are labelled hallucinated"
    if n_open:
        said += f" and {n_open} have no label that says which"
    if n < least:
        remedy = (
            f"at least {least} hallucinated ones are needed at alpha = {promise.alpha:g}, delta = "
            f"{promise.delta:g}: label until {least - n} more are found"
        )
    elif n_open:
        remedy = "those may all have been missed: label them"
    else:
        remedy = "too many of them score below any threshold that is tried: label more"
    return TooFewExamplesError(
        f"{said}; no threshold is shown to miss at most {promise.alpha:g}; {remedy}", least
    )
