"""Which test coverages does the promise itself predict?"""

from __future__ import annotations

from scipy.stats import betabinom

from calibrail.conformal import validation
from calibrail.conformal.threshold import Calibration
from calibrail.errors import InputError


def coverage_band(
    calibration: Calibration | tuple[int, int], m: int, confidence: float
) -> tuple[int, int]:
    """Return the lowest and highest plausible number of caught hallucinations among m.

    Over calibration and test draws of continuous scores, the number of misses at the k-th of n
    calibration scores is BetaBinomial(m, k, n + 1 - k) (Vovk, 2012). With ties coverage only grows,
    so the upper end is no longer a limit then.

    Parameters
    ----------
    calibration : Calibration or (int, int)
        The threshold, or its rank and n.
    m : int
        Hallucinated test examples.
    confidence : float
        Level of the band; each tail holds at most half of the rest.

    Returns
    -------
    (int, int)
        Lowest and highest count caught, both plausible.

    Examples
    --------
    >>> coverage_band((5, 100), 200, 0.95)
    (178, 198)
    """
    k, n = calibration if isinstance(calibration, tuple) else (calibration.rank, calibration.n)
    k, n = validation.counts(k, n, ("rank", "n"))
    m = validation.whole(m, "m")
    tail = (1.0 - validation.share(confidence, "confidence")) / 2.0
    if k == 0:
        if isinstance(calibration, Calibration):
            return m, m
        raise InputError("rank must be at least 1; got 0")
    caught = betabinom(m, n + 1 - k, k)
    return int(max(caught.ppf(tail), 0)), int(min(caught.ppf(1.0 - tail), m))
