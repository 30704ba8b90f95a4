"""What explains a detector's result, where does it work, and is it a probability?"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from calibrail.phrases import count, number, percent
from calibrail.report import audit_figures
from calibrail.report.blocks import (
    Bullets,
    Cell,
    Column,
    Figure,
    Folded,
    Heading,
    Json,
    Section,
    Table,
    Text,
    numbers,
)
from calibrail.report.documents.audit_words import capital, spanned, third
from calibrail.report.phrases import bounds, estimate, measure_cell, plain, share_cell, threshold

_Row = Sequence[Cell | str] | Heading

#: What each verdict on a feature means, in a cell.
VERDICTS: Final = {
    "explains": "explains it",
    "explains most": "explains most of it",
    "explains part": "explains part of it",
    "does not explain": "does not explain it",
    "cannot tell": "the data cannot tell",
    "nothing to explain": "nothing to explain",
    "is the score": "is the score itself",
}


def detector_section(place: int, detector: Json, audit: Json) -> Section:
    """Show what explains a detector's result, where it works, and how it reads as probability."""
    means, missing = detector["means"], detector["n_undefined"]
    return Section(
        f"{plain(detector['name'])}: AUROC {spanned(detector['auroc'])}",
        (
            Text(
                f"Cohen's d {estimate(detector['cohens_d'], 2)}; mean score "
                f"{threshold(means['hallucinated']['mean'])} of hallucinated and "
                f"{threshold(means['faithful']['mean'])} of faithful answers. Undefined for "
                f"{missing['hallucinated']} and {missing['faithful']} of them (policy: "
                f"{audit['undefined']}). Higher = more likely hallucinated.",
                "muted",
                where="page",
            ),
            _confounds(place, detector),
            _strata(place, detector),
            _reliability(place, detector, audit["confidence"]),
        ),
    )


def matched_figure(place: int, detector: Json) -> Figure | None:
    """Show how a detector ranks pairs that are alike; nothing where no feature is apart from it."""
    if all(row["verdict"] == "is the score" for row in detector["confounds"]):
        return None
    return Figure(
        f"{place}-matched",
        partial(audit_figures.matched_svg, detector),
        f"{plain(detector['name'])}. First line: how often a hallucinated answer scores higher "
        "than a faithful one. Orange: the same among pairs that are alike in a feature. Where "
        "orange falls to 0.5 while the first line is far from it, the feature explains the result. "
        "Grey: the feature by itself.",
        size="fixed",
    )


def _confounds(place: int, detector: Json) -> Section | None:
    rows = detector["confounds"]
    others = [row for row in rows if row["verdict"] != "is the score"]
    if not others:
        return None
    name = plain(detector["name"])
    area = detector["auroc"]
    alike: list[_Row] = [("(all pairs)", estimate(area), bounds(area), "", "")]
    alike += [
        (
            row["called"],
            estimate(row["matched"]),
            bounds(row["matched"]),
            estimate(row["feature_auroc"]),
            VERDICTS[row["verdict"]],
        )
        for row in others
    ]
    columns = (
        Column("Alike in"),
        *numbers("AUROC", "Interval", "Feature alone"),
        Column(""),
    )
    return Section(
        "What explains it?",
        (
            Text("The figure is at the top of the page.", "muted", where="page")
            if place == 1
            else matched_figure(place, detector),
            Table(f"{name}: AUROC over pairs that are alike", columns, alike, where="terminal"),
            Folded(
                "Feature by feature",
                (
                    Bullets("Feature by feature", [row["sentence"] for row in rows]),
                    _features_table(name, rows),
                ),
            ),
        ),
    )


def _features_table(name: str, rows: Sequence[Json]) -> Table:
    """Return everything that is known about each feature beside one detector."""
    heads = (
        "Alone",
        "Detector, all pairs",
        "Detector, alike",
        "Share explained",
        "Added to it",
        "Correlation",
        "Score and label, given it",
        "Pairs",
        "Balance",
    )
    cells = [
        (
            Cell(capital(row["called"]), f"n = {row['n']:,}"),
            measure_cell(row["feature_auroc"]),
            measure_cell(row["auroc"]),
            measure_cell(row["matched"]),
            measure_cell(row["share"], 2),
            measure_cell(row["added"]),
            measure_cell(row["spearman"], 2),
            measure_cell(row["partial"], 2),
            Cell(
                f"{row['n_pairs']:,}",
                f"{row['n_bins']} bins" if row["n_bins"] else "equal values",
            ),
            measure_cell(row["balance"], 2),
            VERDICTS[row["verdict"]],
        )
        for row in rows
    ]
    columns = (
        Column("Feature"),
        *numbers(*heads),
        Column("What it explains"),
    )
    return Table(f"{name}, feature by feature", columns, cells)


