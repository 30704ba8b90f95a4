"""Why does a guardrail decide so about a score, in one sentence?"""

from typing import Final

from calibrail.conformal.overlapping import OverlappingCalibration
from calibrail.conformal.rule import Rule
from calibrail.guardrail.cause import UNDEFINED, Cause, reason_of_cause
from calibrail.guardrail.decision import Outcome
from calibrail.phrases import count, number
from calibrail.scale import Scale
from calibrail.settings.promise import Undefined
from calibrail.text.trimming import Tear

#: Of a sentence that goes though its score does not reach the threshold.
NOTHING_LEFT: Final = "nothing is left of what it introduces"

#: Why an answer cannot be trimmed.
TEARS: Final[dict[Tear, str]] = {
    "leans": "a sentence that would be left cannot do without one that would go",
    "together": "what would go is part of a code block, a row of a table, a quotation or brackets",
}


def reason_of(
    rule: Rule, scale: Scale, value: float, threshold: float | None, outcome: Outcome
) -> str:
    """Return the sentence.

    Parameters
    ----------
    rule : Rule
        The thresholds.
    scale : Scale
        In which numbers its user knows the score.
    value : float
        The nonconformity score, as it is shown.
    threshold : float or None
        That of the answer's group; None when everything is flagged.
    outcome : str
        What was decided.
    """
    if threshold is None and isinstance(rule.groups, OverlappingCalibration):
        return "flagged whatever the score: too few calibration examples share the answer's groups"
    if threshold is None:
        return "this guardrail flags everything: there were too few calibration examples"
    upper = rule.flag_above
    score = f"{scale.column or 'score'} {number(scale.shown(value), 6)}"
    edge = f"the threshold {number(scale.shown(threshold), 6)}"
    if upper is not None and outcome != "pass" and (upper >= threshold or outcome == "review"):
        flagging = f"the one for flagging, {number(scale.shown(upper), 6)}"
        if outcome == "review":
            return f"{score} is {scale.reaching} {edge} but not {scale.suspicious} {flagging}"
        return f"{score} is {scale.suspicious} {flagging.replace('one', 'threshold')}"
    if outcome == "pass":
        return f"{score} is {scale.harmless} {edge}"
    if value < threshold:
        return f"{score} is within rounding of {edge}"
    return f"{score} is {scale.reaching} {edge}"


def reason_of_trimming(
    outcome: Outcome,
    *,
    n: int,
    n_removed: int,
    n_undefined: int,
    worst: str | None,
    tear: Tear | None,
    policy: Undefined,
) -> str:
    """Return the sentence about an answer whose sentences were judged; it quotes nothing.

    Parameters
    ----------
    outcome : str
        What was decided.
    n, n_removed, n_undefined : int
        Sentences of the answer; those that go; those without a score.
    worst : str or None
        The reason of the sentence with the highest score; None where none has one.
    tear : str or None
        Why the answer cannot be trimmed.
    policy : str
        What becomes of a sentence without a score.
    """
    if n == 0:
        return reason_of_cause(Cause("score_undefined"), policy, "the response holds no sentence")
    parts = []
    if n_undefined:
        parts.append(f"{UNDEFINED} of {n_undefined} of {count(n, 'sentence')}; policy: {policy}")
    if outcome == "review" and tear is not None:
        parts.append(TEARS[tear])
    elif outcome != "review":
        parts.append(f"{n_removed} of {count(n, 'sentence')} removed" if n_removed else "all stays")
    if worst is not None:
        parts.append(f"of the worst sentence, {worst}")
    return "; ".join(parts)
