"""``calibrail label``: hand out unlabelled answers one by one, until the data decides."""

import getpass
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import calibrail
from calibrail import settings
from calibrail.cli import options as opt
from calibrail.cli.output import DONE, OF_VERDICT, Showing, folder_to_write, note
from calibrail.cli.progress import counting
from calibrail.errors import CalibrailError, InputError
from calibrail.settings.option import setting

if TYPE_CHECKING:
    from calibrail.labelling.session import Session
    from calibrail.labelling.tasks import Counts


@dataclass(frozen=True)
class Purpose:
    """What labels are for."""

    guardrail: Path | None = setting(
        "Label for the verdict on this frozen guardrail.", None, metavar="FILE"
    )
    until: Literal["calibrated"] | None = setting(
        "Label until a threshold can be calibrated.", None
    )


@dataclass(frozen=True)
class Sitting(Showing):
    """Who labels, where, and how what came out is shown."""

    annotator: str | None = setting("Who labels (default: the login name).", None, metavar="NAME")
    terminal: bool = setting("Label in this terminal, or by a letter a line from a pipe.", False)
    browser: bool = setting("Open the page in the browser.", True)


@opt.takes_settings
def run(
    traces: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TRACES", help="Answers to label; left out, those of the folder go on."
        ),
    ] = None,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="LABELS", help="Folder of labels.", callback=folder_to_write
        ),
    ],
    purpose: Purpose,
    requirement: Annotated[
        settings.Requirement | None,
        opt.Pick(
            only=("max_fpr", "min_coverage", "confidence"),
            help={
                "max_fpr": "With --guardrail: share of faithful answers that may be held back.",
                "min_coverage": "With --guardrail: coverage required (default: what it promises).",
                "confidence": "With --guardrail: confidence of the verdict.",
            },
        ),
    ],
    promise: Annotated[settings.Promise | None, opt.Pick(only=("alpha", "guarantee", "delta"))],
    drawing: settings.Drawing | None,
    labelling: settings.LabelOptions,
    reading: Annotated[
        settings.ReadOptions | None,
        opt.Pick(without=("label_column", "label_map", "positive", "annotators", "strict")),
    ],
    sitting: Annotated[Sitting, opt.Pick(without=("dry_run", "page"))],
) -> None:
    """Hand out answers one by one on a page of this machine, and keep every label.

    Labels for a verdict (--guardrail, --max-fpr) are enough once the data decides, labels for a
    threshold (--until calibrated) once enough hallucinated answers are found; labelling may stop
    at any time. The same command goes on. Exit code 0; with --guardrail the verdict decides: 0
    certified, 3 rejected, 4 inconclusive.
    """
    if purpose.until is not None:
        promise = promise or settings.Promise()
    elif promise is not None:
        raise InputError("--alpha, --guarantee and --delta say what --until calibrated is to keep")
    if not sitting.terminal:
        _needs_a_server()
    annotator = sitting.annotator or getpass.getuser()
    with counting("reading") as context:
        session = calibrail.label(
            traces or None,
            output,
            requirement,
            guardrail=purpose.guardrail,
            promise=promise,
            drawing=drawing,
            options=labelling,
            reading=reading,
            progress=context.progress,
        )
    with session:
        for name in session.torn:
            note(f"the last line of {name} was cut short by a crash; it is taken out")
        with suppress(KeyboardInterrupt):
            _sit(session, annotator, sitting)
        counts, plan = session.counts(annotator), session.plan
    certify = plan.purpose == "certify"
    sitting.finish(
        "labelled",
        {
            "schema": "calibrail.label/1",
            "labels": str(output),
            "annotator": annotator,
            "plan": plan.to_dict(),
            "counts": counts.to_dict(),
        },
        code=OF_VERDICT[counts.verdict or "inconclusive"] if certify else DONE,
        names={"LABELS": output, "GUARDRAIL": output / "guardrail.json"},
    )


def _sit(session: "Session", annotator: str, sitting: Sitting) -> None:
    """Label, in the terminal or on the page, until somebody stops."""
    if sitting.terminal:
        from rich.console import Console

        from calibrail.ui.keys import open_keys
        from calibrail.ui.terminal import Terminal

        with open_keys() as keys:
            Terminal(session, annotator, keys, Console(stderr=True, highlight=False)).run()
        return
    from calibrail.ui.serve import serve

    def tell(address: str) -> None:
        note(f"labelling as {annotator} at {address}\nCtrl-C stops; every label is saved at once")

    def progress(counts: "Counts") -> None:
        if sys.stderr.isatty():
            line = f"\r{counts.by_you:,} labelled, {counts.skipped:,} skipped "
            typer.echo(line, nl=False, err=True)

    serve(session, annotator, tell, progress, browser=sitting.browser)
    if sys.stderr.isatty():
        note("")


def _needs_a_server() -> None:
    """Refuse the page where its packages are missing, before any work is done."""
    try:
        import calibrail.ui.serve  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("calibrail"):
            raise
        raise CalibrailError(
            f"the page needs {error.name}: pip install 'calibrail[serve]'; --terminal does without"
        ) from error
