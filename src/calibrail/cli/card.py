"""``calibrail card``: a guardrail on one page, to attach to a change request."""

from pathlib import Path
from typing import Annotated

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import file_to_write


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Page to write: .html, or Markdown: .md.",
            callback=file_to_write,
        ),
    ] = None,
    key: opt.Keys = None,
    *,
    show: opt.ShowAlone,
) -> None:
    """Say on one page what a guardrail does, promises and does not promise, and where it is from.

    Reads its file alone: no model is loaded, and the detector need not be on this machine. With
    --key a file that is not signed by one of the keys is refused, and gets no card.
    """
    from calibrail.workflow.card import ending

    if output is not None:
        ending(output)
    made = calibrail.card(guardrail, trusted=key or None)
    if output is None:
        show.finish("card", made.to_dict())
    made.save(output)
    show.finish([f"{output}: the card of {guardrail}"], made.to_dict())
