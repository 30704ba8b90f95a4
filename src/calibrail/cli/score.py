"""``calibrail score``: only the numbers, as a Parquet table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt


def run(
    data: opt.Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Parquet file to write.")
    ],
    score: opt.ScoreNames = None,
    format: opt.Format = None,
    preset: opt.Preset = None,
    map: opt.Map = None,
    label_column: opt.LabelColumn = None,
    group_column: opt.GroupColumn = None,
    id_column: opt.IdColumn = None,
    reader_option: opt.ReaderOption = None,
    strict: opt.Strict = False,
    max_calls: opt.MaxCalls = None,
    concurrency: opt.Concurrency = 8,
    timeout: opt.Timeout = 60.0,
    price: opt.Price = None,
    dry_run: opt.DryRun = False,
    json: opt.AsJson = False,
) -> None:
    """Score every answer and write one column per detector; labels are not needed.

    Higher always means more likely hallucinated. Where a score is undefined the cell is empty and
    the column NAME__reason says why.
    """
    import numpy as np

    from calibrail.cli.exits import DONE
    from calibrail.cli.output import note, note_costs, print_json, print_plan
    from calibrail.cli.progress import counting
    from calibrail.workflow.dry_run import plan_calls
    from calibrail.workflow.scoring import score_only

    quarantine = output.parent / "quarantine.jsonl"
    reading = opt.read_options(
        format=format,
        preset=preset,
        mapping=map,
        label_column=label_column,
        group_column=group_column,
        id_column=id_column,
        reader_option=reader_option,
        strict=strict,
        quarantine=quarantine,
    )
    specs = opt.score_specs(score, None, None)
    with counting("scoring", opt.terms(max_calls, concurrency, timeout, price)) as progress:
        if dry_run:
            print_plan(plan_calls(data, specs, reading=reading, labelled=False), json)
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
    if json:
        print_json(summary)
    else:
        for name, count in undefined.items():
            typer.echo(f"{name}: {len(table)} examples, {count} undefined")
    note_costs(table.costs)
    note(f"wrote {output}")
    if n_quarantined:
        note(f"{n_quarantined} unusable rows: see {quarantine}")
