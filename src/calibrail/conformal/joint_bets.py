"""What have the bets on both rates won, at every limit that an interval or a verdict asks for?"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from calibrail.conformal.betting import FRACTIONS, largest_bets, mixture
from calibrail.conformal.validation import Floats

#: Limits at which the bets are inverted: what intervals are rounded to.
LIMITS: Final = np.round(np.arange(0.01, 0.995, 0.01), 2)
#: Units that are computed in one go.
_CHUNK: Final = 256
#: Sides of the four wealths (0: above) and their rates (0: coverage), in the order of a verdict:
#: coverage kept, coverage broken, FPR kept, FPR broken.
_SIDES: Final = np.array([0, 1, 1, 0])
_RATES: Final = np.array([0, 0, 1, 1])


def nothing_won() -> Floats:
    """Return the logarithms of all wealths before the first answer: shape (2, 2, limits, bets)."""
    return np.zeros((2, 2, len(LIMITS) + 1, len(FRACTIONS)))


def on_requirement(state: Floats) -> Floats:
    """Return the logarithms of the bets on the requirement, ordered as a verdict: (4, bets)."""
    return np.asarray(state[_SIDES, _RATES, -1])


def bet(
    state: Floats, units: Floats, edges: tuple[float, float], floors: tuple[float, float]
) -> Iterator[tuple[Floats, Floats]]:
    """Yield, part by part, the state after the units, and the four wealths after each of them.

    Parameters
    ----------
    state : ndarray of float64, shape (2, 2, limits, bets)
        By side (above, below), rate (coverage, FPR), limit and bet.
    units : ndarray of float64, shape (n, 4)
        Mass of hallucinated and of faithful answers, hits of both.
    edges, floors : (float, float)
        Required coverage and FPR; least probabilities of labelling a flagged and a passed answer.
    """
    limits = all_limits(edges)
    stakes = largest_bets(limits, floors)[..., None] * FRACTIONS
    for start in range(0, len(units), _CHUNK):
        part = units[start : start + _CHUNK]
        gains = part[:, 2:, None] - limits * part[:, :2, None]
        change = np.log1p(np.stack([gains, -gains], axis=1)[..., None] * stakes)
        # Added one after the other, so that batches and single answers give the same bytes.
        path = np.add.accumulate(np.concatenate([state[None], change]))
        state = path[-1]
        yield state, mixture(np.ascontiguousarray(path[1:, _SIDES, _RATES, -1]))


def required_steps(
    units: Floats, edges: tuple[float, float], floors: tuple[float, float]
) -> Floats:
    """Return what units add to the logarithms of the bets at the requirement: shape (..., 4, bets).

    The same as the last limit of ``bet``, for many streams at once: units of shape (..., 4).
    """
    limits = np.array(edges)
    stakes = largest_bets(limits, floors)[_SIDES, _RATES][:, None] * FRACTIONS
    gains = (units[..., 2:] - limits * units[..., :2])[..., _RATES] * np.where(_SIDES, -1.0, 1.0)
    return np.asarray(np.log1p(gains[..., None] * stakes))


def not_refuted(
    state: Floats, edges: tuple[float, float], goal: float
) -> list[tuple[float, float]]:
    """Return the lowest and highest limit of both rates that are not refuted, rounded outwards."""
    wealth, ends = mixture(state), []
    for rate, limits in enumerate(all_limits(edges)):
        order = np.argsort(limits, kind="stable")
        ascending = limits[order]
        above, below = (wealth[side, rate][order] >= goal for side in (0, 1))
        low = int(np.argmin(np.append(above, False)))
        high = int(np.argmin(np.append(below[::-1], False)))
        lower = float(ascending[low - 1]) if low else 0.0
        ends.append((lower, float(ascending[-high]) if high else 1.0))
    return ends


def all_limits(edges: tuple[float, float]) -> Floats:
    """Return the limits of both rates that are bet on, the required one last: (2, limits)."""
    return np.array([[*LIMITS, edge] for edge in edges])
