"""How well must a score rank sentences before removing them leaves much of an answer?"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from calibrail.evaluation.stats.arrays import Ints

#: The share kept that every report is about.
HALF: Final = 0.5
#: The share that it is about, too, where none was asked.
_USUAL: Final = 0.7


def needed_auroc(unsupported: Ints, alpha: float, min_kept: float | None) -> dict[str, Any] | None:
    """Return the AUROC by sentence from which a share of what is supported is kept.

    Of scores that are normal with equal variances and independent of each other. Supported
    sentences have mean 0, unsupported ones d, so the AUROC is Phi(d / sqrt 2). With F the
    probability that an unsupported sentence lies below the threshold, all u of an answer are
    removed with probability (1 - F)^u; that the mean of these is 1 - alpha gives F, and the share
    of supported sentences below the threshold is Phi(d + Phi^-1(F)).

    Parameters
    ----------
    unsupported : ndarray of int
        How many unsupported sentences each of some hallucinated answers holds, at least one.
    alpha : float
        The share of answers that may keep one.
    min_kept : float or None
        The share of supported sentences that has to be kept, beside one half.

    Returns
    -------
    dict or None
        ``unsupported`` (mean per answer), and ``rows`` of ``kept`` and ``auroc``; None without
        answers.

    Examples
    --------
    >>> found = needed_auroc(np.repeat([1, 2, 3], [243, 27, 1]), 0.1, 0.9)
    >>> [(row["kept"], round(row["auroc"], 3)) for row in found["rows"]]
    [(0.5, 0.827), (0.9, 0.968)]
    """
    if not len(unsupported):
        return None
    numbers, counts = np.unique(unsupported, return_counts=True)
    below = float(brentq(lambda f: counts @ (1.0 - f) ** numbers / counts.sum() - 1 + alpha, 0, 1))
    shares: Sequence[float] = sorted({HALF, _USUAL if min_kept is None else min_kept} - {0.0, 1.0})
    return {
        "unsupported": float(np.mean(unsupported)),
        "rows": [{"kept": share, "auroc": _auroc(share, below)} for share in shares],
    }


def _auroc(kept: float, below: float) -> float:
    """Return the AUROC at which a share is kept; guessing keeps as much as lies below."""
    return max(0.5, float(ndtr((ndtri(kept) - ndtri(below)) / np.sqrt(2.0))))
