"""What does a report say in plain words, wherever it is shown?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrail.evaluation.stats.phrases import count, number, percent

_Dict = Mapping[str, Any]

#: What each verdict means, for a reader who has never seen one.
VERDICTS = {
    "certified": "The data shows that the detector meets what was asked.",
    "rejected": "The data shows that the detector does not meet what was asked.",
    "inconclusive": "The data neither shows that the detector meets what was asked nor that it "
    "does not.",
}


#: Each warning in a few words, where there is no room for its message.
TITLES = {
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


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table of measures, each cell as text."""

    measure: str
    value: str
    interval: str
    asked: str
    detail: str


def plain(text: object) -> str:
    """Return text on one line without control characters, safe to print to a terminal."""
    joined = " ".join(str(text).split())
    return "".join(ch if ch.isprintable() else "\N{REPLACEMENT CHARACTER}" for ch in joined)


def score_name(report: _Dict) -> str:
    """Return the score's name with the parameters that are set, as ``--score`` takes them."""
    score = report["score"]
    if score.get("key"):
        return plain(score["key"])
    params = score.get("params") or {}
    listed = ",".join(f"{key}={value}" for key, value in params.items() if value is not None)
    return plain(f"{score['name']}:{listed}" if listed else score["name"])


def threshold_sentence(report: _Dict) -> str:
    """Say which answers are flagged, what that promises and where the threshold comes from."""
    if report.get("risks"):
        risks = report["risks"]
        return (
            f"Flag an answer when its {score_name(report)} score is at least "
            f"{number(report['threshold'])}. With {percent(risks['confidence'])} confidence this "
            f"threshold, like all {risks['n_valid']:,} valid ones of {len(risks['candidates']):,} "
            "candidates, keeps every risk that was asked for."
        )
    target, n = percent(1.0 - report["alpha"]), report["n_calibration"]
    if report.get("by_group"):
        return (
            f"Groups of {plain(report['by_group']['column'])} with enough examples have a "
            f"threshold of their own on the {score_name(report)} score, which catches at least "
            f"{target} of their hallucinations {_how(report)}. The table of groups shows them."
        )
    if report.get("flag_all") or report["threshold"] is None:
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
    if report.get("three_way"):
        return (
            f"An answer passes when its {score_name(report)} score is below "
            f"{number(report['threshold'])}; the others are flagged or reviewed. This {promise}."
        )
    if report.get("clustering"):
        return (
            f"Flag an answer when its {score_name(report)} score is at least "
            f"{number(report['threshold'])}. This {promise}, for an answer from a new group."
        )
    return (
        f"Flag an answer when its {score_name(report)} score is at least "
        f"{number(report['threshold'])}. This {promise}. The threshold is number "
        f"{report['rank']:,} from below of {count(n, 'hallucinated calibration score')}."
    )


def measures(report: _Dict) -> list[Line]:
    """Return the table of measures: value, interval, what was asked, counts."""
    test, max_fpr = report["test"], report["max_fpr"]
    coverage, fpr, accuracy = test["coverage"], test["fpr"], test["accuracy"]
    limit = "no limit" if max_fpr is None else f"<= {percent(max_fpr)}"
    lines = [
        _share(
            "Caught", coverage, f">= {percent(report['min_coverage'])}",
            f"{coverage['count']:,} of {coverage['n']:,} hallucinated",
        ),
        _share("False alarms (FPR)", fpr, limit, f"{fpr['count']:,} of {fpr['n']:,} faithful"),
        _share("Accuracy", accuracy, "", f"{accuracy['count']:,} of {accuracy['n']:,}"),
        _measure("AUROC", test["auroc"], "0.5 = guessing, 1 = perfect"),
        _measure("Overlap", test["overlap"], "1 = same, 0 = separate"),
    ]  # fmt: skip
    return lines


