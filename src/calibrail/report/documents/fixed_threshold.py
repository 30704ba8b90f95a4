"""Document of a threshold that was given and tested."""

import math
import shlex
from functools import partial
from typing import Any

from calibrail.formatting import Scale
from calibrail.report import document as parts
from calibrail.report import text
from calibrail.report.document import Document, Json
from calibrail.report.documents import calibrate_sections as sections
from calibrail.report.documents import measures
from calibrail.report.documents.examples import error_examples
from calibrail.report.documents.measures import BothScores, scores_figure
from calibrail.report.figures.scores import CURVE_RANGE, curve_svg
from calibrail.report.messages import say

#: Shares caught of which the table of other thresholds has a row each.
_STEPS = (0.95, 0.9, 0.8, 0.65, 0.5)


def of_fixed(report: Json, scores: BothScores | None, examples: Json | None) -> Document:
    """Return what only a report about a threshold that was given says."""
    about = _about(report)
    asked = about["asked"]
    headline = say("fixed_threshold.headline", report, about)
    in_short = say("fixed_threshold.in_short", about)
    measured = say("fixed_threshold.measured", report, about)
    guess = report["test"]["auroc"]["lower"]
    unsure = guess is not None and guess <= 0.5 <= report["test"]["auroc"]["upper"]
    lines = measures.of_test_part(report)
    answer = _answer(report, about) if asked else ""
    return Document(
        "test of",
        # Without a headline it is the verdict.
        headline="" if asked else headline,
        rule=headline,
        summary=" ".join(filter(None, (answer, headline if asked else in_short))),
        tiles=(
            parts.Tile("Caught", *lines[0][1:4]),
            parts.Tile("False alarms", *lines[1][1:4]),
            parts.Tile("AUROC", text.estimate(report["test"]["auroc"])),
        ),
        blocks=(
            parts.Text(" ".join(filter(None, (in_short if asked else "", measured)))),
            parts.Text(say("fixed_threshold.guessing", report) if unsure else "", "warning"),
            parts.Text(say("fixed_threshold.understood", report, about)),
            _others(report, about),
            sections.possible_section(sections.possible(report)),
            parts.section(
                "On all answers",
                scores_figure(
                    report,
                    scores,
                    caption="Scores of the two classes.{dashed}",
                    dashed=" Answers at or {side} of the dashed line are flagged.",
                ),
                measures.table("On all answers", lines, report["confidence"]),
                parts.folded("More measures", measures.details(report)),
                parts.Text(measures.flips(report["certificate"])),
                where="page",
            ),
            None if examples is None else error_examples(examples, about["scale"]),
            parts.listing("What this rests on", sections.assumptions(report), where="page"),
        ),
        next_step=_next_step(report, about),
    )


def _about(report: Json) -> dict[str, Any]:
    """Return what the sentences need beside the report."""
    scale, test = Scale.of(report["score"]), report["test"]
    caught, alarms = test["coverage"], test["fpr"]
    goals = {"caught": report["min_coverage"], "alarms": report["max_fpr"]}
    labels = (report["data"].get("reading") or {}).get("labels")
    once, anew = any(item["code"] == "clustered" for item in report["warnings"]), None
    if report["max_fpr"] is not None and report["verdict"] == "inconclusive":
        level = report["confidence"]
        anew = sections.label_anew(report["certificate"], once=once, confidence=level)
    return {
        "scale": scale,
        "name": scale.column or text.score_name(report),
        "at": scale.text(report["threshold"]),
        "rates": {"caught": _of_hundred(caught), "alarms": _of_hundred(alarms)},
        "goals": {name: f"{100 * goal:g}" for name, goal in goals.items() if goal is not None},
        "asked": report["max_fpr"] is not None,
        "stopped": round(100 * (caught["estimate"] or 0.0)),
        "alarms": round(100 * (alarms["estimate"] or 0.0)),
        "labels": labels if labels and labels.get("column") else None,
        "once": once,
        "level": (report["certificate"]["region"] or report)["confidence"],
        "anew": anew,
        "needed": anew and sections.answers_more(report["needed"]),
        "yes_no": len((report["curve"] or {"thresholds": ()})["thresholds"]) <= 2,
    }


def _of_hundred(share: Json) -> str:
    """Return an interval in answers of a hundred, rounded outward."""
    low, high = math.floor(100 * share["lower"] + 1e-9), math.ceil(100 * share["upper"] - 1e-9)
    return f"{low} to {high}"


def _answer(report: Json, about: Json) -> str:
    """Return what the verdict means; why, where it was taken back."""
    if report["reason_code"] != "bounds":
        return sections.verdict_summary(report)
    why = report["reason"]
    failing = f" {why[:1].lower()}{why[1:].removesuffix('.')}"
    return say(f"fixed_threshold.{report['verdict']}", report, about, failing=failing)


def _others(report: Json, about: Json) -> parts.Section | None:
    """Show what other thresholds would catch and cost, in bands that hold for all of them."""
    curve = report["curve"]
    if curve is None or about["yes_no"]:
        return None
    caught = curve["coverage"]["estimate"]
    places = dict.fromkeys(
        max(place for place, share in enumerate(caught) if share >= step)
        for step in _STEPS
        if max(caught) >= step
    )
    rows = [
        (
            about["scale"].text(curve["thresholds"][place]),
            *(_band(curve, rate, place) for rate in _RATES),
        )
        for place in places
    ]
    title = say("fixed_threshold.others", report)
    draw = partial(curve_svg, curve, report["test"], report["max_fpr"])
    return parts.section(
        "Other thresholds",
        parts.Table(title, parts.numbers("Threshold", "Caught", "False alarms"), rows),
        parts.Figure("curve", draw, say("calibrate.curve", report), limits=CURVE_RANGE),
    )


_RATES = ("coverage", "fpr")


def _band(curve: Json, rate: str, place: int) -> str:
    return text.share_with_bounds({end: curve[rate][end][place] for end in _ENDS})


_ENDS = ("estimate", "lower", "upper")


def _next_step(report: Json, about: Json) -> str:
    """Return what to do now, with its command where a command made the report."""
    made = report["reproduce"].get("command")
    words = shlex.split(made or "calibrail test DATA")
    words[1:2] = ["test"]
    kept = shlex.join(sections.without_options(words, _GOALS)[2:])
    if "reversed_direction" in {item["code"] for item in report["warnings"]}:
        return say("fixed_threshold.turn", about, column=about["scale"].column)
    if about["asked"] and report["reason_code"] != "bounds":
        return sections.next_step(report)
    if not about["asked"]:
        goals = ("--min-caught", "0.8", "--max-false-alarms", "0.2", "-o", "RUN")
        return say("fixed_threshold.ask", command=shlex.join([*words, *goals]))
    if report["verdict"] == "rejected":
        return say("fixed_threshold.other", command=f"calibrail calibrate {kept} -o RUN-calibrated")
    if report["verdict"] == "certified":
        return say("fixed_threshold.export")
    if about["anew"] is None:
        return say("verdict.too_close")
    return say("fixed_threshold.label_anew", **about["anew"][1])


#: Options of test that calibrate does not take.
_GOALS = frozenset(("--threshold=", "--min-caught=", "--max-false-alarms="))
