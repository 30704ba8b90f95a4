"""Which answers of unlabelled traces are labelled, until the data decides?"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from calibrail.conformal import minimum_n
from calibrail.data.example import Example
from calibrail.data.reading import Reading, read
from calibrail.data.sources import Source, is_named, names_of, open_source, spoken
from calibrail.errors import DataError, InputError, file_errors
from calibrail.guardrail.runtime import Guardrail
from calibrail.labelling.drawer import Judge, Judged
from calibrail.labelling.folder import (
    GUARDRAIL,
    LOCK,
    PLAN,
    POOL_FILE,
    QUARANTINE,
    LabelFolder,
    begun,
    read_plan,
)
from calibrail.labelling.order import Order
from calibrail.labelling.plan import SessionPlan, Traces
from calibrail.labelling.pool import first_units, without_copies
from calibrail.labelling.session import Session
from calibrail.labelling.store import Lock, encoded
from calibrail.record import plain
from calibrail.settings import Drawing, Promise, ReadOptions, Requirement, checks
from calibrail.settings.checks import optional
from calibrail.settings.labelling import LabelOptions
from calibrail.settings.option import changed, option_of
from calibrail.settings.short import LabelShort, collect_requirement, from_keywords
from calibrail.workflow.context import Progress
from calibrail.workflow.freshness import Fresh
from calibrail.workflow.inherited import inherited
from calibrail.workflow.sources import BLOCK
from calibrail.writing import write_atomically


def label(
    traces: Source | None,
    folder: str | PathLike[str],
    requirement: Requirement | None = None,
    *,
    guardrail: Guardrail | str | PathLike[str] | None = None,
    promise: Promise | None = None,
    drawing: Drawing | None = None,
    options: LabelOptions | None = None,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
    **short: Unpack[LabelShort],
) -> Session:
    """Begin to label, or go on: hand out answers one by one, and keep every label.

    With a guardrail labels are drawn for its verdict: ``session.counts`` says when it has fallen,
    and ``certify`` recomputes it from the folder. Without one they are drawn for a threshold.
    Called again, it goes on where it was: what is left out is as it was at first.

    Parameters
    ----------
    traces : path, str, data in memory, or None
        Answers without labels; labels that they have are not looked at. None goes on with those
        that the labels were begun with.
    folder : path
        For the labels; made where it is missing.
    requirement : Requirement, optional
        Of the verdict: ``max_fpr`` is needed with a guardrail; ``min_coverage`` is what the
        guardrail promises unless said otherwise.
    guardrail : Guardrail or path, optional
        The frozen guardrail, or its file; a copy is kept in the folder.
    promise : Promise, optional
        Of the threshold, without a guardrail: labels are enough once so many hallucinated answers
        are labelled as it needs.
    drawing : Drawing, optional
        How answers are drawn; ``uniform`` at first.
    options : LabelOptions, optional
        Seed, share of two annotators, where the guess is, settling.
    reading : ReadOptions, optional
        How to read the traces.
    progress : callable, optional
        Called with the number of traces read so far.
    **short
        In a short call, fields of the requirement and of the options, e.g. ``max_fpr=0.2``.

    Returns
    -------
    Session

    Raises
    ------
    DataError
        No trace can be labelled, a file is damaged, or the folder cannot be written to.
    InputError
        A value is outside its domain, or is not what the labels were begun with.

    Examples
    --------
    >>> import tempfile, calibrail
    >>> with calibrail.label("example:facts", tempfile.mkdtemp()) as session:
    ...     task = session.next("ada")
    ...     session.put("ada", task.order, 1)
    ...     session.counts("ada").hallucinated
    1
    """
    rest = dict[str, Any](short)
    options = from_keywords(LabelOptions, options, rest)
    if requirement is not None or rest:
        requirement = collect_requirement(requirement, rest, label)
    folder = checks.path(folder, "folder")
    with file_errors(f"cannot make the folder {folder}", "; name another one"):
        folder.mkdir(parents=True, exist_ok=True)
    frozen = None if guardrail is None else Guardrail.of(guardrail)
    asked = _Asked(requirement, frozen, promise, drawing, options, reading)
    # Whoever comes second waits until the first one has read the traces.
    with Lock(folder / LOCK)():
        if begun(folder):
            plan = read_plan(folder)
            frozen = _frozen(folder, plan, frozen)
            _refuse_another(folder, plan, asked, frozen)
            _refuse_changed(folder, plan, traces, asked.reading)
        else:
            plan = _begin(folder, traces, asked, progress)
    reread = partial(_reread, plan, traces, reading, frozen)
    return Session(LabelFolder(folder), _judge(frozen), reread, settle=options.settle)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a call says about how labelling goes; None is as it was."""

    requirement: Requirement | None
    guardrail: Guardrail | None
    promise: Promise | None
    drawing: Drawing | None
    options: LabelOptions
    reading: ReadOptions | None


