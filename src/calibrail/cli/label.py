"""Label, recalibrate."""

import getpass
import shlex
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NoReturn, cast

import calibrail
from calibrail import options
from calibrail import options as settings
from calibrail.cli import parameters as opt
from calibrail.cli.output import (
    DONE,
    FAILURE,
    OF_VERDICT,
    Showing,
    counting,
    file_to_write,
    note,
    say,
    signature_note,
)
from calibrail.errors import InputError
from calibrail.options.fields import changed, flags, setting

#: As ``labelling.exchange.files.Format``, which a command need not import to be listed.
Format = Literal["csv", "jsonl", "label-studio", "argilla"]


#: Rows of a file that are named where they cannot be taken.
_NAMED: Final = 10
#: What may be said where answers are drawn from logs, beside how files are read.
_OF_LOGS: Final = {
    *("--guardrail", "--trusted", "--own-code", "--forbid-own-code", "--from-log"),
    *("--per-day", "--traces", "--seed", "--shared"),
    *("--judge-column", "--json", "--markdown", "--page"),
}


@dataclass(frozen=True)
class Purpose(opt.TrustArguments):
    """What labels are for, and whether answers are drawn from a log."""

    guardrail: Path | None = setting(default=None, metavar="FILE")
    until: Literal["calibrated"] | None = setting(default=None)
    from_log: bool = setting(default=False)
    per_day: float | None = setting(default=None, metavar="N")
    texts: tuple[str, ...] = setting(default=(), flag="traces", metavar="FILE")


@dataclass(frozen=True)
class Sitting(Showing):
    """Who labels, where, and how what came out is shown."""

    panel: ClassVar = "Session"

    annotator: str | None = setting(default=None, metavar="NAME")
    terminal: bool = setting(default=False)
    browser: bool = setting(default=True)
    export: Path | None = setting(default=None, metavar="FILE", writes="export")
    export_n: int = setting(default=100, metavar="N")
    export_as: Format | None = setting(default=None)
    taken_from: Path | None = setting(default=None, flag="import", metavar="FILE")


