"""Probes and fingerprint: does this machine compute what was certified.

The scores of sixteen answers (``probe_answers.json``) are frozen with a guardrail. Another version
of a library, another tokenizer, device or precision that changes them is noticed before it decides
anything.

The answers never change under the name of their set: a digest in the tests holds them. They differ
in what libraries disagree about: length (one is longer than a model reads at once), windows,
scripts, spaces, numbers, code; each has further samples, so that every family of scores has
something to compare.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import numpy as np

from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.example import Example
from calibrail.data.sentences import sentence_examples
from calibrail.errors import GuardrailError, InputError, ModelError, error_text, errors_as
from calibrail.guardrail.file import ProbedMember, Probes, ScoreSpecConfig
from calibrail.models.batching import isolated_cache
from calibrail.models.hardware import machine
from calibrail.models.llm.chat import RemoteModel
from calibrail.models.llm.transport import BudgetError, account, is_usual, limit_calls
from calibrail.options.guarantee import Unit
from calibrail.scores import base, registry
from calibrail.scores.custom import find_source
from calibrail.serialization import given_back
from calibrail.text.words import edition_in, rules_of
from calibrail.working_folder import refuse_own_code


@dataclass(frozen=True, slots=True)
class Probed:
    """What became of comparing this machine with the frozen scores.

    Attributes
    ----------
    state : {"agree", "members", "unprobed", "column", "endpoint"}
        ``agree``: every probe has its frozen score here. ``members``: so has every member of the
        detector that asks no endpoint, and the endpoint was not asked. ``unprobed``: no probe has a
        score, here as when it was frozen, so that nothing is shown. ``column``: the score is a
        column of the data, and no machine computes anything. ``endpoint``: the detector asks an
        endpoint, which was not asked.
    n, n_undefined : int
        Probe scores compared, and those of them that are undefined, here as when it was frozen.
    largest_difference : float
        Between a frozen score and the one computed here.
    tolerance : float
        How large it may be; of members, the largest.
    frozen, here : mapping of str to str
        Versions, device and precision then and now.
    members : tuple of str
        The members that were compared, for ``members``.
    why : str or None
        Why the first probe has no score, for ``unprobed``.
    """

    state: Literal["agree", "members", "unprobed", "column", "endpoint"]
    n: int = 0
    n_undefined: int = 0
    largest_difference: float = 0.0
    tolerance: float = 0.0
    frozen: Mapping[str, str] | None = None
    here: Mapping[str, str] | None = None
    members: tuple[str, ...] = ()
    why: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON, with ``differ``: the versions that are not alike, in words."""
        return {**asdict(self), "differ": other_versions(self.frozen or {}, self.here or {})}

    def unproven(self) -> str | None:
        """Return that nothing is shown, and why, where no probe has a score; None elsewhere."""
        return None if self.state != "unprobed" else error_text("not_probed", of=self)