def _begin(
    folder: Path, traces: Source | None, asked: _Asked, progress: Progress | None
) -> SessionPlan:
    """Read the traces, set the first answers aside, and write down what is agreed on."""
    if traces is None:
        raise InputError(f"{folder} holds no labels yet; name the traces to label")
    guardrail, drawing = asked.guardrail, optional(asked.drawing, Drawing, "drawing")
    if asked.promise is not None and guardrail is not None:
        raise InputError("labels are for the verdict on a guardrail or for a promise; give one")
    if guardrail is None and asked.requirement is not None:
        raise InputError("a requirement is for the verdict on a guardrail; give the guardrail, too")
    if guardrail is None and drawing.design == "active":
        raise InputError(
            "the design active needs a guardrail: labels drawn by a guess do not weigh the same, "
            f"and thresholds count them alike; leave out {option_of(Drawing, 'design')}"
        )
    requirement = None if guardrail is None else _limits(guardrail, asked.requirement)
    options, seen = asked.options, Fresh(guardrail)
    reading = replace(
        optional(asked.reading, ReadOptions, "reading"), quarantine=folder / QUARANTINE
    )
    files = _file_states(traces, reading)
    examples = _open(traces, reading, guardrail, options.guess)
    order = Order(options.seed or 0)

    def usable() -> Iterator[Example]:
        for example in examples:
            if progress is not None and examples.n_examples % BLOCK == 0:
                progress(examples.n_examples)
            if seen.admits(example):
                yield example

    found = first_units(usable(), order, whole_groups=drawing.whole_groups)
    sha256 = examples.digest()
    freshness = seen.freshness(sha256)
    if freshness == "calibration data" or not found:
        raise DataError(
            f"{spoken(traces)} holds the answers that set the guardrail's threshold; a verdict "
            "needs others: name traces that are new"
        )
    promise, needed = asked.promise, None
    if promise is not None:
        needed = minimum_n(promise.alpha, promise.guarantee, promise.delta)
    plan = SessionPlan(
        purpose="calibrate" if guardrail is None else "certify",
        traces=Traces(
            names_of(traces),
            files,
            sha256,
            examples.n_examples,
            examples.n_quarantined,
            seen.n_seen_before,
            freshness,
        ),
        drawing=drawing,
        seed=options.seed or 0,
        shared=options.shared or 0.0,
        guardrail=None if guardrail is None else guardrail.config.digest,
        requirement=requirement,
        promise=promise,
        needed=needed,
        guess=options.guess,
        reading=examples.how(),
    )
    with file_errors(f"cannot write into the folder {folder}", "; name another one"):
        pool = b"".join(encoded(item.to_dict()) for item in without_copies(found, ()))
        write_atomically(folder / POOL_FILE, pool, durable=True)
        if guardrail is not None:
            write_atomically(folder / GUARDRAIL, guardrail.config.to_bytes(), durable=True)
        # The last one: without it nothing has begun.
        write_atomically(folder / PLAN, _json(plan.to_dict()), durable=True)
    return plan


def _open(
    traces: Source, reading: ReadOptions, guardrail: Guardrail | None, guess: str | None
) -> Reading:
    """Open traces: each needs a response, and is otherwise read as the guardrail's own data was."""
    if guardrail is not None:
        reading = inherited(reading, guardrail, traces, labelled=False)
    columns, texts = (guardrail.columns, guardrail.texts) if guardrail else ((), ())
    keep = (*columns, *(() if guess is None else (guess,)))
    return read(
        traces,
        reading,
        keep=tuple(dict.fromkeys(keep)),
        require=("response",),
        expect=texts,
        labelled=False,
    )


