"""Does the threshold that several risks chose keep them on the test part?"""

from collections.abc import Sequence
from typing import Any

from calibrail.conformal import Bound, Counts, exact_bound
from calibrail.conformal.certificate import Verdict
from calibrail.conformal.risk_spec import Risk


def risk_bounds(risks: Sequence[Risk], counts: Counts, confidence: float) -> list[dict[str, Any]]:
    """Return each risk with its exact bound, and whether it is shown to be kept.

    Parameters
    ----------
    risks : sequence of Risk
        The promises.
    counts : Counts
        What is flagged.
    confidence : float
        Of all bounds together (Bonferroni).
    """
    caught, alarms, n_faithful = counts.caught, counts.false_alarms, counts.n_faithful
    n = counts.n_hallucinated + n_faithful
    shares = {
        "precision": (caught, caught + alarms),
        "recall": (caught, counts.n_hallucinated),
        "accuracy": (caught + n_faithful - alarms, n),
        "fpr": (alarms, n_faithful),
        "abstention": (caught + alarms, n),
    }
    level = 1.0 - (1.0 - confidence) / len(risks)
    measured = []
    for risk in risks:
        bound = exact_bound(*shares[risk.name], level)
        state = shown(bound, risk.relation, risk.level)
        measured.append({**risk.to_dict(), "test": bound.to_dict(), "shown": state})
    return measured


def shown(bound: Bound, relation: str, level: float) -> str:
    """Return whether a bound shows that a limit is kept (``within``), ``exceeded``, or ``open``."""
    kept, broken = bound.lower >= level, bound.upper < level
    if relation == "<=":
        kept, broken = bound.upper <= level, bound.lower > level
    if kept:
        return "within"
    return "exceeded" if broken else "open"


def risk_verdict(measured: Sequence[dict[str, Any]]) -> Verdict:
    """Return the verdict about measured risks: all shown to be kept, one broken, or neither."""
    states = {item["shown"] for item in measured}
    if "exceeded" in states:
        return "rejected"
    return "inconclusive" if "open" in states else "certified"
