"""``calibrail select``: which answers of a batch may be released?"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.progress import counting
from calibrail.phrases import count


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    traces: Annotated[list[str], typer.Argument(metavar="TRACES...", help="The batch of answers.")],
    reading: opt.ReadingGrouped,
    calls: opt.FreeCalls,
    release: opt.Release,
    trust: opt.Trust,
    *,
    output: Annotated[
        Path | None,
        opt.to_file("JSON lines to write, one per answer."),
    ] = None,
    show: opt.Show,
) -> None:
    """Release as much of a batch as the false discovery rate allows.

    Looks at the batch as a whole (Benjamini-Hochberg on conformal p-values, divided by what
    --method says of the share of hallucinated answers), where check decides answer by answer.
    Prints, for other cut-offs too, how many hallucinations may be among the released at most.
    """
    folder = Path() if output is None else output.parent
    with counting("scoring", calls) as context:
        result = calibrail.select(
            trust.load(guardrail),
            traces,
            **release.to_dict(),
            reading=replace(reading, quarantine=folder / "quarantine.jsonl"),
            progress=context.progress,
        )
    if output is not None:
        result.save(output)
    errors = f"not judged, and so not released: {count(result.n_errors, 'answer')}"
    show.finish(
        "select",
        result.to_dict(),
        "" if output is None else f"wrote {output}",
        errors if result.n_errors else "",
        names={"GUARDRAIL": guardrail, "DATA": traces, "OUTPUT": output},
        is_written=output is not None,
    )
