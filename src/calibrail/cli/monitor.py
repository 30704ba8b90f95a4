"""``calibrail monitor``: is the promise still kept, and has the traffic changed?"""

import signal
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

import calibrail
from calibrail import settings
from calibrail.cli import options as opt
from calibrail.cli.output import DONE, REJECTED, folder_to_write
from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a watch takes beside the log."""

    labels: Path | None = setting(
        "Folder of `calibrail audit-sample`, in which people label.", None, metavar="AUDIT"
    )
    judge_labels: Path | None = setting(
        "Labels of a judge by id, of all answers (best) or of some chosen without a look at any.",
        None,
        metavar="FILE",
    )
    reference_log: Path | None = setting(
        "Log that traffic is compared with, in place of its own first answers.", None, metavar="LOG"
    )


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    logs: opt.Logs,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="WATCH", help="Folder of the watch.", callback=folder_to_write
        ),
    ],
    *,
    watch: settings.WatchOptions,
    limits: Annotated[
        opt.Requirement,
        opt.Pick(
            only=("max_fpr", "min_coverage"),
            help={
                "max_fpr": "Share of faithful answers that may be held back (default: as frozen).",
                "min_coverage": "Share of hallucinations that must be caught (default: as frozen).",
            },
        ),
    ],
    evidence: Evidence,
    trust: opt.Trust,
    show: opt.ShowAlone,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what is logged, until SIGTERM or Ctrl-C.")
    ] = False,
) -> None:
    """Say whether traffic has changed, whether the promise is kept, how much is hallucinated.

    Reads what was logged since the last call, and writes status.json, watch.html and state.json
    into WATCH; the same command again goes on from there. Exit code 0, also where traffic has
    changed or labels decide nothing yet; 3 where labels show that the promise is broken.
    """
    from calibrail.guardrail.file import read_file

    # The detector, which may be a large model, is not built.
    read_file(guardrail, trust.keys)
    stop = _ending() if follow else None
    found = calibrail.monitor(
        guardrail,
        logs,
        output,
        watch,
        labels=evidence.labels,
        judge_labels=evidence.judge_labels,
        reference=evidence.reference_log,
        follow=stop,
        max_fpr=limits.max_fpr,
        min_coverage=limits.min_coverage,
    )
    show.finish(
        "watch",
        found.to_dict(),
        f"wrote {output}",
        code=REJECTED if found.promise == "broken" else DONE,
        **found.details(),
    )


def _ending() -> Event:
    """Return what SIGTERM and Ctrl-C set: a watch is written to its end."""
    stop = Event()
    for kind in (signal.SIGTERM, signal.SIGINT):
        signal.signal(kind, lambda *_: stop.set())
    return stop
