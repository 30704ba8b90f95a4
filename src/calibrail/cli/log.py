"""``calibrail log``: are the logged decisions of a service whole, and as one table?"""

from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt
from calibrail.cli.output import DONE, FAILURE
from calibrail.phrases import count

app = typer.Typer(
    help="The decision log of a service: verify it, or write it as one table.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folders = Annotated[
    list[Path],
    typer.Argument(metavar="LOG...", help="Folder of `calibrail serve --log`; its archive, too."),
]


@app.command("verify")
@opt.takes_settings
def verify(
    folders: Folders,
    show: opt.Show,
    archived: Annotated[
        bool,
        typer.Option("--archived", help="The oldest files were taken away on purpose."),
    ] = False,
    noted: Annotated[
        list[str] | None,
        typer.Option(
            "--noted", metavar="HASH", help="Hash of a line that must be there. Repeatable."
        ),
    ] = None,
) -> None:
    """Say whether every logged decision is there, as it was written.

    Exits with 0 where the log is whole, and with 1 where a line was changed, moved or is missing;
    file and line are named. Files may grow meanwhile.
    """
    from calibrail.workflow.log import verify_log

    check = verify_log(folders if isinstance(folders, list) else [folders], noted=noted or ())
    allowed = {"whole", "beginning missing"} if archived else {"whole"}
    show.finish("log", check.to_dict(), code=DONE if check.verdict in allowed else FAILURE)


@app.command("export")
@opt.takes_settings
def export(
    folders: Folders,
    output: Annotated[Path, opt.to_file("Parquet file to write.")],
    show: opt.ShowAlone,
) -> None:
    """Write every logged decision as a row of one Parquet file; memory does not grow with it."""
    from calibrail.workflow.log import export_log

    n, unreadable = export_log(folders if isinstance(folders, list) else [folders], output)
    content = {
        "schema": "calibrail.log_export/1",
        "output": str(output),
        "decisions": n,
        "unreadable": unreadable,
    }
    said = f"{count(unreadable, 'line')} left out, which are not as they were written"
    note_ = f"{said}: calibrail log verify says which" if unreadable else ""
    code = FAILURE if unreadable else DONE
    show.finish([f"{output}: {count(n, 'decision')}"], content, note_, code=code)
