"""``calibrail serve``: a frozen guardrail behind HTTP."""

from functools import partial
from typing import Annotated

import typer

import calibrail
from calibrail import settings
from calibrail.cli import options as opt
from calibrail.cli.output import DONE, FAILURE, note
from calibrail.errors import CalibrailError


@opt.takes_settings
def run(
    guardrails: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]GUARDRAIL...", help="Files that `calibrail export` wrote, by name."
        ),
    ],
    serving: settings.ServeOptions,
    calls: opt.FreeCalls,
    trust: opt.Trust,
) -> None:
    """Decide about answers that come by HTTP, as check would about each alone.

    Each guardrail must show first, by its probe answers, that this machine computes what was
    certified. Serves until SIGTERM or Ctrl-C, and finishes what it accepted then. A guardrail file
    that changes is verified and takes over; one that must not decide leaves the old one at work.
    The keys of --trusted are read once, when it begins.
    Requests need the token in the environment variable CALIBRAIL_TOKEN, where there is one.
    """
    try:
        from calibrail.serve.guardrails import named
        from calibrail.serve.process import serve
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("calibrail"):
            raise
        raise CalibrailError(f"serve needs {error.name}: pip install 'calibrail[serve]'") from error
    from calibrail.models.call_limits import limit_calls

    # The keys are read once: what is trusted later does not depend on who may write these files.
    load = partial(calibrail.Guardrail.load, trusted=trust.read_keys(), probe=True)
    with limit_calls(calls):
        finished = serve(named(guardrails), serving, load=load, tell=_tell, note=note)
    if not finished:
        note("not everything that was accepted was answered in time")
    raise typer.Exit(DONE if finished else FAILURE)


def _tell(address: str) -> None:
    typer.echo(f"serving on {address}")
