"""Where do answers pass, where are they flagged, and what must a person look at?"""

from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import validation
from calibrail.conformal.rank import minimum_n
from calibrail.conformal.threshold import Calibration, calibrate_threshold
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.settings.promise import Promise, Undefined

Decision = Literal["pass", "review", "flag"]
#: Decisions by code, in the order of rising scores.
DECISIONS: Final[tuple[Decision, ...]] = ("pass", "review", "flag")


def upper_calibration(faithful: ArrayLike, promise: Promise) -> Calibration:
    """Find the threshold above which answers are flagged, from faithful calibration scores.

    The one-sided promise of ``calibrate_threshold`` on negated scores: P(flag | faithful) <= beta.

    Parameters
    ----------
    faithful : array-like of float, shape (m,)
        Higher = more likely hallucinated; NaN where undefined.
    promise : Promise
        With ``beta``. An undefined score counts against it only where it is flagged.

    Raises
    ------
    TooFewExamplesError
        If there are too few examples for the promise.
    InputError
        If an argument is outside its domain.
    """
    beta = validation.share(promise.beta, "beta")
    values = validation.vector(faithful, "faithful")
    if np.isinf(values).any():
        raise InputError("faithful must be finite, NaN where undefined; got an infinite score")
    least = minimum_n(beta, promise.guarantee, promise.delta)
    if len(values) < least:
        raise TooFewExamplesError(
            f"{len(values)} faithful calibration examples are too few for the {promise.guarantee} "
            f"guarantee at beta = {beta:g}: at least {least} are needed. Label "
            f"{least - len(values)} more, or raise beta",
            least,
        )
    mirrored: Undefined = "pass" if promise.undefined == "flag" else "flag"
    one_sided = Promise(beta, promise.guarantee, promise.delta, mirrored)
    return calibrate_threshold(-values, one_sided)


def least_withheld(base_rate: float, share: float) -> float:
    """Return the least share of answers that ANY detector must withhold from release.

    To release answers of which at most ``share`` are hallucinated, when ``base_rate`` of all
    answers are: even a detector that withholds hallucinations alone must withhold (base_rate -
    share) / (1 - share) of all answers.

    Parameters
    ----------
    base_rate : float
        Share of hallucinated answers, in [0, 1].
    share : float
        Tolerated share of hallucinated answers among the released, in (0, 1).

    Examples
    --------
    >>> round(least_withheld(0.3, 0.05), 3)
    0.263
    >>> least_withheld(0.03, 0.05)
    0.0
    """
    rate, allowed = validation.rate(base_rate, "base_rate"), validation.share(share, "share")
    return max(0.0, (rate - allowed) / (1.0 - allowed))