def other_versions(frozen: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return what differs between two machines, with both values; empty where nothing does."""
    return "; ".join(
        f"{name}: frozen {frozen.get(name, 'none')}, here {here.get(name, 'none')}"
        for name in {**frozen, **here}
        if frozen.get(name) != here.get(name)
    )


#: The name of these sixteen.
SET: Final = "calibrail-probes/1"
#: The name of their sentences.
SENTENCE_SET: Final = "calibrail-probes/1 by sentence"

#: Question, contexts, response and further samples, as the file has them in this order.
ANSWERS: Final = [
    tuple(item.values())
    for item in json.loads((resources.files(__package__) / "probe_answers.json").read_text("utf-8"))
]


def probe_examples(score: base.Score, unit: Unit = "answer") -> list[Example]:
    """Return the sixteen answers, with a number in each column that the score reads beside them.

    Of a guardrail of sentences their sentences: one more or less shows another splitter.
    """
    names = [name for name in getattr(score, "columns", ()) if name != ALL_COLUMNS]
    answers = [
        Example(
            question=question,
            contexts=tuple(contexts),
            response=response,
            samples=tuple(samples),
            id=f"probe-{row}",
            columns=dict.fromkeys(names, row / len(ANSWERS)),
        )
        for row, (question, contexts, response, samples) in enumerate(ANSWERS, start=1)
    ]
    if unit == "answer":
        return answers
    return [sentence for answer in answers for sentence in sentence_examples(answer)]


def not_computed(score: base.Score) -> Literal["column", "endpoint"] | None:
    """Return why this machine alone does not compute a score; None where it does."""
    if isinstance(score, registry.ColumnScore):
        return "column"
    models = getattr(score, "models", ())
    return "endpoint" if any(isinstance(model, RemoteModel) for model in models) else None


def local_members(score: base.Score) -> dict[str, base.Score]:
    """Return the members, at any depth, that this machine computes; none of them a column.

    >>> from calibrail.scores.registry import ScoreSpec, build
    >>> list(local_members(build(ScoreSpec("ensemble", {"scores": "rouge_l,length"}))))
    ['rouge_l', 'length']
    """
    found: dict[str, base.Score] = {}
    for name, member in getattr(score, "members", {}).items():
        if (why := not_computed(member)) is None:
            found[name] = member
        elif why == "endpoint":
            found |= {f"{name}/{below}": lower for below, lower in local_members(member).items()}
    return found


def freeze_probes(
    score: base.Score, *, endpoint: bool = False, unit: Unit = "answer"
) -> Probes | None:
    """Return the probes' scores to freeze; None where there is nothing to compare later.

    Parameters
    ----------
    score : Score
        The detector, with what it has learnt.
    endpoint : bool
        Whether a detector that asks an endpoint may ask it about the probes. Its members that ask
        none are asked about them in any case.
    unit : {"answer", "sentence"}
        What the guardrail flags.

    Raises
    ------
    GuardrailError
        If the endpoint gave no answer, or the score's tolerance is so large that any machine would
        agree.
    ModelError
        If a model cannot be had.
    """
    _, asked, members = _computed_parts(score, endpoint)
    if not asked and not members:
        return None
    parts = {name: _probe_scores(member, unit) for name, member in members.items()}
    of_all = _probe_scores(score, unit) if asked else None
    return Probes(
        set=SET if unit == "answer" else SENTENCE_SET,
        scores=of_all.scores if of_all else None,
        reasons=of_all.reasons if of_all else {},
        raised=of_all.raised if of_all else None,
        versions=_versions([score] if asked else members.values()),
        members=parts or None,
    )


def _computed_parts(
    score: base.Score, endpoint: bool
) -> tuple[Literal["column", "endpoint"] | None, bool, dict[str, base.Score]]:
    """Return why this machine does not compute a score, whether it is asked, and its members."""
    why = not_computed(score)
    asked = why is None or (why == "endpoint" and endpoint)
    return why, asked, local_members(score) if why == "endpoint" else {}


def _versions(scores: Iterable[base.Score]) -> dict[str, str]:
    return machine([model for item in scores for model in getattr(item, "models", ())])


def compare_probes(
    frozen: Probes | None, score: base.Score, *, endpoint: bool = False, unit: Unit = "answer"
) -> Probed:
    """Score the probes on this machine and compare.

    Parameters
    ----------
    frozen : Probes or None
        What the guardrail holds.
    score : Score
        Its detector on this machine.
    endpoint : bool
        Whether a detector that asks an endpoint may ask it.
    unit : {"answer", "sentence"}
        What the guardrail flags.

    Raises
    ------
    GuardrailError
        If a score differs by more than the score's tolerance, or is defined on one side alone, or
        the detector fails on one side alone; with the versions of both. Also if the guardrail holds
        no probes though it could.
    """
    why, asked, members = _computed_parts(score, endpoint)
    if not asked and not members:
        return Probed("column" if why == "column" else "endpoint")
    held = {} if frozen is None else frozen.members or {}
    if frozen is None or held.keys() != members.keys() or (asked and frozen.scores is None):
        option = " --probe-endpoint" if asked and why == "endpoint" else ""
        raise GuardrailError.on("no_probes", option=option)
    here = _versions([score] if asked else members.values())
    then = frozen.versions
    alike = [f"{name} {value}" for name, value in then.items() if here.get(name) == value]
    differ = other_versions(then, here) or "none that is known"
    side_by_side = f"What differs: {differ}. Alike: {', '.join(alike) or 'nothing'}"
    compared = [_compare(held[k], it, unit, side_by_side, f" of {k}") for k, it in members.items()]
    if asked and frozen.scores is not None:
        whole = ProbedMember(scores=frozen.scores, reasons=frozen.reasons, raised=frozen.raised)
        compared.append(_compare(whole, score, unit, side_by_side))
    n, n_undefined = sum(item.n for item in compared), sum(item.n_undefined for item in compared)
    state: Literal["agree", "members", "unprobed"] = "agree" if asked else "members"
    return Probed(
        state="unprobed" if n == n_undefined else state,
        n=n,
        n_undefined=n_undefined,
        largest_difference=max(item.largest_difference for item in compared),
        tolerance=max(item.tolerance for item in compared),
        frozen=dict(frozen.versions),
        here=here,
        members=() if asked else tuple(members),
        why=compared[-1].why,
    )


def _compare(
    frozen: ProbedMember, score: base.Score, unit: Unit, side_by_side: str, whose: str = ""
) -> Probed:
    """Compare one detector's scores, or refuse them."""
    computed, remedy = _probe_scores(score, unit), "Install what was frozen, or calibrate again"
    if len(computed.scores) != len(frozen.scores):
        n, was = len(computed.scores), len(frozen.scores)
        raise GuardrailError.on(
            "probe_sentences", here=n, there=was, both=side_by_side, remedy=remedy
        )
    there, values = (np.array(item.scores, np.float64) for item in (frozen, computed))
    numbers = [str(row) for row in range(1, len(there) + 1)]
    # An undefined score's words may change from version to version, what was raised may not.
    same = np.array(
        [
            (row in computed.reasons, computed.errors.get(row))
            == (row in frozen.reasons, frozen.errors.get(row))
            for row in numbers
        ]
    )
    tolerance, undefined = float(score.tolerance), np.isnan(there)
    differences = np.where(undefined & np.isnan(values) & same, 0.0, np.abs(there - values))
    # A score on one side alone is a difference, too: NaN is not within any tolerance.
    wrong = np.flatnonzero(~(differences <= tolerance))
    if len(wrong):
        first = int(wrong[np.argmax(np.nan_to_num(differences[wrong], nan=np.inf))])
        sides = [
            f"undefined ({item.reasons.get(numbers[first])})" if np.isnan(side) else f"{side:.9g}"
            for item, side in ((frozen, there[first]), (computed, values[first]))
        ]
        raise GuardrailError(
            f"this machine does not compute what was certified: {len(wrong)} of {len(there)} probe "
            f"scores{whose} differ by more than {tolerance:g}; probe {first + 1}: frozen "
            f"{sides[0]}, here {sides[1]}. {side_by_side}. {remedy} with this"
        )
    return Probed(
        state="agree",
        n=len(there),
        n_undefined=int(undefined.sum()),
        largest_difference=float(differences.max()),
        tolerance=tolerance,
        why=next(iter(computed.reasons.values()), None),
    )


@contextmanager
def asked_anew() -> Iterator[None]:
    """Let endpoints be asked within the block, whatever answers are kept."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        limits = replace(account().limits, cache=Path(folder) / "answers.sqlite", batch=False)
        with limit_calls(limits):
            yield


def _probe_scores(score: base.Score, unit: Unit) -> ProbedMember:
    """Return the probes' scores as this machine computes them now, and why some have none.

    Each is scored alone, as `check` scores one answer: a batch would pad all to the longest.

    Raises
    ------
    GuardrailError
        Within the tolerance any two scores agree, or an endpoint gave no answer.
    """
    values: list[float | None] = []
    reasons, raised = dict[str, str](), dict[str, str]()
    # What others know stays; nothing of it is taken up, no vector and no reply of an endpoint.
    with asked_anew(), isolated_cache():
        if callable(forget := getattr(score, "forget", None)):
            forget()
        for number, example in enumerate(probe_examples(score, unit), start=1):
            row = str(number)
            try:
                scores = base.scored_alone(score, example)
            except (ModelError, BudgetError):
                raise
            except Exception as error:
                # A detector of one's own may fail on an answer; that is its value there.
                raised[row] = type(error.__cause__ or error).__name__
                reasons[row] = f"the detector raised {raised[row]}"
                values.append(None)
                continue
            values.append(None if np.isnan(scores.values[0]) else float(scores.values[0]))
            if (why := scores.reasons.get(0)) is not None:
                reasons[row] = str(why)
            if isinstance(why, base.DetectorFailure):
                # That an endpoint is down says nothing of what it would say.
                raise GuardrailError.on("probe_failed", row=row, why=why)
    known = np.array([value for value in values if value is not None])
    # Scores that are all alike say nothing of the scale but their size.
    if len(known) and score.tolerance >= (
        spread := float(np.ptp(known)) or max(1.0, float(np.abs(known).max()))
    ):
        raise GuardrailError.on("tolerance_too_large", score=score, spread=spread)
    return ProbedMember(scores=values, reasons=reasons, raised=raised or None)


def edition_of(frozen: ScoreSpecConfig) -> int:
    """Return the edition of the rules for texts and replies that a guardrail was frozen with."""
    return edition_in(json.dumps(frozen.fingerprint))


def frozen_detector(
    frozen: ScoreSpecConfig, score: base.Score | None = None, unit: Unit = "answer"
) -> base.Score:
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
        If its name, parameters, state or fingerprint is not what was frozen, or a judge's template
        is to be read from a file.
    """
    with rules_of(edition_of(frozen)):
        if score is None:
            spec = registry.ScoreSpec(frozen.name, frozen.params)
            _refuse_other_source(spec, set(_digests(frozen.fingerprint)))
            score = registry.build_frozen(spec)
            for model in getattr(score, "models", ()):
                if isinstance(model, RemoteModel) and not is_usual(model.endpoint):
                    refuse_own_code(f"the address {model.endpoint}", address=True)
        if base.learns(score):
            with errors_as(GuardrailError, InputError, "guardrail_not_loaded"):
                score = base.with_state(score, frozen.state_bytes())
        _refuse_other_detector(frozen, score, unit)
    return score


def _refuse_other_source(spec: registry.ScoreSpec, frozen: set[str]) -> None:
    """Refuse a user's own code, before it is imported, whose file is none of those frozen."""
    for member in registry.members_of(spec):
        _refuse_other_source(member, frozen)
    name = spec.params.get("detector")
    if spec.name != "custom" or not isinstance(name, str):
        return
    if (path := find_source(name.partition(":")[0])) is None:
        # It runs in this process already, or cannot be found, which importing it says.
        return
    with errors_as(GuardrailError, OSError, "detector_source_unreadable", path=path, name=name):
        here = sha256(path.read_bytes()).hexdigest()
    if here not in frozen:
        known = ", ".join(sorted(frozen)) or "none"
        raise GuardrailError.on("another_source", name=name, path=path, here=here, known=known)


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


def _refuse_other_detector(frozen: ScoreSpecConfig, score: base.Score, unit: Unit) -> None:
    for what, here, there in (
        ("name", score.name, frozen.name),
        ("parameters", given_back(score.params), frozen.params),
        ("tolerance", score.tolerance, frozen.tolerance),
    ):
        if here != there:
            raise GuardrailError(f"the detector's {what}: {here!r}; frozen was {there!r}")
    if base.state_bytes(score) != frozen.state_bytes():
        raise GuardrailError.on("learnt_otherwise", score=score)
    here, there = registry.frozen_fingerprint(score, unit), frozen.fingerprint
    if here != there:
        details = "; ".join(
            f"{key}: frozen {there.get(key)!r}, here {here.get(key)!r}"
            for key in sorted(here.keys() | there.keys())
            if here.get(key) != there.get(key)
        )
        raise GuardrailError.on("another_detector", details=details)
