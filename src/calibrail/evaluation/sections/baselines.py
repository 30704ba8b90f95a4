"""Could something as plain as the answer's length stand behind a score?"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation.sample import TEST, Floats, Sample
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.correlation import rank_correlation
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.paired_auroc import auroc_difference
from calibrail.evaluation.stats.undefined import ranked_values
from calibrail.phrases import count, listed

_Floats = NDArray[np.float64]


def confounds(
    sample: Sample,
    baselines: Mapping[str, Floats],
    *,
    undefined: str,
    confidence: float,
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
        ``ranks``) and ``finding``, a sentence. None without baselines, or where the test part lacks
        a class.
    """
    test = sample.rows(TEST)
    own, marks = sample.values[test], sample.labels[test]
    classes = (marks == 1, marks == 0)
    if not baselines or not all(part.any() for part in classes):
        return None
    ranked = ranked_values(own, undefined)
    area = auroc(ranked[classes[0]], ranked[classes[1]], confidence=confidence)
    rows = []
    for name, column in baselines.items():
        other = ranked_values(column[test], undefined)
        theirs = auroc(other[classes[0]], other[classes[1]], confidence=confidence)
        turned = theirs.estimate is not None and theirs.estimate < 0.5
        difference = auroc_difference(
            -other if turned else other, ranked, marks, confidence=confidence
        )
        both = ~(np.isnan(own) | np.isnan(column[test]))
        rows.append(
            {
                "name": name,
                "n": int(both.sum()),
                "auroc": theirs.to_dict(),
                "reversed": turned,
                "spearman": rank_correlation(own[both], column[test][both], confidence).to_dict(),
                "ranks": _ranks(difference),
            }
        )
    return {
        "n": int(test.sum()),
        "auroc": area.to_dict(),
        "rows": rows,
        "finding": _finding(rows, area, int(test.sum())),
    }


def _ranks(difference: Measure) -> str | None:
    if difference.lower is None or difference.upper is None:
        return None
    if difference.lower > 0.0:
        return "better"
    return "worse" if difference.upper < 0.0 else "as well"


def _finding(rows: list[dict[str, Any]], area: Measure, n: int) -> str:
    """Say which baselines rank as well, and with which one the score goes together most."""
    better, alike = (
        [row["name"] for row in rows if row["ranks"] == how] for how in ("better", "as well")
    )

    told = "" if area.estimate is None else f" (AUROC {area.estimate:.3f})"
    parts = []
    if better:
        parts.append(f"{_rank(better)} these answers better than this score{told}")
    if alike:
        far = f", as far as {count(n, 'test answer')} can tell"
        parts.append(
            f"{listed(alike)} as well as it{far}"
            if better
            else f"{_rank(alike)} these answers as well as this score{told}{far}"
        )
    said = "; ".join(parts) or f"This score{told} ranks these answers better than every baseline"
    said += "."
    known = [row for row in rows if row["spearman"]["estimate"] is not None]
    if known:
        most = max(known, key=lambda row: abs(row["spearman"]["estimate"]))
        said += (
            f" The score goes together most with {most['name']} (Spearman "
            f"{most['spearman']['estimate']:.2f})."
        )
    return said


def _rank(names: list[str]) -> str:
    one = len(names) == 1
    return f"The baseline{'' if one else 's'} {listed(names)} {'ranks' if one else 'rank'}"
