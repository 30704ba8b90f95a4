"""``calibrail doctor``: what is in a file, what does it support, what is wrong with it?"""

from typing import Annotated

import typer

from calibrail.cli import options as opt


@opt.takes_settings
def run(
    data: opt.Data,
    reading: Annotated[opt.Reading, opt.Pick(without=("strict",))],
    page: opt.Page = None,
    json: opt.AsJson = False,
) -> None:
    """Look at a file before anything is computed from it.

    Loads no model, and writes nothing but a page where one is asked for.
    """
    from calibrail.cli.exits import DONE, FAILURE
    from calibrail.cli.output import print_result
    from calibrail.report.documents.doctor import document
    from calibrail.workflow.doctor import diagnose

    diagnosis = diagnose(data, reading).to_dict()
    print_result(diagnosis, document, json, page)
    raise typer.Exit(DONE if diagnosis["usable"] else FAILURE)
