"""``calibrail agree``: how good is it, when most labels come from a judge and few from people?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt


def run(
    data: opt.Data,
    human: Annotated[
        str,
        typer.Option(metavar="COL", help="Column of human labels: 1 = hallucinated, 0, or blank."),
    ],
    judge: Annotated[
        str,
        typer.Option(metavar="COL", help="Column of the judge's labels: 1 = hallucinated, 0."),
    ],
    guardrail: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What flags: a file that `calibrail export` wrote."),
    ] = None,
    score_column: Annotated[
        str | None,
        typer.Option(metavar="COL", help="What flags: a column of scores, with --threshold."),
    ] = None,
    higher: opt.Higher = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Scores at or beyond it, towards hallucinated, are flagged."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Level of every interval.")] = 0.95,
    format: opt.Format = None,
    preset: opt.Preset = None,
    map: opt.Map = None,
    group_column: opt.GroupColumn = None,
    id_column: opt.IdColumn = None,
    reader_option: opt.ReaderOption = None,
    strict: opt.Strict = False,
    json: opt.AsJson = False,
) -> None:
    """Compare a judge's labels with people's, and correct the rates that they give.

    Prevalence, and with --guardrail or --score-column the coverage and the share of false alarms,
    four ways side by side: by the judge alone, by people alone, and corrected in two ways.
    """
    from calibrail.cli.output import note, print_json, stdout_console
    from calibrail.cli.progress import counting
    from calibrail.guardrail import Guardrail
    from calibrail.report.agreement import print_agreement
    from calibrail.settings import ScoreThreshold
    from calibrail.workflow.agree import agree

    reading = opt.read_options(
        format=format,
        preset=preset,
        mapping=map,
        label_column=None,
        group_column=group_column,
        id_column=id_column,
        reader_option=reader_option,
        strict=strict,
        quarantine=Path("quarantine.jsonl"),
    )
    named = (score_column, higher, threshold)
    scores = None if named == (None, None, None) else ScoreThreshold(*named)
    with counting("comparing") as progress:
        result = agree(
            data,
            human=human,
            judge=judge,
            guardrail=None if guardrail is None else Guardrail.load(guardrail),
            scores=scores,
            confidence=confidence,
            reading=reading,
            progress=progress,
        )
    if json:
        print_json(result.to_dict())
    else:
        print_agreement(result.to_dict(), stdout_console())
    if result.n_quarantined:
        note(f"{result.n_quarantined} unusable rows: see quarantine.jsonl")
