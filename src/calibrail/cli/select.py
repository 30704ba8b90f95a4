"""``calibrail select``: which answers of a batch may be released?"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.progress import counting


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    traces: Annotated[list[str], typer.Argument(metavar="TRACES...", help="The batch of answers.")],
    reading: opt.ReadingUnlabelled,
    calls: opt.FreeCalls,
    fdr: Annotated[
        float,
        typer.Option(
            help="Bound of the expected share of hallucinated answers among the released, times "
            "their share in the batch."
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="JSON lines to write, one per answer."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Level of the bounds for all other cut-offs together.")
    ] = 0.95,
    show: opt.Show,
) -> None:
    """Release as much of a batch as the false discovery rate allows.

    Looks at the batch as a whole (Benjamini-Hochberg on conformal p-values), where check decides
    answer by answer. Prints, for other cut-offs too, how many hallucinations may be among the
    released at most.
    """
    folder = Path() if output is None else output.parent
    with counting("scoring", calls) as context:
        result = calibrail.select(
            calibrail.Guardrail.load(guardrail),
            traces,
            fdr=fdr,
            confidence=confidence,
            reading=replace(reading, quarantine=folder / "quarantine.jsonl"),
            progress=context.progress,
        )
    if output is not None:
        result.save(output)
    errors = f"{result.n_errors} answers were not judged, and are not released"
    show.finish(
        "select",
        result.to_dict(),
        "" if output is None else f"wrote {output}",
        errors if result.n_errors else "",
    )
