"""Does the threshold that several risks chose keep them on the test part?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import exact_bound
from calibrail.conformal.risks import RiskControl
from calibrail.evaluation.rows import TEST


def measured_risks(
    control: RiskControl,
    flagged: NDArray[np.bool_],
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    confidence: float,
) -> dict[str, Any]:
    """Return the control with each risk as the test part shows it, in exact bounds.

    Parameters
    ----------
    control : RiskControl
        The promises and the candidates.
    flagged : ndarray of bool, shape (n,)
        Decisions at the chosen threshold.
    labels, codes : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful; 2 = test.
    confidence : float
        Of all intervals together (Bonferroni).
    """
    test = codes == TEST
    flag, truth = flagged[test], labels[test] == 1
    counts = {
        "precision": (flag & truth, flag),
        "recall": (flag & truth, truth),
        "accuracy": (flag == truth, np.ones_like(flag)),
        "fpr": (flag & ~truth, ~truth),
        "abstention": (flag, np.ones_like(flag)),
    }
    level = 1.0 - (1.0 - confidence) / len(control.risks)
    measured = []
    for risk in control.risks:
        hits, trials = (int(part.sum()) for part in counts[risk.name])
        bound = exact_bound(hits, trials, level)
        good, bad = bound.lower >= risk.level, bound.upper < risk.level
        if risk.relation == "<=":
            good, bad = bound.upper <= risk.level, bound.lower > risk.level
        measured.append(
            {
                **risk.to_dict(),
                "test": bound.to_dict(),
                "shown": "within" if good else "exceeded" if bad else "open",
            }
        )
    return {**control.to_dict(), "measured": measured, "n_valid": sum(control.valid)}


def risk_verdict(section: dict[str, Any]) -> tuple[str, str]:
    """Return verdict and reason from the measured risks: all shown kept, one broken, or neither."""
    by_state: dict[str, list[str]] = {"within": [], "exceeded": [], "open": []}
    for item in section["measured"]:
        bound = item["test"]
        by_state[item["shown"]].append(
            f"{item['name']} lies between {bound['lower']:.1%} and {bound['upper']:.1%}, where "
            f"{item['relation']} {item['level']:.1%} is asked"
        )
    for verdict, state in (("rejected", "exceeded"), ("inconclusive", "open")):
        if said := by_state[state]:
            text = " and ".join(said)
            return verdict, f"{text[0].upper()}{text[1:]}."
    text = "; ".join(by_state["within"])
    return "certified", f"{text[0].upper()}{text[1:]}."
