"""``calibrail compare``: several detectors on the same split, at the same target."""

from dataclasses import replace
from typing import Annotated

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import spent, unusable
from calibrail.cli.progress import counting
from calibrail.settings.requirement import OF_ONE_DETECTOR
from calibrail.workflow.forecast import TEXTS_KEPT


@opt.takes_settings
def run(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.Detectors,
    promise: opt.ThresholdPromise,
    requirement: Annotated[opt.Requirement, opt.Pick(without=OF_ONE_DETECTOR)],
    reading: opt.Reading,
    splitting: opt.Splitting,
    work: opt.Work,
    show: opt.ShowRun,
) -> None:
    """Calibrate several detectors to the same coverage and set their false alarms side by side.

    The baselines (answer length, new words, ...) always stand beside them: a detector that does not
    beat them has not been shown to detect anything. A winner is named only where the data
    separates it from all others, and is certified on the half of the test part that did not
    choose it. Writes compare.json, report.html, figures/, scores.parquet and cost.json into RUN.
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
        result = calibrail.compare(
            data,
            scores,
            promise,
            requirement,
            reading=reading,
            splitting=splitting,
            baselines=detectors.baselines,
            context=context,
            looks=output / "looks.json",
        )
        result.save(output)
    show.finish(
        "compare",
        result.to_dict(),
        spent(result.scored.table),
        f"wrote {output}/compare.json, report.html, figures, scores.parquet, cost.json",
        unusable(result.data["n_quarantined"], quarantine),
        names={"RUN": output},
    )
