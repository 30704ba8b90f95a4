"""``calibrail doctor``: what is in a file, what does it support, what is wrong with it?"""

from __future__ import annotations

from typing import Annotated

import typer

from calibrail.cli import options as opt


@opt.takes_settings
def run(
    data: opt.Data,
    reading: Annotated[opt.Reading, opt.Pick(without=("strict",))],
    json: opt.AsJson = False,
) -> None:
    """Look at a file before anything is computed from it. Loads no model, writes nothing."""
    from calibrail.cli.exits import DONE, FAILURE
    from calibrail.cli.output import print_json, stdout_console
    from calibrail.report import print_diagnosis
    from calibrail.workflow.doctor import diagnose

    diagnosis = diagnose(data, reading).to_dict()
    if json:
        print_json(diagnosis)
    else:
        print_diagnosis(diagnosis, stdout_console())
    raise typer.Exit(DONE if diagnosis["usable"] else FAILURE)
