"""Audit, shift, agree."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

import calibrail
from calibrail.cli import parameters as opt
from calibrail.cli.output import Showing, counting, spent, unusable
from calibrail.errors import InputError
from calibrail.options import ScoreThreshold, ShiftSplit
from calibrail.options.fields import setting


@dataclass(frozen=True, slots=True)
class AuditArguments(Showing):
    """What an audit looks at beside the detectors, and how it is shown."""

    by: tuple[str, ...] = setting(
        "Column of groups: each is a stratum. Repeatable.", (), metavar="COL"
    )
    geometry: bool = setting("Embed the texts for angles; no model is downloaded.", True)


@opt.takes_settings
def audit_command(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.DetectorsAlone,
    promise: Annotated[opt.Promise, opt.Pick(only=("undefined",))],
    requirement: Annotated[
        opt.Requirement,
        opt.Pick(only=("confidence",), help={"confidence": "Level of every interval and test."}),
    ],
    reading: opt.Reading,
    splitting: Annotated[
        opt.Splitting,
        opt.Pick(without=("calibration_share",), help={"seed": "Seed of folds and split."}),
    ],
    work: opt.Work,
    looks: Annotated[AuditArguments, opt.Pick(without=("dry_run", "page"))],
) -> None:
    """Look into detectors: what explains their result, where they fail, whether they agree.

    Says how much of the AUROC is explained by length, new words and the like, how the detectors do
    in strata, whether they agree and are reliable, and whether copies or groups give labels away.
    Writes audit.json, report.html, scores.parquet and figures into RUN.
    """
    quarantine = output / "quarantine.jsonl"
    with counting("scoring", work) as context:
        result = calibrail.audit(
            data,
            detectors.scores(),
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
        spent(result.table, {item["name"] for item in content["detectors"]}),
        f"wrote {output}/report.html, audit.json, scores.parquet, figures/",
        unusable(content["data"]["n_quarantined"], quarantine),
    )


@opt.takes_settings
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
    """Calibrate on some answers, test on others: another file, other groups, later times.

    For each test: how many are caught and how many false alarms there are, whether that contradicts
    the promise, the threshold that would be needed, and whether weighting repairs it. Writes
    shift.json and report.html into RUN.
    """
    scores = detectors.scores()
    if len(scores) != 1:
        raise InputError(f"shift takes one score; got {len(scores)}")
    with counting("scoring", calls) as context:
        result = calibrail.shift(
            data,
            scores[0],
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
class LabelColumns:
    """Where the labels of people and of the judge stand."""

    human: str = setting(
        "Column of human labels: 1 = hallucinated, 0 = faithful, or blank.", metavar="COL"
    )
    judge: str = setting(
        "Column of the judge's labels: 1 = hallucinated, 0 = faithful.", metavar="COL"
    )


@opt.takes_settings
def agree_command(
    data: opt.Data,
    labels: LabelColumns,
    requirement: Annotated[
        opt.Requirement,
        opt.Pick(only=("confidence",), help={"confidence": "Level of every interval."}),
    ],
    reading: Annotated[opt.Reading, opt.Pick(without=("label_column",))],
    scores: ScoreThreshold | None,
    trust: opt.TrustArguments,
    *,
    guardrail: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What flags: a file that `calibrail export` wrote."),
    ] = None,
    show: opt.Show,
) -> None:
    """Compare a judge's labels with people's, and correct the rates that they give.

    Prevalence, and with --guardrail or --score-column the coverage and the share of false alarms,
    four ways side by side: by the judge alone, by people alone, and corrected in two ways.
    """
    quarantine = Path("quarantine.jsonl")
    with counting("comparing") as context:
        result = calibrail.agree(
            data,
            **asdict(labels),
            guardrail=trust.load_named(guardrail),
            scores=scores,
            confidence=requirement.confidence,
            reading=replace(reading, quarantine=quarantine),
            context=context,
        )
    show.finish(
        "agree",
        result.to_dict(),
        unusable(result.n_quarantined, quarantine),
        names={"GUARDRAIL": guardrail, "DATA": data},
    )
