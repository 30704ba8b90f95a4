"""``calibrail recalibrate``: a new threshold from answers that people audited."""

from pathlib import Path
from typing import Annotated

import typer

import calibrail
from calibrail import settings
from calibrail.cli import options as opt
from calibrail.cli.output import DONE, OF_VERDICT


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    logs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LOG...", help="Its decision logs: how much of them either threshold flags."
        ),
    ] = None,
    *,
    labels: Annotated[
        Path,
        typer.Option(metavar="AUDIT", help="Folder of `calibrail audit-sample`, with labels."),
    ],
    output: Annotated[Path, opt.to_file("Guardrail file to write; its page stands beside it.")],
    requirement: Annotated[
        opt.Requirement,
        opt.Pick(
            only=("max_fpr", "min_coverage", "confidence"),
            help={
                "max_fpr": "Share of faithful answers that may be flagged (default: as before).",
                "min_coverage": "Coverage that the verdict requires (default: as before).",
            },
        ),
    ],
    options: settings.RecalibrateOptions,
    trust: opt.Trust,
    sign: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY.pem", help="Private key to sign with; the signature is FILE.dsse."
        ),
    ] = None,
    show: opt.ShowAlone,
) -> None:
    """Make a new guardrail from audited answers: the same detector, with a new threshold.

    Its guarantee is anytime: looking every week, or after every label, is part of the promise.
    Both thresholds are compared on the same answers; nothing is replaced. Exit code 0 certified,
    3 rejected, 4 inconclusive; without any limit on false alarms 0.
    """
    from calibrail.guardrail.file import read_file
    from calibrail.guardrail.keys import read_private_key
    from calibrail.guardrail.signing import signature_path

    if sign is not None:
        # A key that cannot sign is refused before the work.
        read_private_key(sign)
    made = calibrail.recalibrate(
        read_file(guardrail, trust.keys).config, labels, logs or None, requirement, options
    )
    page = made.save(output, sign=sign)
    beside = signature_path(output)
    unsigned = ""
    if sign is None and beside.exists():
        unsigned = f"{beside} is the signature of an earlier file; sign this one too (--sign)"
    content = made.to_dict()
    show.finish(
        "recalibrate",
        content,
        f"wrote {output} and {page}",
        f"signed: {beside}" if sign is not None else unsigned,
        code=DONE if content["max_fpr"] is None else OF_VERDICT[made.verdict],
        names={"NEW": output},
    )
