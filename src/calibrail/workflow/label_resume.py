"""Is what labels were begun with still what it was?"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calibrail.data.example import Example
from calibrail.data.reader import read
from calibrail.data.sources import Source, is_named, spoken
from calibrail.errors import DataError, InputError
from calibrail.guardrail.runtime import Guardrail
from calibrail.labelling.elsewhere import read_lots
from calibrail.labelling.folder import GUARDRAIL
from calibrail.labelling.plan import SessionPlan
from calibrail.record import Record, plain
from calibrail.settings import LabelOptions, ReadOptions
from calibrail.settings.option import changed, either, option_of
from calibrail.workflow.freshness import Fresh
from calibrail.workflow.label_begin import Asked, file_states, limits, open_traces


def read_again(
    folder: Path, plan: SessionPlan, traces: Source | None, guardrail: Guardrail | None
) -> Iterator[Example]:
    """Yield the answers of the traces once more, for those that come later.

    Raises
    ------
    DataError
        The traces are no longer there, or are not what they were.
    """
    source = traces if traces is not None else plan.traces.paths
    if not is_named(source) and traces is None:
        raise DataError(
            f"all answers that were set aside in {folder} are drawn, and more of them are in the "
            "traces only: name these again to go on"
        )
    used = ReadOptions(**plan.reading["settings"])
    refuse_changed(folder, plan, source, used)
    seen = Fresh(guardrail)
    yield from filter(seen.admits, open_traces(source, used, guardrail, plan.guess))


def frozen_guardrail(folder: Path, plan: SessionPlan, given: Guardrail | None) -> Guardrail | None:
    """Return the guardrail of the labels: the one given if it is that, or the copy kept of it."""
    if plan.guardrail is None or plan.purpose == "watch":
        # What was logged is decided already.
        return given
    if given is not None and given.config.digest == plan.guardrail:
        return given
    kept = Guardrail.load(folder / GUARDRAIL)
    if kept.config.digest != plan.guardrail:
        raise DataError(
            f"{folder / GUARDRAIL} is not the guardrail that the labels were begun with "
            f"({plan.guardrail[:19]}...); restore it from a copy"
        )
    return kept


def refuse_another(folder: Path, plan: SessionPlan, asked: Asked, frozen: Guardrail | None) -> None:
    """Refuse what is said now if it is not what the labels were begun with, by name."""
    options, requirement = asked.options, asked.requirement
    anew = "or name another folder to begin anew; nothing was changed"
    if plan.purpose == "watch" and (asked.promise or asked.requirement) is not None:
        raise InputError(
            f"the answers in {folder} were drawn from a decision log to watch a guardrail, not for "
            f"a verdict or a threshold: go on without limits, {anew}"
        )
    for_verdict, for_threshold = "the verdict on a guardrail", "a threshold"
    if plan.purpose == "certify" and asked.promise is not None:
        is_for, asked_for = for_verdict, for_threshold
    elif plan.purpose == "calibrate" and (asked.guardrail or requirement) is not None:
        is_for, asked_for = for_threshold, for_verdict
    else:
        is_for = asked_for = ""
    if is_for != asked_for:
        raise InputError(
            f"the labels in {folder} are for {is_for}, not for {asked_for}: go on so, {anew}"
        )
    others = []
    if asked.guardrail is not None and asked.guardrail.config.digest != plan.guardrail:
        others.append(
            f"the guardrail is another one ({str(plan.guardrail)[:19]}... then, "
            f"{asked.guardrail.config.digest[:19]}... now)"
        )
    if requirement is not None and frozen is not None:
        requirement = limits(frozen, requirement)
    records: list[tuple[Record | None, Record | None]] = [
        (requirement, plan.requirement),
        (asked.promise, plan.promise),
        (asked.drawing, plan.drawing),
    ]
    for now, then in records:
        if now is not None:
            others += changes(type(now), plain(now), {} if then is None else plain(then))
    said = {name: getattr(options, name) for name in ("seed", "shared", "guess")}
    if options.elsewhere is not None:
        said["elsewhere"] = read_lots(options.elsewhere, plan.drawing).sha256
    others += changes(LabelOptions, said, plan.to_dict())
    if asked.reading is not None:
        others += changes(
            ReadOptions, plain(changed(asked.reading)), plain(plan.reading.get("settings", {}))
        )
    if others:
        raise InputError(
            f"the labels in {folder} were begun otherwise: {'; '.join(others)}. Leave that out to "
            f"go on as they were begun, {anew}"
        )


def changes(kind: Any, now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    """Say which settings are others than they were; None is as it was."""
    for name, value in now.items():
        if value is not None and value != (before := then.get(name)):
            option = option_of(kind, name).removesuffix("=...")
            yield f"{option} was {_spoken(before)} and is now {_spoken(value)}"


def _spoken(value: object) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, list):
        return ",".join(map(str, value)) or "not given"
    if value is None:
        return "not given"
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


def refuse_changed(
    folder: Path, plan: SessionPlan, traces: Source | None, reading: ReadOptions | None
) -> None:
    """Refuse traces that are not those that the labels were begun with."""
    if traces is None:
        return
    if plan.purpose == "watch":
        raise InputError(
            f"the answers in {folder} come from a decision log, not from {spoken(traces)}: leave "
            "that out to label them; `calibrail audit-sample` draws more of them, and fills in "
            f"texts with {either('--traces', 'traces=')}"
        )
    used = reading or ReadOptions(**plan.reading["settings"])
    if (files := file_states(traces, used)) and files == plan.traces.files:
        return
    examples = read(traces, used, require=(), labelled=False, allow_none=True)
    sha256 = examples.digest()
    if sha256 is None:
        for _ in examples:
            pass
        sha256 = examples.digest()
    if sha256 != plan.traces.sha256:
        raise DataError(
            f"{spoken(traces)} is not what the labels in {folder} were begun with: its SHA-256 was "
            f"{str(plan.traces.sha256)[:12]}... and is now {str(sha256)[:12]}...; restore it, or "
            "leave it out to go on with the answers that are set aside in the folder, or name "
            "another folder for these traces. Nothing was changed"
        )
