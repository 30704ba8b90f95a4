"""When detectors first raise an alarm."""

from __future__ import annotations

import numpy as np

from calibrail.conformal.change_point import N_BETS, shiryaev_roberts


def first_alarms(ranks: np.ndarray, threshold: float) -> np.ndarray:
    """Return after how many rows each stream's detector first reaches it; 0 for never."""
    over = shiryaev_roberts(ranks, np.zeros((len(ranks), N_BETS)))[0] >= threshold
    return np.where(over.any(axis=1), over.argmax(axis=1) + 1, 0)
