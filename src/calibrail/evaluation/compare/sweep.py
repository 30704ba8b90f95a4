"""What would other targets cost: which coverage can be promised, at how many false alarms?"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from calibrail.conformal import minimum_n
from calibrail.conformal import rank as rank_of
from calibrail.errors import InputError
from calibrail.evaluation.sample import CALIBRATION, Sample
from calibrail.settings import Promise

#: Tolerated miss rates from 1 % to 20 %, as the Semantic Illusion paper sweeps them.
ALPHAS: Final = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2)


def alpha_sweep(
    samples: Mapping[str, Sample],
    promise: Promise,
    baselines: Collection[str] = (),
    alphas: Sequence[float] = ALPHAS,
    confidence: float = 0.95,
) -> list[dict[str, Any]]:
    """Return, for each tolerated miss rate, every score's threshold, coverage and FPR.

    Each target is calibrated by itself; its promise holds for one target named in advance, not for
    the best of the sweep.

    Parameters
    ----------
    samples : mapping of str to Sample
        Scores of the same answers.
    promise : Promise
        Everything but its alpha holds for every target.
    baselines : collection of str
        Which of ``samples`` are baselines.
    alphas : sequence of float
        Tolerated miss rates.
    confidence : float
        Level of the (Wilson) intervals.

    Returns
    -------
    list of dict
        One entry an alpha, ascending: ``alpha``, ``n``, ``rank`` (0 = cannot be promised with n
        calibration examples), ``minimum_n``, ``counted`` (what these three count, ``answers`` or
        ``groups``) and ``rows``; a row without a threshold has a reason.
    """
    first = next(iter(samples.values()))
    calibrating = first.rows(CALIBRATION, 1)
    n, counted = int(calibrating.sum()), "answers"
    if promise.clustered and first.groups is not None:
        n, counted = len(np.unique(first.groups[calibrating])), "groups"
    targets = []
    for alpha in sorted(set(alphas)):
        rank = rank_of(n, alpha, promise.guarantee, promise.delta)
        rows = [
            {"name": name, "baseline": name in baselines}
            | _row(sample, replace(promise, alpha=alpha), confidence)
            for name, sample in samples.items()
            if rank
        ]
        needed = minimum_n(alpha, promise.guarantee, promise.delta)
        head = {"alpha": alpha, "n": n, "rank": rank, "minimum_n": needed, "counted": counted}
        targets.append({**head, "rows": rows})
    return targets


def _row(sample: Sample, promise: Promise, confidence: float) -> dict[str, Any]:
    try:
        calibration = sample.calibrated(promise)
    except InputError as error:
        return {"threshold": None, "coverage": None, "fpr": None, "reason": str(error)}
    coverage, fpr = sample.bounds(calibration.flags(sample.values, sample.tolerance), confidence)
    return {
        "threshold": calibration.threshold,
        "coverage": coverage.to_dict(),
        "fpr": fpr.to_dict(),
        "reason": None,
    }
