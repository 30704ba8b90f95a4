"""What would any other threshold catch, and what would it cost?"""

from typing import Any, Final

import numpy as np

from calibrail.conformal.simultaneous import simultaneous_bounds
from calibrail.evaluation.sample import Sample
from calibrail.evaluation.stats.undefined import ranked_values

#: Thresholds of the curve that a report holds at most.
MOST: Final = 120


def operating_curve(sample: Sample, *, undefined: str, confidence: float) -> dict[str, Any] | None:
    """Return coverage and FPR at thresholds over the whole range, in bands that hold for all.

    The bands (Berk-Jones; each class at half of the error) hold together at every threshold with
    ``confidence``: a reader may look first and choose a threshold afterwards, and the bounds at
    the chosen one stand.

    Parameters
    ----------
    sample : Sample
        Its test part is looked at.
    undefined : {"flag", "review", "pass"}
        Policy for undefined scores.
    confidence : float
        Of both bands together.

    Returns
    -------
    dict or None
        None where the test part lacks a class or every score in it is undefined.
    """
    classes = [np.sort(part) for part in sample.by_class(ranked_values(sample.values, undefined))]
    distinct = np.unique(np.concatenate(classes))
    distinct = distinct[np.isfinite(distinct)]
    if not len(distinct) or not all(map(len, classes)):
        return None
    if len(distinct) > MOST:
        # Evenly by rank, so that the curve is drawn evenly whatever the scale of the score.
        distinct = distinct[np.linspace(0, len(distinct) - 1, MOST).round().astype(np.intp)]
    rates = {}
    for name, scores in zip(("coverage", "fpr"), classes, strict=True):
        n = len(scores)
        counts = n - np.searchsorted(scores, distinct)
        lower, upper = simultaneous_bounds(counts, n, 1.0 - (1.0 - confidence) / 2.0)
        ends = {"estimate": counts / n, "lower": lower, "upper": upper}
        rates[name] = {key: column.tolist() for key, column in ends.items()} | {"n": n}
    about = {"thresholds": distinct.tolist(), "confidence": confidence, "method": "berk-jones"}
    return {**about, **rates}
