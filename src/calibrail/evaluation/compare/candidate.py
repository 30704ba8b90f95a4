"""What takes part in a comparison: which scores, at which threshold, with which decisions?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Calibration
from calibrail.conformal.pvalues import add_tolerance
from calibrail.evaluation.sample import CALIBRATION
from calibrail.evaluation.stats.undefined import ranked_values


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A detector or a baseline with its threshold, on the rows that all contenders share.

    Attributes
    ----------
    name : str
        Of the score.
    baseline : bool
        Whether it takes part uninvited.
    calibration : Calibration
        Its threshold; rank and n are the same for all contenders.
    ranked : ndarray of float64, shape (n,)
        Scores of all examples, higher = more likely hallucinated; undefined ones at the end that
        their policy implies.
    decided : ndarray of float64, shape (n,)
        The same, raised by the numerical tolerance: flagged where at or above the threshold.
    flagged : ndarray of bool, shape (n,)
        Decisions.
    source : ndarray of float64, shape (n_calibration,)
        Ranked scores of the hallucinated calibration examples, in the order of the rows.
    """

    name: str
    baseline: bool
    calibration: Calibration
    ranked: NDArray[np.float64]
    decided: NDArray[np.float64]
    flagged: NDArray[np.bool_]
    source: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        name: str,
        values: NDArray[np.float64],
        labels: NDArray[np.int8],
        codes: NDArray[np.int8],
        calibration: Calibration,
        *,
        tolerance: float = 0.0,
        baseline: bool = False,
    ) -> Contender:
        """Return the contender of a score that could be calibrated."""
        ranked = ranked_values(values, calibration.undefined)
        return cls(
            name=name,
            baseline=baseline,
            calibration=calibration,
            ranked=ranked,
            decided=add_tolerance(ranked, tolerance),
            flagged=calibration.flags(values, tolerance),
            source=ranked[(codes == CALIBRATION) & (labels == 1)],
        )
