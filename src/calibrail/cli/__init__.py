"""The command line: one file a command, each thin over the same call in Python."""

import os
import sys

import typer

from calibrail.cli import (
    agree,
    audit,
    cache,
    calibrate,
    certify,
    check,
    compare,
    doctor,
    explain,
    export,
    plan,
    score,
    select,
    shift,
)
from calibrail.cli.exits import FAILURE, USAGE
from calibrail.errors import CalibrailError, InputError, TooFewExamplesError

app = typer.Typer(
    name="calibrail",
    help="Certified thresholds for hallucination detectors: how much a threshold catches, what it "
    "costs in false alarms, and whether held-out data agrees.",
    epilog="Start with: calibrail calibrate example:facts --score novelty --alpha 0.2 "
    "--guarantee pac --max-fpr 0.6 -o runs/first",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _command in (
    doctor,
    score,
    calibrate,
    compare,
    export,
    check,
    explain,
    certify,
    select,
    shift,
    audit,
    agree,
    plan,
    cache,
):
    app.command(name=_command.__name__.rsplit(".", 1)[-1])(_command.run)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"calibrail {version('calibrail')}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_version, is_eager=True
    ),
) -> None: ...


def main() -> None:
    """Run the command line; errors that calibrail raises on purpose print without a traceback."""
    try:
        app()
    except TooFewExamplesError as error:
        _fail(error, FAILURE)
    except InputError as error:
        _fail(error, USAGE)
    except CalibrailError as error:
        _fail(error, FAILURE)
    except BrokenPipeError:
        # The reader of our output (head, a pager) has gone: nothing is wrong, and the interpreter
        # must not try to flush into the closed pipe when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILURE)


def _fail(error: CalibrailError, code: int) -> None:
    typer.echo(f"error: {error}", err=True)
    sys.exit(code)
