"""``calibrail calibrate``: from labelled answers to a threshold with a verdict."""

from dataclasses import dataclass, replace

import typer

from calibrail.cli import options as opt
from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class ReportOptions(opt.Showing):
    """What the report holds beyond the data itself."""

    target: str | None = setting(
        "Unlabelled production answers: how far do they differ, and what would that change?",
        None,
        metavar="FILE",
    )
    no_text: bool = setting("Keep questions, contexts and answers out of report.html.", False)


@opt.takes_settings
def run(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.Detectors,
    promise: opt.Promise,
    requirement: opt.Requirement,
    reading: opt.Reading,
    splitting: opt.Splitting,
    calls: opt.Calls,
    show: ReportOptions,
) -> None:
    """Find the threshold that catches 1 - alpha of hallucinations, and what it costs.

    Half of the data (by group, seeded) sets the threshold, the other half tests it. Writes
    scores.parquet, report.json, report.html, figures and calibration.json into RUN; report.html
    alone shows texts, of the worst errors. Exit code 0; with --max-fpr the verdict decides: 0
    certified, 3 rejected, 4 inconclusive.
    """
    from calibrail.cli.exits import DONE, of_verdict
    from calibrail.cli.output import command_line, note, note_run, print_plan, print_result
    from calibrail.cli.progress import counting
    from calibrail.report.documents.calibrate import document
    from calibrail.workflow import calibrate
    from calibrail.workflow.context import Context
    from calibrail.workflow.dry_run import plan_calls

    scores = detectors.scores()
    reading = replace(reading, quarantine=output / "quarantine.jsonl")
    with counting("scoring", calls) as progress:
        if show.dry_run:
            planned = plan_calls(data, scores, reading=reading, splitting=splitting)
            print_plan(planned, show.json)
            raise typer.Exit(DONE)
        result = calibrate(
            data,
            scores,
            promise,
            requirement,
            target=show.target,
            reading=reading,
            splitting=splitting,
            context=Context(command_line(), progress, text=not show.no_text),
        )
        result.save(output, text=not show.no_text)
    print_result(result.report.to_dict(), document, show.json)
    note_run(
        output,
        "report.html, report.json, calibration.json, scores.parquet, figures",
        result.table,
        result.data["n_quarantined"],
    )
    if not show.json:
        note(f"next: calibrail export {output} -o guardrail.json")
    decides = requirement.max_fpr is not None or requirement.risks
    raise typer.Exit(of_verdict(result.verdict) if decides else DONE)
