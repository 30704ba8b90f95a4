"""``calibrail select``: which answers of a batch may be released?"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    traces: Annotated[str, typer.Argument(metavar="TRACES", help="The batch of answers.")],
    reading: opt.ReadingUnlabelled,
    calls: opt.FreeCalls,
    fdr: Annotated[
        float,
        typer.Option(
            help="Bound of the expected share of hallucinated answers among the released, times "
            "their share in the batch."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="JSON lines to write, one per answer."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Level of the bounds for all other cut-offs together.")
    ] = 0.95,
    page: opt.Page = None,
    json: opt.AsJson = False,
) -> None:
    """Release as much of a batch as the false discovery rate allows.

    Looks at the batch as a whole (Benjamini-Hochberg on conformal p-values), where check decides
    answer by answer. Prints, for other cut-offs too, how many hallucinations may be among the
    released at most.
    """
    from calibrail.cli.output import note, print_result
    from calibrail.cli.progress import counting
    from calibrail.guardrail import Guardrail
    from calibrail.report.documents.select import document
    from calibrail.workflow.select import select

    folder = Path() if output is None else output.parent
    reading = replace(reading, quarantine=folder / "quarantine.jsonl")
    with counting("scoring", calls) as progress:
        result = select(
            Guardrail.load(guardrail),
            traces,
            fdr=fdr,
            confidence=confidence,
            reading=reading,
            progress=progress,
        )
    if output is not None:
        result.save(output)
    print_result(result.to_dict(), document, json, page)
    if output is not None:
        note(f"wrote {output}")
    if result.n_errors:
        note(f"{result.n_errors} answers were not judged, and are not released")
