"""How does a plan look as a picture, on the page and as a file?"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from calibrail.errors import InputError
from calibrail.phrases import percent
from calibrail.report.blocks import Json
from calibrail.report.figures import COLOURS, INK, QUIET, VERDICT_COLOURS, as_svg, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: File formats of the figure, each with the metadata that would make two runs differ.
FIGURE_FORMATS: Final[Mapping[str, Mapping[str, None]]] = {
    "svg": {"Date": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}

#: The verdicts, each with its line.
VERDICTS: Final = {
    "certified": "-",
    "rejected": (0, (5, 2)),
    "inconclusive": (0, (1, 1.5)),
}


def plan_svg(plan: Json, narrow: bool = False) -> str:
    """Draw the probability of each verdict over the labelled answers, for the page.

    Parameters
    ----------
    plan : mapping
        ``Plan.to_dict()``, made with assumptions.
    narrow : bool
        Draw for a phone.
    """
    with drawing(4.1 if narrow else 7.2, 3.8) as (figure, axes):
        _draw(figure, axes, plan, {colour: colour for colour in COLOURS})
        return as_svg(figure, "Probability of each verdict by the number of labelled answers.")


def draw_plan(plan: Json, format: str = "svg") -> bytes:
    """Draw the probability of each verdict over the labelled answers.

    Parameters
    ----------
    plan : mapping
        ``Plan.to_dict()``, made with assumptions.
    format : {"svg", "png", "pdf"}
        Format of the file.

    Returns
    -------
    bytes
        Content of a file that stands alone, on white; the same plan gives the same bytes.

    Raises
    ------
    InputError
        If the format is another, or the plan assumes nothing and so has no curve.
    """
    if format not in FIGURE_FORMATS:
        raise InputError(f"format must be one of {', '.join(FIGURE_FORMATS)}; got {format!r}")
    if not plan["curve"]["n"]:
        raise InputError(
            "plan must hold a curve to draw: assume a detector (--auroc) or true rates (--coverage "
            "and --fpr)"
        )
    on_white = {stand_in: colour for stand_in, (_, colour) in COLOURS.items()}
    with drawing(7.2, 3.8) as (figure, axes):
        _draw(figure, axes, plan, on_white)
        _plain_frame(axes, on_white)
        buffer = io.BytesIO()
        figure.savefig(
            buffer,
            format=format,
            dpi=200,
            facecolor="white",
            bbox_inches="tight",
            metadata=dict(FIGURE_FORMATS[format]),
        )
    return buffer.getvalue()


def _draw(figure: Figure, axes: Axes, plan: Json, colours: Mapping[str, str]) -> None:
    """Draw the curves, each stand-in in the colour that this medium gives it."""
    curve, ink = plan["curve"], colours[INK]
    # Too few answers to calibrate give no verdict, and nothing to draw.
    none = [share == 1.0 and bool(plan["guarantee"]) for share in curve["inconclusive"]]
    start = none.index(False) if False in none else 0
    for (verdict, dashes), colour in zip(VERDICTS.items(), VERDICT_COLOURS, strict=True):
        axes.plot(
            curve["n"][start:],
            [100.0 * share for share in curve[verdict][start:]],
            color=colours[colour],
            linewidth=1.8,
            linestyle=dashes,
            label=verdict,
        )
    if curve["n"][-1] > 50 * curve["n"][0]:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    asked = 100.0 * plan["power"]
    axes.axhline(asked, color=colours[QUIET], linewidth=0.9, linestyle=(0, (1, 3)))
    low, high = curve["n"][0], curve["n"][-1]
    if plan["at"] and low <= plan["n"] <= high:
        axes.axvline(plan["n"], color=ink, linewidth=1.1, linestyle=(0, (4, 3)))
        right = plan["n"] > 0.7 * high
        axes.annotate(
            f"{plan['n']:,} answers:\nat least {percent(plan['power'])} from here on",
            (plan["n"], 0.5),
            xycoords=("data", "axes fraction"),
            xytext=(-7 if right else 7, 0),
            textcoords="offset points",
            ha="right" if right else "left",
            va="center",
            color=ink,
        )
    axes.set_xlim(low, high)
    axes.set_ylim(-1.0, 102.0)
    axes.set_xlabel("labelled answers")
    axes.set_ylabel("probability of the verdict, %")
    figure.legend(
        loc="outside upper center", ncols=3, frameon=False, labelcolor=ink, handlelength=2.6
    )


def _plain_frame(axes: Axes, colours: Mapping[str, str]) -> None:
    """Colour the frame for a picture that has no style sheet."""
    axes.tick_params(which="both", color=colours[QUIET], labelcolor=colours[INK])
    for spine in axes.spines.values():
        spine.set_color(colours[QUIET])
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_color(colours[INK])
