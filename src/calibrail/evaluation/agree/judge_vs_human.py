"""How far does a judge agree with people, and which way does it err?"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, xlogy
from scipy.stats import binomtest, f

from calibrail.conformal.bound import Bound, exact_bound
from calibrail.evaluation.agree.judge_labels import LabelCounts
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.record import Record
from calibrail.settings.checks import share

Direction = Literal["too often", "too rarely", "not shown"]

KAPPA_METHOD: Final = "Cohen (1960); profile likelihood or score test, F"

#: The search for the likeliest table of a given kappa: grid, rounds, and how far each closes in.
_STEPS: Final = np.linspace(-1.0, 1.0, 41)
_ZOOMS: Final = 6
_CLOSER: Final = 0.1
_HALVINGS: Final = 34


@dataclass(frozen=True, slots=True)
class Asymmetry(Record):
    """Whether the judge says hallucinated more often, or more rarely, than people do.

    Attributes
    ----------
    judge_alone, human_alone : int
        Answers that only the judge, and that only people call hallucinated.
    p_value : float or None
        Exact McNemar test (binomial; McNemar, 1947); None without a row.
    direction : {"too often", "too rarely", "not shown"}
        What is shown at the level 1 - confidence.
    reason : str or None
        Why there is no p-value.
    """

    judge_alone: int
    human_alone: int
    p_value: float | None
    direction: Direction
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Agreement(Record):
    """The judge beside people, on the answers that both have labelled.

    Attributes
    ----------
    table : dict
        Answers by ``human_judge`` label, e.g. ``hallucinated_faithful``.
    agreement : Bound
        Share with the same label.
    sensitivity, specificity : Bound
        Share of the answers that people call hallucinated (faithful) where the judge agrees.
    kappa : Measure
        Cohen's kappa.
    asymmetry : Asymmetry
        Which way the judge errs.
    confidence : float
        Level of every interval.
    """

    table: dict[str, int]
    agreement: Bound
    sensitivity: Bound
    specificity: Bound
    kappa: Measure
    asymmetry: Asymmetry
    confidence: float


def agreement(counts: LabelCounts, confidence: float = 0.95) -> Agreement:
    """Compare the judge's labels with people's, where both are there.

    Shares have exact Clopper-Pearson intervals, each at its own level. Rows count as independent.

    Parameters
    ----------
    counts : LabelCounts
        The rows.
    confidence : float
        Level of every interval.

    Examples
    --------
    >>> cells = np.zeros((3, 3, 2), int)
    >>> cells[:2, :2, 0] = [[3, 0], [1, 2]]
    >>> result = agreement(LabelCounts(cells))
    >>> result.agreement.count, result.sensitivity.count, round(result.kappa.estimate, 3)
    (5, 2, 0.667)
    """
    level = share(confidence, "confidence")
    table = counts.both.sum(axis=2)
    names = ("faithful", "hallucinated")
    n = int(table.sum())
    hits, faithful = int(table[1, 1]), int(table[0, 0])
    return Agreement(
        table={
            f"{names[human]}_{names[judge]}": int(table[human, judge])
            for human in (1, 0)
            for judge in (1, 0)
        },
        agreement=exact_bound(hits + faithful, n, level),
        sensitivity=exact_bound(hits, int(table[1].sum()), level),
        specificity=exact_bound(faithful, int(table[0].sum()), level),
        kappa=kappa(table, level),
        asymmetry=asymmetry(int(table[0, 1]), int(table[1, 0]), level),
        confidence=level,
    )


def asymmetry(judge_alone: int, human_alone: int, confidence: float = 0.95) -> Asymmetry:
    """Test whether disagreements go one way, exactly (McNemar, 1947).

    Where judge and people call hallucination equally often, each disagreement goes either way with
    probability 1/2.

    Examples
    --------
    >>> test = asymmetry(9, 1)
    >>> round(test.p_value, 4), test.direction
    (0.0215, 'too often')
    """
    level = 1.0 - share(confidence, "confidence")
    n = judge_alone + human_alone
    if not n:
        return Asymmetry(0, 0, None, "not shown", "no_disagreement")
    p_value = float(binomtest(judge_alone, n, 0.5).pvalue)
    direction: Direction = "not shown"
    if p_value <= level:
        direction = "too often" if judge_alone > human_alone else "too rarely"
    return Asymmetry(judge_alone, human_alone, p_value, direction)


def kappa(table: NDArray[np.int64], confidence: float = 0.95) -> Measure:
    """Return Cohen's kappa of a 2 x 2 table with its profile-likelihood interval.

    The estimate is Cohen's (1960): agreement beyond what the two label rates give by chance. The
    interval holds every kappa that is not rejected both by the likelihood ratio and by Pearson's
    score statistic of the multinomial table, the two label rates profiled out, against the F
    distribution with 1 and n - 3 degrees of freedom. It stays within [-1, 1] and keeps a width at
    perfect agreement, where the usual large-sample variance (Fleiss, Cohen and Everitt, 1969;
    statsmodels' ``cohens_kappa``) is 0. Either statistic alone errs more with few disagreements:
    against chi-squared, the likelihood ratio interval held the true kappa in 0.88 to 0.92 of tables
    of 10 to 300 answers where it was worst, the score interval in 0.83 to 0.93, and this one in
    0.95.

    Parameters
    ----------
    table : ndarray of integers, shape (2, 2)
        Answers by human and judge label.
    confidence : float
        Level of the interval.

    Returns
    -------
    Measure
        Without an estimate where both always give the same single label: chance agreement is 1.

    Examples
    --------
    >>> measure = kappa(np.array([[70, 0], [0, 30]]))
    >>> measure.estimate, round(measure.lower, 2), measure.upper
    (1.0, 0.91, 1.0)
    """
    level = share(confidence, "confidence")
    counts = np.asarray(table, np.float64)
    n = counts.sum()
    if not n:
        return missing(KAPPA_METHOD, "no_row", level)
    rows, columns = counts.sum(axis=1) / n, counts.sum(axis=0) / n
    chance = float(rows @ columns)
    if math.isclose(chance, 1.0):
        return missing(KAPPA_METHOD, "one_label", level)
    estimate = float((np.trace(counts) / n - chance) / (1.0 - chance))
    best = float(np.sum(xlogy(counts, counts / n)))
    # With three answers or fewer any kappa is possible.
    critical = float(f.ppf(level, 1, n - 3)) if n > 3 else math.inf

    def drop(value: float) -> float:
        likelihood, cells = _profile(counts, value)
        expected = n * _positive(cells)
        score = float(np.sum((counts.ravel() - expected) ** 2 / expected))
        return min(2.0 * (best - likelihood), score) - critical

    ends = []
    for edge in (-1.0, 1.0):
        # Next to the edge, where every cell still has a probability.
        last = edge * (1.0 - 1e-9)
        inside = abs(estimate - edge) < 1e-8 or drop(last) <= 0.0
        ends.append(edge if inside else float(brentq(drop, estimate, last, xtol=1e-7)))
    return Measure(estimate, ends[0], ends[1], KAPPA_METHOD, level)


def _profile(counts: NDArray[np.float64], value: float) -> tuple[float, NDArray[np.float64]]:
    """Return the largest log-likelihood among all tables with this kappa, and that table.

    With both rates of "hallucinated" given, a (people) and b (judge), kappa fixes every cell, and
    each is linear in b: the likelihood is concave in b, which is found by bisection. For a, a grid
    on the logits closes in.
    """
    weights = counts.ravel()[:, None]
    centre, reach, best, likeliest = 0.0, 16.0, -math.inf, np.full(4, 0.25)
    for _ in range(_ZOOMS):
        logits = centre + reach * _STEPS
        a = expit(logits)
        at_zero, at_one = _cells(a, 0.0, value), _cells(a, 1.0, value)
        slope = at_one - at_zero
        root = -at_zero / np.where(slope == 0.0, 1.0, slope)
        low = np.maximum(np.max(np.where(slope > 0, root, 0.0), axis=0), 0.0)
        high = np.minimum(np.min(np.where(slope < 0, root, 1.0), axis=0), 1.0)
        possible = low <= high
        for _ in range(_HALVINGS):
            b = (low + high) / 2.0
            rising = np.sum(weights * slope / _positive(at_zero + b * slope), axis=0) > 0.0
            low, high = np.where(rising, b, low), np.where(rising, high, b)
        cells = _positive(at_zero + (low + high) / 2.0 * slope)
        logs = np.sum(weights * np.log(cells), axis=0)
        logs[~possible] = -math.inf
        top = int(np.argmax(logs))
        if logs[top] > best:
            best, centre, likeliest = float(logs[top]), float(logits[top]), cells[:, top]
        reach *= _CLOSER
    return best, likeliest


def _cells(a: NDArray[np.float64], b: float, value: float) -> NDArray[np.float64]:
    """Return the four cells, faithful_faithful first, of tables with these rates and kappa."""
    excess = value * (a * (1.0 - b) + b * (1.0 - a)) / 2.0
    return np.stack(
        [(1 - a) * (1 - b) + excess, (1 - a) * b - excess, a * (1 - b) - excess, a * b + excess]
    )


def _positive(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Keep cells off 0, so that a count of 0 there costs nothing and another one very much."""
    return np.maximum(cells, 1e-300)
