"""Which answers does a calibrated detector flag, and what would other thresholds cost?"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from calibrail.phrases import count, number, percent
from calibrail.report import phrases
from calibrail.report.blocks import (
    Cell,
    Figure,
    Folded,
    Json,
    Section,
    Slider,
    Table,
    Text,
    numbers,
)
from calibrail.report.figures import CURVE_RANGE, curve_svg, distributions_svg, drawn_range
from calibrail.report.slider import operating_points

_Floats = NDArray[np.float64]


def the_threshold(report: Json, scores: tuple[_Floats, _Floats] | None) -> Section:
    """Say which answers are flagged, beside the scores of both classes."""
    figure = None
    if scores is not None:
        used = None if report["by_group"] else report["threshold"]
        name = str(report["score"]["name"])
        flagged = "" if used is None else (" Answers at or right of the dashed line are flagged.")
        figure = Figure(
            "distributions",
            partial(distributions_svg, *scores, used, name),
            f"Test scores of the two classes.{flagged}",
            limits=(*drawn_range(*scores, used), 0.0, 1.0),
        )
    return Section("The threshold", (Text(_threshold_sentence(report)), figure))


def other_thresholds(report: Json, scores: tuple[_Floats, _Floats] | None) -> Section | None:
    """Show what every other threshold would catch and cost."""
    curve, test, max_fpr = report["curve"], report["test"], report["max_fpr"]
    points = operating_points(report)
    known = None not in (test["fpr"]["estimate"], test["coverage"]["estimate"])
    if scores is None or points is None or not known:
        return None

    shared = " Here one threshold serves all groups." if report["by_group"] else ""
    limit = "" if max_fpr is None else " Dashed: the accepted limit of false alarms."
    return Section(
        "Other thresholds",
        (
            Text(
                "Every threshold trades caught hallucinations against false alarms. The band holds "
                f"at all thresholds at once with {percent(curve['confidence'])} confidence, so you "
                "may look first and choose a threshold afterwards: its bounds stand." + shared
            ),
            Slider(
                points,
                label="Try another threshold",
                back="Back" if points["in_use"] is None else "Back to the threshold in use",
                caveat="A threshold chosen by looking is not certified: the verdict above is not "
                "about it, and only the simultaneous band (the smaller numbers) holds for it. "
                "Calibrate again for what it catches (--alpha), or test it on fresh labels, before "
                "you rely on it.",
            ),
            Figure(
                "curve",
                partial(curve_svg, curve, test, max_fpr),
                "Caught against false alarms at every threshold, with its simultaneous band."
                + limit,
                limits=CURVE_RANGE,
            ),
            Folded(
                "Thresholds to choose from",
                (
                    Table(
                        "Thresholds to choose from",
                        numbers("Threshold", "Caught", "False alarms"),
                        _steps(curve),
                    ),
                ),
            ),
        ),
        where="page",
    )


def _steps(curve: Json) -> list[Sequence[Cell | str]]:
    """Return about a dozen operating points of the curve, one for each step of coverage."""
    highest: dict[int, int] = {}
    for place, caught in enumerate(curve["coverage"]["estimate"]):
        # The highest threshold of each step of five percentage points.
        highest[int(20 * caught)] = place

    def cell(name: str, place: int) -> Cell:
        ends = ("estimate", "lower", "upper")
        return phrases.share_cell({end: curve[name][end][place] for end in ends})

    return [
        (
            number(curve["thresholds"][highest[step]]),
            cell("coverage", highest[step]),
            cell("fpr", highest[step]),
        )
        for step in sorted(highest, reverse=True)
        if step >= 8
    ]


def _threshold_sentence(report: Json) -> str:
    """Say which answers are flagged, what that promises and where the threshold comes from."""
    name, limit = phrases.score_name(report), report["threshold"]
    if risks := report["risks"]:
        return (
            f"Flag an answer when its {name} score is at least {number(limit)}. With "
            f"{percent(risks['confidence'])} confidence this threshold, like all "
            f"{risks['n_valid']:,} valid ones of {len(risks['candidates']):,} candidates, keeps "
            "every risk that was asked for."
        )
    target, n = percent(1.0 - report["alpha"]), report["n_calibration"]
    if report["by_group"]:
        return (
            f"Groups of {phrases.plain(report['by_group']['column'])} with enough examples have a "
            f"threshold of their own on the {name} score, which catches at least {target} of their "
            f"hallucinations {_how(report)}. The table of groups shows them."
        )
    if report["flag_all"] or limit is None:
        return (
            f"Flag every answer. {count(n, 'hallucinated calibration example').capitalize()} are "
            f"too few for a threshold that catches {target} of hallucinations."
        )
    promise = {
        "marginal": f"catches at least {target} of hallucinations on average over calibration "
        "draws (guarantee: marginal)",
        "pac": f"catches at least {target} of hallucinations with {_confidence(report)} "
        "confidence in this very threshold (guarantee: pac)",
        "paper": f"is the paper's rule for {target}; it catches slightly less on average "
        "(guarantee: paper)",
    }[report["guarantee"]]
    if report["three_way"]:
        return (
            f"An answer passes when its {name} score is below {number(limit)}; the others are "
            f"flagged or reviewed. This {promise}."
        )
    flag = f"Flag an answer when its {name} score is at least {number(limit)}. This {promise}"
    if report["clustering"]:
        return f"{flag}, for an answer from a new group."
    return (
        f"{flag}. The threshold is number {report['rank']:,} from below of "
        f"{count(n, 'hallucinated calibration score')}."
    )


def _how(report: Json) -> str:
    if report["guarantee"] == "pac":
        return f"with {_confidence(report)} confidence each (guarantee: pac)"
    return f"on average over calibration draws (guarantee: {report['guarantee']})"


def _confidence(report: Json) -> str:
    return percent(1.0 - (report["delta"] or 0.0))