def details(report: _Dict) -> list[Line]:
    """Return the measures that specialists ask for."""
    test = report["test"]
    lines = [
        _measure("Overlap across medians", test["median_overlap"], "0.5 = same, 0 = separate"),
        _measure("Cohen's d", test["cohens_d"], "in pooled standard deviations"),
    ]
    for label in ("hallucinated", "faithful"):
        stats = test["means"][label]
        mean = "none" if stats["mean"] is None else number(stats["mean"])
        sd = "" if stats["sd"] is None else f"SD {number(stats['sd'])}, "
        lines.append(Line(f"Mean score, {label}", mean, "", "", f"{sd}n = {stats['n']:,}"))
    welch = test["welch"]
    if welch["statistic"] is None:
        lines.append(Line("Welch's t", "none", "", "", welch["reason"]))
    else:
        detail = f"df = {welch['df']:.1f}, p = {welch['p_value']:.2g}"
        lines.append(Line("Welch's t", number(welch["statistic"]), "", "", detail))
    band = test["coverage_band"]
    if band is not None:
        place = "inside" if band["inside"] else "outside"
        lines.append(
            Line(
                "Caught, expected range", f"{band['lowest']:,} to {band['highest']:,}", "", "",
                f"of {band['n']:,}; observed lies {place}",
            )
        )  # fmt: skip
    return lines


def title(code: str) -> str:
    """Return a warning in a few words."""
    return TITLES.get(code, code.replace("_", " "))


def against(row: _Dict) -> str:
    """Say how a row of a table compares with the reported detector."""
    if row.get("this"):
        return "this one"
    if row.get("beats_detector"):
        return "better"
    if row.get("detector_beats"):
        return "worse"
    return "unclear" if row.get("auroc_difference") else ""


def _how(report: _Dict) -> str:
    if report["guarantee"] == "pac":
        return f"with {_confidence(report)} confidence each (guarantee: pac)"
    return f"on average over calibration draws (guarantee: {report['guarantee']})"


def next_step(report: _Dict) -> str:
    """Say what to do now."""
    codes = {item["code"] for item in report["warnings"]}
    needed = report["certificate"].get("needed") or {}
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
    if report.get("risks"):
        return "Label more examples for the test part, or ask for less (--risk)."
    if report["max_fpr"] is None:
        return "Say how many false alarms you accept, e.g. --max-fpr 0.2, to get a verdict."
    coverage = report["certificate"]["coverage"]
    alone = not report.get("by_group")
    if alone and report["guarantee"] != "pac" and coverage["lower"] < report["min_coverage"]:
        return (
            "Calibrate again with --guarantee pac, which certifies coverage by construction; or "
            "require less with --min-coverage."
        )
    return label_more(needed) or (
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


def assumptions(report: _Dict) -> list[str]:
    """Return what the promise and the intervals rest on."""
    lines = [
        "The hallucinations to be caught come from the same source as the hallucinated "
        f"calibration examples (n = {report['n_calibration']:,}), in exchangeable order. Another "
        "model, retriever, topic or language needs its own calibration.",
        "The labels are right, and examples of one class are independent of each other.",
        f"Intervals hold at the {percent(report['confidence'])} level each, not all together. "
        "The verdict rests on exact bounds (Clopper-Pearson) that hold jointly with "
        f"{percent(report['certificate']['confidence'])} confidence.",
    ]
    if report.get("risks"):
        lines.insert(
            1,
            "Faithful answers come from the same source, too, and in the same proportion to "
            "hallucinated ones: precision, accuracy and abstention depend on it.",
        )
    policy = report["undefined"]["policy"]
    lines.append(
        "An undefined score counts as passed." if policy == "pass" else
        f"An undefined score counts as not released (policy: {policy})."
    )  # fmt: skip
    return lines


def interval(value: _Dict | None) -> str:
    """Return ``91.7 to 96%`` for a share's interval in percent."""
    if value is None:
        return ""
    return f"{percent(value['lower']).removesuffix('%')} to {percent(value['upper'])}"


def share(value: _Dict | None) -> str:
    """Return a share's estimate in percent, or a word where there is none."""
    if value is None or value["estimate"] is None:
        return "none"
    return percent(value["estimate"])


def _share(name: str, value: _Dict, asked: str, detail: str) -> Line:
    return Line(name, share(value), interval(value), asked, detail)


def _measure(name: str, value: _Dict, detail: str) -> Line:
    if value["estimate"] is None:
        return Line(name, "none", "", "", plain(value["reason"]))
    span = ""
    if value["lower"] is not None:
        span = f"{value['lower']:.3f} to {value['upper']:.3f}"
    return Line(name, f"{value['estimate']:.3f}", span, "", detail)


def _confidence(report: _Dict) -> str:
    return percent(1.0 - (report["delta"] or 0.0))
