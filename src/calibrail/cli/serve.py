"""``calibrail serve``: a frozen guardrail behind HTTP."""

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer

import calibrail
from calibrail import settings
from calibrail.cli import options as opt
from calibrail.cli.output import DONE, FAILURE, note
from calibrail.errors import CalibrailError
from calibrail.serve.ending import ending_at_once


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
    # Before anything else is imported, which takes a while.
    with ending_at_once(), _own_counts():
        _run(guardrails, serving, calls, trust)


def _run(
    guardrails: list[str], serving: settings.ServeOptions, calls: opt.FreeCalls, trust: opt.Trust
) -> None:
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


@contextlib.contextmanager
def _own_counts() -> Iterator[None]:
    """Hide the folder in which other programs count together: the service has one of its own.

    To be entered before prometheus_client is imported, which looks for it once and for all.
    """
    folder = os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
    try:
        yield
    finally:
        if folder is not None:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder


def _tell(address: str) -> None:
    """Say where it answers, wherever somebody still reads."""
    said = f"serving on {address}"
    try:
        typer.echo(said)
    except OSError:
        # What is left in the buffer would fail again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with contextlib.suppress(OSError):
            note(said)