def _reread(
    plan: SessionPlan,
    traces: Source | None,
    reading: ReadOptions | None,
    guardrail: Guardrail | None,
) -> Iterator[Example]:
    """Yield the same answers once more, for those that come later."""
    source = traces if traces is not None else plan.traces.paths
    used = ReadOptions(**plan.reading["settings"]) if reading is None else reading
    seen = Fresh(guardrail)
    return filter(seen.admits, _open(source, used, guardrail, plan.guess))


def _file_states(traces: Source, reading: ReadOptions) -> tuple[str, ...]:
    """Return size and time of change of each file, by which an unchanged one is known at once."""
    if not is_named(traces):
        return ()
    states = (path.stat() for path in open_source(traces, reading).files)
    return tuple(f"{state.st_size} bytes, changed at {state.st_mtime_ns}" for state in states)


def _frozen(folder: Path, plan: SessionPlan, given: Guardrail | None) -> Guardrail | None:
    """Return the guardrail of the labels: the one given if it is that, or the copy kept of it."""
    if plan.guardrail is None or (given is not None and given.config.digest == plan.guardrail):
        return given
    kept = Guardrail.load(folder / GUARDRAIL)
    if kept.config.digest != plan.guardrail:
        raise DataError(
            f"{folder / GUARDRAIL} is not the guardrail that the labels were begun with "
            f"({plan.guardrail[:19]}...); restore it from a copy"
        )
    return kept


def _refuse_another(
    folder: Path, plan: SessionPlan, asked: _Asked, frozen: Guardrail | None
) -> None:
    """Refuse what is said now if it is not what the labels were begun with, by name."""
    options, requirement = asked.options, asked.requirement
    if requirement is not None and frozen is not None:
        requirement = _limits(frozen, requirement)
    digest = None if asked.guardrail is None else asked.guardrail.config.digest
    settings = None if asked.reading is None else plain(changed(asked.reading))
    pairs: dict[str, tuple[Any, Any]] = {
        "guardrail": (digest, plan.guardrail),
        "requirement": (plain(requirement), plain(plan.requirement)),
        "promise": (plain(asked.promise), plain(plan.promise)),
        "drawing": (plain(asked.drawing), plain(plan.drawing)),
        "seed": (options.seed, plan.seed),
        "shared": (options.shared, plan.shared),
        "guess": (options.guess, plan.guess),
        "reading": (settings, plain(plan.reading["settings"])),
    }
    others = [
        f"{name} was {then!r} and is now {now!r}"
        for name, (now, then) in pairs.items()
        if now is not None and now != then
    ]
    if others:
        raise InputError(
            f"the labels in {folder} were begun otherwise: {'; '.join(others)}. Leave that out to "
            "go on as they were begun, or name another folder to begin anew; nothing was changed"
        )


def _refuse_changed(
    folder: Path, plan: SessionPlan, traces: Source | None, reading: ReadOptions | None
) -> None:
    """Refuse traces that are not those that the labels were begun with."""
    if traces is None:
        return
    used = reading or ReadOptions(**plan.reading["settings"])
    if (files := _file_states(traces, used)) and files == plan.traces.files:
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


def _limits(guardrail: Guardrail, requirement: Requirement | None) -> Requirement:
    """Return the requirement with the coverage that is meant where it leaves it out."""
    requirement = optional(requirement, Requirement, "requirement")
    if requirement.max_fpr is None:
        raise InputError("max_fpr must be given: how many faithful answers may be held back?")
    return replace(requirement, min_coverage=requirement.coverage(guardrail.config.promise))


def _judge(guardrail: Guardrail | None) -> Judge | None:
    """Return what asks the guardrail."""
    if guardrail is None:
        return None

    def judge(examples: Sequence[Example]) -> list[Judged]:
        return [Judged(item.score, item.flagged) for item in guardrail.decide(list(examples))]

    return judge


def _json(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"
