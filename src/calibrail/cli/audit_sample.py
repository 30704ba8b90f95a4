"""``calibrail audit-sample``: draw logged answers for people to label."""

from pathlib import Path
from typing import Annotated

import typer

import calibrail
from calibrail import settings
from calibrail.cli import options as opt
from calibrail.cli.output import folder_to_write
from calibrail.cli.progress import counting


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    logs: opt.Logs,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="AUDIT", help="Folder of labels.", callback=folder_to_write
        ),
    ],
    options: settings.AuditOptions,
    drawing: Annotated[
        settings.Drawing | None,
        opt.Pick(
            only=("design", "floor"),
            help={"design": "How answers are drawn: uniform or active (default: uniform)."},
        ),
    ],
    traces: Annotated[
        list[str] | None,
        typer.Option(
            "--traces",
            metavar="FILE",
            help="Answers with their texts, found by id, where the log holds none. Repeatable.",
        ),
    ] = None,
    reading: Annotated[
        settings.ReadOptions | None,
        opt.Pick(
            without=(
                *("label_column", "group_column", "label_map", "positive", "annotators"),
                "strict",
            )
        ),
    ],
    show: opt.Show,
) -> None:
    """Draw logged answers for people to label, with probabilities known before their labels.

    Each call takes up the log where the last one left it, and draws from what is new: so many
    answers for each day (UTC) of the log. Run it every day or every week; `calibrail label -o
    AUDIT` hands out what was drawn, and `calibrail monitor --labels AUDIT` says what the labels
    show.
    """
    with counting("reading") as context:
        batch = calibrail.audit_sample(
            guardrail,
            logs,
            output,
            options,
            drawing=drawing,
            traces=traces or None,
            reading=reading,
            progress=context.progress,
        )
    show.finish(
        "audit_sample",
        batch.to_dict(),
        names={"GUARDRAIL": guardrail, "LOG": logs, "AUDIT": output},
    )
