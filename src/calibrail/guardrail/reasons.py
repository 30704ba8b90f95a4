"""Why does a guardrail decide so about a score, in one sentence?"""

from calibrail.conformal.rule import Rule
from calibrail.guardrail.decision import Outcome
from calibrail.phrases import number
from calibrail.scale import Scale


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
