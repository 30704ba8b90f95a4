"""What does `calibrail explain` say about one decision and what it rests on?"""

from collections.abc import Mapping
from typing import Final

from calibrail.phrases import number
from calibrail.report.blocks import Json, Text
from calibrail.report.document import Document, Verdict
from calibrail.report.documents.evidence import evidence_block

#: In which colour a decision is shown.
_TONES: Final[Mapping[str, Verdict]] = {
    "pass": "certified",
    "flag": "rejected",
    "review": "inconclusive",
    "error": "rejected",
}


def document(decision: Json, score: str) -> Document:
    """Return a decision: outcome, reason, p-value in words, and the evidence item by item.

    Parameters
    ----------
    decision : mapping
        ``Decision.to_dict(evidence=True)``.
    score : str
        The detector's name.
    """
    reason, p_value = decision["reason"], decision["p_value"]
    evidence = evidence_block(decision["evidence"] or {}, most=10_000, piece=1_000_000)
    rare = ""
    if p_value is not None:
        rare = (
            f"About {100.0 * p_value:.3g} in 100 hallucinated answers look as harmless as this "
            f"one, or more so (p-value {number(p_value)})."
        )
    nothing = "" if evidence else "The detector says nothing about parts of the answer."
    return Document(
        "decision of",
        subject=score,
        headline=decision["outcome"].capitalize(),
        verdict=_TONES[decision["outcome"]],
        summary=f"{reason[:1].upper()}{reason[1:]}.",
        blocks=(Text(rare), evidence, Text(nothing)),
        footer="Everything on this page is in what --json prints.",
    )
