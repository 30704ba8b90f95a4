"""How do bets and intervals look over the labels that they came from?"""

import math
from typing import Final

from calibrail.report.blocks import Json
from calibrail.report.plot import (
    CERTIFIED,
    DASHED,
    DOTTED,
    FAITHFUL,
    HALLUCINATED,
    QUIET,
    REJECTED,
    drawing,
)

#: The four bets: what each is on, its line and whether it speaks for the guardrail.
BETS: Final = {
    "coverage_kept": ("enough is caught", "-", True),
    "fpr_kept": ("few enough false alarms", (0, (5, 2)), True),
    "coverage_broken": ("too little is caught", "-", False),
    "fpr_broken": ("too many false alarms", (0, (5, 2)), False),
}
#: Wealths beyond these are drawn at the edge of the figure, the upper one in shares of the goal.
_LEAST: Final = 0.5
_MOST: Final = 20.0


def wealth_svg(course: Json, goals: Json, narrow: bool = False) -> str:
    """Draw the highest wealth of the four bets so far over the labels, with their goals.

    What has won twenty times what it has to is drawn there.

    Parameters
    ----------
    course : mapping
        ``sequential.course`` of a certificate from labels.
    goals : mapping
        Holds ``kept_at`` and ``broken_at``, logarithms.
    narrow : bool
        Draw for a phone.
    """
    with drawing(4.1 if narrow else 7.2, 3.9 if narrow else 3.6) as plot:
        axes, labelled = plot.axes, course["labelled"]
        most = _MOST * math.exp(goals["broken_at"])
        for name, (meaning, line, good) in BETS.items():
            wealth = [max(_LEAST, min(most, math.exp(min(value, 700.0)))) for value in course[name]]
            colour = CERTIFIED if good else REJECTED
            axes.plot(labelled, wealth, color=colour, linewidth=1.8, linestyle=line, label=meaning)
        axes.set_yscale("log")
        for key, colour in (("kept_at", CERTIFIED), ("broken_at", REJECTED)):
            axes.axhline(math.exp(goals[key]), color=colour, linewidth=1.0, linestyle=DOTTED)
        axes.set(xlabel="labelled answers", ylabel="wealth, from 1", ylim=(_LEAST, 1.2 * most))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axes.minorticks_off()
        axes.set_xlim(0, max(labelled))
        plot.legend(1 if narrow else 2, handlelength=2.6)
        return plot.svg("Wealth of the four bets by the number of labelled answers.")


def intervals_svg(course: Json, asked: Json, narrow: bool = False) -> str:
    """Draw the confidence sequences of both rates over the labels, with what was asked.

    Parameters
    ----------
    course : mapping
        ``sequential.course`` of a certificate from labels.
    asked : mapping
        Holds ``min_coverage`` and ``max_fpr``.
    narrow : bool
        Draw for a phone.
    """
    with drawing(4.1 if narrow else 7.2, 3.9 if narrow else 3.6) as plot:
        axes, labelled = plot.axes, course["labelled"]
        rates = (
            ("coverage", "min_coverage", HALLUCINATED, "caught", "-"),
            ("fpr", "max_fpr", FAITHFUL, "false alarms", (0, (5, 2))),
        )
        for name, limit, colour, meaning, line in rates:
            low, high = (
                [100.0 * value for value in course[name][end]] for end in ("lower", "upper")
            )
            axes.fill_between(labelled, low, high, color=colour, alpha=0.2, linewidth=0)
            seen = [
                math.nan if value is None else 100.0 * value for value in course[name]["estimate"]
            ]
            axes.plot(labelled, seen, color=colour, linewidth=1.8, linestyle=line, label=meaning)
            axes.axhline(100.0 * asked[limit], color=colour, linewidth=1.1, linestyle=DASHED)
        axes.set(xlabel="labelled answers", ylabel="% of the class", ylim=(-1.0, 101.0))
        axes.set_xlim(0, max(labelled))
        axes.tick_params(colors=QUIET)
        plot.legend(2, handlelength=2.6)
        return plot.svg("Confidence sequences of both rates by the number of labelled answers.")
