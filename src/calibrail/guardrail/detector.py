"""Is the detector on this machine the one that was frozen?"""

from typing import Final

from calibrail.errors import GuardrailError, InputError
from calibrail.guardrail.frozen import ScoreSpecConfig, plain
from calibrail.scores.base import Score
from calibrail.scores.learned import learns, state_bytes, with_state
from calibrail.scores.registry import ScoreSpec, build

#: How a guardrail whose detector is another one here is made anew.
RENEW: Final = (
    "calibrate again with this one and renew the guardrail: calibrail calibrate DATA -o RUN, then "
    "calibrail export RUN -o guardrail.json"
)


def frozen_detector(frozen: ScoreSpecConfig, score: Score | None = None) -> Score:
    """Return the detector that was frozen, with what it had learnt.

    Parameters
    ----------
    frozen : ScoreSpecConfig
        What it must be.
    score : Score, optional
        The detector; built when left out.

    Raises
    ------
    GuardrailError
        If its name, parameters, state or fingerprint is not what was frozen.
    """
    if score is None:
        score = build(ScoreSpec(frozen.name, frozen.params))
    if learns(score):
        try:
            score = with_state(score, frozen.state_bytes())
        except InputError as error:
            raise GuardrailError(f"the guardrail cannot be loaded: {error}") from error
    _refuse_other(frozen, score)
    return score


def _refuse_other(frozen: ScoreSpecConfig, score: Score) -> None:
    if score.name != frozen.name:
        raise GuardrailError(f"the guardrail was frozen for {frozen.name!r}; got {score.name!r}")
    if (params := plain(score.params)) != frozen.params:
        raise GuardrailError(
            f"the detector's parameters are {params!r}; frozen were {frozen.params!r}"
        )
    if score.tolerance != frozen.tolerance:
        raise GuardrailError(
            f"the detector's tolerance is {score.tolerance!r}; frozen was {frozen.tolerance!r}"
        )
    if state_bytes(score) != frozen.state_bytes():
        raise GuardrailError(
            f"what the score {score.name} has learnt is not what was calibrated; {RENEW}"
        )
    here, there = plain(score.fingerprint()), frozen.fingerprint
    if here != there:
        details = "; ".join(
            f"{key}: frozen {there.get(key)!r}, here {here.get(key)!r}"
            for key in sorted(here.keys() | there.keys())
            if here.get(key) != there.get(key)
        )
        raise GuardrailError(
            f"the detector on this machine is not the one that was calibrated ({details}); install "
            f"the frozen one, or {RENEW}"
        )
