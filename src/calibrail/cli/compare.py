"""``calibrail compare``: several detectors on the same split, at the same target."""

from dataclasses import replace
from typing import Annotated

import typer

from calibrail.cli import options as opt


@opt.takes_settings
def run(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.Detectors,
    promise: opt.ThresholdPromise,
    requirement: Annotated[opt.Requirement, opt.Pick(without=("risks",))],
    reading: opt.Reading,
    splitting: opt.Splitting,
    calls: opt.Calls,
    show: opt.Showing,
) -> None:
    """Calibrate several detectors to the same coverage and set their false alarms side by side.

    The baselines (answer length, new words, ...) always stand beside them: a detector that does not
    beat them has not been shown to detect anything. A winner is named only where the data
    separates it from all others, and is certified on the half of the test part that did not
    choose it. Writes compare.json, report.html, figures/, scores.parquet and cost.json into RUN.
    """
    from calibrail.cli.exits import DONE
    from calibrail.cli.output import (
        command_line,
        note_run,
        print_plan,
        print_result,
    )
    from calibrail.cli.progress import counting
    from calibrail.report.documents.compare import document
    from calibrail.workflow import compare
    from calibrail.workflow.context import Context
    from calibrail.workflow.dry_run import plan_calls

    scores = detectors.scores()
    reading = replace(reading, quarantine=output / "quarantine.jsonl")
    with counting("scoring", calls) as progress:
        if show.dry_run:
            planned = plan_calls(data, scores, reading=reading, splitting=splitting)
            print_plan(planned, show.json)
            raise typer.Exit(DONE)
        result = compare(
            data,
            scores,
            promise,
            requirement,
            reading=reading,
            splitting=splitting,
            context=Context(command_line(), progress),
        )
        result.save(output)
    print_result(result.to_dict(), document, show.json)
    note_run(
        output,
        "compare.json, report.html, figures, scores.parquet, cost.json",
        result.scored.table,
        result.data["n_quarantined"],
    )
