"""How many hallucinations of a test set does a threshold catch, give or take chance?"""

import numpy as np
from scipy.special import betaln, gammaln

from calibrail.conformal import validation
from calibrail.conformal.threshold import Calibration, Threshold
from calibrail.errors import InputError


def coverage_band(
    calibration: Calibration | Threshold | tuple[int, int], m: int, confidence: float
) -> tuple[int, int]:
    """Return the lowest and highest plausible number of caught hallucinations among m.

    Over calibration and test draws of continuous scores, the number of misses at the k-th of n
    calibration scores is BetaBinomial(m, k, n + 1 - k) (Vovk, 2012). With ties coverage only grows,
    so the upper end is no longer a limit then.

    Parameters
    ----------
    calibration : Calibration, Threshold or (int, int)
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
        if isinstance(calibration, tuple):
            raise InputError("rank must be at least 1; got 0")
        return m, m
    caught = np.arange(m + 1)
    a, b = n + 1 - k, k
    log_ways = gammaln(m + 1) - gammaln(caught + 1) - gammaln(m - caught + 1)
    log_mass = log_ways + betaln(caught + a, m - caught + b) - betaln(a, b)
    below = np.cumsum(np.exp(log_mass))
    below /= below[-1]
    # The sum ends at 1 up to rounding, which must not push the upper end out of range.
    lowest = int(np.searchsorted(below, tail))
    highest = int(np.searchsorted(below, 1.0 - tail))
    return min(lowest, m), min(highest, m)
