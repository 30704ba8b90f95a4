"""``calibrail calibrate``: from labelled answers to a threshold with a verdict."""

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
    allow_flag_all: opt.AllowFlagAll = False,
    by: opt.By = None,
    min_n: opt.MinN = None,
    clustered: opt.Clustered = False,
    beta: opt.Beta = None,
    risk: opt.Risks = None,
    target: opt.Target = None,
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
    no_text: Annotated[
        bool,
        typer.Option("--no-text", help="Keep questions, contexts and answers out of report.html."),
    ] = False,
    dry_run: opt.DryRun = False,
    json: opt.AsJson = False,
) -> None:
    """Find the threshold that catches 1 - alpha of hallucinations, and what it costs.

    Half of the data (by group, seeded) sets the threshold, the other half tests it. Writes
    scores.parquet, report.json, report.html, figures and calibration.json into RUN; report.html
    alone shows texts, of the worst errors. Exit code 0; with --max-fpr the verdict decides: 0
    certified, 3 rejected, 4 inconclusive.
    """
    from calibrail.cli.exits import DONE, of_verdict
    from calibrail.cli.output import (
        command_line,
        note,
        note_costs,
        print_json,
        print_plan,
        stdout_console,
    )
    from calibrail.cli.progress import counting
    from calibrail.report import print_document
    from calibrail.report.documents.calibrate import document
    from calibrail.scores.registry import BASELINES
    from calibrail.workflow import calibrate
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
        result = calibrate(
            data,
            specs,
            alpha=alpha,
            guarantee=opt.one_of(guarantee, ("marginal", "pac", "paper"), "--guarantee"),
            delta=delta,
            max_fpr=max_fpr,
            min_coverage=min_coverage,
            confidence=confidence,
            undefined=opt.one_of(undefined, ("flag", "review", "pass"), "--undefined"),
            allow_flag_all=allow_flag_all,
            by=by,
            min_n=min_n,
            clustered=clustered,
            beta=beta,
            risks=tuple(risk or ()),
            target=target,
            reading=reading,
            splitting=splitting,
            text=not no_text,
            command=command_line(),
            progress=progress,
        )
        result.save(output, text=not no_text)
    report = result.report.to_dict()
    if json:
        print_json(report)
    else:
        print_document(document(report), stdout_console())
    costs = () if result.table is None else result.table.costs
    note_costs(cost for cost in costs if cost.score not in BASELINES)
    note(f"wrote {output}/report.html, report.json, calibration.json, scores.parquet, figures")
    if result.data["n_quarantined"]:
        note(f"{result.data['n_quarantined']} unusable rows: see {output}/quarantine.jsonl")
    if not json:
        note(f"next: calibrail export {output} -o guardrail.json")
    raise typer.Exit(DONE if max_fpr is None and not risk else of_verdict(result.verdict))
