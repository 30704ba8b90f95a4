"""What does `calibrail calibrate` say about a detector?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation.stats.phrases import count, number, percent
from calibrail.report import phrases
from calibrail.report.document import (
    Bullets,
    Cell,
    Column,
    Document,
    Figure,
    Finding,
    Folded,
    Part,
    Section,
    Slider,
    Table,
    Text,
    Tile,
    listing,
    numbers,
)
from calibrail.report.documents import calibrate_sections as sections
from calibrail.report.documents.error_examples import error_examples
from calibrail.report.figures import CURVE_RANGE, curve_svg, distributions_svg, drawn_range
from calibrail.report.slider import operating_points

_Dict = Mapping[str, Any]
_Floats = NDArray[np.float64]

#: What each verdict means, for a reader who has never seen one.
VERDICTS: Final = {
    "certified": "The data shows that the detector meets what was asked.",
    "rejected": "The data shows that the detector does not meet what was asked.",
    "inconclusive": "The data neither shows that the detector meets what was asked nor that it "
    "does not.",
}

#: Each warning in a few words, where there is no room for its message.
TITLES: Final = {
    "reversed_direction": "the score runs the wrong way",
    "flags_everything": "the threshold flags everything",
    "baseline_beats_detector": "a baseline beats it",
    "not_shown_to_beat_baseline": "not shown to beat every baseline",
    "coverage_outside_band": "caught share outside its expected range",
    "paper_rank_undercovers": "the paper's rank catches too few",
    "few_distinct_scores": "few distinct scores",
    "too_few_examples": "too few examples",
    "clustered": "examples share groups",
    "undefined_scores": "some scores are undefined",
}


def document(
    report: _Dict,
    scores: tuple[_Floats, _Floats] | None = None,
    examples: _Dict | None = None,
) -> Document:
    """Return what a report says.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    scores : pair of ndarrays of float64, optional
        Test scores of the hallucinated and of the faithful answers, for the figures; NaN
        (undefined) ones are left out.
    examples : mapping, optional
        The worst errors of the test part, ``ErrorExamples.to_dict()``, for the page.
    """
    test, measures = report["test"], sections.measures(report)
    return Document(
        "report for",
        subject=phrases.score_name(report),
        headline=report["verdict"].capitalize(),
        verdict=report["verdict"],
        summary=f"{VERDICTS[report['verdict']]} {report['reason']}",
        tiles=(
            Tile("Caught", *measures[0][1:4]),
            Tile("False alarms", *measures[1][1:4]),
            Tile("AUROC", phrases.estimate(test["auroc"]), phrases.bounds(test["auroc"])),
        ),
        blocks=(
            _threshold(report, scores),
            _other_thresholds(report, scores),
            Section(
                "On the test part",
                (
                    sections.measures_table("On the test part", measures, report["confidence"]),
                    Folded("More measures", (sections.details_table(report),)),
                    Text(sections.flips(report["certificate"])),
                ),
            ),
            *sections.of_report(report),
            _other_scores(report),
            None if examples is None else error_examples(examples),
            listing("What the promise rests on", _assumptions(report), where="page"),
        ),
        warnings=[
            Finding(item["message"], title(item["code"]).capitalize())
            for item in report["warnings"]
        ],
        notes=report["notes"],
        next_step=_next_step(report),
        reproduce=report["reproduce"],
        data=report["data"],
        footer="Every number on this page is in report.json; the texts of answers, where they are "
        "shown, stand on this page alone.",
    )


def title(code: str) -> str:
    """Return a warning in a few words."""
    return TITLES.get(code, code.replace("_", " "))


def _threshold(report: _Dict, scores: tuple[_Floats, _Floats] | None) -> Section:
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


def _other_thresholds(report: _Dict, scores: tuple[_Floats, _Floats] | None) -> Section | None:
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


def _steps(curve: _Dict) -> list[Sequence[Cell | str]]:
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


def _threshold_sentence(report: _Dict) -> str:
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


def _how(report: _Dict) -> str:
    if report["guarantee"] == "pac":
        return f"with {_confidence(report)} confidence each (guarantee: pac)"
    return f"on average over calibration draws (guarantee: {report['guarantee']})"


def _confidence(report: _Dict) -> str:
    return percent(1.0 - (report["delta"] or 0.0))


def _other_scores(report: _Dict) -> Section | None:
    """Compare with the other detectors and the baselines."""
    detectors, baselines = report["detectors"], report["baselines"]
    if not detectors and not baselines:
        return None
    target = percent(1 - report["alpha"])
    heading = f"At the same target ({target} caught), on the same examples"
    if report["risks"]:
        heading = f"Other scores at {target} caught, for comparison"
    this = {
        **{key: report["test"][key] for key in ("coverage", "fpr", "auroc")},
        "name": report["score"]["name"],
        "threshold": None if report["by_group"] else report["threshold"],
        "this": True,
    }
    rows: list[Sequence[Cell | str] | Part] = [_row(item) for item in (this, *detectors)]
    if baselines:
        rows += [Part("Baselines"), *(_row(item) for item in baselines)]
    tested = any(item.get("auroc_difference") for item in baselines)
    return Section(
        "Against other scores",
        (
            Text(
                f"Every row is calibrated to the same target, {target} caught, and tested on the "
                "same examples. A row is better when its AUROC is higher by a paired test and it "
                "raises fewer false alarms; a detector that does not beat the baselines has not "
                "been shown to detect anything.",
                where="page",
            ),
            Table(
                heading,
                (
                    Column("Score", most=26),
                    *numbers("Threshold", "Caught", "False alarms", "AUROC"),
                    Column("Compared", where="both" if tested else "page"),
                ),
                rows,
            ),
            Bullets(
                "Without a threshold",
                [
                    f"{item['name']}: {item['reason']}"
                    for item in (*detectors, *baselines)
                    if item.get("reason") and item.get("fpr") is None
                ],
            ),
        ),
    )


def _row(item: _Dict) -> Sequence[Cell | str]:
    return (
        Cell(str(item["name"]), style="strong" if item.get("this") else ""),
        phrases.threshold(item.get("threshold")),
        phrases.share_cell(item.get("coverage")),
        phrases.share_cell(item.get("fpr")),
        phrases.measure_cell(item.get("auroc")),
        _compared(item),
    )


def _compared(row: _Dict) -> str:
    """Say how a row of a table compares with the reported detector."""
    if row.get("this"):
        return "this one"
    if row.get("beats_detector"):
        return "better"
    if row.get("detector_beats"):
        return "worse"
    return "unclear" if row.get("auroc_difference") else ""


def _next_step(report: _Dict) -> str:
    """Say what to do now."""
    codes = {item["code"] for item in report["warnings"]}
    if report["verdict"] == "certified":
        return "Freeze exactly this detector with: calibrail export RUN -o guardrail.json"
    if "reversed_direction" in codes:
        if report["score"]["name"] == "column":
            return "Check what a higher value of the column means (--higher), and calibrate again."
        return "Use another detector for such answers: compare some with calibrail compare."
    if report["verdict"] == "rejected":
        return (
            "Try other scores on the same split with: calibrail compare DATA --score NAME "
            "--score NAME; or accept more misses (--alpha) or more false alarms (--max-fpr)."
        )
    if report["risks"]:
        return "Label more examples for the test part, or ask for less (--risk)."
    if report["max_fpr"] is None:
        return "Say how many false alarms you accept, e.g. --max-fpr 0.2, to get a verdict."
    coverage = report["certificate"]["coverage"]
    alone = not report["by_group"]
    if alone and report["guarantee"] != "pac" and coverage["lower"] < report["min_coverage"]:
        return (
            "Calibrate again with --guarantee pac, which certifies coverage by construction; or "
            "require less with --min-coverage."
        )
    return label_more(report["certificate"].get("needed") or {}) or (
        "At the rates seen no number of further examples settles it: the requirement lies too "
        "close to what the detector does. Change the detector or the requirement."
    )


def label_more(needed: _Dict) -> str:
    """Say how many more examples of each class would settle an inconclusive verdict."""
    wanted = [
        count(int(needed[label]), f"more {label} example", f"more {label} examples")
        for label in ("hallucinated", "faithful")
        if needed.get(label)
    ]
    if not wanted or any(needed.get(k, 0) is None for k in ("hallucinated", "faithful")):
        return ""
    return f"Label about {' and '.join(wanted)}: at the rates seen that settles it."


def _assumptions(report: _Dict) -> list[str]:
    """Return what the promise and the intervals rest on."""
    policy = report["undefined"]["policy"]
    released = "passed" if policy == "pass" else f"not released (policy: {policy})"
    lines = [
        "The hallucinations to be caught come from the same source as the hallucinated "
        f"calibration examples (n = {report['n_calibration']:,}), in exchangeable order. Another "
        "model, retriever, topic or language needs its own calibration.",
        "The labels are right, and examples of one class are independent of each other.",
        f"Intervals hold at the {percent(report['confidence'])} level each, not all together. "
        "The verdict rests on exact bounds (Clopper-Pearson) that hold jointly with "
        f"{percent(report['certificate']['confidence'])} confidence.",
        f"An undefined score counts as {released}.",
    ]
    if report["risks"]:
        lines.insert(
            1,
            "Faithful answers come from the same source, too, and in the same proportion to "
            "hallucinated ones: precision, accuracy and abstention depend on it.",
        )
    return lines
