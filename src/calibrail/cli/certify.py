"""``calibrail certify``: does a frozen guardrail keep its promise on fresh data?"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import OF_VERDICT, unusable
from calibrail.cli.progress import counting


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    heldout: Annotated[
        list[str],
        typer.Argument(metavar="HELDOUT...", help="Fresh labelled answers, not seen before."),
    ],
    requirement: Annotated[
        opt.Requirement,
        opt.Pick(
            without=("risks",),
            help={
                "max_fpr": "Share of faithful answers that may be held back; needed without risks.",
                "min_coverage": "Share of hallucinations that must be caught (default: 1 - alpha).",
                "confidence": "Joint confidence of the certificate.",
            },
        ),
    ],
    reading: opt.Reading,
    calls: opt.FreeCalls,
    *,
    by: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column of groups that get a verdict each, too."),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="These answers are new, where the rows cannot tell."),
    ] = False,
    show: opt.Show,
) -> None:
    """Certify, reject or leave open, with exact bounds on coverage and false alarms.

    Exit code 0 certified, 3 rejected, 4 inconclusive. An inconclusive one says how many more
    labelled answers of which class would settle it.
    """
    quarantine = Path("quarantine.jsonl")
    with counting("checking", calls) as context:
        result = calibrail.certify(
            calibrail.Guardrail.load(guardrail),
            heldout,
            requirement,
            by=by,
            fresh=fresh,
            reading=replace(reading, quarantine=quarantine),
            progress=context.progress,
            looks=guardrail.with_suffix(".looks.json"),
        )
    note = unusable(result.n_quarantined, quarantine)
    show.finish(
        "certify",
        result.to_dict(),
        note,
        code=OF_VERDICT[result.verdict],
        names={"GUARDRAIL": guardrail},
        guardrail=str(guardrail),
    )
