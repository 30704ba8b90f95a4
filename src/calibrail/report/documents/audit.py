"""Audit."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from calibrail.formatting import count, listed, number, percent
from calibrail.report import document as parts
from calibrail.report import text as phrases
from calibrail.report.document import Document, Json
from calibrail.report.documents.measures import LABELS, part_note
from calibrail.report.figures.comparison import (
    deciles_svg,
    matched_svg,
    reliability_svg,
    strata_svg,
)
from calibrail.report.text import COMPONENTS, EXPLAINS, bounds, estimate, measure_cell, plain, third
from calibrail.scores.base import Scale

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
    columns = (parts.TableColumn("Alike in"), *heads, parts.TableColumn(""))
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
    columns = (parts.TableColumn("Feature"), *heads, parts.TableColumn("What it explains"))
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
    brief_columns = (
        parts.TableColumn(""),
        *parts.numbers("Hall.", "Faithful", "AUROC", "Interval"),
    )
    means = ("Mean, hallucinated", "Mean, faithful", "Cohen's d", "AUROC")
    columns = (parts.TableColumn("Stratum"), *parts.numbers("Hallucinated", "Faithful", *means))
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


#: The conclusion that a column was made from the label: a warning.
_LABEL_COLUMN: Final = "column_tells_label"

#: What answers can share, and how it is said.
_SHARED: Final = {
    "question": "Distinct questions",
    "answer": "Distinct answers",
    "whole": "Distinct wholes (question, contexts and answer)",
}

#: What near-duplicates can lie apart in.
_ACROSS: Final = {
    "label": "with the other label",
    "group": "in another group",
    "split": "on another side of the split",
}


def document(audit: Json) -> Document:
    """Return what an audit says: its conclusions first, then what they rest on.

    Parameters
    ----------
    audit : mapping
        The content of ``audit.json``.
    """
    first, *further = (
        item["message"] for item in audit["conclusions"] if item["code"] != _LABEL_COLUMN
    )
    detectors = audit["detectors"]
    clustered = audit["n_groups"] < audit["n_hallucinated"] + audit["n_faithful"]
    groups = f", in {count(audit['n_groups'], 'group')}" if clustered else ""
    by_reason: dict[str, list[str]] = {}
    for item in audit["left_out"]:
        by_reason.setdefault(item["reason"], []).append(item["part"])
    left_out = [f"{listed(names)}: {reason}" for reason, names in by_reason.items()]
    together = "; they count answers of one group as belonging together" if clustered else ""
    assumptions = (
        "Pairs are alike in one feature at a time, and in nothing else. What a feature explains "
        "may be due to something that goes with it, and pairs that are alike may be unlike the "
        "rest of the data.",
        f"Intervals hold at the {percent(audit['confidence'])} level each, not all together"
        f"{together}. Tests of strata are corrected for the number of divisions (Holm).",
        "The labels are right.",
    )
    return Document(
        "audit of",
        subject=", ".join(plain(item["name"]) for item in detectors),
        headline=first,
        summary=f"{count(audit['n_hallucinated'], 'hallucinated answer')}, "
        f"{audit['n_faithful']:,} faithful{groups}.",
        brief=first,
        blocks=(
            matched_figure(1, detectors[0]),
            parts.Bullets("What the data shows", further, where="terminal"),
            parts.listing("What else the data shows", further, where="page"),
            *(detector_section(place, item, audit) for place, item in enumerate(detectors, 1)),
            _components(audit["components"]),
            _agreement(audit["agreement"]),
            _leakage(audit["leakage"]),
            parts.listing("Left out", left_out),
            parts.listing("What this rests on", assumptions, where="page"),
        ),
        warnings=[
            parts.Bullet(item["message"])
            for item in audit["conclusions"]
            if item["code"] == _LABEL_COLUMN
        ],
        notes=part_note(audit["data"].get("part")),
        reproduce=audit["reproduce"],
        data=audit["data"],
        footer="Every number on this page is in audit.json.",
    )


def _components(components: Sequence[Json]) -> parts.Section | None:
    if not components:
        return None
    blocks: list[parts.Block] = [
        parts.note(
            "Turned so that higher means more likely hallucinated by the idea of the index: near "
            "the question, far from the context."
        )
    ]
    for item in components:
        rows = [
            (
                COMPONENTS[row["name"]],
                estimate(row["cohens_d"], 2),
                measure_cell(row["auroc"]),
                bounds(row["auroc"]),
            )
            for row in item["rows"]
        ]
        columns = (
            parts.TableColumn(f"{plain(item['encoder'])}, n = {item['n']:,}", brief=""),
            parts.TableColumn("Cohen's d", "right", where="page"),
            parts.TableColumn("AUROC", "right"),
            parts.TableColumn("Interval", where="terminal"),
        )
        table = parts.Table("The parts of the index", columns, rows)
        blocks += [parts.Text(item["sentence"], where="page"), table]
    return parts.section("The parts of the index", *blocks)


def _agreement(pairs: Sequence[Json]) -> parts.Section | None:
    if not pairs:
        return None
    tops = [f"Same among top {percent(top['share'])}" for top in pairs[0]["top"]]
    rows = [
        (
            parts.Cell(f"{plain(pair['first'])} and {plain(pair['second'])}", f"n = {pair['n']:,}"),
            *(measure_cell(pair[key], 2) for key in ("pearson", "spearman", "given_label")),
            *(
                parts.Cell(percent(top["overlap"]), f"by chance {percent(top['by_chance'])}")
                for top in pair["top"]
            ),
        )
        for pair in pairs
    ]
    heads = parts.numbers("Pearson", "Spearman", "Spearman given the label", *tops)
    table = parts.Table("Do they agree?", (parts.TableColumn("Pair"), *heads), rows)
    return parts.section("Do they agree?", table, where="page")


def _leakage(leakage: Json) -> parts.Section:
    """Show what could give labels away."""
    brief: list[tuple[str, str]] = []
    rows: list[parts.Row] = []

    def add(name: str, value: parts.Cell | str, about: str) -> None:
        rows.append((name, value, parts.Cell(about, style="muted")))

    for item in leakage["copies"]:
        name, example = f"Near-duplicates {_ACROSS[item['across']]}", ""
        brief.append((name, f"{item['n']:,} ({item['exact']:,} identical)"))
        if item["pairs"]:
            example = f"; e.g. {' and '.join(map(plain, item['pairs'][0]))}"
        add(name, f"{item['n']:,}", f"{item['exact']:,} identical{example}")
    for item in leakage["shared"]:
        about = f"{item['n_repeated']:,} occur more than once, {item['n_both']:,} with both labels"
        add(_SHARED[item["what"]], f"{item['n_distinct']:,}", about)
    for item in leakage["giveaways"]:
        name = f"Label from the others of its {plain(item['column'])}"
        if item["auroc"]["estimate"] is not None:
            brief.append((name, f"AUROC {estimate(item['auroc'])}"))
        about = (
            f"AUROC; {item['n_values']:,} in all, of those with several answers "
            f"{item['n_mixed']:,} hold both labels, {item['n_alike']:,} one"
        )
        add(name, measure_cell(item["auroc"]), about)
    rows.append(("Ids that repeat", f"{leakage['n_ids_repeated']:,}", ""))
    title = "Could the label be known otherwise?"
    columns = (
        parts.TableColumn("What"),
        parts.TableColumn("Number", "right"),
        parts.TableColumn("About it"),
    )
    return parts.section(
        title, parts.Facts(brief, where="terminal"), parts.Table(title, columns, rows, where="page")
    )
