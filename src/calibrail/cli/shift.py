"""``calibrail shift``: does a threshold survive other answers, and if not, what would?"""

from dataclasses import replace
from typing import Annotated

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import unusable
from calibrail.cli.progress import counting
from calibrail.errors import InputError
from calibrail.settings import ShiftSplit
from calibrail.workflow.forecast import TEXTS_KEPT


@opt.takes_settings
def run(
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
    with counting("scoring", calls, kept=TEXTS_KEPT) as context:
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
