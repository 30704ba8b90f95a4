"""How does a plan look as a picture, on the page and as a file?"""

import io
from collections.abc import Mapping
from typing import Final

from calibrail.errors import InputError
from calibrail.phrases import percent
from calibrail.report.blocks import Json
from calibrail.report.plot import COLOURS, DOTTED, INK, QUIET, VERDICT_COLOURS, Plot, drawing

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
    with drawing(4.1 if narrow else 7.2, 3.8) as plot:
        _draw(plot, plan, {colour: colour for colour in COLOURS})
        return plot.svg("Probability of each verdict by the number of labelled answers.")


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
    buffer, metadata = io.BytesIO(), dict(FIGURE_FORMATS[format])
    with drawing(7.2, 3.8, on_white[INK], on_white[QUIET]) as plot:
        _draw(plot, plan, on_white)
        plot.figure.savefig(buffer, format=format, dpi=200, facecolor="white", metadata=metadata)
    return buffer.getvalue()


def _draw(plot: Plot, plan: Json, colours: Mapping[str, str]) -> None:
    """Draw the curves, each stand-in in the colour that this medium gives it."""
    axes, curve = plot.axes, plan["curve"]
    # Too few answers to calibrate give no verdict, and nothing to draw.
    undecided = [share == 1.0 and bool(plan["guarantee"]) for share in curve["inconclusive"]]
    start = undecided.index(False) if False in undecided else 0
    for (verdict, dashes), stand_in in zip(VERDICTS.items(), VERDICT_COLOURS, strict=True):
        n, shares = curve["n"][start:], [100.0 * share for share in curve[verdict][start:]]
        colour = colours[stand_in]
        axes.plot(n, shares, color=colour, linewidth=1.8, linestyle=dashes, label=verdict)
    low, high = curve["n"][0], curve["n"][-1]
    if high > 50 * low:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.axhline(100.0 * plan["power"], color=colours[QUIET], linewidth=0.9, linestyle=DOTTED)
    if plan["at"] and low <= plan["n"] <= high:
        plot.target(plan["n"], 1.1, colours[INK])
        text = f"{plan['n']:,} answers:\nat least {percent(plan['power'])} from here on"
        offset = -7 if plan["n"] > 0.7 * high else 7
        place = ("data", "axes fraction")
        plot.note(text, (plan["n"], 0.5), (offset, 0), xycoords=place, va="center")
    axes.set(xlim=(low, high), ylim=(-1.0, 102.0))
    axes.set(xlabel="labelled answers", ylabel="probability of the verdict, %")
    plot.legend(3, handlelength=2.6)
