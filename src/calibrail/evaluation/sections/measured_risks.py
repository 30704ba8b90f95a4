"""Does the threshold that several risks chose keep them on the test part?"""

from collections.abc import Sequence
from typing import Any

from calibrail.conformal import Bound, Counts, exact_bound
from calibrail.conformal.bound import interval, proof_level
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
        Of the bounds together (Bonferroni), and of the claim that all risks are kept.
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
        # All risks have to be shown to be kept, so each may take the whole error.
        lower, upper = interval(*shares[risk.name], proof_level(confidence))
        state = shown(bound, risk.relation, risk.level, (float(lower), float(upper)))
        measured.append({**risk.to_dict(), "test": bound.to_dict(), "shown": state})
    return measured


def shown(
    bound: Bound, relation: str, level: float, proof: tuple[float, float] | None = None
) -> str:
    """Return whether a limit is shown to be kept (``within``), ``exceeded``, or ``open``.

    Parameters
    ----------
    bound : Bound
        Its ends show that the limit is broken.
    relation : {">=", "<="}
        Which side of the limit is good.
    level : float
        The limit.
    proof : (float, float), optional
        The interval whose ends show that the limit is kept; that of ``bound`` when left out.
    """
    proof = proof or (bound.lower, bound.upper)
    if (proof[0] >= level) if relation == ">=" else (proof[1] <= level):
        return "within"
    broken = (bound.upper < level) if relation == ">=" else (bound.lower > level)
    return "exceeded" if broken else "open"


def risk_verdict(measured: Sequence[dict[str, Any]]) -> Verdict:
    """Return the verdict about measured risks: all shown to be kept, one broken, or neither."""
    states = {item["shown"] for item in measured}
    if "exceeded" in states:
        return "rejected"
    return "inconclusive" if "open" in states else "certified"
