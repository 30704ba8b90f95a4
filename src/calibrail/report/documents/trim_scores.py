"""What would other thresholds and other scores free of unsupported sentences, and keep?"""

from functools import partial
from typing import Final

import numpy as np

from calibrail.phrases import percent
from calibrail.report import blocks as parts
from calibrail.report import phrases
from calibrail.report.blocks import Json
from calibrail.report.documents import measures
from calibrail.report.trim_figures import freed_and_kept_svg
from calibrail.scale import Scale

#: What needs no threshold, in words.
_SIMPLEST: Final = {
    "nothing": "remove nothing",
    "everything": "remove everything",
    "least_overlapping": "remove the least overlapping sentence",
}

#: Thresholds in the folded table at most.
_MOST_STEPS: Final = 20


def other_thresholds(report: Json) -> parts.Section | None:
    """Show what other thresholds would free and keep, and what withholding whole answers does."""
    sentences, test, scale = report["sentences"], report["test"], Scale.of(report["score"])
    curve, whole = sentences["curve"], sentences["flagged_whole"]
    if curve is None or None in (test["freed"]["estimate"], test["kept_supported"]["estimate"]):
        return None
    rows = (*sentences["detectors"], *sentences["baselines"])
    named = [row for row in rows if row["threshold"] is not None and _measured(row)]
    figure = parts.Figure(
        "freed-and-kept",
        partial(
            freed_and_kept_svg,
            sentences,
            test,
            (report["min_coverage"], report["requirement"].get("min_kept")),
            named,
        ),
        "Above and to the right is better. Dashed: what was asked.",
    )
    n = len(curve["thresholds"])
    chosen = sorted({round(place) for place in np.linspace(0, n - 1, min(n, _MOST_STEPS))})
    steps = [
        (
            scale.text(curve["thresholds"][place]),
            percent(curve["freed"][place]),
            percent(curve["kept"][place]),
        )
        for place in chosen
    ]
    choices = "Thresholds to choose from"
    return parts.section(
        "Other thresholds",
        parts.Text(
            "To withhold whole answers in place of sentences, at the same threshold, keeps "
            f"{phrases.share(whole['kept_supported'])} of supported sentences; removing sentences "
            f"keeps {phrases.share(test['kept_supported'])}. Another threshold frees more answers "
            "and keeps less of them, or the reverse. These are plain estimates on the test part: a "
            "threshold chosen by them needs a calibration of its own (--alpha)."
        ),
        figure,
        parts.folded(
            choices,
            parts.Table(choices, parts.numbers("Threshold", "Freed", "Supported kept"), steps),
        ),
        where="page",
    )


def _measured(row: Json) -> bool:
    """Return whether a score frees and keeps anything that is known."""
    return bool(row.get("freed")) and None not in (
        row["freed"]["estimate"],
        row["kept_supported"]["estimate"],
    )


def beside(report: Json) -> parts.Section:
    """Compare with the other scores, and with what needs none."""
    sentences = report["sentences"]
    areas = {row["name"]: row for row in (*report["detectors"], *report["baselines"])}
    test = report["test"]
    this = {
        "name": report["score"].get("key") or report["score"]["name"],
        "threshold": None if report["by_group"] else report["threshold"],
        **{key: test[key] for key in ("freed", "kept_supported", "emptied")},
    }
    areas[this["name"]] = {"auroc": test["auroc"], "score": report["score"]}
    scored = [row for row in sentences["baselines"] if row["name"] not in _SIMPLEST]
    simple = [row for row in sentences["baselines"] if row["name"] in _SIMPLEST]

    def row(item: Json) -> parts.Row:
        known = areas.get(item["name"], {})
        limit = Scale.of(known.get("score")).text(item["threshold"], "")
        return (
            parts.Cell(
                _SIMPLEST.get(item["name"], str(item["name"])),
                style="strong" if item is this else "",
            ),
            limit,
            *(
                phrases.share_cell(item[key]) if item.get(key) else ""
                for key in ("freed", "kept_supported", "emptied")
            ),
            phrases.measure_cell(known["auroc"]) if known else parts.Cell(""),
            "this one" if item is this else _compared(item),
        )

    target = percent(1.0 - report["alpha"])
    heading = f"At the same target ({target} freed), on the same answers"
    whole = {**sentences["flagged_whole"], "name": "withhold answers whole", "threshold": None}
    heads = parts.numbers("Threshold", "Freed", "Supported kept", "Emptied", "AUROC")
    compared = parts.Column("Compared", where="page")
    table = parts.Table(
        heading,
        (parts.Column("Score", most=24), *heads, compared),
        [
            *measures.with_baselines(row, (this, *sentences["detectors"]), scored),
            parts.Heading("For comparison"),
            *map(row, (*simple, {**whole, "emptied": None})),
        ],
    )
    return parts.section(
        "Against other scores",
        parts.Text(
            f"Every score is calibrated to the same target, {target} of answers freed, and tested "
            "on the same answers. One is better when it keeps more of what is supported, answer by "
            "answer. Removing everything frees every answer, too, and a score that keeps little "
            "more than that adds little.",
            where="page",
        ),
        table,
        parts.Bullets(
            "Without a threshold",
            [
                f"{item['name']}: {item['reason']}"
                for item in (*sentences["detectors"], *scored)
                if item.get("reason")
            ],
        ),
    )


def _compared(row: Json) -> str:
    """Say whether another score keeps more, as the paired interval shows."""
    gap = row.get("kept_beyond_detector")
    if not gap or gap["estimate"] is None:
        return ""
    if gap["lower"] > 0.0:
        return "keeps more"
    return "keeps less" if gap["upper"] < 0.0 else "unclear"


def against_marks(spans: Json | None, confidence: float) -> parts.Section | None:
    """Show how well the removed text covers what people marked, by characters."""
    if spans is None:
        return None
    name = "Against the marks, by characters"
    lines = [
        (f"{called}", phrases.estimate(value), phrases.bounds(value), "", about)
        for called, about, value in (
            ("Precision", "of the characters removed, those marked", spans["precision"]),
            ("Recall", "of the characters marked, those removed", spans["recall"]),
            ("F1", "harmonic mean of both", spans["f1"]),
        )
    ]
    return parts.section(
        name,
        parts.Text(
            "Whole sentences are removed, and marks are often shorter: precision stays low even "
            "where each sentence is rightly removed. Intervals come from resampling answers.",
            where="page",
        ),
        measures.table(name, lines, confidence),
    )
