"""How does a drift audit look, as a page and in a terminal?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console

from calibrail.evaluation.stats.phrases import number, percent
from calibrail.report import blocks, figures, phrases
from calibrail.report.svg import standing_alone

_Dict = Mapping[str, Any]

HEADS: Final = (
    "Tested on", "Threshold", "Caught", "False alarms", "At home", "Needed", "Weighted", "p",
)  # fmt: skip
_COLOURS: Final = {"broken": "bold red", "consistent": "bold", "too few": "bold yellow"}


def render_shift_html(content: _Dict) -> str:
    """Return a drift audit as one page that loads and runs nothing.

    Parameters
    ----------
    content : mapping
        ``ShiftRun.to_dict()``.
    """
    from markupsafe import Markup

    from calibrail.report.render_html import environment

    return environment().get_template("shift.html.j2").render(
        shift=content,
        name=phrases.score_name(content),
        heads=HEADS,
        table=[_row(item) for item in content["tests"]],
        rest={k: v for k, v in content["reproduce"].items() if k != "command"},
        figure=Markup(shift_figure(content)),
    )  # fmt: skip


def shift_figure(content: _Dict, *, standalone: bool = False) -> str:
    """Draw the caught share of every test with its interval, and the promise.

    With ``standalone`` the picture has colours of its own and can be opened as a file.
    """
    tests = [item for item in content["tests"] if item["coverage"]["estimate"] is not None]
    with figures.drawing(7.2, 0.9 + 0.34 * max(1, len(tests))) as (figure, axes):
        for place, item in enumerate(tests):
            share = item["coverage"]
            colour = figures.HALLUCINATED if item["finding"] == "broken" else figures.FAITHFUL
            axes.plot(
                [100 * share["lower"], 100 * share["upper"]], [place, place], color=colour, lw=2
            )
            axes.plot([100 * share["estimate"]], [place], "o", color=colour, markersize=6)
        axes.axvline(
            100 * (1 - content["alpha"]), color=figures.INK, linewidth=1.2, linestyle=(0, (4, 3))
        )
        axes.set_yticks(
            range(len(tests)), [figures.axis_text(str(item["tested_on"])) for item in tests]
        )
        axes.set_ylim(max(1, len(tests)) - 0.5, -0.5)
        axes.set_xlim(-1.0, 101.0)
        axes.set_xlabel("caught, % of hallucinated answers")
        drawn = figures.as_svg(figure, "Share of hallucinated answers caught in every test.")
    return standing_alone(drawn) if standalone else drawn


def print_shift(content: _Dict, console: Console) -> None:
    """Print a drift audit: the finding, a table, what each broken test says."""
    blocks.paragraph(console, content["finding"], style="bold")
    table = blocks.table(
        f"{phrases.score_name(content)}, {percent(1 - content['alpha'])} promised "
        f"({content['guarantee']})"
    )
    # 80 columns hold what is new; the page and the file hold the rest.
    shown = [place for place, head in enumerate(HEADS) if head not in ("Threshold", "At home")]
    for place in shown:
        table.add_column(HEADS[place], overflow="fold")
    for item in content["tests"]:
        row = _row(item)
        table.add_row(*(blocks.cell(row[place]) for place in shown))
    blocks.show(console, table)
    broken = [item["sentence"] for item in content["tests"] if item["finding"] == "broken"]
    blocks.bullets(console, "Broken", broken, style=_COLOURS["broken"])
    step = (
        "Calibrate again on answers like those where it broke, or give groups thresholds of their "
        "own with calibrail calibrate --by COL."
        if broken
        else "Watch it: certify on fresh answers from production from time to time."
    )
    blocks.next_step(console, step)


def _row(item: _Dict) -> tuple[str, ...]:
    needed, weighted = item["needed"], item["weighted"]
    return (
        str(item["tested_on"]),
        number(item["threshold"]),
        _share(item["coverage"]),
        _share(item["fpr"]),
        _share(item["home_fpr"]),
        "?" if needed is None else f"{number(needed['threshold'])} at {_plain(needed['fpr'])}",
        "?" if weighted is None else f"{_plain(weighted['coverage'])} at {_plain(weighted['fpr'])}",
        "" if item["adjusted_p"] is None else number(item["adjusted_p"]),
    )


def _share(value: _Dict) -> str:
    if value["estimate"] is None:
        return "none"
    low, high = 100 * value["lower"], 100 * value["upper"]
    return f"{percent(value['estimate'])} ({low:.0f} to {high:.0f})"


def _plain(value: _Dict) -> str:
    return "none" if value["estimate"] is None else percent(value["estimate"])
