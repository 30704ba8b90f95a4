"""Commands of evidence: certify, audit, shift, agree, versus, repeat, explain."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import calibrail
from calibrail.cli import parameters as opt
from calibrail.cli.output import DONE, FAILURE, OF_VERDICT, Showing, counting, say, spent, unusable
from calibrail.errors import InputError
from calibrail.options import ScoreThreshold, ShiftSplit
from calibrail.options.fields import changed, setting


@dataclass(frozen=True, slots=True)
class AuditArguments(Showing):
    """What an audit looks at beside the detectors, and how it is shown."""

    by: tuple[str, ...] = setting(default=(), metavar="COL")
    geometry: bool = setting(default=True)


def audit_command(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.DetectorsAlone,
    promise: Annotated[opt.Promise, opt.Pick(only=("undefined",))],
    requirement: Annotated[opt.Requirement, opt.Pick(only=("confidence",))],
    reading: opt.Reading,
    splitting: Annotated[opt.Splitting, opt.Pick(without=("calibration_share",))],
    work: opt.Work,
    looks: Annotated[AuditArguments, opt.Pick(without=("dry_run", "page", "verbose"))],
) -> None:
    """Look into detectors: what explains them, where they fail.

    Says how much of the AUROC is explained by length, new words and the like, how the detectors do
    in strata, whether they agree and are reliable, and whether copies or groups give labels away.
    Writes audit.json, report.html, scores.parquet and figures into RUN.
    """
    quarantine = output / "quarantine.jsonl"
    with counting("scoring", work) as context:
        result = calibrail.audit(
            data,
            detectors.scores(data, reading, several=True),
            by=looks.by,
            reading=replace(reading, quarantine=quarantine),
            splitting=splitting,
            undefined=promise.undefined,
            geometry=looks.geometry,
            confidence=requirement.confidence,
            context=context,
        )
        result.save(output)
    content = result.to_dict()
    looks.finish(
        "audit",
        content,
        *spent(result.table, {item["name"] for item in content["detectors"]}),
        f"wrote {output}/report.html, audit.json, scores.parquet, figures/",
        unusable(content["data"]["n_quarantined"], quarantine),
        names={"RUN": output},
    )


def shift_command(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.DetectorsAlone,
    split: ShiftSplit,
    promise: opt.ThresholdPromise,
    requirement: Annotated[opt.Requirement, opt.Pick(only=("confidence", "assume_independent"))],
    reading: opt.Reading,
    calls: opt.FreeCalls,
    show: opt.ShowAlone,
) -> None:
    """Calibrate on some answers and test on others.

    For each test: how many are caught and how many false alarms there are, whether that contradicts
    the promise, the threshold that would be needed, and whether weighting repairs it. Writes
    shift.json and report.html into RUN.
    """
    scores = detectors.scores(data, reading)
    with counting("scoring", calls) as context:
        result = calibrail.shift(
            data,
            scores,
            split=split,
            promise=promise,
            requirement=requirement,
            reading=replace(reading, quarantine=output / "quarantine.jsonl"),
            context=context,
        )
        result.save(output)
    show.finish(
        "shift",
        result.to_dict(),
        unusable(result.n_quarantined, output / "quarantine*.jsonl"),
        f"wrote {output}/shift.json, report.html, figures/shift.svg",
        names={"RUN": output},
    )


@dataclass(frozen=True, slots=True)
class JudgeColumns:
    """Where the labels of people and of judges stand."""

    judge_column: tuple[str, ...] = setting(default=(), metavar="COL", main=True)
    labels: Path | None = setting(default=None, metavar="FILE")
    by: str | None = setting(default=None, metavar="COL")
    judge_higher: str | None = setting(default=None, metavar="hallucinated|faithful")
    probability: str | None = setting(default=None, metavar="COL")


@dataclass(frozen=True, slots=True)
class AgreeOptions(Showing):
    """How the comparison is shown."""

    errors: bool = setting(default=False)


def agree_command(
    data: opt.Data,
    judges: JudgeColumns,
    requirement: Annotated[opt.Requirement, opt.Pick(without=("risks", "min_kept"))],
    reading: Annotated[opt.Reading, opt.Pick(without=("pair",))],
    scores: ScoreThreshold | None,
    trust: opt.TrustArguments,
    *,
    guardrail: Annotated[Path | None, opt.Word("FILE", ("--guardrail",))] = None,
    show: Annotated[AgreeOptions, opt.Pick(without=("dry_run", "verbose"))],
) -> None:
    """May a judge stand in for people? Tests it on their labels.

    Exact bounds of what each judge catches and of its false alarms; with --min-caught and
    --max-false-alarms a verdict: exit code 0 certified, 3 rejected, 4 inconclusive, of several
    judges the worst. Of judges with ratings half of the labels choose the threshold. Estimates the
    share of hallucinated answers from both kinds of labels, and with --guardrail or --score-column
    what is caught and false alarms.
    """
    from calibrail.data.sources import named_files, names_of
    from calibrail.pipelines.data_reuse import looks_of

    reading = replace(reading, quarantine=Path("quarantine.jsonl"))
    files = [*chain.from_iterable(map(named_files, names_of(judges.labels or data)))]
    # Looks stand beside the labels of people, where these are one file in a folder that can be
    # written: judges in several files are tested on the same ones.
    one = len(files) == len(names_of(judges.labels or data)) == 1
    beside = one and os.access(files[0].absolute().parent, os.W_OK)
    kept = looks_of(files[0]) if beside else None
    with counting("comparing") as context:
        result = calibrail.agree(
            data,
            **asdict(judges),
            guardrail=trust.load_named(guardrail),
            scores=scores,
            **requirement.keywords(),
            looks=kept,
            reading=reading,
            context=context,
        )
    content = result.to_dict()
    show.finish(
        "agree",
        content if show.errors else {**content, "errors": []},
        unusable(result.n_quarantined, reading.quarantine),
        "" if kept or result.verdict is None else say("command.no_looks_kept"),
        code=DONE if result.verdict is None else OF_VERDICT[result.verdict],
        names={"GUARDRAIL": guardrail, "DATA": data},
    )


@dataclass(frozen=True, slots=True)
class SystemColumns:
    """Which systems are compared, and what a judge says of them."""

    judge_column: str | None = setting(default=None, main=True)
    labels: tuple[Path, ...] = setting(default=(), metavar="FILE")
    margin: float | None = setting(default=None, main=True)
    system_column: str | None = setting(default=None, main=True)
    system: tuple[str, ...] = setting(default=(), metavar="NAME", main=True)
    judge_higher: str | None = setting(default=None, metavar="hallucinated|faithful")
    probability: str | None = setting(default=None, metavar="COL")


def versus_command(
    first: Annotated[str, opt.Word("A")],
    second: Annotated[str | None, opt.Word("B")] = None,
    *,
    output: opt.RunFolder,
    systems: SystemColumns,
    requirement: Annotated[opt.Requirement, opt.Pick(only=("confidence", "n_looks"))],
    reading: Annotated[opt.Reading, opt.Pick(without=("pair",))],
    show: opt.ShowAlone,
) -> None:
    """Say which of two systems hallucinates less often.

    From few human labels and many of a judge, which speeds the verdict and never decides it. A may
    take the place of B where it is better: exit code 0, 3 where it is worse, 4 where the labels
    do not separate them. With --margin 0.03, 0 also where it hallucinates at most 3 points more
    often. Writes versus.json and report.html into RUN.
    """
    from calibrail.pipelines.data_reuse import looks_of

    # Looks stand beside the data, so that another run folder, or order, is no first look.
    source = min(Path(name).absolute() for name in (first, second or first))
    beside = source.is_file() and os.access(source.parent, os.W_OK)
    with counting("comparing") as context:
        result = calibrail.versus(
            first,
            second,
            **asdict(systems),
            confidence=requirement.confidence,
            n_looks=requirement.n_looks,
            reading=replace(reading, quarantine=output / "quarantine.jsonl"),
            looks=looks_of(source) if beside else output / "looks.json",
            context=context,
        )
        result.save(output)
    show.finish(
        "versus",
        result.to_dict(),
        unusable(result.n_quarantined, output / "quarantine*.jsonl"),
        f"wrote {output}/versus.json, report.html",
        names={"RUN": output},
        code=OF_VERDICT[result.verdict],
    )


@dataclass(frozen=True, slots=True)
class RepeatArguments:
    """How often each answer is judged, what decides, and what is compared."""

    times: int = setting(default=3, metavar="N", main=True)
    threshold: float | None = setting(default=None)
    guardrail: Path | None = setting(default=None, metavar="FILE")
    anchors: Path | None = setting(default=None, metavar="FILE", main=True)
    confidence: float = setting(default=0.95)


def repeat_command(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.DetectorsAlone,
    repeats: RepeatArguments,
    promise: opt.ThresholdPromise,
    reading: opt.Reading,
    calls: opt.Calls,
    trust: opt.TrustArguments,
    show: opt.ShowRun,
) -> None:
    """Judge every answer several times: how stable the judge is.

    Says how many decisions and scores differ, and what the mean of all replies misses and flags.
    Writes repeat.json and report.html into RUN. With --anchors a judge that was changed behind its
    name is told: exit code 3.
    """
    quarantine = output / "quarantine.jsonl"
    scores = detectors.scores(data if repeats.guardrail is None else None, reading) or None
    about: dict[str, Any] = {
        "guardrail": trust.load_named(repeats.guardrail),
        "anchors": repeats.anchors,
        "reading": replace(reading, quarantine=None if show.dry_run else quarantine),
    }
    with counting("judging", calls) as context:
        if show.dry_run:
            from calibrail.pipelines.repeat import Judging

            asked = Judging.of(data, scores, **about)
            with asked.asking():
                answers = list(asked.answers.values())
                show.planned(answers, asked.detector, times=repeats.times, in_batches=False)
        result = calibrail.repeat(
            data, scores, promise=promise, context=context, **asdict(repeats) | about
        )
        result.save(output)
    show.finish(
        "repeat",
        result.to_dict(),
        *spent(result.table),
        unusable(result.n_quarantined, quarantine),
        f"wrote {output}/repeat.json, report.html",
        names={"RUN": output},
        code=OF_VERDICT["rejected"] if result.changed else DONE,
    )


@dataclass(frozen=True, slots=True)
class CertifyArguments:
    """Which answers get a verdict."""

    labels: Path | None = setting(default=None, metavar="LABELS")
    judge_column: str | None = setting(default=None, metavar="COL")
    by: str | None = setting(default=None, metavar="COL")
    fresh: bool = setting(default=False)


def certify_command(
    guardrail: opt.Guardrail,
    heldout: Annotated[list[str] | None, opt.Word("HELDOUT...")] = None,
    *,
    requirement: Annotated[opt.Requirement, opt.Pick(without=("risks",))],
    reading: opt.Reading,
    calls: opt.FreeCalls,
    trust: opt.TrustArguments,
    answers: CertifyArguments,
    show: opt.Show,
) -> None:
    """Certify, reject or leave open, with exact bounds.

    Each look takes three quarters of the error that is left, or an equal part (--looks). Exit code
    0 certified, 3 rejected, 4 inconclusive. An inconclusive one says how many labelled answers of
    which class settle the next look if they show the rates seen. With --labels the verdict is
    recomputed from the files of the folder, and written into it as verdict.json and index.html.
    """
    from calibrail.guardrail.file import read_file
    from calibrail.pipelines.certify_labels import write_verdict

    labels, about = answers.labels, asdict(answers) | {"requirement": requirement}
    if labels is not None:
        # Who signed it is verified; the detector, which may be a large model, is not built.
        read_file(guardrail, trust.keys)
        how = reading if changed(reading) else None
        result = calibrail.certify(guardrail, heldout or None, reading=how, **about)
        page = write_verdict(result, labels)
        notes = [*(say("command.torn", name=name) for name in result.torn), f"wrote {page}"]
    elif not heldout:
        raise InputError("name fresh labelled answers (HELDOUT), or a folder of labels (--labels)")
    else:
        quarantine = Path("quarantine.jsonl")
        about |= {"reading": replace(reading, quarantine=quarantine)}
        with counting("checking", calls) as context:
            loaded = trust.load(guardrail)
            result = calibrail.certify(loaded, heldout, progress=context.progress, **about)
        notes = [unusable(result.n_quarantined, quarantine)]
    show.finish(
        "certify",
        result.to_dict(),
        *notes,
        code=OF_VERDICT[result.verdict],
        names={"GUARDRAIL": guardrail} | ({} if labels is None else {"LABELS": labels}),
        guardrail=str(guardrail),
    )


@dataclass(frozen=True, slots=True)
class AnswerArguments:
    """The answer, and what is known of it."""

    response: str = setting(metavar="TEXT")
    question: str = setting(default="", metavar="TEXT")
    contexts: tuple[str, ...] = setting(default=(), flag="context", metavar="TEXT")
    samples: tuple[str, ...] = setting(default=(), flag="sample", metavar="TEXT")
    columns: Mapping[str, str] | None = setting(default=None, flag="column", metavar="COL=VALUE")


def explain_command(
    guardrail: opt.Guardrail,
    answer: AnswerArguments,
    trust: opt.TrustArguments,
    told: opt.DecisionDetails,
    show: opt.Show,
) -> None:
    """Decide about one answer and show why.

    Exit code 0 whatever the decision is, and 1 where the detector failed.
    """
    from calibrail.pipelines.card import explanation

    loaded = told.by(trust.load(guardrail))
    example = calibrail.Example(**asdict(answer) | {"columns": dict(answer.columns or {})})
    (decision,) = loaded.decide([example], alone=True)
    code = FAILURE if decision.outcome == "error" else DONE
    content = {"schema": "calibrail.explain/1", **decision.to_dict(evidence=True)}
    known, names = explanation(loaded, example, decision), {"GUARDRAIL": guardrail}
    show.finish("explain", content, code=code, names=names, **known)
