"""What explains a detector's result, where does it work, and is it a probability?"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from calibrail.phrases import count, number, percent
from calibrail.report import blocks as parts
from calibrail.report import phrases
from calibrail.report.audit_figures import deciles_svg, matched_svg, reliability_svg, strata_svg
from calibrail.report.blocks import Json
from calibrail.report.documents.audit_words import EXPLAINS, third
from calibrail.report.documents.measures import LABELS
from calibrail.scale import Scale

#: What each verdict on a feature means, in a cell.
_VERDICTS: Final = {
    **{verdict: f"{explains} it" for verdict, explains in EXPLAINS.items()},
    "cannot tell": "the data cannot tell",
    "nothing to explain": "nothing to explain",
    "is the score": "is the score itself",
    "tells the label": "tells the label itself",
}

#: The measures of a feature beside a detector: heading, field, decimals.
_MEASURES: Final = (
    ("Alone", "feature_auroc", 3),
    ("Detector, all pairs", "auroc", 3),
    ("Detector, alike", "matched", 3),
    ("Share explained", "share", 2),
    ("Added to it", "added", 3),
    ("Correlation", "spearman", 2),
    ("Score and label, given it", "partial", 2),
)


def detector_section(place: int, detector: Json, audit: Json) -> parts.Section:
    """Show what explains a detector's result, where it works, and how it reads as probability."""
    scale, missing = Scale.of(detector["score"]), detector["n_undefined"]
    means, called = _means(detector, scale), phrases.plain(scale.column or "score")
    undefined = (
        f"Undefined for {missing['hallucinated']:,} hallucinated and {missing['faithful']:,} "
        f"faithful ones (policy: {audit['undefined']}). "
    )
    return parts.section(
        f"{phrases.plain(detector['name'])}: AUROC {phrases.with_bounds(detector['auroc'])}",
        parts.note(
            f"Cohen's d {phrases.estimate(detector['cohens_d'], 2)}; mean "
            f"{called} {means[0]} of hallucinated and {means[1]} of faithful answers. "
            f"{undefined if any(missing.values()) else ''}{phrases.capital(scale.meaning)}."
        ),
        _confounds(place, detector),
        _strata(place, detector) if detector["strata"] else None,
        _reliability(place, detector, percent(audit["confidence"])),
    )


def matched_figure(place: int, detector: Json) -> parts.Figure | None:
    """Show how a detector ranks pairs that are alike; nothing where no feature is apart from it."""
    if all(row["verdict"] == "is the score" for row in detector["confounds"]):
        return None
    return parts.Figure(
        f"{place}-matched",
        partial(matched_svg, detector),
        f"{phrases.plain(detector['name'])}. First line: how often a hallucinated answer looks "
        "more suspicious than a faithful one. Orange: the same among pairs that are alike in a "
        "feature. Where orange falls to 0.5 while the first line is far from it, the feature "
        "explains the result. Grey: the feature by itself.",
        size="fixed",
    )


def _confounds(place: int, detector: Json) -> parts.Section | None:
    name, rows, area = phrases.plain(detector["name"]), detector["confounds"], detector["auroc"]
    if not (figure := matched_figure(place, detector)):
        return None
    alike: list[parts.Row] = [("(all pairs)", phrases.estimate(area), phrases.bounds(area), "", "")]
    alike += [
        (
            row["called"],
            phrases.estimate(row["matched"]),
            phrases.bounds(row["matched"]),
            phrases.estimate(row["feature_auroc"]),
            _VERDICTS[row["verdict"]],
        )
        for row in rows
        if row["verdict"] != "is the score"
    ]
    heads = parts.numbers("AUROC", "Interval", "Feature alone")
    columns = (parts.Column("Alike in"), *heads, parts.Column(""))
    above = parts.note("The figure is at the top of the page.")
    return parts.section(
        "What explains it?",
        above if place == 1 else figure,
        parts.Table(f"{name}: AUROC over pairs that are alike", columns, alike, where="terminal"),
        parts.folded(
            "Feature by feature",
            parts.Bullets("Feature by feature", [row["sentence"] for row in rows]),
            _features_table(name, rows),
        ),
    )


