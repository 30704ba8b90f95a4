"""``calibrail audit``: what does a detector's result rest on, and where does it fail?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt

Strata = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="COL", help="Column whose values are strata. Repeatable."),
]
Geometry = Annotated[
    bool,
    typer.Option(
        "--geometry/--no-geometry", help="Embed the texts for angles; no model is downloaded."
    ),
]


def run(
    data: opt.Data,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="Run folder.")],
    score: opt.ScoreNames = None,
    score_column: opt.ScoreColumn = None,
    higher: opt.Higher = None,
    by: Strata = None,
    geometry: Geometry = True,
    undefined: opt.Undefined = "flag",
    confidence: Annotated[float, typer.Option(help="Level of every interval and test.")] = 0.95,
    format: opt.Format = None,
    preset: opt.Preset = None,
    map: opt.Map = None,
    label_column: opt.LabelColumn = None,
    group_column: opt.GroupColumn = None,
    id_column: opt.IdColumn = None,
    reader_option: opt.ReaderOption = None,
    strict: opt.Strict = False,
    split_column: opt.SplitColumn = None,
    seed: Annotated[int, typer.Option(help="Seed of folds and split.")] = 0,
    fit_share: opt.FitShare = None,
    max_calls: opt.MaxCalls = None,
    concurrency: opt.Concurrency = 8,
    timeout: opt.Timeout = 60.0,
    price: opt.Price = None,
    json: opt.AsJson = False,
) -> None:
    """Look into detectors: what explains their result, where do they fail, do they agree?

    Says how much of the AUROC is explained by length, new words and the like, how the detectors do
    in strata, whether they agree and are reliable, and whether copies or groups give labels away.
    Writes audit.json, report.html, scores.parquet and figures into RUN.
    """
    from calibrail.cli.exits import DONE
    from calibrail.cli.output import command_line, note, note_costs, print_json, stdout_console
    from calibrail.cli.progress import counting
    from calibrail.report.audit_terminal import print_audit
    from calibrail.workflow.audit import audit

    specs = opt.score_specs(score, score_column, higher)
    reading = opt.read_options(
        format=format,
        preset=preset,
        mapping=map,
        label_column=label_column,
        group_column=group_column,
        id_column=id_column,
        reader_option=reader_option,
        strict=strict,
        quarantine=output / "quarantine.jsonl",
    )
    splitting = opt.split_options(
        seed=seed, calibration_share=None, fit_share=fit_share, column=split_column
    )
    with counting("scoring", opt.terms(max_calls, concurrency, timeout, price)) as progress:
        result = audit(
            data,
            specs,
            strata_columns=tuple(by or ()),
            reading=reading,
            splitting=splitting,
            undefined=opt.one_of(undefined, ("flag", "review", "pass"), "--undefined"),
            geometry=geometry,
            confidence=confidence,
            seed=seed,
            progress=progress,
            command=command_line(),
        )
        result.save(output)
    content = result.to_dict()
    if json:
        print_json(content)
    else:
        print_audit(content, stdout_console())
    named = {item["name"] for item in content["detectors"]}
    note_costs(cost for cost in result.table.costs if cost.score in named)
    note(f"wrote {output}/report.html, audit.json, scores.parquet, figures/")
    if content["data"]["n_quarantined"]:
        note(f"{content['data']['n_quarantined']} unusable rows: see {output}/quarantine.jsonl")
    raise typer.Exit(DONE)
