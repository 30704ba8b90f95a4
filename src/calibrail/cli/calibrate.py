"""``calibrail calibrate``: from labelled answers to a threshold with a verdict."""

import sys
from dataclasses import dataclass, replace
from typing import Annotated

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import DONE, OF_VERDICT, Showing, spent, unusable
from calibrail.cli.progress import counting
from calibrail.settings import Beyond
from calibrail.workflow.forecast import TEXTS_KEPT


@dataclass(frozen=True)
class ReportOptions(Showing, Beyond):
    """What is shown, and what of it beyond the labelled data."""


@opt.takes_settings
def run(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.Detectors,
    promise: opt.Promise,
    requirement: opt.Requirement,
    reading: opt.Reading,
    splitting: opt.Splitting,
    work: opt.Work,
    show: Annotated[ReportOptions, opt.Pick(without=("page",))],
) -> None:
    """Find the threshold that catches 1 - alpha of hallucinations, and what it costs.

    Half of the data (by group, seeded) sets the threshold, the other half tests it. Writes
    scores.parquet, report.json, report.html, figures and calibration.json into RUN; report.html
    alone shows texts, of the worst errors. With --unit sentence, sentences are removed from their
    answers, and sentences.parquet has a row for each. Exit code 0; with --max-fpr or --min-kept
    the verdict decides: 0 certified, 3 rejected, 4 inconclusive.
    """
    scores, quarantine = detectors.scores(), output / "quarantine.jsonl"
    reading = replace(reading, quarantine=quarantine)
    with counting("scoring", work, kept=TEXTS_KEPT) as context:
        if show.dry_run:
            show.planned(
                data,
                scores,
                kept=TEXTS_KEPT,
                reading=reading,
                splitting=splitting,
                unit=promise.unit,
            )
        result = calibrail.calibrate(
            data,
            scores,
            promise,
            requirement,
            target=show.target,
            reading=reading,
            splitting=splitting,
            baselines=detectors.baselines,
            context=replace(context, text=not show.no_text),
            looks=output / "looks.json",
        )
        result.save(output, text=not show.no_text)
    limits = requirement.max_fpr, requirement.min_kept
    decides = any(limit is not None for limit in limits) or requirement.risks
    tables = "scores.parquet" + ", sentences.parquet" * (promise.unit == "sentence")
    # A terminal shows two answers and what was removed of them; what is kept in a file, none.
    examples = result.examples if promise.unit == "sentence" and sys.stdout.isatty() else None
    show.finish(
        "calibrate",
        result.report.to_dict(),
        spent(result.table),
        f"wrote {output}/report.html, report.json, calibration.json, {tables}, figures",
        unusable(result.data["n_quarantined"], quarantine),
        code=OF_VERDICT[result.verdict] if decides else DONE,
        names={"RUN": output},
        examples=None if examples is None else examples.to_dict(),
    )
