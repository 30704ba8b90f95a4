"""The command line: one file a command, each thin over the same call in Python."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import typer

from calibrail.cli import log
from calibrail.cli.output import FAILURE, USAGE
from calibrail.errors import CalibrailError, InputError, TooFewExamplesError
from calibrail.settings.option import speaking_of_flags
from calibrail.working_folder import working_folder

#: In the order in which the help lists them; each is a module of this package.
COMMANDS: Final = (
    *("doctor", "score", "calibrate", "compare", "keygen", "export", "verify", "card"),
    *("check", "explain", "certify", "select", "shift", "audit", "agree"),
    *("plan", "label", "audit-sample", "monitor", "recalibrate", "serve", "cache"),
)

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
for _command in COMMANDS:
    app.command(_command)(import_module(f"calibrail.cli.{_command.replace('-', '_')}").run)
#: Those of several actions.
app.add_typer(log.app, name="log")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version."),
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"calibrail {installed('calibrail')}")
        raise typer.Exit
    context.with_resource(speaking_of_flags())


def main() -> None:
    """Run the command line; errors that calibrail raises on purpose print without a traceback."""
    try:
        # Detectors of one's own are found there, too, and nothing else.
        with working_folder(Path.cwd()):
            app()
    except CalibrailError as error:
        typer.echo(f"error: {error}", err=True)
        wrong = isinstance(error, InputError) and not isinstance(error, TooFewExamplesError)
        sys.exit(USAGE if wrong else FAILURE)
    except BrokenPipeError:
        # The reader of our output (head, a pager) has gone: nothing is wrong, and the interpreter
        # must not try to flush into the closed pipe when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILURE)
