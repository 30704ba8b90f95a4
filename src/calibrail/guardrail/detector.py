"""The frozen detector: its fingerprint, and the refusal of every other one."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from calibrail.errors import GuardrailError, InputError
from calibrail.guardrail.file import ScoreSpecConfig, plain
from calibrail.options.guarantee import Unit
from calibrail.scores.base import Score
from calibrail.scores.detector import learns, state_bytes, with_state
from calibrail.scores.registry import ScoreSpec, build, members_of
from calibrail.scores.source_digest import find_source
from calibrail.text.removal import TRIMMING_VERSION
from calibrail.text.sentences import answer_sentences_version

#: How a guardrail whose detector is another one here is made anew.
RENEW: Final = (
    "calibrate again with this one and renew the guardrail: calibrail calibrate DATA -o RUN, then "
    "calibrail export RUN -o guardrail.json"
)


def frozen_fingerprint(score: Score, unit: Unit = "answer") -> dict[str, Any]:
    """Return everything that parameters leave unsaid: of sentences, how answers become them, too.

    Parameters
    ----------
    score : Score
        The detector.
    unit : {"answer", "sentence"}
        What it scores.
    """
    fingerprint = plain(score.fingerprint())
    if unit == "sentence":
        versions = {"splitter": answer_sentences_version(), "trimming": TRIMMING_VERSION}
        fingerprint["by_sentence"] = versions
    return fingerprint


def frozen_detector(
    frozen: ScoreSpecConfig, score: Score | None = None, unit: Unit = "answer"
) -> Score:
    """Return the detector that was frozen, with what it had learnt.

    Parameters
    ----------
    frozen : ScoreSpecConfig
        What it must be.
    score : Score, optional
        The detector; built when left out.
    unit : {"answer", "sentence"}
        What it scores.

    Raises
    ------
    GuardrailError
        If its name, parameters, state or fingerprint is not what was frozen.
    """
    if score is None:
        spec = ScoreSpec(frozen.name, frozen.params)
        _refuse_other_source(spec, set(_digests(frozen.fingerprint)))
        score = build(spec)
    if learns(score):
        try:
            score = with_state(score, frozen.state_bytes())
        except InputError as error:
            raise GuardrailError(f"the guardrail cannot be loaded: {error}") from error
    _refuse_other_detector(frozen, score, unit)
    return score


def _refuse_other_source(spec: ScoreSpec, frozen: set[str]) -> None:
    """Refuse a user's own code, before it is imported, whose file is none of those frozen."""
    for member in members_of(spec):
        _refuse_other_source(member, frozen)
    name = spec.params.get("detector")
    if spec.name != "custom" or not isinstance(name, str):
        return
    if (path := find_source(name.partition(":")[0])) is None:
        # It runs in this process already, or cannot be found, which importing it says.
        return
    try:
        here = sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise GuardrailError(f"cannot read {path} of the detector {name}: {error}") from error
    if here not in frozen:
        known = ", ".join(sorted(frozen)) or "none"
        raise GuardrailError(
            "the detector on this machine is not the one that was calibrated: the source of "
            f"{name}, {path}, has SHA-256 {here}, frozen is {known}; it was not imported. Install "
            f"the frozen one, or {RENEW}"
        )


def _digests(fingerprint: object) -> Iterator[str]:
    """Yield the digest of every source file that a fingerprint names, its members' too."""
    if not isinstance(fingerprint, Mapping):
        return
    sources = fingerprint.get("sources")
    yield from sources.values() if isinstance(sources, Mapping) else ()
    for key, value in fingerprint.items():
        if key == "source_sha256" and isinstance(value, str) and not sources:
            yield value
        yield from _digests(value)


def _refuse_other_detector(frozen: ScoreSpecConfig, score: Score, unit: Unit) -> None:
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
    here, there = frozen_fingerprint(score, unit), frozen.fingerprint
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
