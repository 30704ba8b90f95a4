"""``calibrail shift``: does a threshold survive other answers, and if not, what would?"""

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
    test: Annotated[
        str | None, typer.Option(metavar="FILE", help="Labelled answers from elsewhere.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column of groups: each is tested by all the others."),
    ] = None,
    calibrate_on: Annotated[
        list[str] | None,
        typer.Option(
            "--calibrate-on", metavar="VALUE", help="With --by: groups that calibrate. Repeatable."
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="Column of dates or numbers: the earlier half calibrates."
        ),
    ] = None,
    periods: Annotated[int, typer.Option(help="With --time: parts of the later half.")] = 4,
    alpha: opt.Alpha = 0.05,
    guarantee: opt.Guarantee = "marginal",
    delta: opt.Delta = 0.1,
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
    max_calls: opt.MaxCalls = None,
    concurrency: opt.Concurrency = 8,
    timeout: opt.Timeout = 60.0,
    json: opt.AsJson = False,
) -> None:
    """Calibrate on some answers, test on others: another file, other groups, later times.

    For each test: how many are caught and how many false alarms there are, whether that contradicts
    the promise, the threshold that would be needed, and whether weighting repairs it. Writes
    shift.json and report.html into RUN.
    """
    from calibrail.cli.output import command_line, note, print_json, stdout_console
    from calibrail.cli.progress import counting
    from calibrail.errors import InputError
    from calibrail.report.shift_page import print_shift
    from calibrail.workflow.context import Context
    from calibrail.workflow.shift import shift

    specs = opt.score_specs(score, score_column, higher)
    if len(specs) != 1:
        raise InputError(f"shift takes one score; got {len(specs)}")
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
    with counting("scoring", opt.terms(max_calls, concurrency, timeout)) as progress:
        result = shift(
            data,
            specs[0],
            test=test,
            by=by,
            calibrate_on=tuple(calibrate_on or ()),
            time=time,
            periods=periods,
            alpha=alpha,
            guarantee=opt.one_of(guarantee, ("marginal", "pac", "paper"), "--guarantee"),
            delta=delta,
            confidence=confidence,
            undefined=opt.one_of(undefined, ("flag", "review", "pass"), "--undefined"),
            reading=reading,
            context=Context(command_line(), progress),
        )
        result.save(output)
    if json:
        print_json(result.to_dict())
    else:
        print_shift(result.to_dict(), stdout_console())
    if result.n_quarantined:
        note(f"{result.n_quarantined} unusable rows: see {output}/quarantine*.jsonl")
    note(f"wrote {output}/shift.json, report.html, figures/shift.svg")
