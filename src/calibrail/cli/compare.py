"""``calibrail compare``: several detectors on the same split, at the same target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt


def run(
    data: opt.Data,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="Run folder.")],
    score: opt.ScoreNames = None,
    score_column: opt.ScoreColumn = None,
    higher: opt.Higher = None,
    alpha: opt.Alpha = 0.05,
    guarantee: opt.Guarantee = "marginal",
    delta: opt.Delta = 0.1,
    max_fpr: opt.MaxFpr = None,
    min_coverage: opt.MinCoverage = None,
    confidence: opt.Confidence = 0.95,
    undefined: opt.Undefined = "flag",
    format: opt.Format = None,
    preset: opt.Preset = None,
    map: opt.Map = None,
    label_column: opt.LabelColumn = None,
    group_column: opt.GroupColumn = None,
    id_column: opt.IdColumn = None,
    reader_option: opt.ReaderOption = None,
    strict: opt.Strict = False,
    split_column: opt.SplitColumn = None,
    seed: opt.Seed = 0,
    calibration_share: opt.CalibrationShare = None,
    fit_share: opt.FitShare = None,
    max_calls: opt.MaxCalls = None,
    concurrency: opt.Concurrency = 8,
    timeout: opt.Timeout = 60.0,
    price: opt.Price = None,
    dry_run: opt.DryRun = False,
    json: opt.AsJson = False,
) -> None:
    """Calibrate several detectors to the same coverage and set their false alarms side by side.

    The baselines (answer length, new words, ...) take part uninvited: a detector that does not
    beat them has not been shown to detect anything. A winner is named only where the data
    separates it from all others, and is certified on the half of the test part that did not
    choose it. Writes compare.json, report.html, figures/, scores.parquet and cost.json into RUN.
    """
    from calibrail.cli.exits import DONE
    from calibrail.cli.output import (
        command_line,
        note,
        note_costs,
        print_json,
        print_plan,
        stdout_console,
    )
    from calibrail.cli.progress import counting
    from calibrail.report import print_compare
    from calibrail.scores.registry import BASELINES
    from calibrail.workflow import compare
    from calibrail.workflow.dry_run import plan_calls

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
        seed=seed,
        calibration_share=calibration_share,
        fit_share=fit_share,
        column=split_column,
    )
    with counting("scoring", opt.terms(max_calls, concurrency, timeout, price)) as progress:
        if dry_run:
            print_plan(plan_calls(data, specs, reading=reading, splitting=splitting), json)
            raise typer.Exit(DONE)
        result = compare(
            data,
            specs,
            alpha=alpha,
            guarantee=opt.one_of(guarantee, ("marginal", "pac", "paper"), "--guarantee"),
            delta=delta,
            max_fpr=max_fpr,
            min_coverage=min_coverage,
            confidence=confidence,
            undefined=opt.one_of(undefined, ("flag", "review", "pass"), "--undefined"),
            reading=reading,
            splitting=splitting,
            command=command_line(),
            progress=progress,
        )
        result.save(output)
    if json:
        print_json(result.to_dict())
    else:
        print_compare(result.to_dict(), stdout_console())
    note_costs(cost for cost in result.scored.table.costs if cost.score not in BASELINES)
    note(f"wrote {output}/compare.json, report.html, figures, scores.parquet, cost.json")
    if result.data["n_quarantined"]:
        note(f"{result.data['n_quarantined']} unusable rows: see {output}/quarantine.jsonl")
