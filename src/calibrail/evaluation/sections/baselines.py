"""Could something as plain as the answer's length stand behind a score?"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrail.evaluation.sample import TEST, Floats, Sample
from calibrail.evaluation.stats.auroc import auroc, auroc_difference
from calibrail.evaluation.stats.correlation import rank_correlation
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.undefined import ranked_values


def confounds(
    sample: Sample, baselines: Mapping[str, Floats], *, undefined: str, confidence: float
) -> dict[str, Any] | None:
    """Return how closely each baseline goes with the score, and how well it ranks beside it.

    A baseline ranks either way round: one whose AUROC is 0.2 separates the classes as 0.8 does.
    It ranks ``better`` or ``worse`` than the score where DeLong's paired interval of the difference
    of the AUROCs lies on one side of zero, and ``as well`` where it does not.

    Parameters
    ----------
    sample : Sample
        Its test part is looked at.
    baselines : mapping of str to ndarray of float64, shape (n,)
        Trivial scores of the same examples.
    undefined : {"flag", "review", "pass"}
        Policy for undefined scores.
    confidence : float
        Level of every interval.

    Returns
    -------
    dict or None
        ``n``, ``auroc``, ``rows`` (``name``, ``n``, ``auroc``, ``reversed``, ``spearman``,
        ``ranks``). None without baselines, or where the test part lacks a class.
    """
    test = sample.rows(TEST)
    values, labels = sample.values[test], sample.labels[test]
    if not baselines or not (labels == 1).any() or not (labels == 0).any():
        return None
    ranked = ranked_values(sample.values, undefined)
    rows = []
    for name, column in baselines.items():
        other = ranked_values(column, undefined)
        area = auroc(*sample.by_class(other), confidence=confidence)
        turned = area.estimate is not None and area.estimate < 0.5
        turn = -1.0 if turned else 1.0
        difference = auroc_difference(turn * other[test], ranked[test], labels, confidence)
        both = ~np.isnan(values) & ~np.isnan(column[test])
        spearman = rank_correlation(values[both], column[test][both], confidence)
        rows.append(
            {
                "name": name,
                "n": int(both.sum()),
                "auroc": area.to_dict(),
                "reversed": turned,
                "spearman": spearman.to_dict(),
                "ranks": _ranks(difference),
            }
        )
    area = auroc(*sample.by_class(ranked), confidence=confidence)
    return {"n": int(test.sum()), "auroc": area.to_dict(), "rows": rows}


def _ranks(difference: Measure) -> str:
    if difference.lies_above(0.0):
        return "better"
    return "worse" if difference.lies_below(0.0) else "as well"
