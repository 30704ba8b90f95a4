"""``calibrail plan``: how many answers have to be labelled?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt
from calibrail.settings.checks import one_of


@opt.takes_settings
def run(
    promise: Annotated[
        opt.Promise,
        opt.Pick(
            only=("alpha", "guarantee", "delta"),
            help={"guarantee": "Promise of the threshold to be calibrated (--auroc)."},
            default={"guarantee": "pac"},
        ),
    ],
    requirement: Annotated[
        opt.Requirement,
        opt.Pick(
            without=("risks",),
            help={
                "max_fpr": "Share of faithful answers that may be flagged.",
                "min_coverage": "Coverage to be certified (default: 1 - alpha).",
                "confidence": "Level of both intervals behind the certificate.",
            },
        ),
    ],
    auroc: Annotated[
        float | None,
        typer.Option(help="Assume a detector, to be calibrated: its AUROC, with Gaussian scores."),
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="Assume a threshold, to be certified: the share that it truly catches."),
    ] = None,
    fpr: Annotated[
        float | None,
        typer.Option(help="With --coverage: the share of faithful answers that it truly flags."),
    ] = None,
    base_rate: Annotated[
        float | None, typer.Option(help="Share of hallucinated answers among those labelled.")
    ] = None,
    calibration_share: Annotated[
        float | None,
        typer.Option(
            help="Share of the data used to calibrate (default: 0.5; none with --coverage)."
        ),
    ] = None,
    n: Annotated[
        list[int] | None,
        typer.Option("--n", metavar="N", help="Labelled answers to look at. Repeatable."),
    ] = None,
    power: Annotated[
        float, typer.Option(help="Wanted probability of a certificate, from 0.5 on.")
    ] = 0.8,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the curves, as .svg, .png or .pdf."),
    ] = None,
    page: opt.Page = None,
    json: opt.AsJson = False,
) -> None:
    """Say how many labels a promise needs, and how likely a certificate is.

    With --alpha alone, the fewest answers that a threshold can come from. With --max-fpr,
    --base-rate and either --auroc or --coverage and --fpr, the probability of each verdict by the
    number of labelled answers, and the number for a probability of 80 % (--power).
    """
    from calibrail.cli.output import note, print_result
    from calibrail.conformal.planning import Assumption, plan
    from calibrail.errors import DataError, InputError
    from calibrail.report.documents.plan import document
    from calibrail.report.plan_figure import FIGURE_FORMATS, draw_plan

    format = None if figure is None else figure.suffix.lower().removeprefix(".")
    if format is not None and format not in FIGURE_FORMATS:
        raise InputError(f"--figure must end in .{', .'.join(FIGURE_FORMATS)}; got {str(figure)!r}")
    one_of(promise.guarantee, ("marginal", "pac"), "--guarantee")
    result = plan(
        promise,
        requirement,
        Assumption(coverage, fpr, auroc),
        base_rate=base_rate,
        calibration_share=calibration_share,
        power=power,
        n=n or None,
        withhold=True,
    ).to_dict()
    if figure is not None and format is not None:
        content = draw_plan(result, format)
        try:
            figure.parent.mkdir(parents=True, exist_ok=True)
            figure.write_bytes(content)
        except OSError as error:
            raise DataError(f"--figure {figure} cannot be written: {error}") from error
    print_result(result, document, json, page)
    if figure is not None:
        note(f"the curves are drawn in {figure}")
