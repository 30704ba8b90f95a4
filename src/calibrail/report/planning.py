"""How does a plan look: in the terminal, and as a picture?"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from calibrail.errors import InputError
from calibrail.evaluation.stats.phrases import percent
from calibrail.report import blocks
from calibrail.report.figures import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Dict = Mapping[str, Any]

#: File formats of the figure, each with the metadata that would make two runs differ.
FIGURE_FORMATS: Final[Mapping[str, Mapping[str, None]]] = {
    "svg": {"Date": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}

_INK, _QUIET = "#1c2330", "#667085"
_VERDICTS = {"certified": "#157347", "rejected": "#b42318", "inconclusive": "#92600a"}
_DASHES = {"certified": "-", "rejected": (0, (5, 2)), "inconclusive": (0, (1, 1.5))}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_BAR = 30


def print_plan(plan: _Dict, console: Console) -> None:
    """Print a plan: the minimum, the answers to label, a table with a curve, the next step.

    Parameters
    ----------
    plan : mapping
        ``Plan.to_dict()``.
    console : rich.console.Console
        Where to print; 80 columns without colours are enough.
    """
    _minimum(console, plan)
    if not plan["assumed"]:
        blocks.next_step(
            console,
            "Ask how likely a certificate is at the detector you expect, e.g. calibrail plan "
            f"--alpha {plan['alpha']:g} --max-fpr 0.3 --base-rate {plan['base_rate'] or 0.3:g} "
            "--auroc 0.95.",
        )
        return
    blocks.paragraph(console, _answer(plan), style="bold")
    blocks.paragraph(console, _premises(plan))
    _curve(console, plan)
    if plan["reason"] is None:
        blocks.paragraph(console, _decider(plan))
    blocks.next_step(console, _step(plan))


def draw_plan(plan: _Dict, format: str = "svg") -> bytes:
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
    curve = plan["curve"]
    if not curve["n"]:
        raise InputError(
            "plan must hold a curve to draw: assume a detector (--auroc) or true rates (--coverage "
            "and --fpr)"
        )
    with drawing(7.2, 3.8) as (figure, axes):
        _plain_colours(axes)
        # Too few answers to calibrate give no verdict, and nothing to draw.
        none = [share == 1.0 and bool(plan["guarantee"]) for share in curve["inconclusive"]]
        start = none.index(False) if False in none else 0
        for verdict, colour in _VERDICTS.items():
            axes.plot(
                curve["n"][start:], [100.0 * share for share in curve[verdict][start:]],
                color=colour, linewidth=1.8, linestyle=_DASHES[verdict], label=verdict,
            )  # fmt: skip
        if curve["n"][-1] > 50 * curve["n"][0]:
            axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.axhline(100.0 * plan["power"], color=_QUIET, linewidth=0.9, linestyle=(0, (1, 3)))
        low, high = curve["n"][0], curve["n"][-1]
        if plan["at"] and low <= plan["n"] <= high:
            axes.axvline(plan["n"], color=_INK, linewidth=1.1, linestyle=(0, (4, 3)))
            right = plan["n"] > 0.7 * high
            axes.annotate(
                f"{plan['n']:,} answers:\nat least {percent(plan['power'])} from here on",
                (plan["n"], 0.5), xycoords=("data", "axes fraction"),
                xytext=(-7 if right else 7, 0), textcoords="offset points",
                ha="right" if right else "left", va="center", color=_INK,
            )  # fmt: skip
        axes.set_xlim(low, high)
        axes.set_ylim(-1.0, 102.0)
        axes.set_xlabel("labelled answers")
        axes.set_ylabel("probability of the verdict, %")
        figure.legend(
            loc="outside upper center", ncols=3, frameon=False, labelcolor=_INK, handlelength=2.6
        )
        buffer = io.BytesIO()
        figure.savefig(
            buffer, format=format, dpi=200, facecolor="white", bbox_inches="tight",
            metadata=dict(FIGURE_FORMATS[format]),
        )  # fmt: skip
    return buffer.getvalue()


def _minimum(console: Console, plan: _Dict) -> None:
    labels = plan["minimum_labels"]
    table = blocks.table(f"To catch {percent(1.0 - plan['alpha'])} of hallucinations, at least")
    table.add_column("Guarantee")
    table.add_column("Hallucinated answers to calibrate", justify="right")
    if labels:
        table.add_column("Labelled answers in all", justify="right")
    for guarantee, least in plan["minimum"].items():
        name = f"pac, delta = {plan['delta']:g}" if guarantee == "pac" else guarantee
        cells = [name, f"{least:,}", *([f"{labels[guarantee]:,}"] if labels else [])]
        table.add_row(*(blocks.cell(text) for text in cells))
    blocks.show(console, table)
    if labels:
        # Where a threshold is there already none calibrate, and the minimum is for the usual half.
        share = plan["calibration_share"] or 0.5
        blocks.paragraph(
            console,
            f"In all: {percent(plan['base_rate'])} of the labelled answers are hallucinated, and "
            f"{percent(share)} of those calibrate.",
        )


def _answer(plan: _Dict) -> str:
    wanted = percent(plan["power"])
    if plan["at"] is None:
        return f"No number of labels gives a certificate with a probability of {wanted}: " + (
            f"{plan['reason']}."
        )
    at = plan["at"]
    return (
        f"Label {at['n']:,} answers: from there on a certificate comes out with a probability of "
        f"at least {wanted} ({percent(at['certified'])} at {at['n']:,})."
    )


def _premises(plan: _Dict) -> str:
    assumed = plan["assumed"]
    asked = (
        f"at least {percent(plan['min_coverage'])} caught and at most {percent(plan['max_fpr'])} "
        f"false alarms, with {percent(plan['joint_confidence'])} joint confidence"
    )
    if "coverage" in assumed:
        who = (
            f"a threshold that catches {percent(assumed['coverage'])} of hallucinations and flags "
            f"{percent(assumed['fpr'])} of faithful answers"
        )
        share = plan["calibration_share"]
        use = (
            f"{percent(share)} set aside and the rest held out to certify"
            if share
            else "all held out to certify"
        )
    else:
        who = (
            f"a detector with an AUROC of {assumed['auroc']:.3f} (Gaussian scores "
            f"{assumed['separation']:.2f} standard deviations apart), its threshold calibrated "
            f"under {plan['guarantee']}"
        )
        use = f"{percent(plan['calibration_share'])} used to calibrate"
    return (
        f"Required: {asked}. Assumed: {who}; {percent(plan['base_rate'])} of the labelled answers "
        f"hallucinated, {use}."
    )


def _curve(console: Console, plan: _Dict) -> None:
    ascii_only = console.options.ascii_only
    table = blocks.table("Probability of each verdict")
    table.add_column("Labelled", justify="right")
    table.add_column("", no_wrap=True, width=_BAR)
    for name in ("Certified", "Rejected", "Inconclusive"):
        table.add_column(name, justify="right")
    least = plan["minimum"].get(plan["guarantee"], 0)
    few = [odds for odds in plan["points"] if plan["guarantee"] and odds["n_calibration"] < least]
    for odds in plan["points"]:
        cells = ["-" if odds in few else percent(odds[verdict]) for verdict in _VERDICTS]
        bar = Text(_bar(odds["certified"], ascii_only), style="green")
        table.add_row(blocks.cell(f"{odds['n']:,}"), bar, *(blocks.cell(text) for text in cells))
    blocks.show(console, table)
    if few:
        blocks.paragraph(
            console,
            f"-: fewer than the {least:,} hallucinated answers that a threshold needs, so no "
            "verdict.",
        )


def _bar(share: float, ascii_only: bool) -> str:
    """Return a bar for a share, exact to an eighth of a character where blocks can be shown."""
    if ascii_only:
        return "#" * round(share * _BAR)
    whole, rest = divmod(round(share * _BAR * 8), 8)
    return "█" * whole + _EIGHTHS[rest].strip()


def _decider(plan: _Dict) -> str:
    at = plan["at"]
    sides = (
        f"At {at['n']:,} answers the requirement on coverage is met with a probability of "
        f"{percent(at['coverage_side'])}, that on false alarms with {percent(at['fpr_side'])}"
    )
    if plan["bottleneck"] == "coverage":
        return f"{sides}: coverage decides, so labels of hallucinated answers help most."
    if "coverage" in plan["assumed"]:
        return f"{sides}: false alarms decide, so labels of faithful answers help most."
    return (
        f"{sides}: false alarms decide. Faithful answers narrow their bound, hallucinated ones "
        "allow a higher threshold."
    )


def _step(plan: _Dict) -> str:
    if plan["at"] is None:
        return (
            "Accept more (--max-fpr, --alpha, --min-coverage), or find a detector that separates "
            "better."
        )
    limits = f"--max-fpr {plan['max_fpr']:.10g} --confidence {plan['confidence']:.10g}"
    coverage = f" --min-coverage {plan['min_coverage']:.10g}"
    if "coverage" in plan["assumed"]:
        return (
            f"Label {plan['n']:,} fresh answers and run calibrail certify guardrail.json HELDOUT "
            f"{limits}{coverage}."
        )
    delta = f" --delta {plan['delta']:.10g}" if plan["guarantee"] == "pac" else ""
    if abs(plan["min_coverage"] - (1.0 - plan["alpha"])) < 1e-9:
        coverage = ""
    share = plan["calibration_share"]
    return (
        f"Label {plan['n']:,} answers and run calibrail calibrate DATA --score NAME --alpha "
        f"{plan['alpha']:.10g} --guarantee {plan['guarantee']}{delta} {limits}{coverage}"
        f"{f' --calibration-share {share:.10g}' if share != 0.5 else ''} -o RUN."
    )


def _plain_colours(axes: Axes) -> None:
    """Colour the frame for a picture that has no style sheet."""
    axes.tick_params(which="both", color=_QUIET, labelcolor=_INK)
    for spine in axes.spines.values():
        spine.set_color(_QUIET)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_color(_INK)
