"""Monitor, log verify, log export."""

import signal
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

import calibrail
from calibrail import options
from calibrail.cli import parameters as opt
from calibrail.cli.output import DONE, FAILURE, REJECTED, say
from calibrail.formatting import count
from calibrail.options.fields import setting


@dataclass(frozen=True, slots=True)
class MonitorArguments:
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
def monitor_command(
    guardrail: opt.Guardrail,
    logs: opt.Logs,
    output: Annotated[Path, opt.to_folder("WATCH", "Folder of the watch.")],
    *,
    watch: options.WatchOptions,
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
    evidence: MonitorArguments,
    trust: opt.TrustArguments,
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
    stop = Event()
    if follow:
        # A watch is written to its end.
        for kind in (signal.SIGTERM, signal.SIGINT):
            signal.signal(kind, lambda *_: stop.set())
    found = calibrail.monitor(
        guardrail,
        logs,
        output,
        watch,
        labels=evidence.labels,
        judge_labels=evidence.judge_labels,
        reference=evidence.reference_log,
        follow=stop if follow else None,
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
        bool, typer.Option("--archived", help="The oldest files were taken away on purpose.")
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
    from calibrail.pipelines.log import verify_log

    check = verify_log(folders if isinstance(folders, list) else [folders], noted=noted or ())
    allowed = {"whole", "beginning missing"} if archived else {"whole"}
    show.finish("log", check.to_dict(), code=DONE if check.verdict in allowed else FAILURE)


@app.command("export")
@opt.takes_settings
def export(
    folders: Folders,
    output: Annotated[Path, opt.to_file("Parquet file to write.", "log_export")],
    show: opt.ShowAlone,
) -> None:
    """Write every logged decision as a row of one Parquet file; memory does not grow with it."""
    from calibrail.pipelines.log import export_log

    n, unreadable = export_log(folders if isinstance(folders, list) else [folders], output)
    content = {
        "schema": "calibrail.log_export/1",
        "output": str(output),
        "decisions": n,
        "unreadable": unreadable,
    }
    left_out = say("command.unreadable", n=unreadable) if unreadable else ""
    code = FAILURE if unreadable else DONE
    show.finish([f"{output}: {count(n, 'decision')}"], content, left_out, code=code)
