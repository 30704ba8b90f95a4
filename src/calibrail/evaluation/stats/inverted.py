"""Do labels look as if they had been read the wrong way round?"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from calibrail.evaluation.stats.arrays import Codes, Floats
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.measure import Measure

#: Scores of what an answer has that its contexts lack: higher where more is made up.
OVERLAPS: Final = ("novelty", "rouge_l")
#: Both must lie below one half with this one-sided confidence, and below ``FAR``.
CONFIDENCE: Final = 0.999
FAR: Final = 0.45


def look_inverted(scores: Mapping[str, Floats], labels: Codes) -> dict[str, Measure] | None:
    """Return the AUROCs of the overlap scores where both say that labels are inverted, else None.

    The criterion: for `novelty` and for `rouge_l` the AUROC is below 0.45, and its one-sided
    99.9 % confidence bound (DeLong) below 0.5, so that answers called faithful share less with
    their contexts than those called hallucinated. Labels that are right can look like this where
    hallucinated answers copy and faithful ones paraphrase; that is a suspicion, and no proof.

    Parameters
    ----------
    scores : mapping of str to ndarray of float64, shape (n,)
        The scores by name, NaN where undefined; without both of `OVERLAPS` nothing is said.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.

    Examples
    --------
    >>> values = np.linspace(0.0, 1.0, 80)
    >>> sorted(look_inverted({"novelty": values, "rouge_l": values}, values < 0.5))
    ['novelty', 'rouge_l']
    >>> look_inverted({"novelty": values, "rouge_l": values}, values > 0.5) is None
    True
    """
    areas = {}
    for name in OVERLAPS:
        values = scores.get(name)
        if values is None:
            return None
        there = ~np.isnan(values)
        classes = (values[there & (labels == label)] for label in (1, 0))
        area = auroc(*classes, confidence=2.0 * CONFIDENCE - 1.0)
        if area.estimate is None or area.estimate >= FAR or not area.lies_below(0.5):
            return None
        areas[name] = area
    return areas
