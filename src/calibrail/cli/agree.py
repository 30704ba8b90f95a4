"""``calibrail agree``: how good is it, when most labels come from a judge and few from people?"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt
from calibrail.settings import ScoreThreshold


@opt.takes_settings
def run(
    data: opt.Data,
    human: Annotated[
        str,
        typer.Option(
            metavar="COL", help="Column of human labels: 1 = hallucinated, 0 = faithful, or blank."
        ),
    ],
    judge: Annotated[
        str,
        typer.Option(
            metavar="COL", help="Column of the judge's labels: 1 = hallucinated, 0 = faithful."
        ),
    ],
    requirement: Annotated[
        opt.Requirement,
        opt.Pick(only=("confidence",), help={"confidence": "Level of every interval."}),
    ],
    reading: Annotated[opt.Reading, opt.Pick(without=("label_column",))],
    scores: Annotated[
        ScoreThreshold | None,
        opt.Pick(),
    ],
    guardrail: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What flags: a file that `calibrail export` wrote."),
    ] = None,
    page: opt.Page = None,
    json: opt.AsJson = False,
) -> None:
    """Compare a judge's labels with people's, and correct the rates that they give.

    Prevalence, and with --guardrail or --score-column the coverage and the share of false alarms,
    four ways side by side: by the judge alone, by people alone, and corrected in two ways.
    """
    from calibrail.cli.output import note_quarantined, print_result
    from calibrail.cli.progress import counting
    from calibrail.guardrail import Guardrail
    from calibrail.report.documents.agree import document
    from calibrail.workflow.agree import agree
    from calibrail.workflow.context import Context

    quarantine = Path("quarantine.jsonl")
    with counting("comparing") as progress:
        result = agree(
            data,
            human=human,
            judge=judge,
            guardrail=None if guardrail is None else Guardrail.load(guardrail),
            scores=scores,
            confidence=requirement.confidence,
            reading=replace(reading, quarantine=quarantine),
            context=Context(progress=progress),
        )
    print_result(result.to_dict(), document, json, page)
    note_quarantined(result.n_quarantined, quarantine)