def _strata(place: int, detector: Json) -> Section | None:
    divisions = detector["strata"]
    if not divisions:
        return None
    name = plain(detector["name"])
    short: list[_Row] = []
    full: list[_Row] = []
    for division in divisions:
        test = division["test"]
        p = test["p_holm"]
        brief = "no test" if p is None else f"differ? p {_p_value(p)}"
        short.append(Heading(f"{division['called']} ({brief})"))
        full.append(Heading(f"{capital(division['called'])}: {_test(division)}"))
        for row in division["strata"]:
            called = third(division["name"], row["name"])
            sizes = (f"{row['n_hallucinated']:,}", f"{row['n_faithful']:,}")
            short.append((called, *sizes, estimate(row["auroc"]), bounds(row["auroc"])))
            span = "" if not row["range"] else " to ".join(number(end) for end in row["range"])
            area = measure_cell(row["auroc"])
            turned = " (reversed)" if row["reversed"] else ""
            full.append(
                (
                    Cell(called, span),
                    *sizes,
                    threshold(row["means"]["hallucinated"]["mean"]),
                    threshold(row["means"]["faithful"]["mean"]),
                    estimate(row["cohens_d"], 2),
                    Cell(f"{area.text}{turned}", area.below),
                )
            )
    heads = ("Hallucinated", "Faithful", "Mean, hallucinated", "Mean, faithful", "Cohen's d")
    return Section(
        "Where does it work?",
        (
            Figure(f"{place}-strata", partial(audit_figures.strata_svg, detector), size="fixed"),
            Table(
                f"{name}: strata",
                (
                    Column(""),
                    *numbers("Hall.", "Faithful", "AUROC", "Interval"),
                ),
                short,
                where="terminal",
            ),
            Folded(
                "Numbers",
                (
                    Table(
                        f"{name} in every stratum",
                        (Column("Stratum"), *numbers(*heads, "AUROC")),
                        full,
                    ),
                ),
            ),
        ),
    )


def _test(division: Json) -> str:
    test = division["test"]
    if test["p_value"] is None:
        text = f"no test, {test['reason']}"
    else:
        text = (
            f"same everywhere? p = {_p_value(test['p_value'])}, corrected "
            f"{_p_value(test['p_holm'])}"
        )
    missing = division["n_missing"]
    return f"{text}; {count(missing, 'answer')} without a value" if missing else text


def _p_value(value: float | None) -> str:
    if value is None:
        return "none"
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def _reliability(place: int, detector: Json, confidence: float) -> Section | None:
    section = detector["reliability"]
    if not section:
        return None
    after = ""
    if section["ece_isotonic"] is not None:
        after = (
            f", {section['ece_isotonic']:.3f} after isotonic calibration fitted on other answers "
            f"(chance alone makes about {section['by_chance']:.3f})"
        )
    rows = [
        (
            f"{tenth}",
            f"{number(item['lower'])} to {number(item['upper'])}",
            f"{item['rate']['n']:,}",
            f"{item['rate']['count']:,}",
            share_cell(item["rate"]),
        )
        for tenth, item in enumerate(section["deciles"], start=1)
    ]
    heads = ("Tenth", "Scores", "Answers", "Hallucinated", "Share")
    table = Table("Rate in every tenth", numbers(*heads), rows)
    return Section(
        "Is it a probability?",
        (
            Figure(
                f"{place}-reliability",
                partial(audit_figures.reliability_svg, detector),
                size="half",
            ),
            Figure(f"{place}-deciles", partial(audit_figures.deciles_svg, detector), size="half"),
            Text(
                f"ECE {section['ece_scaled']:.3f} for scores scaled to 0..1{after}. Ten bins of "
                f"equal frequency, equal scores together; {percent(confidence)} Wilson intervals.",
                "muted",
            ),
            Folded("Numbers", (table,)),
        ),
        where="page",
    )
