"""``calibrail check``: decisions of a frozen guardrail about a file of answers."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    traces: Annotated[str, typer.Argument(metavar="TRACES", help="Answers to decide about.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="JSON lines to write; - for stdout."),
    ],
    reading: opt.ReadingUnlabelled,
    calls: opt.Calls,
    show: opt.Showing,
    evidence: Annotated[
        bool,
        typer.Option(
            "--evidence", help="Write what each decision rests on: sentences, chunks, spans."
        ),
    ] = False,
) -> None:
    """Decide about every answer of a file: pass, flag, review or error, with score and p-value.

    Streams: memory does not grow with the file. Labels are not needed and not read. A row that
    cannot be read gets the outcome error, and stands in quarantine.jsonl beside the decisions.
    """
    from calibrail.cli.exits import DONE, FAILURE
    from calibrail.cli.output import note, print_json, print_plan
    from calibrail.cli.progress import counting
    from calibrail.guardrail import Guardrail
    from calibrail.models.remote import RemoteModel
    from calibrail.workflow.check import check_source
    from calibrail.workflow.dry_run import plan_calls

    to_stdout = str(output) == "-"
    folder = Path() if to_stdout else output.parent
    loaded = Guardrail.load(guardrail)
    for model in getattr(loaded.score, "models", ()):
        if isinstance(model, RemoteModel):
            note(f"this guardrail sends the answers to {model.endpoint}")
    reading = replace(reading, quarantine=folder / "quarantine.jsonl")
    with counting("checking", calls) as progress:
        if show.dry_run:
            planned = plan_calls(traces, loaded.score, reading=reading, labelled=False)
            print_plan(planned, show.json)
            raise typer.Exit(DONE)
        outcomes: Counter[str] = check_source(
            loaded,
            traces,
            None if to_stdout else output,
            reading=reading,
            evidence=evidence,
            progress=progress,
        )
    total = sum(outcomes.values())
    if show.json and not to_stdout:
        print_json({"checked": total, "outcomes": dict(sorted(outcomes.items()))})
    elif not to_stdout:
        shares = ", ".join(
            f"{outcomes[name]} {name} ({outcomes[name] / total:.1%})"
            for name in ("pass", "flag", "review", "error")
            if outcomes[name]
        )
        typer.echo(f"{total} answers: {shares}")
    if not to_stdout:
        note(f"wrote {output}")
    if outcomes["error"]:
        note(f"{outcomes['error']} answers were not judged; the reason stands in each line")
    if total and outcomes["error"] == total:
        raise typer.Exit(FAILURE)