def label_command(
    source: Annotated[list[str] | None, opt.Word("TRACES...")] = None,
    *,
    output: Annotated[Path, opt.to_folder("LABELS")],
    purpose: Purpose,
    requirement: Annotated[
        options.Requirement | None,
        opt.Pick(only=("max_fpr", "min_coverage", "confidence", "n_looks")),
    ],
    promise: Annotated[options.Promise | None, opt.Pick(only=("alpha", "guarantee", "delta"))],
    drawing: options.Drawing | None,
    labelling: options.LabelOptions,
    reading: Annotated[
        options.ReadOptions | None, opt.Pick(without=("annotators", "pair", "strict"))
    ],
    sitting: Annotated[Sitting, opt.Pick(without=("dry_run", "verbose"))],
) -> None:
    """Label answers one by one on a page of this machine.

    Labels for a verdict (--guardrail, --max-false-alarms) are enough once the data decides, labels
    for a threshold (--until calibrated) once enough hallucinated answers are found; labelling may
    stop at any time. The same command goes on. Exit code 0; with --guardrail the verdict decides:
    0 certified, 3 rejected, 4 inconclusive.

    With --from-log each call takes up the logs where the last one left them, and draws from what is
    new: --per-day answers for each day (UTC). Run it every day or every week; without --from-log
    what was drawn is handed out, and monitor --labels says what the labels show.

    With --queue disagreements answers come first about which judges and the guardrail disagree,
    with known probabilities. Over a folder that has labels it is a review of your own:
    --judge-column names who is compared, TRACES the file with their labels.
    """
    from calibrail.labelling.exchange import transfer
    from calibrail.labelling.folder import has_labels, read_plan
    from calibrail.labelling.session import coverage_to_expect
    from calibrail.pipelines.label import guardrail_to_name, look_first, verdict_of_labels
    from calibrail.ui.terminal import sit

    if purpose.until is not None:
        # What was promised when the labels were begun; the default before that.
        begun = read_plan(output).promise if has_labels(output) else None
        promise = promise or begun or options.Promise()
    elif promise is not None:
        raise InputError("--alpha, --guarantee and --delta say what --until calibrated is to keep")
    exchange = (sitting.export, sitting.taken_from, labelling.elsewhere)
    in_file = any(item is not None for item in exchange)
    if not (sitting.terminal or in_file):
        # The page is refused before any work is done.
        with opt.serving_packages("the page", "; --terminal does without"):
            import_module("calibrail.ui.server")
    if (file := file_to_write(sitting.export)) is not None:
        transfer.format_of(file, sitting.export_as)
    # How labels of a file are read, and how traces are; those made elsewhere are begun with, and
    # what a judge's words mean.
    words = reading
    if words is not None:
        said = ("label_column", "label_map", "positive", "labelled_by")
        unread = said[:1] if labelling.elsewhere else said[::3] if labelling.judge_column else said
        traces_read = replace(words, **cast(Any, dict.fromkeys(unread)))
        if traces_read != words and sitting.taken_from is None:
            raise InputError(say("refused.labels_of_import"))
        reading = traces_read if changed(traces_read) else None
    if purpose.from_log:
        given = [flags(it) for it in (purpose, requirement, promise, labelling, sitting) if it]
        said_words = {word for part in given for word in part if word[:2] == "--"}
        if beside := sorted(said_words - _OF_LOGS):
            raise InputError(say("refused.drawing_ends", others=beside))
        _draw(source, output, purpose, drawing, labelling, reading, sitting)
    if purpose.per_day is not None or purpose.texts:
        raise InputError(say("refused.of_logs"))
    annotator = sitting.annotator or getpass.getuser()
    with counting("reading") as context:
        session = calibrail.label(
            source or None,
            output,
            requirement,
            guardrail=purpose.load_named(purpose.guardrail),
            promise=promise,
            drawing=drawing,
            options=labelling,
            reading=reading,
            progress=context.progress,
        )
    with session:
        for name in session.torn:
            note(say("command.cut_short", name=name))
        if n := session.plan.traces.n_quarantined:
            note(say("command.not_labelled", n=n, path=output / "quarantine.jsonl"))
        folded = {name: "".join(name.split()).casefold() for name in session.annotators}
        own = "".join(annotator.split()).casefold()
        alike = [name for name, letters in folded.items() if letters == own]
        if alike and annotator.strip() not in alike:
            note(say("command.alike", name=alike[0], quoted=shlex.quote(alike[0])))
        if session.is_review and annotator not in session.annotators:
            others = session.annotators
            raise InputError(
                say("refused.nothing_to_review", labels=output, name=annotator, others=others)
            )
        for column, (higher, cut) in session.plan.cuts.items():
            note(say("label.rating_cut", column=column, higher=higher, cut=cut))
        for text in look_first(session.plan, output, purpose.guardrail):
            note(text)
        exchanged: dict[str, Any] = {}
        if (file := sitting.taken_from) is not None:
            taken = transfer.import_labels(session, file, annotator, reading=words)
            exchanged["imported"] = {"file": str(file), **taken.to_dict()}
        if (file := sitting.export) is not None:
            n, kind = sitting.export_n, sitting.export_as
            files = transfer.export_answers(session, file, annotator, n, export_as=kind)
            exchanged["exported"] = [str(path) for path in files]
        if not in_file:
            sit(session, annotator, note, terminal=sitting.terminal, browser=sitting.browser)
        counts, plan = session.counts(annotator), session.plan
    content = {
        "schema": "calibrail.label/1",
        "labels": str(output),
        "annotator": annotator,
        # With these the next sitting is the same person's, at the same place.
        "options": [
            *([] if sitting.annotator is None else ["--annotator", sitting.annotator]),
            *(["--terminal"] if sitting.terminal else []),
            *([] if sitting.browser else ["--no-browser"]),
        ],
        "plan": plan.to_dict(),
        "counts": counts.to_dict(),
        **exchanged,
    }
    code, page = DONE, ""
    if plan.purpose == "certify":
        verdict, written = verdict_of_labels(output, purpose.guardrail, fresh=labelling.fresh)
        content |= verdict
        page = f"wrote {written}"
        code = OF_VERDICT[verdict["verdict"]]
    elif plan.promise is not None and counts.decided and counts.found is not None:
        content["coverage_to_expect"] = coverage_to_expect(plan.promise, counts.found)
    refused = exchanged.get("imported", {}).get("problems", ())
    more = len(refused) - _NAMED
    sitting.finish(
        "labelled",
        content,
        page,
        *refused[:_NAMED],
        say("command.more_refused", n=more) if more > 0 else "",
        code=FAILURE if refused else code,
        names={"LABELS": output, "GUARDRAIL": guardrail_to_name(plan, purpose.guardrail, output)},
    )


