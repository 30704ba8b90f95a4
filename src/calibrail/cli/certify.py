"""``calibrail certify``: does a frozen guardrail keep its promise on fresh data?"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt

Limits = Annotated[
    opt.Requirement,
    opt.Pick(
        without=("risks",),
        help={
            "max_fpr": "Share of faithful answers that may be held back; needed without risks.",
            "min_coverage": "Share of hallucinations that must be caught (default: 1 - alpha).",
            "confidence": "Joint confidence of the certificate.",
        },
    ),
]


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    heldout: Annotated[
        str, typer.Argument(metavar="HELDOUT", help="Fresh labelled answers, not seen before.")
    ],
    requirement: Limits,
    reading: opt.Reading,
    calls: opt.FreeCalls,
    by: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column of groups that get a verdict each, too."),
    ] = None,
    page: opt.Page = None,
    json: opt.AsJson = False,
) -> None:
    """Certify, reject or leave open, with exact bounds on coverage and false alarms.

    Exit code 0 certified, 3 rejected, 4 inconclusive. An inconclusive one says how many more
    labelled answers of which class would settle it.
    """
    from calibrail.cli.exits import of_verdict
    from calibrail.cli.output import note_quarantined, print_result
    from calibrail.cli.progress import counting
    from calibrail.guardrail import Guardrail
    from calibrail.report.documents.certify import document
    from calibrail.workflow import certify

    quarantine = Path("quarantine.jsonl")
    with counting("checking", calls) as progress:
        result = certify(
            Guardrail.load(guardrail),
            heldout,
            requirement,
            by=by,
            reading=replace(reading, quarantine=quarantine),
            progress=progress,
        )
    print_result(result.to_dict(), document, json, page)
    note_quarantined(result.n_quarantined, quarantine)
    raise typer.Exit(of_verdict(result.certificate.verdict))
