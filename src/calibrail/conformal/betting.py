"""Is a weighted share on the right side of its limit, whichever answers were labelled?

An answer is labelled with a known probability q. With H = 1 where it is hallucinated and a guess g
of that made before the label is seen, W = g + (L / q) (H - g) has the mean of H, whether it is
labelled (L = 1) or not (L = 0), however bad the guess. With F = 1 where it is flagged, the means
of hits = W F and of mass = W have the coverage as their ratio, and those of (1 - W) F and 1 - W
the FPR. "The share is at most c" says that Z = hits - c mass has a mean of at most 0; betting
lambda on it multiplies the wealth by 1 + lambda Z, which is positive as long as lambda is below
1 / max(-Z). The wealth, and the mean of the wealths of several bets fixed beforehand, are
supermartingales (Waudby-Smith and Ramdas, 2024, "Estimating means of bounded random variables by
betting"; Xu, Karampatziakis and Mineiro, 2024, "Active, anytime-valid risk controlling prediction
sets"). The bets are fixed, so the wealth does not depend on the order of the answers.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.validation import Floats
from calibrail.errors import InputError
from calibrail.settings.checks import yes_or_no

#: Bets as shares of the largest one that leaves a factor of 0, and how the first stake is split.
#: Simulated in both designs (see ``benchmarks/sequential.py``): drawing by a guess pays best near
#: the largest bet, labelling everything at a half to a tenth of it.
FRACTIONS: Final = np.array([0.9, 0.45, 0.225, 0.1125])
SPLIT: Final = np.array([0.5, 0.25, 0.125, 0.125])
_LOG_SPLIT: Final = np.log(SPLIT)
#: Rounding may take a mean over a group out of the range of its answers by this much.
_ROUNDING: Final = 1e-9


def estimated_labels(hallucinated: ArrayLike, probability: ArrayLike, guess: ArrayLike) -> Floats:
    """Return W = g + (L / q) (H - g): what each answer adds to the number of hallucinated ones.

    Parameters
    ----------
    hallucinated : array-like, shape (n,)
        Truth values or 0 and 1; None or NaN where the answer was drawn and not labelled.
    probability : array-like of float, shape (n,)
        With which each was labelled, in (0, 1], known before its label.
    guess : array-like of float, shape (n,)
        P(hallucinated) as guessed before the label, in [0, 1]. A wrong guess costs labels only.

    Returns
    -------
    ndarray of float64, shape (n,)
        In [1 - 1 / q, 1 / q].

    Raises
    ------
    InputError
        If a value is outside its domain, or shapes differ.

    Examples
    --------
    >>> estimated_labels([True, False, None], [0.5, 1.0, 0.2], [0.25, 0.5, 0.125]).tolist()
    [1.75, 0.0, 0.125]
    """
    labels = validation.vector(hallucinated, "hallucinated")
    q, g = validation.vector(probability, "probability"), validation.vector(guess, "guess")
    for name, values in (("probability", q), ("guess", g)):
        validation.paired(values, len(labels), name, "answer")
    known = ~np.isnan(labels)
    if not np.isin(labels[known], (0.0, 1.0)).all():
        raise InputError("hallucinated must hold true, false, or None where there is no label")
    if not np.all((q > 0.0) & (q <= 1.0)):
        raise InputError("probability must lie in (0, 1] for every answer")
    if not np.all((g >= 0.0) & (g <= 1.0)):
        raise InputError("guess must lie in [0, 1] for every answer")
    return np.asarray(np.where(known, g + (np.where(known, labels, 0.0) - g) / q, g))


def weighted_log_wealth(
    hits: ArrayLike,
    mass: ArrayLike,
    limit: float,
    *,
    floors: tuple[float, float] = (1.0, 1.0),
    above: bool = True,
) -> Floats:
    """Return the logarithm of the wealth after each unit, betting on E[hits] / E[mass].

    With a mass of 1 and means of groups as hits, this is the bet on the mean of any share in
    [0, 1], each group counting once.

    Parameters
    ----------
    hits, mass : array-like of float, shape (n,)
        Of each unit drawn: an answer, or the means over the answers of a group.
    limit : float
        In (0, 1).
    floors : (float, float)
        Least probabilities of labelling a flagged and a passed answer, known beforehand.
    above : bool
        True to bet on a share above the limit, False on one below it.

    Returns
    -------
    ndarray of float64, shape (n,)
        At least log(1 / delta) anywhere with probability at most delta while the share is not
        beyond the limit.

    Raises
    ------
    InputError
        If a value is outside its domain, or a unit is out of the range that the floors allow.

    Examples
    --------
    Shares caught of the hallucinated answers of 40 questions:

    >>> shares = [1.0, 1.0, 0.5, 1.0] * 10
    >>> log_wealth = weighted_log_wealth(shares, [1.0] * 40, 0.6)
    >>> bool(log_wealth[-1] >= np.log(1 / 0.05))
    True
    """
    edge = validation.share(limit, "limit")
    yes_or_no(above, "above")
    if not isinstance(floors, tuple) or len(floors) != 2:
        raise InputError(f"floors must be a pair of numbers; got {floors!r}")
    if not all(0.0 < validation.number(floor, "floors") <= 1.0 for floor in floors):
        raise InputError(f"floors must lie in (0, 1]; got {floors!r}")
    won, weight = validation.finite(hits, "hits"), validation.finite(mass, "mass")
    validation.paired(weight, len(won), "mass", "unit")
    gains = won - edge * weight
    bets = largest_bets(np.array(edge), floors)
    if np.any(gains < -1.0 / bets[0] - _ROUNDING) or np.any(gains > 1.0 / bets[1] + _ROUNDING):
        raise InputError("hits and mass hold a unit that is out of the range that floors allow")
    stakes = (bets[0] if above else -bets[1]) * FRACTIONS
    change = gains[:, None] * stakes
    return mixture(np.add.accumulate(np.log1p(change), axis=0))


def largest_bets(limit: Floats, floors: tuple[float, float]) -> Floats:
    """Return the bets that a worst answer would turn to 0: shape (2, ...) for above and below.

    W and 1 - W lie in [1 - 1/q, 1/q]; Z is (1 - limit) times that for a flagged and -limit times
    that for a passed answer.
    """
    flagged, passed = 1.0 / floors[0], 1.0 / floors[1]
    lost = np.maximum((1.0 - limit) * (flagged - 1.0), limit * passed)
    won = np.maximum((1.0 - limit) * flagged, limit * (passed - 1.0))
    return 1.0 / np.stack([lost, won])


def mixture(log_wealth: Floats) -> Floats:
    """Return the logarithm of the mean of the wealths of all bets: shape (..., bets) to (...)."""
    parts = log_wealth + _LOG_SPLIT
    highest = parts.max(axis=-1)
    scaled = np.exp(parts - highest[..., None])
    # Added one by one, so that a batch and a single answer give the same last bit.
    total = scaled[..., 0]
    for index in range(1, scaled.shape[-1]):
        total = total + scaled[..., index]
    return np.asarray(highest + np.log(total))
