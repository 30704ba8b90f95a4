"""``calibrail certify``: does a frozen guardrail keep its promise on fresh data?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt


def run(
    guardrail: Annotated[
        Path, typer.Argument(metavar="GUARDRAIL", help="File that `calibrail export` wrote.")
    ],
    heldout: Annotated[
        str, typer.Argument(metavar="HELDOUT", help="Fresh labelled answers, not seen before.")
    ],
    max_fpr: Annotated[
        float | None,
        typer.Option(help="Share of faithful answers that may be held back; needed without risks."),
    ] = None,
    min_coverage: Annotated[
        float | None,
        typer.Option(help="Share of hallucinations that must be caught (default: 1 - alpha)."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Joint confidence of the certificate.")] = 0.95,
    by: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column of groups that get a verdict each, too."),
    ] = None,
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
    """Certify, reject or leave open, with exact bounds on coverage and false alarms.

    Exit code 0 certified, 3 rejected, 4 inconclusive. An inconclusive one says how many more
    labelled answers of which class would settle it.
    """
    from calibrail.cli.exits import of_verdict
    from calibrail.cli.output import note, print_json, stdout_console
    from calibrail.cli.progress import counting
    from calibrail.guardrail import Guardrail
    from calibrail.report import print_document
    from calibrail.report.documents.certify import document
    from calibrail.workflow import certify

    reading = opt.read_options(
        format=format,
        preset=preset,
        mapping=map,
        label_column=label_column,
        group_column=group_column,
        id_column=id_column,
        reader_option=reader_option,
        strict=strict,
        quarantine=Path("quarantine.jsonl"),
    )
    with counting("checking", opt.terms(max_calls, concurrency, timeout)) as progress:
        result = certify(
            Guardrail.load(guardrail),
            heldout,
            max_fpr=max_fpr,
            min_coverage=min_coverage,
            confidence=confidence,
            by=by,
            reading=reading,
            progress=progress,
        )
    if json:
        print_json(result.to_dict())
    else:
        print_document(document(result.to_dict()), stdout_console())
    if result.n_quarantined:
        note(f"{result.n_quarantined} unusable rows: see quarantine.jsonl")
    raise typer.Exit(of_verdict(result.certificate.verdict))
