"""Labelling probabilities, learnt guess.

A guess for the design ``active``: a logistic regression of the labels on the score, begun anew
after every label. It is made before the label that it serves, so whatever it is worth, verdicts
stay valid; a better one saves labels. Given the score, whether an answer is labelled does not
depend on its label, so those labelled need no weights here.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtri

from calibrail.conformal import validation
from calibrail.conformal.validation import Bools, Floats
from calibrail.errors import InputError
from calibrail.options.guarantee import Requirement
from calibrail.options.labelling import Drawing

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
        checked.append(validation.share(value, name))
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
    >>> required = Requirement(min_coverage=0.9, max_fpr=0.2)
    >>> flagged, guess = [True, False, False], [0.9, 0.2, 0.001]
    >>> labelling_probability(flagged, guess, required, Drawing("active")).round(2).tolist()
    [0.44, 0.88, 0.2]
    """
    decided, chances = truth_values(flagged, "flagged"), validation.rates(guess, "guess")
    validation.paired(chances, len(decided), "guess", "answer")
    share = validation.share(base_rate, "base_rate")
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
    for edge, mass, is_open in zip(
        edges, (base, 1.0 - base), (coverage_open, fpr_open), strict=True
    ):
        # The variance of one answer of this class on the limit, for all answers drawn.
        scale = np.logical_or(is_open, neither) / (mass * edge * (1.0 - edge))
        weights.append((scale, np.where(flagged, 1.0 - edge, edge) ** 2))
    total = weights[0][0] + weights[1][0]
    weight = np.sqrt(sum(scale * square for scale, square in weights) / total)
    wanted = _EAGERNESS * weight * np.sqrt(guess * (1.0 - guess))
    return np.asarray(np.clip(wanted, np.where(flagged, *floors), 1.0))


def truth_values(values: ArrayLike, name: str) -> Bools:
    """Return truth values of shape (n,), given as such or as 0 and 1.

    Raises
    ------
    InputError
        If anything else is there.
    """
    array = validation.vector(values, name)
    if not np.isin(array, (0.0, 1.0)).all():
        raise InputError(f"{name} must hold true or false for every answer")
    return np.asarray(array == 1.0)


#: How firmly slopes are held at 0, as if so many labelled answers said so.
_HELD: Final = 1.0
#: Answers that say nothing, half of them hallucinated: they keep a guess away from 0 and 1.
_BLANK: Final = 1.0
_STEPS: Final = 8


def learnt_guess(scores: ArrayLike, labels: ArrayLike, drawn: ArrayLike, new: ArrayLike) -> Floats:
    """Return P(hallucinated) of answers drawn next.

    Parameters
    ----------
    scores : array-like of float, shape (n,) or (n, clues)
        Of the answers labelled so far; NaN where undefined. There may be further clues beside the
        score, such as what a judge says.
    labels : array-like, shape (n,)
        Theirs: 1 hallucinated, 0 faithful.
    drawn : array-like of float, shape (m,) or (m, clues)
        Scores of all answers drawn so far: a score counts by its rank among them, so that its scale
        plays no part.
    new : array-like of float, shape (k,) or (k, clues)
        Scores of the answers to guess.

    Returns
    -------
    ndarray of float64, shape (k,)
        In (0, 1); 0.5 before the first label.

    Examples
    --------
    >>> seen = [0.1, 0.2, 0.3, 0.7, 0.8, 0.9]
    >>> learnt_guess(seen, [0, 0, 0, 1, 1, 1], seen, [0.15, 0.85]).round(2).tolist()
    [0.3, 0.7]
    """
    return LearntGuess.of(scores, labels, drawn)(new)


@dataclass(frozen=True, slots=True, eq=False)
class LearntGuess:
    """What labels teach about clues; see ``learnt_guess``.

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
        """Learn from answers labelled so far, as ``learnt_guess`` takes them."""
        truth = validation.vector(labels, "labels")
        known, every = _clues(scores, "scores"), _clues(drawn, "drawn")
        validation.paired(truth, len(known[0]), "labels", "answer")
        order = tuple(np.sort(clue[~np.isnan(clue)]) for clue in every)
        halves = ((truth == 1.0)[None].astype(float), (truth == 0.0)[None].astype(float))
        return cls(order, fitted(_rows(known, order)[None], *halves)[0])

    def __call__(self, new: ArrayLike) -> Floats:
        """Return P(hallucinated) of answers, shape (k,)."""
        return np.asarray(expit(_rows(_clues(new, "new"), self.drawn) @ self.slopes))


def _clues(values: ArrayLike, name: str) -> list[Floats]:
    """Return the columns of values of shape (n,) or (n, clues)."""
    columns = np.atleast_2d(np.asarray(values, np.float64).T)
    return [validation.vector(column, name) for column in columns]


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
    slopes = np.zeros((len(rows), rows.shape[2]))
    first = np.eye(rows.shape[2])[0]
    held = _HELD * np.diag(1.0 - first)
    times = hallucinated + faithful
    for _ in range(_STEPS):
        chance = expit(np.einsum("snf,sf->sn", rows, slopes))
        middle = expit(slopes[:, 0])
        gradient = np.einsum("sn,snf->sf", hallucinated - times * chance, rows) - slopes @ held
        gradient += _BLANK * (0.5 - middle)[:, None] * first
        weight = times * chance * (1.0 - chance)
        curve = np.einsum("sn,snf,sng->sfg", weight, rows, rows, optimize=True) + held
        curve += (_BLANK * middle * (1.0 - middle))[:, None, None] * np.outer(first, first)
        # A step is cut short where the curve is nearly flat.
        step = np.linalg.solve(curve, gradient[..., None])[..., 0]
        slopes = slopes + step / np.maximum(1.0, np.abs(step).max(axis=1, keepdims=True) / 2.0)
    return slopes
