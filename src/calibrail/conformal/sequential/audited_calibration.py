"""Calibration from answers labelled with known probability, and those probabilities.

A guess for the design ``active``: a logistic regression of the labels on the score, begun anew
after every label. It is made before the label that it serves, so whatever it is worth, verdicts
stay valid; a better one saves labels. Given the score, whether an answer is labelled does not
depend on its label, so those labelled need no weights here.

Answers are drawn from what a frozen guardrail decided about, and labelled one after another; a new
threshold may be made whenever labels come in. Let t be a threshold. Where each answer drawn is
labelled, the hallucinated ones with a score below t are misses, the others are caught, and the
threshold sought is the highest at which a bet on "less than alpha is missed" has won 1 / delta
(``anytime`` in ``conformal.threshold``). An answer without a label so far counts as whatever speaks
against t: as a miss below it, not at all above. The wealth is then at most what all labels would
make of it, whichever labels are late, and for whatever reason.

Where answers are labelled with different probabilities (``sequential.betting``) the weighted wealth
is no function of what lies below t alone. So thresholds are tried one after the other, from the
lowest, on a grid that was fixed before the first answer was drawn, and the last one before the
first that is not shown is taken. Of those that miss too much the first one is taken, or any above
it, only if the wealth won against that one ever reached 1 / delta: with probability at most delta,
however often one looks.

A new threshold comes with its coverage, as above. Its FPR is bet on at the limit that is required.
Where answers count alike the wealth of a bet on "at most the limit is flagged" only grows with the
threshold. So any threshold that flags more has won at most what the highest such one has, and that
ever wins 1 / error with probability at most the error: the verdict holds at every look, whichever
threshold is looked at. Where they are weighted, thresholds are tried in a fixed order, from the
highest, until one is not shown.

The intervals beside it hold at all times for one threshold each, as long as that stays.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtri

from calibrail.conformal import argument_checks
from calibrail.conformal import threshold as thresholding
from calibrail.conformal.argument_checks import Bools, Floats
from calibrail.conformal.bounds import Bound
from calibrail.conformal.certificate import Verdict, proof_beside
from calibrail.conformal.sequential import betting
from calibrail.conformal.threshold import Calibration
from calibrail.errors import InputError, TooFewExamplesError, error_text
from calibrail.options.guarantee import Promise, Requirement
from calibrail.options.labelling import Drawing
from calibrail.serialization import Record

#: Probability of a label by the standard deviation that it settles. More asks for more labels of
#: each answer drawn, less draws more answers for each label; simulated (benchmarks/sequential.py).
_EAGERNESS: Final = 3.0


def limits(requirement: Requirement) -> tuple[float, float]:
    """Return the required coverage and the limit on the FPR, both of which must be inside (0, 1).

    Raises
    ------
    InputError
        If one of them is missing or no share.
    """
    checked = []
    for name in ("min_coverage", "max_fpr"):
        value = getattr(requirement, name)
        if value is None:
            raise InputError(f"{name} must be given: a verdict at any time is about both limits")
        checked.append(argument_checks.share(value, name))
    return checked[0], checked[1]


def labelling_probability(
    flagged: ArrayLike,
    guess: ArrayLike,
    requirement: Requirement,
    drawing: Drawing,
    *,
    base_rate: float = 0.5,
    undecided: tuple[bool, bool] = (True, True),
) -> Floats:
    """Return with which probability each answer is to be labelled.

    In proportion to what its label settles: the standard deviation of H given the guess, times what
    an answer weighs in the claims that are still open (a passed answer in the one about coverage, a
    flagged one in the one about the FPR), but never below the floor. Any other probabilities at or
    above the floors, chosen before the label is seen, keep the verdict valid, too.

    Parameters
    ----------
    flagged : array-like of bool, shape (n,)
    guess : array-like of float, shape (n,)
        P(hallucinated) as guessed without the label, in [0, 1].
    requirement : Requirement
        With ``min_coverage`` and ``max_fpr`` in (0, 1).
    drawing : Drawing
        1 for every answer if that is ``uniform``.
    base_rate : float
        Share of hallucinated answers as far as known; it weighs one claim against the other.
    undecided : (bool, bool)
        Whether the claims about coverage and about the FPR are open; both if neither is.

    Returns
    -------
    ndarray of float64, shape (n,)

    Raises
    ------
    InputError
        If a value is outside its domain.

    Examples
    --------
    >>> required = Requirement(min_caught=0.9, max_false_alarms=0.2)
    >>> flagged, guess = [True, False, False], [0.9, 0.2, 0.001]
    >>> labelling_probability(flagged, guess, required, Drawing("active")).round(2).tolist()
    [0.44, 0.88, 0.2]
    """
    decided, chances = truth_values(flagged, "flagged"), argument_checks.rates(guess, "guess")
    argument_checks.paired(chances, len(decided), "guess", "answer")
    share = argument_checks.share(base_rate, "base_rate")
    edges = limits(requirement)
    if drawing.design == "uniform":
        return np.ones(len(decided))
    return informative(decided, chances, edges, drawing.floors, (share, undecided))


def informative(
    flagged: Bools,
    guess: Floats,
    edges: tuple[float, float],
    floors: tuple[float, float],
    known: tuple[float | Floats, tuple[bool | Bools, bool | Bools]],
) -> Floats:
    """Return ``labelling_probability`` of checked arrays, of many streams at once if need be.

    ``known`` holds the base rate and which claims are open, numbers or arrays like ``flagged``.
    """
    base, (coverage_open, fpr_open) = known
    neither = np.logical_not(np.logical_or(coverage_open, fpr_open))
    weights = []
    claims = zip(edges, (base, 1.0 - base), (coverage_open, fpr_open), strict=True)
    for edge, mass, is_open in claims:
        # The variance of one answer of this class on the limit, for all answers drawn.
        scale = np.logical_or(is_open, neither) / (mass * edge * (1.0 - edge))
        weights.append((scale, np.where(flagged, 1.0 - edge, edge) ** 2))
    total = weights[0][0] + weights[1][0]
    weight = np.sqrt(sum(scale * square for scale, square in weights) / total)
    # The higher the floor, the larger the bets are, and the less a label for certain adds to them.
    eagerness = _EAGERNESS * math.sqrt(0.1 / floors[0])
    wanted = eagerness * weight * np.sqrt(guess * (1.0 - guess))
    return np.asarray(np.clip(wanted, np.where(flagged, *floors), 1.0))


def truth_values(values: ArrayLike, name: str) -> Bools:
    """Return truth values of shape (n,), given as such or as 0 and 1.

    Raises
    ------
    InputError
        If anything else is there.
    """
    array = argument_checks.vector(values, name)
    if not np.isin(array, (0.0, 1.0)).all():
        raise InputError(f"{name} must hold true or false for every answer")
    return np.asarray(array == 1.0)


#: Slope of a clue before any label, and how firmly it is held, as if so many labels said so.
_EXPECTED, _HELD = 1.0, 1.0
#: Answers that say nothing, half of them hallucinated: they keep a guess away from 0 and 1.
_BLANK: Final = 1.0
_STEPS: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class LearntGuess:
    """What labels teach about clues: P(hallucinated) of answers drawn next.

    Examples
    --------
    >>> seen = [0.1, 0.2, 0.3, 0.7, 0.8, 0.9]
    >>> LearntGuess.of(seen, [0, 0, 0, 1, 1, 1], seen)([0.15, 0.85]).round(2).tolist()
    [0.2, 0.8]

    Attributes
    ----------
    drawn : tuple of ndarray of float64
        Each clue of the answers drawn so far, sorted, without those that are undefined.
    slopes : ndarray of float64, shape (p,)
        Of the regression.
    """

    drawn: tuple[Floats, ...]
    slopes: Floats

    @classmethod
    def of(cls, scores: ArrayLike, labels: ArrayLike, drawn: ArrayLike) -> "LearntGuess":
        """Learn from answers labelled so far.

        Parameters
        ----------
        scores : array-like of float, shape (n,) or (n, clues)
            Theirs; NaN where undefined. There may be further clues beside the score, such as what a
            judge says.
        labels : array-like, shape (n,)
            Theirs: 1 hallucinated, 0 faithful.
        drawn : array-like of float, shape (m,) or (m, clues)
            Scores of all answers drawn so far: a score counts by its rank among them, so that its
            scale plays no part.
        """
        truth = argument_checks.vector(labels, "labels")
        known, every = _clues(scores, "scores"), _clues(drawn, "drawn")
        argument_checks.paired(truth, len(known[0]), "labels", "answer")
        order = tuple(np.sort(clue[~np.isnan(clue)]) for clue in every)
        halves = ((truth == 1.0)[None].astype(float), (truth == 0.0)[None].astype(float))
        return cls(order, fitted(_rows(known, order)[None], *halves)[0])

    def __call__(self, new: ArrayLike) -> Floats:
        """Return P(hallucinated) of answers, shape (k,), in (0, 1).

        Before the first label it is 0.5 at the middle score, and more above it.
        """
        return np.asarray(expit(_rows(_clues(new, "new"), self.drawn) @ self.slopes))


def _clues(values: ArrayLike, name: str) -> list[Floats]:
    """Return the columns of values of shape (n,) or (n, clues)."""
    columns = np.atleast_2d(np.asarray(values, np.float64).T)
    return [argument_checks.vector(column, name) for column in columns]


def _rows(clues: list[Floats], orders: tuple[Floats, ...]) -> Floats:
    """Return what the regression sees of each answer: one constant, the rest clue by clue."""
    parts = [features(_ranks(clue, order)) for clue, order in zip(clues, orders, strict=True)]
    return np.concatenate([part[:, min(place, 1) :] for place, part in enumerate(parts)], axis=1)


def features(ranks: Floats) -> Floats:
    """Return what the regression sees of ranks in (0, 1), NaN where undefined: shape (..., 3).

    A constant, the normal quantile of the rank (0 where undefined), and whether it is undefined.
    """
    missing = np.isnan(ranks)
    normal = ndtri(np.where(missing, 0.5, ranks))
    return np.stack([np.ones_like(normal), normal, missing.astype(np.float64)], axis=-1)


def _ranks(scores: Floats, order: Floats) -> Floats:
    """Return the share of sorted scores below each, ties in the middle; NaN where undefined."""
    low = np.searchsorted(order, scores, side="left")
    high = np.searchsorted(order, scores, side="right")
    return np.where(np.isnan(scores), np.nan, (low + high + 1.0) / (2.0 * len(order) + 2.0))


def fitted(rows: Floats, hallucinated: Floats, faithful: Floats) -> Floats:
    """Return the slopes of many regressions at once, by Newton's method.

    Parameters
    ----------
    rows : ndarray of float64, shape (streams, n, p)
        From ``features``; the first column is the constant.
    hallucinated, faithful : ndarray of float64, shape (streams, n)
        How many labels of either kind each row has.

    Returns
    -------
    ndarray of float64, shape (streams, p)
    """
    # Higher values of every clue speak for hallucinated, until labels say otherwise.
    expected = _EXPECTED * (np.arange(rows.shape[2]) % 2)
    slopes = np.tile(expected, (len(rows), 1))
    first = np.eye(rows.shape[2])[0]
    held = _HELD * np.diag(1.0 - first)
    times = hallucinated + faithful
    for _ in range(_STEPS):
        chance = expit(np.einsum("snf,sf->sn", rows, slopes))
        middle = expit(slopes[:, 0])
        gradient = np.einsum("sn,snf->sf", hallucinated - times * chance, rows)
        gradient -= (slopes - expected) @ held
        gradient += _BLANK * (0.5 - middle)[:, None] * first
        weight = times * chance * (1.0 - chance)
        curve = np.einsum("sn,snf,sng->sfg", weight, rows, rows, optimize=True) + held
        curve += (_BLANK * middle * (1.0 - middle))[:, None, None] * np.outer(first, first)
        # A step is cut short where the curve is nearly flat.
        step = np.linalg.solve(curve, gradient[..., None])[..., 0]
        slopes = slopes + step / np.maximum(1.0, np.abs(step).max(axis=1, keepdims=True) / 2.0)
    return slopes


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
        queries = thresholding.add_tolerance(argument_checks.defined(values, "values"), tolerance)
        n = len(self.scores)
        more = float(self.weights[n:].sum()) if self.undefined == "pass" else 0.0
        sums = np.append(0.0, np.cumsum(self.weights[:n]))
        own = float(self.weights.max(initial=1.0))
        counted = sums[thresholding.count_at_most(self.scores, queries)]
        return np.asarray((own + more + counted) / (own + float(self.weights.sum())))

    @classmethod
    def _again(cls, scores: Floats, promise: Promise, content: Mapping[str, Any]) -> Self:
        defined = np.sort(scores[~np.isnan(scores)])
        weights = argument_checks.finite(content["weights"], "weights")
        argument_checks.paired(weights, len(scores), "weights", "score")
        threshold = argument_checks.number(content["threshold"], "threshold")
        if (len(weights) and weights.min() < 1.0) or not math.isfinite(threshold):
            raise InputError("the calibration contradicts itself; calibrate again")
        n_open = argument_checks.whole(content["n_open"], "n_open")
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
        return self.drawing.weighted

    @property
    def open(self) -> Bools:
        """Those to be labelled that have no label."""
        return np.asarray(self.handed_out & np.isnan(self.label))

    def flags(self, threshold: float, *, most: bool = False) -> Bools:
        """Return what another threshold of the same detector flags: surely, or at the ``most``."""
        within = self.tolerance + (self.spread if most else 0.0)
        decided = thresholding.flags_under("flag", self.score, threshold, within)
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
        off = (np.where(known, label, 0.0) - g) / self.probability
        return np.asarray(np.where(known, g + off, g))

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
    promise = promise.settled()
    if promise.guarantee != "anytime":
        raise InputError(f"guarantee must be anytime; got {promise.guarantee!r}")
    hallucinated = answers.label == 1.0
    scores = answers.score[hallucinated]
    if answers.weighted:
        if grid is None:
            raise InputError("grid must be given where answers were labelled with probabilities")
        threshold = _walk(answers, promise, argument_checks.finite(grid, "grid"))
    else:
        threshold = _highest(answers, scores, promise)
        plain = thresholding.calibrate_threshold(scores, promise)
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
        # Of (1 - W)(F - limit), with the sign of the bet.
        side = np.where(answers.flags(threshold, most=not above), 1.0, 0.0) - max_fpr
        side = side if above else -side
        faithful = 1.0 - answers.estimated(side > 0.0)
        bets = betting.largest_bets(np.array(max_fpr), answers.floors(threshold))[0 if above else 1]
        yield _ever(faithful * side, bets, goal)


def _walk(answers: AuditedScores, promise: Promise, grid: Floats) -> float:
    """Return the last threshold of the grid before the first that is not shown to keep enough."""
    limit, goal = 1.0 - promise.alpha, -math.log(promise.delta)
    last = None
    for threshold in grid.tolist():
        side = np.where(answers.flags(threshold), 1.0, 0.0) - limit
        hallucinated = answers.estimated(side < 0.0)
        bets = betting.largest_bets(np.array(limit), answers.floors(threshold))[0]
        if not _ever(hallucinated * side, bets, goal):
            break
        last = threshold
    if last is None:
        raise _too_few(answers, promise)
    return float(last)


def _ever(gains: Floats, largest: Floats, goal: float) -> bool:
    """Return whether the mixture of bets on gains has at any time won its goal."""
    change = np.log1p(gains[:, None] * (largest * betting.FRACTIONS))
    wealth = betting.mixture(np.add.accumulate(change, axis=0))
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
    wealth = betting.wealth_of_counts(missed, caught, promise.alpha, above=False)
    # The wealth falls with the threshold. Without open answers the rank is decided exactly.
    shown = np.flatnonzero(wealth >= -math.log(promise.delta) - 1e-9)
    if not len(shown):
        raise _too_few(answers, promise)
    return float(defined[shown[-1]])


def _below_all(scores: Floats, *, passed: bool) -> Floats:
    """Return scores of which the undefined lie below all thresholds, or above them all."""
    return np.asarray(np.where(np.isnan(scores), -np.inf if passed else np.inf, scores))


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
    return AuditedCalibration.build(
        defined, n_undefined, promise, below + 1, threshold, weights=weights, n_open=n_open
    )


def _too_few(answers: AuditedScores, promise: Promise) -> TooFewExamplesError:
    n, n_open = int(np.count_nonzero(answers.label == 1.0)), int(np.count_nonzero(answers.open))
    least = thresholding.minimum_n(promise.alpha, promise.guarantee, promise.delta)
    seen = error_text("audited", n=n)
    remedy = error_text("audited_label_more")
    if n_open:
        seen = error_text("audited_and_open", n=n, n_open=n_open)
        remedy = error_text("audited_label_open")
    if n < least:
        remedy = error_text("audited_few", least=least, promise=promise, more=least - n)
    why = error_text("audited_none_shown", seen=seen, promise=promise, remedy=remedy)
    return TooFewExamplesError(why, least)


#: More further answers than this are as good as never.
_NEVER: Final = 10**9

#: What is shown of the FPR, or that more is required than the threshold is made to catch.
VerdictReason = Literal["fpr_shown", "fpr_refuted", "fpr_open", "no_limit", "coverage_not_promised"]


@dataclass(frozen=True, slots=True)
class AuditedVerdict(Record):
    """A verdict about a new threshold that holds whenever one looks and however often.

    Attributes
    ----------
    verdict : {"certified", "rejected", "inconclusive"}
        ``certified``: the threshold catches ``min_coverage`` by the way it is made, and the FPR is
        shown to be at most ``max_fpr``. ``rejected``: it is shown to be more.
    reason : str
        A code.
    coverage, fpr : Bound
        Of this threshold, with ``requirement.confidence`` each, at all times. Open answers are
        taken as what makes the interval widest. The coverage was seen on what set the threshold.
    fpr_at_most : float or None
        What ``certified`` rests on: the highest FPR that is not shown to be too high. None where
        answers were labelled with different probabilities.
    min_coverage : float
        Required coverage.
    max_fpr : float or None
        Highest acceptable FPR.
    confidence : float
        Of ``certified``.
    needed : int or None
        How many more faithful answers would show the FPR at the rate seen; 0 where it is settled,
        None where none would or that cannot be told.
    """

    verdict: Verdict
    reason: VerdictReason
    coverage: Bound
    fpr: Bound
    fpr_at_most: float | None
    min_coverage: float
    max_fpr: float | None
    confidence: float
    needed: int | None


def audited_verdict(
    answers: AuditedScores, calibration: Calibration, requirement: Requirement, grid: Floats
) -> AuditedVerdict:
    """Decide about a threshold that ``calibrate_audited`` made of these answers.

    Parameters
    ----------
    answers : AuditedScores
        Everything drawn so far.
    calibration : Calibration
        With the guarantee ``anytime``.
    requirement : Requirement
        ``confidence`` is that of the verdict, and the two-sided level of intervals: ``certified``
        errs with delta and with what that leaves for the FPR. Without a ``max_fpr`` nothing is.
    grid : ndarray of float64
        The thresholds that were tried, where answers are weighted.
    """
    level, limit = float(requirement.confidence), requirement.max_fpr
    coverage, fpr = threshold_rates(answers, calibration.threshold, level)
    # What a log rounds may have been flagged, or not.
    most, least = (answers.flags(calibration.threshold, most=most) for most in (True, False))
    promised = float(1 - thresholding.decimal(calibration.alpha))
    required = promised if requirement.min_coverage is None else float(requirement.min_coverage)
    goal = math.log(2.0 / (1.0 - level))
    # Without a limit delta may be more than what a verdict errs with.
    shown = goal
    if limit is not None:
        delta = calibration.delta or 0.0
        error = (1.0 - proof_beside(delta, level)) / 2.0
        shown, level = -math.log(error), round(1.0 - delta - error, 12)
    at_most, needed = None, None
    if not answers.weighted:
        alarms, passed = _faithful(answers, most, worst=True)
        at_most = 1.0 - float(betting.lowest_limit(passed, alarms, shown))
    if limit is None or not 0.0 < limit < 1.0:
        kept, broken = limit is not None and limit >= 1.0, limit == 0.0 and fpr.lower > 0.0
    elif answers.weighted:
        # Tried in a fixed order: from the highest threshold down, and from the lowest up.
        above = grid[grid >= calibration.threshold][::-1]
        below = grid[grid <= calibration.threshold]
        kept = all(fpr_shown(answers, above, limit, shown, above=False))
        broken = all(fpr_shown(answers, below, limit, goal, above=True))
    else:
        kept = _won(*_faithful(answers, most, worst=True), limit, shown, above=False)
        broken = _won(*_faithful(answers, least, worst=False), limit, goal, above=True)
        needed = 0 if kept or broken else _further(fpr, limit, shown)
    reason: VerdictReason = "fpr_shown" if kept else "fpr_refuted" if broken else "fpr_open"
    verdict: Verdict = "certified" if kept else "rejected" if broken else "inconclusive"
    if limit is None:
        reason = "no_limit"
    elif kept and required > promised + 1e-12:
        verdict, reason = "inconclusive", "coverage_not_promised"
    return AuditedVerdict(
        verdict=verdict,
        reason=reason,
        coverage=coverage,
        fpr=fpr,
        fpr_at_most=at_most,
        min_coverage=required,
        max_fpr=limit,
        confidence=level,
        needed=needed,
    )


def threshold_rates(answers: AuditedScores, threshold: float, level: float) -> tuple[Bound, Bound]:
    """Return the confidence sequences of a threshold's coverage and FPR.

    Where a log rounds a score so that its decision is open, it counts as not caught, and as a false
    alarm.
    """
    floors = answers.floors(threshold)
    coverage, fpr = audited_rates(answers, answers.flags(threshold), level, floors)
    if answers.spread:
        fpr = audited_rates(answers, answers.flags(threshold, most=True), level, floors)[1]
    return coverage, fpr


def audited_rates(
    answers: AuditedScores, flags: Bools, level: float, floors: tuple[float, float]
) -> tuple[Bound, Bound]:
    """Return the confidence sequences of the shares of either class that are flagged.

    ``floors`` are the least probabilities of a label of what is flagged, and what is not, known
    beforehand. The intervals hold whatever the answers without a label are. Where answers are
    weighted the ends are rounded outwards to whole percents.
    """
    classes = [answers.label == label for label in (1, 0)]
    counts = [(int(np.sum(flags & rows)), int(np.sum(rows))) for rows in classes]
    if answers.weighted:
        goal = math.log(2.0 / (1.0 - level))
        ends = []
        for as_flagged in (False, True):
            state = betting.zero_wealth()
            units = _units(answers, flags, flags == as_flagged)
            for latest, _ in betting.bet(state, units, (0.5, 0.5), floors):
                state = latest
            ends.append(betting.confidence_set(state, (0.5, 0.5), goal))
        # Open answers are left out of the estimates.
        known = _units(answers, flags, flags)[~answers.open].sum(axis=0)
        estimates = [
            min(1.0, max(0.0, hit / total)) if total > 0.0 else None
            for total, hit in zip(known[:2].tolist(), known[2:].tolist(), strict=True)
        ]
        coverage, fpr = (
            Bound(
                estimates[rate],
                min(end[rate][0] for end in ends),
                max(end[rate][1] for end in ends),
                *counts[rate],
                "betting",
                level,
            )
            for rate in (0, 1)
        )
        return coverage, fpr
    stopped = int(np.count_nonzero(answers.open & flags))
    passed = int(np.count_nonzero(answers.open & ~flags))
    bounds = []
    for count, n in counts:
        # All open ones of this class, where they are passed, or where they are flagged.
        lower = float(betting.confidence_sequence(count, n + passed, level)[0])
        upper = float(betting.confidence_sequence(count + stopped, n + stopped, level)[1])
        seen = count / n if n else None
        bounds.append(Bound(seen, lower, upper, count, n, "beta-mixture", level))
    return bounds[0], bounds[1]


def _faithful(answers: AuditedScores, flags: Bools, *, worst: bool) -> tuple[float, float]:
    """Return flagged and passed faithful answers; open ones as many flagged, or passed."""
    faithful = answers.label == 0.0
    alarms = faithful | answers.open if worst else faithful
    kept = faithful if worst else faithful | answers.open
    return float(np.count_nonzero(alarms & flags)), float(np.count_nonzero(kept & ~flags))


def _won(alarms: float, passed: float, limit: float, goal: float, *, above: bool) -> bool:
    hits, misses = np.array([[alarms], [passed]])
    return bool(betting.wealth_of_counts(hits, misses, limit, above=above)[0] >= goal)


def _units(answers: AuditedScores, flags: Bools, open_as: Bools) -> Floats:
    """Return masses and hits of both classes, shape (n, 4)."""
    w = answers.estimated(open_as)
    return np.stack([w, 1.0 - w, w * flags, (1.0 - w) * flags], axis=1)


def _further(fpr: Bound, limit: float, goal: float) -> int | None:
    """Return how many more faithful answers would show the FPR if it is the one seen."""
    if fpr.estimate is None or fpr.estimate >= limit:
        return None
    low, high = fpr.n, max(1, fpr.n)
    while not _won(*_parts(fpr.estimate, high), limit, goal, above=False):
        low, high = high, 2 * high
        if high > _NEVER:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        won = _won(*_parts(fpr.estimate, middle), limit, goal, above=False)
        low, high = (low, middle) if won else (middle, high)
    return high - fpr.n


def _parts(rate: float, n: int) -> tuple[float, float]:
    return rate * n, (1.0 - rate) * n
