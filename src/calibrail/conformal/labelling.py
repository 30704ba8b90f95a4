"""Which answers tell most about a certificate, so that their labels are worth asking for?"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.validation import Bools, Floats
from calibrail.errors import InputError
from calibrail.settings.drawing import Drawing
from calibrail.settings.requirement import Requirement

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
    decided, chances = truth_values(flagged, "flagged"), validation.vector(guess, "guess")
    validation.paired(chances, len(decided), "guess", "answer")
    if not np.all((chances >= 0.0) & (chances <= 1.0)):
        raise InputError("guess must lie in [0, 1] for every answer")
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
