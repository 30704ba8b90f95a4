"""The wealth of bets on weighted answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal.sequential.betting import weighted_bets


def weighted_log_wealth(
    hits: ArrayLike,
    mass: ArrayLike,
    limit: float,
    *,
    floors: tuple[float, float] = (1.0, 1.0),
    above: bool = True,
) -> np.ndarray:
    """Return the logarithm of the wealth after each unit, betting on E[hits] / E[mass]."""
    units = np.asarray(hits, float), np.asarray(mass, float)
    return weighted_bets(*units, limit, floors, above=above).from_start