def _features_table(name: str, rows: Sequence[Json]) -> parts.Table:
    """Return everything that is known about each feature beside one detector."""
    cells: list[parts.Row] = [
        (
            parts.Cell(phrases.capital(row["called"]), f"n = {row['n']:,}"),
            *(phrases.measure_cell(row[field], digits) for _, field, digits in _MEASURES),
            parts.Cell(
                f"{row['n_pairs']:,}", f"{row['n_bins']} bins" if row["n_bins"] else "equal values"
            ),
            phrases.measure_cell(row["balance"], 2),
            _VERDICTS[row["verdict"]],
        )
        for row in rows
    ]
    heads = parts.numbers(*(heading for heading, _, _ in _MEASURES), "Pairs", "Balance")
    columns = (parts.Column("Feature"), *heads, parts.Column("What it explains"))
    return parts.Table(f"{name}, feature by feature", columns, cells)


def _strata(place: int, detector: Json) -> parts.Section:
    name = phrases.plain(detector["name"])
    short: list[parts.Row] = []
    full: list[parts.Row] = []
    for division in detector["strata"]:
        p = division["test"]["p_holm"]
        brief = "no test" if p is None else f"differ? p {phrases.p_number(p)}"
        short.append(parts.Heading(f"{division['called']} ({brief})"))
        full.append(parts.Heading(f"{phrases.capital(division['called'])}: {_test(division)}"))
        for row in division["strata"]:
            called, area = third(division["name"], row["name"]), row["auroc"]
            sizes = (f"{row['n_hallucinated']:,}", f"{row['n_faithful']:,}")
            short.append((called, *sizes, phrases.estimate(area), phrases.bounds(area)))
            turned = " (reversed)" if row["reversed"] else ""
            reached = parts.Cell(phrases.estimate(area) + turned, phrases.measure_cell(area).below)
            full.append(
                (
                    parts.Cell(called, " to ".join(map(number, row["range"] or ()))),
                    *sizes,
                    *_means(row, Scale.of(detector["score"])),
                    phrases.estimate(row["cohens_d"], 2),
                    reached,
                )
            )
    brief_columns = (parts.Column(""), *parts.numbers("Hall.", "Faithful", "AUROC", "Interval"))
    means = ("Mean, hallucinated", "Mean, faithful", "Cohen's d", "AUROC")
    columns = (parts.Column("Stratum"), *parts.numbers("Hallucinated", "Faithful", *means))
    return parts.section(
        "Where does it work?",
        parts.Figure(f"{place}-strata", partial(strata_svg, detector), size="fixed"),
        parts.Table(f"{name}: strata", brief_columns, short, where="terminal"),
        parts.folded("Numbers", parts.Table(f"{name} in every stratum", columns, full)),
    )


def _means(item: Json, scale: Scale) -> list[str]:
    """Return the mean scores of hallucinated and of faithful answers."""
    return [scale.text(item["means"][label]["mean"]) for label in LABELS]


def _test(division: Json) -> str:
    test, missing = division["test"], division["n_missing"]
    text = f"no test, {test['reason']}"
    if test["p_value"] is not None:
        p, corrected = phrases.p_number(test["p_value"]), phrases.p_number(test["p_holm"])
        text = f"same everywhere? p = {p}, corrected {corrected}"
    return f"{text}; {count(missing, 'answer')} without a value" if missing else text


def _reliability(place: int, detector: Json, confidence: str) -> parts.Section | None:
    if not (measured := detector["reliability"]):
        return None
    scale, after = Scale.of(detector["score"]), ""
    if measured["ece_isotonic"] is not None:
        after = (
            f", {measured['ece_isotonic']:.3f} after isotonic calibration fitted on other answers "
            f"(chance alone makes about {measured['by_chance']:.3f})"
        )
    rows = [
        (
            f"{tenth}",
            f"{scale.text(item['lower'])} to {scale.text(item['upper'])}",
            f"{item['rate']['n']:,}",
            f"{item['rate']['count']:,}",
            phrases.share_cell(item["rate"]),
        )
        for tenth, item in enumerate(measured["deciles"], start=1)
    ]
    columns = parts.numbers("Tenth", "Scores", "Answers", "Hallucinated", "Share")
    return parts.section(
        "Is it a probability?",
        parts.Figure(f"{place}-reliability", partial(reliability_svg, detector), size="half"),
        parts.Figure(f"{place}-deciles", partial(deciles_svg, detector), size="half"),
        parts.note(
            f"ECE {measured['ece_scaled']:.3f} for scores scaled to 0..1{after}. Ten bins of equal "
            f"frequency, equal scores together; {confidence} Wilson intervals."
        ),
        parts.folded("Numbers", parts.Table("Rate in every tenth", columns, rows)),
        where="page",
    )