def _draw(
    logs: list[str] | None,
    output: Path,
    purpose: Purpose,
    drawing: options.Drawing | None,
    labelling: options.LabelOptions,
    reading: options.ReadOptions | None,
    sitting: Sitting,
) -> NoReturn:
    """Draw answers from decision logs, print what was drawn, and end."""
    from calibrail.guardrail.file import read_file

    if purpose.guardrail is None or not logs:
        raise InputError(say("refused.log_and_guardrail"))
    if purpose.keys:
        read_file(purpose.guardrail, purpose.keys)
    with counting("reading") as context:
        batch = calibrail.audit_sample(
            purpose.guardrail,
            logs,
            output,
            options.AuditOptions(
                purpose.per_day, labelling.seed, labelling.shared, labelling.guide
            ),
            drawing=drawing,
            traces=list(purpose.texts) or None,
            reading=reading,
            progress=context.progress,
        )
    names = {"GUARDRAIL": purpose.guardrail, "LOG": logs, "AUDIT": output}
    sitting.finish("audit_sample", batch.to_dict(), names=names)


@dataclass(frozen=True)
class AuditLabels:
    """Which labels, and what they are to test."""

    labels: Path = setting(metavar="AUDIT", main=True)
    new_judge: str | None = setting(default=None, metavar="JUDGE")


def recalibrate_command(
    guardrail: opt.Guardrail,
    logs: Annotated[list[str] | None, opt.Word("LOG...")] = None,
    *,
    audit: AuditLabels,
    output: Annotated[Path | None, opt.to_file()] = None,
    requirement: Annotated[
        opt.Requirement, opt.Pick(only=("max_fpr", "min_coverage", "confidence"))
    ],
    options: settings.RecalibrateOptions,
    trust: opt.TrustArguments,
    written: opt.NewGuardrail,
    show: opt.ShowAlone,
) -> None:
    """Make a new guardrail from audited answers.

    Its guarantee is anytime: looking every week, or after every label, is part of the promise.
    Both thresholds are compared on the same answers; nothing is replaced. Exit code 0 certified,
    3 rejected, 4 inconclusive; without any limit on false alarms 0.
    """
    from calibrail.guardrail.file import read_file

    labels, config = audit.labels, read_file(guardrail, trust.keys)[0]
    if (judge := audit.new_judge) is not None:
        found = calibrail.judge_on_labels(config, labels, judge, logs or None, requirement)
        content = {**found.to_dict(), "errors": []}
        code = DONE if found.verdict is None else OF_VERDICT[found.verdict]
        show.finish("agree", content, code=code, names={"DATA": logs or [labels]})
    if output is None:
        raise InputError("name the guardrail file to write (-o), or a judge to test (--new-judge)")
    written.read_key()
    made = calibrail.recalibrate(config, labels, logs or None, requirement, options)
    page = made.save(output, sign=written.sign, force=written.force, terms=written.terms)
    content = made.to_dict()
    show.finish(
        "recalibrate",
        content,
        f"wrote {output} and {page}",
        signature_note(output, written.sign),
        code=DONE if content["max_fpr"] is None else OF_VERDICT[made.verdict],
        names={"NEW": output},
    )
