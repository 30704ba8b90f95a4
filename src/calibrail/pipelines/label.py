"""The label command: begins or resumes a session, and writes its verdict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import Any, Final, Literal, Unpack

import numpy as np

from calibrail.atomic_files import write_atomically
from calibrail.conformal import parse_risk
from calibrail.conformal.sequential.forecast import fewest_drawn
from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.example import Example
from calibrail.data.reading import Reading, read
from calibrail.data.sources import Source, is_named, names_of, open_source, reusable, spoken
from calibrail.data.suggested_options import direction_of
from calibrail.errors import DataError, InputError, ModelError, file_errors
from calibrail.guardrail.file import FrozenConfig
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.labelling import folder as folders
from calibrail.labelling import ledger, sampling
from calibrail.labelling.exchange.transfer import balance, read_lots, take_all
from calibrail.labelling.ledger import Order, SessionPlan, Traces
from calibrail.labelling.session import Session, hallucinated_needed
from calibrail.options import Drawing, LabelOptions, Promise, ReadOptions, Requirement, fields
from calibrail.options.data import ReadKeywords
from calibrail.options.fields import changed, optional, spell_option
from calibrail.options.guarantee import whole_answers
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines import data_reuse
from calibrail.pipelines.calibration_overlap import Fresh
from calibrail.pipelines.certify_labels import certify_labels, write_verdict
from calibrail.pipelines.loading import BLOCK, Progress
from calibrail.pipelines.run import inherited_reading
from calibrail.report.documents import label as words
from calibrail.report.messages import say
from calibrail.serialization import plain


@dataclass(frozen=True, slots=True)
class _LabelRequest:
    """What a call says about how labelling goes; None is as it was."""

    requirement: Requirement | None
    guardrail: Guardrail | None
    promise: Promise | None
    drawing: Drawing | None
    options: LabelOptions
    reading: ReadOptions | None
    guardrail_file: str | None = None
    looks: data_reuse.LooksFile = None


def _begin(
    folder: Path, traces: Source | None, asked: _LabelRequest, progress: Progress | None
) -> SessionPlan:
    """Read the traces, set the first answers aside, and write down what is agreed on."""
    if traces is None:
        raise InputError(f"{folder} holds no labels yet; name the traces to label")
    guardrail, options = asked.guardrail, asked.options
    queue = asked.drawing is not None and asked.drawing.design == "disagreements"
    judge, judges = (None, options.judge_column) if queue else (options.guide, ())
    drawing = Drawing.beside(judge, asked.drawing)
    _refuse_at_odds(asked, drawing)
    lots = None if options.elsewhere is None else read_lots(options.elsewhere, drawing)
    unknown, groups = set(lots.rows if lots else ()), dict[str, str | None]()
    needed = None if asked.promise is None else hallucinated_needed(asked.promise)
    requirement, share, history = None, 1.0, data_reuse.DataUseHistory(None)
    if guardrail is not None:
        requirement = _limits(guardrail, asked.requirement)
        history = data_reuse.DataUseHistory.of_guardrail(asked.guardrail_file, asked.looks)
        share = history.following(guardrail.config.digest, requirement.n_looks) or 1.0
        requirement = data_reuse.Standing(share=share).strict(requirement)
    seen = Fresh(guardrail)
    reading = optional(asked.reading, ReadOptions, "reading")
    reading = replace(reading, quarantine=folder / folders.QUARANTINE)
    column = None if judge is None else sampling.JudgeColumn(judge, reading.label_map)
    compared = [sampling.JudgeColumn(name, reading.label_map) for name in judges]
    files = _file_states(traces, reading)
    examples = _open_traces(traces, reading, guardrail, options.judge_column, lots is None)
    order = Order(options.seed or 0, one_spelling=True)

    def traced() -> Iterator[Example]:
        for example in examples:
            if progress is not None and examples.n_examples % BLOCK == 0:
                progress(examples.n_examples)
            if example.id in unknown:
                unknown.discard(example.id)
                groups[example.id] = example.group
            yield example

    def usable() -> Iterator[Example]:
        for example in seen.admitted(traced()):
            if column is not None:
                column.read(example)
            # What cannot be read is told before anything begins.
            for judged in compared:
                judged.take_in(example)
            yield example

    units = sampling.first_units(usable(), order, whole_groups=drawing.whole_groups)
    if column is not None:
        column.refuse_constant()
    _cut_ratings(compared, options.judge_higher, 0.5 if guardrail is None else _flagged(guardrail))
    if lots is not None and unknown:
        row = next(row for id, row in lots.rows.items() if id in unknown)
        raise InputError(
            say("refused.ids_of_no_trace", row, id=repr(row["id"]), n=len(unknown) - 1)
        )
    weighed = None if lots is None else balance(lots, examples.n_examples, groups, drawing.floor)
    sha256 = examples.digest()
    freshness = seen.freshness(sha256, declared=options.fresh)
    if freshness == "calibration data" or not units:
        raise DataError(say("refused.traces_of_the_calibration", traces=spoken(traces)))
    read = names_of(traces), files, sha256, examples.n_examples, examples.n_quarantined
    plan = SessionPlan(
        purpose="calibrate" if guardrail is None else "certify",
        traces=Traces(*read, seen.n_seen_before, freshness),
        drawing=drawing,
        seed=options.seed or 0,
        shared=options.shared or 0.0,
        guardrail=None if guardrail is None else guardrail.config.digest,
        requirement=requirement,
        promise=asked.promise,
        needed=needed,
        judge=judge,
        judges=judges,
        cuts={judged.name: judged.cut for judged in compared if judged.cut is not None},
        reading=examples.how(),
        elsewhere=None if lots is None else lots.sha256,
        guardrail_file=asked.guardrail_file,
        balance=weighed,
        share=share,
        one_spelling=True,
    )
    with file_errors(f"cannot write into the folder {folder}", "; name another one"):
        pool = b"".join(ledger.json_line(it.to_dict()) for it in sampling.without_copies(units, ()))
        write_atomically(folder / folders.POOL_FILE, pool, durable=True)
        if guardrail is not None:
            write_atomically(folder / folders.GUARDRAIL, guardrail.config.to_bytes(), durable=True)
        # The last one: without it nothing has begun.
        folders.write_plan(folder, plan)
    if plan.purpose == "certify":
        data_reuse.begin_look(folder, history)
    return plan


def _cut_ratings(judges: Sequence[sampling.JudgeColumn], higher: str | None, share: float) -> None:
    """Set the cut of each judge that gives ratings, and has none yet.

    Raises
    ------
    InputError
        Nothing says what a higher rating means, or it is said where there are none.
    """
    for judge in judges:
        if judge.rated is not None and judge.cut is None:
            if (meant := higher or direction_of(judge.name)) is None:
                about = {"column": judge.name, "value": judge.rated.columns[judge.name]}
                raise InputError(say("refused.which_rating", about))
            judge.set_cut(meant, share)
    if higher is not None and all(judge.cut is None for judge in judges):
        raise InputError(say("refused.no_ratings"))


def _flagged(guardrail: Guardrail) -> float:
    """Return which share the guardrail flagged of the answers it was made from; half if unknown."""
    headline, traffic = guardrail.config.headline, guardrail.config.traffic
    caught, alarms = (rate.get("estimate") for rate in (headline.coverage, headline.fpr))
    if traffic is None or caught is None or alarms is None:
        return 0.5
    hallucinated = float(np.mean(traffic.hallucinated))
    return float(hallucinated * caught + (1.0 - hallucinated) * alarms)


def _refuse_at_odds(asked: _LabelRequest, drawing: Drawing) -> None:
    """Refuse choices that do not go together."""
    options, design = asked.options, drawing.design
    no_guardrail, queue = asked.guardrail is None, design == "disagreements"
    judged = bool(options.judge_column) and not queue
    refusals = {
        "promise_and_guardrail": asked.promise is not None and not no_guardrail,
        "requirement_alone": no_guardrail and asked.requirement is not None,
        "judge_for_a_threshold": no_guardrail and judged,
        "active_for_a_threshold": no_guardrail and design == "active",
        "queue_for_a_threshold": queue and asked.promise is not None,
        "nothing_to_compare": queue and len(options.judge_column) < 1 + no_guardrail,
        "elsewhere_alone": no_guardrail and options.elsewhere is not None,
        "fresh_alone": no_guardrail and options.fresh,
        "judge_when_uniform": judged and design != "active",
        "ratings_without_queue": options.judge_higher is not None and not queue,
    }
    for code, holds in refusals.items():
        if holds:
            raise InputError(say(f"refused.{code}", guardrail=not no_guardrail))


def _open_traces(
    source: Source, reading: ReadOptions, frozen: Guardrail | None, more: Sequence[str], here: bool
) -> Reading:
    """Open traces, otherwise read as the guardrail's own data was.

    Each needs a response, unless labels are made elsewhere and nobody reads it ``here``.
    """
    if frozen is not None:
        reading = inherited_reading(reading, frozen, source, labelled=False)
    # Which columns a threshold will be calibrated on is known later.
    columns, texts = (frozen.columns, frozen.texts) if frozen else ((ALL_COLUMNS,), ())
    return read(
        source,
        reading,
        keep=tuple(dict.fromkeys((*columns, *more))),
        require=("response",) if here else (),
        expect=texts,
        labelled=False,
        distinct=True,
    )


def _file_states(traces: Source, reading: ReadOptions) -> tuple[str, ...]:
    """Return size and time of change of each file, by which an unchanged one is known at once."""
    if not is_named(traces):
        return ()
    states = (path.stat() for path in open_source(traces, reading).files)
    return tuple(f"{state.st_size} bytes, changed at {state.st_mtime_ns}" for state in states)


def _limits(guardrail: Guardrail, requirement: Requirement | None) -> Requirement:
    """Return the requirement with the coverage and the FPR that are meant where it leaves them."""
    requirement = optional(requirement, Requirement, "requirement")
    levels = {risk.name: risk.level for risk in map(parse_risk, guardrail.config.requirement.risks)}
    if requirement.risks:
        raise InputError(say("refused.risks_at_any_time"))
    max_fpr = levels.get("fpr") if requirement.max_fpr is None else requirement.max_fpr
    if max_fpr is None:
        raise InputError(say("refused.max_fpr_missing", limit=guardrail.config.requirement.max_fpr))
    coverage = requirement.min_coverage
    if coverage is None:
        promised = guardrail.config.promise
        coverage = levels.get("recall") if levels else requirement.stated_coverage(promised)
    if coverage is None:
        raise InputError("min_caught must be given: this guardrail promises none")
    return replace(requirement, max_fpr=max_fpr, min_coverage=coverage)


def _refuse_another(
    folder: Path, plan: SessionPlan, asked: _LabelRequest, frozen: Guardrail | None
) -> None:
    """Refuse what is said now if it is not what the labels were begun with, by name."""
    options, requirement = asked.options, asked.requirement
    anew = "or name another folder to begin anew; nothing was changed"
    if plan.purpose == "watch" and (asked.promise or requirement) is not None:
        raise InputError(say("refused.labels_to_watch", folder=folder, anew=anew))
    if plan.purpose == "certify" and asked.promise is not None:
        raise InputError(say("refused.labels_for_a_verdict", folder=folder, anew=anew))
    if plan.purpose == "calibrate" and (asked.guardrail or requirement) is not None:
        raise InputError(say("refused.labels_for_no_verdict", folder=folder, anew=anew))
    others = [] if asked.guardrail is None else [*other_guardrail(plan, asked.guardrail.config)]
    if requirement is not None and frozen is not None:
        requirement = _limits(frozen, requirement)
    names = "seed", "shared", "judge_column", "judge_higher"
    settings = {name: getattr(options, name) for name in names}
    higher = next((cut[0] for cut in plan.cuts.values()), None)
    begun = plan.to_dict() | {"judge_column": plan.judge_column, "judge_higher": higher}
    if options.elsewhere is not None:
        settings["elsewhere"] = read_lots(options.elsewhere, plan.drawing).sha256
    reading = None if asked.reading is None else changed(asked.reading)
    for kind, now, then in (
        (Requirement, requirement, plan.asked),
        (Promise, asked.promise, plan.promise),
        (Drawing, asked.drawing, plan.drawing),
        (LabelOptions, settings, begun),
        (ReadOptions, reading, plan.reading.get("settings")),
    ):
        others += changes(kind, plain(now) or {}, plain(then) or {})
    if others:
        raise InputError(say("refused.begun_otherwise", folder=folder, others=others, anew=anew))


def other_guardrail(plan: SessionPlan, config: FrozenConfig) -> Iterator[str]:
    """Say that the guardrail is not that of the labels, where it is not."""
    if config.digest != plan.guardrail:
        then, now = str(plan.guardrail)[:19], config.digest[:19]
        yield f"the guardrail is another one ({then}... then, {now}... now)"


def changes(kind: Any, now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    """Say which settings are others than they were; None, or none, is as it was."""
    for name, value in now.items():
        if value not in (None, []) and value != (before := then.get(name)):
            option = spell_option(kind, name).removesuffix("=...")
            yield f"{option} was {_spoken(before)} and is now {_spoken(value)}"


def _spoken(value: object) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, list):
        return ",".join(map(str, value)) or "not given"
    if value is None:
        return "not given"
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


def _reviewed(
    folder: Path, traces: Source | None, options: LabelOptions, reading: ReadOptions | None
) -> dict[int, dict[str, int]]:
    """Return by order who says what of the answers drawn, as a file has it, or the folder."""
    files = folders.LabelFolder(folder)
    with files.up_to_date():
        drawn, plan = [item.draw for item in files.ledger.answers], files.plan
    names = options.judge_column or plan.judges
    if traces is None:
        pool = sampling.Pool(folder / folders.POOL_FILE)
        pool.refresh()
        examples = [pool[draw.order - 1].example for draw in drawn]
        held = dict.fromkeys(name for example in examples for name in example.columns)
        if missing := [name for name in names if name not in held]:
            about = {"folder": folder, "column": missing[0], "listed": ", ".join(held) or "none"}
            raise InputError(say("refused.no_column_in_folder", about))
    else:
        reading = reading or ReadOptions(**plan.reading["settings"])
        examples = [*read(traces, reading, keep=names, require=(), labelled=False)]
    known = {example.id: example for example in examples}
    words = plan.reading.get("settings", {}).get("label_map")
    judges = [sampling.JudgeColumn(name, words, plan.cuts.get(name)) for name in names]
    answers = [known.get(draw.id, Example()) for draw in drawn]
    for judge in judges:
        for example in answers:
            judge.take_in(example)
    _cut_ratings(judges, options.judge_higher, 0.5)
    return {
        draw.order: sampling.calls_of(judges, example, draw.flagged)
        for draw, example in zip(drawn, answers, strict=True)
    }


def _refuse_changed(
    folder: Path, plan: SessionPlan, traces: Source | None, reading: ReadOptions | None
) -> None:
    """Refuse traces that are not those that the labels were begun with."""
    if traces is None:
        return
    if plan.purpose == "watch":
        raise InputError(say("refused.answers_of_a_log", folder=folder, traces=spoken(traces)))
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
        about = {"then": str(plan.traces.sha256)[:12], "now": str(sha256)[:12], "folder": folder}
        raise DataError(say("refused.other_traces", about, traces=spoken(traces)))


#: From so many failures in a row on, the detector is at fault, and not one answer.
_FAILING: Final = 4


@options_from_keywords(requirement=Requirement, options=LabelOptions, reading=ReadOptions)
def label(  # type: ignore[misc]  # options are those of labelling
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
    looks: data_reuse.LooksFile = None,
    max_false_alarms: float | None = None,
    min_caught: float | None = None,
    confidence: float = 0.95,
    assume_independent: bool = False,
    risks: Sequence[str] = (),
    min_kept: float | None = None,
    n_looks: int | None = None,
    seed: int | None = None,
    shared: float | None = None,
    judge_column: str | Sequence[str] = (),
    judge_higher: str | None = None,
    queue: Literal["disagreements"] | None = None,
    settle: bool = False,
    fresh: bool = False,
    elsewhere: str | PathLike[str] | None = None,
    **how: Unpack[ReadKeywords],
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
        Of the verdict: ``max_false_alarms`` is needed with a guardrail; ``min_caught`` is what the
        guardrail promises unless said otherwise.
    guardrail : Guardrail or path, optional
        The frozen guardrail, or its file; a copy is kept in the folder.
    promise : Promise, optional
        Of the threshold, without a guardrail: labels are enough once so many hallucinated answers
        are labelled as it needs.
    drawing : Drawing, optional
        How answers are drawn; ``uniform`` at first.
    options : LabelOptions, optional
        Seed, share of two annotators, columns of judges, settling, labels made elsewhere.
    reading : ReadOptions, optional
        How to read the traces; its fields may stand by themselves in its place.
    progress : callable, optional
        Called with the number of traces read so far.
    looks : path or False, optional
        File that keeps the looks at the guardrail, as for `certify`: these labels may err with
        what it leaves the next one. Left out, it is the one beside the guardrail.
    max_false_alarms, min_caught : float, optional
        Share of faithful answers that may be flagged, and coverage that is required.
    confidence : float
        Level of every interval and of the verdict.
    assume_independent, risks, min_kept, n_looks
        Further fields of `Requirement`, by themselves in its place.
    seed, shared, judge_column, judge_higher, queue, settle, fresh, elsewhere
        Fields of `LabelOptions`, by themselves in place of ``options``.

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
    options = optional(options, LabelOptions, "options")
    folder, traces = fields.path(folder, "folder"), None if traces is None else reusable(traces)
    whole_answers("label", promise or Promise(), requirement)
    frozen = None if guardrail is None else Guardrail.coerce(guardrail)
    if frozen is not None:
        require_answers(frozen.config, "label")
    origin = None if frozen is None else frozen.origin
    file = None if origin is None else str(origin.path)
    review = options.queue is not None and folders.has_labels(folder)
    if review and traces is not None:
        # What the queue was begun for goes on by the same command.
        review = folders.read_plan(folder).drawing.design != "disagreements"
    if options.queue is not None and not review:
        drawing = replace(drawing or Drawing(), design="disagreements")
    asked = _LabelRequest(
        requirement, frozen, promise and promise.settled(), drawing, options, reading, file, looks
    )
    # Whoever comes second waits until the first one has read the traces.
    with folders.prepared_folder(folder), ledger.Lock(folder / folders.LOCK)():
        if folders.has_labels(folder):
            plan = folders.read_plan(folder)
            # What was logged is decided already.
            if plan.guardrail is not None and plan.purpose != "watch":
                if frozen is None:
                    frozen = Guardrail.load(folder / folders.GUARDRAIL)
                # Another one that was named is refused below, and the copy is not run.
                if asked.guardrail is None and frozen.config.digest != plan.guardrail:
                    about = {"copy": folder / folders.GUARDRAIL, "then": plan.guardrail[:19]}
                    raise DataError(say("refused.other_copy", about))
            if review:
                others = replace(options, judge_column=(), judge_higher=None)
                asked = replace(asked, options=others, reading=None)
            _refuse_another(folder, plan, asked, frozen)
            _refuse_changed(folder, plan, None if review else traces, asked.reading)
        else:
            plan = _begin(folder, traces, asked, progress)

    def read_again() -> Iterator[Example]:
        """Yield the answers of the traces once more, for those that come later."""
        source = traces if traces is not None else plan.traces.paths
        if not is_named(source) and traces is None:
            raise DataError(say("refused.traces_needed_again", folder=folder))
        used = ReadOptions(**plan.reading["settings"])
        _refuse_changed(folder, plan, source, used)
        again = _open_traces(source, used, frozen, plan.judge_column, plan.elsewhere is None)
        yield from Fresh(frozen).admitted(again)

    elsewhere = options.elsewhere
    lots = None if elsewhere is None else read_lots(elsewhere, plan.drawing)
    session = Session(
        folders.LabelFolder(folder),
        None if frozen is None else partial(_judge, frozen),
        read_again,
        settle=options.settle,
        lots=lots,
        review=_reviewed(folder, traces, options, reading) if review else None,
    )
    if lots is not None:
        try:
            take_all(session, lots)
        except BaseException:
            session.close()
            raise
    return session


def _judge(guardrail: Guardrail, examples: Sequence[Example]) -> list[sampling.GuardrailOutcome]:
    """Ask the guardrail about answers that are drawn.

    Raises
    ------
    ModelError
        The detector fails on all of several answers: a draw that says so of each would be about the
        failure, and not about the guardrail.
    """
    decisions = guardrail.decide(list(examples))
    failed = [item.reason for item in decisions if item.cause.code == "detector_failed"]
    if len(failed) == len(decisions) >= _FAILING:
        raise ModelError(f"{failed[0]}; nothing was drawn: mend that, and go on")
    return [sampling.GuardrailOutcome(item.score, item.flagged) for item in decisions]


def look_first(plan: SessionPlan, labels: Path, guardrail: Path | None) -> list[str]:
    """Keep that labelling has begun; return what a person should know before."""
    if plan.purpose != "certify":
        return []
    history = data_reuse.history_of_labels(plan, guardrail, None)
    earlier = data_reuse.begin_look(labels, history)
    notes = [say("label.begun_before", it, quoted=quote(it["folder"])) for it in earlier[:1]]
    if plan.requirement is None:
        return notes
    if plan.traces.freshness == "unknown":
        notes.append(say("label.unknown_origin"))
    # The default floor would do with fewer; without a guess all answers are labelled.
    others = {
        f"--floor {Drawing().floor:g}": Drawing("active", whole_groups=plan.drawing.whole_groups),
        "--design uniform": Drawing(whole_groups=plan.drawing.whole_groups),
    }
    needed = fewest_drawn(plan.requirement, plan.drawing)
    # What is begun in another folder is a further look.
    share = history.following(plan.guardrail, plan.requirement.n_looks) or 1.0
    further = data_reuse.Standing(share=share).strict(plan.asked or plan.requirement)
    instead = {name: fewest_drawn(further, other) for name, other in others.items()}
    notes += words.too_few(
        needed,
        plan.traces.n,
        floors=None if plan.drawing.design == "uniform" else plan.drawing.floors,
        instead={name: pair for name, pair in instead.items() if sum(pair) < sum(needed) / 2},
    )
    return notes


def verdict_of_labels(
    labels: Path, guardrail: Path | None, *, fresh: bool
) -> tuple[dict[str, Any], Path]:
    """Write the verdict and its page; return it with the reason where it is withheld, and the page.

    Parameters
    ----------
    labels : Path
        The folder.
    guardrail : Path or None
        The frozen guardrail; the folder's copy where it is not named.
    fresh : bool
        Whether the user says that these answers are new.
    """
    result = certify_labels(guardrail, labels, fresh=fresh)
    page = write_verdict(result, labels)
    withheld = result.sequential is not None and result.verdict != result.sequential["verdict"]
    reason = result.certificate.reason if withheld else None
    return {"verdict": result.verdict, "withheld": reason}, page


def guardrail_to_name(plan: SessionPlan, guardrail: Path | None, labels: Path) -> Path:
    """Return the file that the next command names: beside it stand the looks at it."""
    begun = None if plan.guardrail_file is None else Path(plan.guardrail_file)
    if guardrail is None and begun is not None and begun.exists():
        return begun
    return guardrail or labels / folders.GUARDRAIL
