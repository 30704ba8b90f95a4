"""``calibrail plan``: how many answers have to be labelled?"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt
from calibrail.cli.output import writing
from calibrail.errors import InputError
from calibrail.settings.checks import one_of
from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class Labels:
    """Which labelled answers there may be, and how sure a certificate should come out."""

    base_rate: float | None = setting("Share of hallucinated answers among those labelled.", None)
    calibration_share: float | None = setting(
        "Share of the data used to calibrate (default: 0.5; none with --coverage).", None
    )
    n: tuple[int, ...] = setting(
        "Number of labelled answers to look at. Repeatable.", (), metavar="N"
    )
    power: float = setting("Wanted probability of a certificate, at least 0.5.", 0.8)
    sequential: bool = setting(
        "Also simulate labelling until a verdict falls, read after every label.", False
    )
    budget: int | None = setting(
        "With --sequential: most labels (default: three times the fixed number).",
        None,
        metavar="N",
    )


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is assumed of the detector, or of its threshold."""

    auroc: float | None = setting(
        "Assume a detector, to be calibrated: its AUROC, with Gaussian scores.", None
    )
    coverage: float | None = setting(
        "Assume a threshold, to be certified: the share that it truly catches.", None
    )
    fpr: float | None = setting(
        "With --coverage: the share of faithful answers that it truly flags.", None
    )


@opt.takes_settings
def run(
    promise: Annotated[
        opt.Promise,
        opt.Pick(
            only=("alpha", "guarantee", "delta"),
            help={"guarantee": "Promise of the threshold to be calibrated (--auroc)."},
        ),
    ],
    requirement: Annotated[
        opt.Requirement,
        opt.Pick(
            without=("risks", "min_kept"),
            help={
                "max_fpr": "Share of faithful answers that may be flagged.",
                "min_coverage": "Coverage to be certified (default: 1 - alpha).",
                "confidence": "Level of both intervals behind the certificate.",
            },
        ),
    ],
    labels: Labels,
    assumed: Assumed,
    *,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the curves, as .svg, .png or .pdf."),
    ] = None,
    show: opt.Show,
) -> None:
    """Say how many labels a promise needs, and how likely a certificate is.

    With --alpha alone, the fewest answers that a threshold can come from. With --max-fpr,
    --base-rate and either --auroc or --coverage and --fpr, the probability of each verdict by the
    number of labelled answers, and the number for a probability of 80 % (--power). With
    --sequential too, how many labels a verdict takes that is looked for after every one of them.
    """
    from calibrail.conformal.planning import Assumption, plan
    from calibrail.conformal.sequential_planning import plan_sequential
    from calibrail.report.plan_figure import FIGURE_FORMATS, draw_plan

    format = "" if figure is None else figure.suffix.lower().removeprefix(".")
    if figure is not None and format not in FIGURE_FORMATS:
        raise InputError(f"--figure must end in .{', .'.join(FIGURE_FORMATS)}; got {str(figure)!r}")
    one_of(promise.guarantee, ("marginal", "pac", "anytime"), "--guarantee")
    if labels.budget is not None and not labels.sequential:
        raise InputError("--budget says where simulated labelling ends; give --sequential too")
    if labels.sequential:
        _refuse_gaps(labels, assumed, requirement)
    assumption = Assumption(assumed.coverage, assumed.fpr, assumed.auroc)
    result = plan(
        promise,
        requirement,
        assumption,
        base_rate=labels.base_rate,
        calibration_share=labels.calibration_share,
        power=labels.power,
        n=labels.n or None,
    ).to_dict()
    if labels.sequential:
        assert labels.base_rate is not None  # refused above
        required = replace(requirement, min_coverage=requirement.coverage(promise))
        result["sequential"] = plan_sequential(
            required, assumption, labels.base_rate, power=labels.power, budget=labels.budget
        ).to_dict()
    drawn = ""
    if figure is not None:
        content = draw_plan(result, format)
        with writing(figure, "--figure"):
            figure.write_bytes(content)
        drawn = f"the curves are drawn in {figure}"
    show.finish("plan", result, drawn)


def _refuse_gaps(labels: Labels, assumed: Assumed, requirement: opt.Requirement) -> None:
    """Name everything that simulated labelling needs and that is not given, at once."""
    gaps = {
        "--base-rate (share of hallucinated answers)": labels.base_rate is None,
        "--max-fpr (share of faithful answers that may be flagged)": requirement.max_fpr is None,
        "--coverage (share that the threshold truly catches)": assumed.coverage is None,
        "--fpr (share of faithful answers that it truly flags)": assumed.fpr is None,
    }
    if missing := [name for name, lacks in gaps.items() if lacks]:
        raise InputError(f"--sequential needs {'; '.join(missing)}")
