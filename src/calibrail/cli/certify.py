"""``calibrail certify``: does a frozen guardrail keep its promise on fresh data?"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import OF_VERDICT, Showing, unusable
from calibrail.cli.progress import counting
from calibrail.errors import InputError
from calibrail.settings import Requirement
from calibrail.settings.option import changed, setting


@dataclass(frozen=True, slots=True)
class Answers:
    """Which answers get a verdict."""

    labels: Path | None = setting(
        "Folder of `calibrail label`, in place of HELDOUT.", None, metavar="LABELS"
    )
    by: str | None = setting("Column of groups that get a verdict each, too.", None, metavar="COL")
    fresh: bool = setting("These answers are new, where the rows cannot tell.", False)


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    heldout: Annotated[
        list[str] | None,
        typer.Argument(metavar="HELDOUT...", help="Fresh labelled answers, not seen before."),
    ] = None,
    *,
    requirement: Annotated[
        opt.Requirement,
        opt.Pick(
            without=("risks",),
            help={
                "max_fpr": "Share of faithful answers that may be held back; needed without risks.",
                "min_coverage": "Share of hallucinations that must be caught (default: 1 - alpha).",
                "confidence": "Joint confidence of the certificate.",
            },
        ),
    ],
    reading: opt.Reading,
    calls: opt.FreeCalls,
    trust: opt.Trust,
    answers: Answers,
    show: opt.Show,
) -> None:
    """Certify, reject or leave open, with exact bounds on coverage and false alarms.

    Exit code 0 certified, 3 rejected, 4 inconclusive. An inconclusive one says how many more
    labelled answers of which class would settle it. With --labels the verdict is recomputed from
    the files of the folder, and written into it as verdict.json and index.html.
    """
    from calibrail.workflow.looks import looks_of

    labels, by, fresh = answers.labels, answers.by, answers.fresh
    if labels is not None:
        beside = heldout, by, fresh, reading
        _on_labels(guardrail, trust, labels, requirement, beside, show)
    if not heldout:
        raise InputError("name fresh labelled answers (HELDOUT), or a folder of labels (--labels)")
    quarantine = Path("quarantine.jsonl")
    with counting("checking", calls) as context:
        result = calibrail.certify(
            trust.load(guardrail),
            heldout,
            requirement,
            by=by,
            fresh=fresh,
            reading=replace(reading, quarantine=quarantine),
            progress=context.progress,
            looks=looks_of(guardrail),
        )
    note = unusable(result.n_quarantined, quarantine)
    show.finish(
        "certify",
        result.to_dict(),
        note,
        code=OF_VERDICT[result.verdict],
        names={"GUARDRAIL": guardrail},
        guardrail=str(guardrail),
    )


def _on_labels(
    guardrail: Path,
    trust: opt.Trust,
    labels: Path,
    requirement: Requirement,
    beside: tuple[Any, ...],
    show: Showing,
) -> NoReturn:
    """Recompute the verdict of a folder of labels, and write it there."""
    from calibrail.guardrail.file import read_file
    from calibrail.labelling.folder import read_plan
    from calibrail.workflow.certify_labels import write_verdict
    from calibrail.workflow.label_looks import looks_beside

    heldout, by, fresh, reading = beside
    result = calibrail.certify(
        # The detector, which may be a large model, is not built.
        read_file(guardrail, trust.keys).config,
        heldout or None,
        requirement,
        by=by,
        fresh=fresh,
        reading=reading if changed(reading) else None,
        looks=looks_beside(read_plan(labels), guardrail),
        labels=labels,
    )
    page = write_verdict(result, labels)
    show.finish(
        "certify",
        result.to_dict(),
        *(f"the last line of {name} was torn by a crash; it is cut off" for name in result.torn),
        f"wrote {page}",
        code=OF_VERDICT[result.verdict],
        names={"GUARDRAIL": guardrail, "LABELS": labels},
        guardrail=str(guardrail),
    )
