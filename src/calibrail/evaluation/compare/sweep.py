"""What would other targets cost: which coverage can be promised, at how many false alarms?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Guarantee, Undefined, calibrate_threshold, minimum_n
from calibrail.conformal import rank as rank_of
from calibrail.errors import InputError
from calibrail.evaluation.sample import CALIBRATION, TEST
from calibrail.evaluation.stats.rates import wilson
from calibrail.settings import Promise

#: Tolerated miss rates from 1 % to 20 %, as the Semantic Illusion paper sweeps them.
ALPHAS: Final = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2)


def alpha_sweep(
    values: Mapping[str, NDArray[np.float64]],
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    *,
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    undefined: Undefined = "flag",
    alphas: Sequence[float] = ALPHAS,
    baselines: Sequence[str] = (),
    tolerances: Mapping[str, float] | None = None,
    confidence: float = 0.95,
) -> list[dict[str, Any]]:
    """Return, for each tolerated miss rate, every score's threshold, coverage and FPR.

    Each target is calibrated by itself; its promise holds for one target named in advance, not for
    the best of the sweep.

    Parameters
    ----------
    values : mapping of str to ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated; NaN where undefined.
    labels, codes : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful; 1 = calibration, 2 = test.
    guarantee, delta, undefined
        As in ``calibrate``.
    alphas : sequence of float
        Tolerated miss rates.
    baselines : sequence of str
        Which of ``values`` are baselines.
    tolerances : mapping of str to float
        Numerical tolerances; 0 where absent.
    confidence : float
        Level of the (Wilson) intervals.

    Returns
    -------
    list of dict
        One entry an alpha, ascending: ``alpha``, ``n``, ``rank`` (0 = cannot be promised with n
        calibration examples), ``minimum_n`` and ``rows``; a row without a threshold has a reason.
    """
    source, test = (codes == CALIBRATION) & (labels == 1), codes == TEST
    n = int(source.sum())
    found = []
    for alpha in sorted(set(alphas)):
        rank = rank_of(n, alpha, guarantee, delta)
        rows = []
        if rank:
            for name, column in values.items():
                slack = (tolerances or {}).get(name, 0.0)
                rows.append(
                    {"name": name, "baseline": name in baselines}
                    | _row(
                        column, labels, source, test,
                        Promise(alpha, guarantee, delta, undefined),
                        slack, confidence,
                    )
                )  # fmt: skip
        found.append(
            {
                "alpha": alpha,
                "n": n,
                "rank": rank,
                "minimum_n": minimum_n(alpha, guarantee, delta),
                "rows": rows,
            }
        )
    return found


def _row(
    values: NDArray[np.float64],
    labels: NDArray[np.int8],
    source: NDArray[np.bool_],
    test: NDArray[np.bool_],
    promise: Promise,
    tolerance: float,
    confidence: float,
) -> dict[str, Any]:
    try:
        calibration = calibrate_threshold(values[source], promise)
    except InputError as error:
        return {"threshold": None, "coverage": None, "fpr": None, "reason": str(error)}
    flagged = calibration.flags(values[test], tolerance)
    shares = {
        name: wilson(
            int(np.sum(flagged[labels[test] == label])), int(np.sum(labels[test] == label)),
            confidence,
        ).to_dict()
        for name, label in (("coverage", 1), ("fpr", 0))
    }  # fmt: skip
    return {"threshold": calibration.threshold, **shares, "reason": None}
