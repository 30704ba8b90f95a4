"""Does the threshold that several risks chose keep them on the test part?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import exact_bound
from calibrail.conformal.risk_spec import Risk
from calibrail.conformal.risks import RiskControl
from calibrail.evaluation.sample import TEST, Sample


def measured_risks(
    control: RiskControl,
    flagged: NDArray[np.bool_],
    sample: Sample,
    confidence: float,
) -> dict[str, Any]:
    """Return the control with each risk as the test part shows it, in exact bounds.

    Parameters
    ----------
    control : RiskControl
        The promises and the candidates.
    flagged : ndarray of bool, shape (n,)
        Decisions at the chosen threshold.
    sample : Sample
        Its test part is looked at.
    confidence : float
        Of all intervals together (Bonferroni).
    """
    counts = (*sample.count(flagged, TEST, 1), *sample.count(flagged, TEST, 0))
    measured = risk_bounds(control.risks, *counts, confidence)
    return {**control.to_dict(), "measured": measured, "n_valid": sum(control.valid)}


def risk_bounds(
    risks: Sequence[Risk],
    caught: int,
    n_hallucinated: int,
    false_alarms: int,
    n_faithful: int,
    confidence: float,
) -> list[dict[str, Any]]:
    """Return each risk with its exact bound from the counts, and whether it is shown to be kept."""
    flagged, n = caught + false_alarms, n_hallucinated + n_faithful
    counts = {
        "precision": (caught, flagged),
        "recall": (caught, n_hallucinated),
        "accuracy": (caught + n_faithful - false_alarms, n),
        "fpr": (false_alarms, n_faithful),
        "abstention": (flagged, n),
    }
    level = 1.0 - (1.0 - confidence) / len(risks)
    measured = []
    for risk in risks:
        bound = exact_bound(*counts[risk.name], level)
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
    return measured


def risk_verdict(measured: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Return verdict and reason from the measured risks: all shown kept, one broken, or neither."""
    by_state: dict[str, list[str]] = {"within": [], "exceeded": [], "open": []}
    for item in measured:
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
