"""``calibrail score``: only the numbers, as a Parquet table."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt


@opt.takes_settings
def run(
    data: opt.Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Parquet file to write.")
    ],
    detectors: Annotated[opt.Detectors, opt.Pick(only=("score",))],
    reading: opt.Reading,
    calls: opt.Calls,
    show: opt.Showing,
) -> None:
    """Score every answer and write one column per detector; labels are not needed.

    Higher always means more likely hallucinated. Where a score is undefined the cell is empty and
    the column NAME__reason says why.
    """
    import numpy as np

    from calibrail.cli.exits import DONE
    from calibrail.cli.output import note, note_costs, note_quarantined, print_json, print_plan
    from calibrail.cli.progress import counting
    from calibrail.workflow.dry_run import plan_calls
    from calibrail.workflow.scoring import score_only

    quarantine = output.parent / "quarantine.jsonl"
    reading = replace(reading, quarantine=quarantine)
    specs = detectors.scores()
    with counting("scoring", calls) as progress:
        if show.dry_run:
            print_plan(plan_calls(data, specs, reading=reading, labelled=False), show.json)
            raise typer.Exit(DONE)
        table, n_quarantined = score_only(data, specs, reading=reading, progress=progress)
    output.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(output)
    undefined = {name: int(np.isnan(values).sum()) for name, values in table.columns.items()}
    summary = {
        "examples": len(table),
        "quarantined": n_quarantined,
        "undefined": undefined,
        "costs": [cost.to_dict() for cost in table.costs],
    }
    if show.json:
        print_json(summary)
    else:
        for name, count in undefined.items():
            typer.echo(f"{name}: {len(table)} examples, {count} undefined")
    note_costs(table.costs)
    note(f"wrote {output}")
    note_quarantined(n_quarantined, quarantine)
