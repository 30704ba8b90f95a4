"""What does `calibrail audit` say about what detectors really measure?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from calibrail.evaluation.stats.phrases import count, number, percent
from calibrail.report import audit_figures
from calibrail.report.document import (
    Block,
    Bullets,
    Cell,
    Column,
    Document,
    Facts,
    Figure,
    Folded,
    Part,
    Section,
    Table,
    Text,
    listing,
    numbers,
)
from calibrail.report.documents.audit_words import COMPONENTS, capital, spanned, third
from calibrail.report.phrases import (
    bounds,
    estimate,
    measure_cell,
    plain,
    share_cell,
    threshold,
)

_Dict = Mapping[str, Any]
_Row = Sequence[Cell | str] | Part

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


def document(audit: _Dict) -> Document:
    """Return what an audit says: its conclusions first, then what they rest on.

    Parameters
    ----------
    audit : mapping
        The content of ``audit.json``.
    """
    messages = [item["message"] for item in audit["conclusions"]]
    detectors = audit["detectors"]
    clustered = audit["n_groups"] < audit["n_hallucinated"] + audit["n_faithful"]
    groups = f", in {count(audit['n_groups'], 'group')}" if clustered else ""
    return Document(
        "audit of",
        subject=", ".join(plain(item["name"]) for item in detectors),
        headline=messages[0],
        summary=f"{count(audit['n_hallucinated'], 'hallucinated answer')}, "
        f"{audit['n_faithful']:,} faithful{groups}.",
        brief=messages[0],
        blocks=(
            _matched_figure(1, detectors[0]),
            Bullets("What the data shows", messages[1:], where="terminal"),
            listing("What else the data shows", messages[1:], where="page"),
            *(_detector(place, item, audit) for place, item in enumerate(detectors, start=1)),
            _components(audit["components"]),
            _agreement(audit["agreement"]),
            _leakage(audit["leakage"]),
            listing(
                "Left out", [f"{item['part']}: {item['reason']}" for item in audit["left_out"]]
            ),
            _limits(audit, clustered),
        ),
        reproduce=audit["reproduce"],
        data=audit["data"],
        footer="Every number on this page is in audit.json.",
    )


def _matched_figure(place: int, detector: _Dict) -> Figure | None:
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


def _detector(place: int, detector: _Dict, audit: _Dict) -> Section:
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


def _confounds(place: int, detector: _Dict) -> Section | None:
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
            else _matched_figure(place, detector),
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


def _features_table(name: str, rows: Sequence[_Dict]) -> Table:
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


def _strata(place: int, detector: _Dict) -> Section | None:
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
        short.append(Part(f"{division['called']} ({brief})"))
        full.append(Part(f"{capital(division['called'])}: {_test(division)}"))
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


def _test(division: _Dict) -> str:
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


def _reliability(place: int, detector: _Dict, confidence: float) -> Section | None:
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


def _components(components: Sequence[_Dict]) -> Section | None:
    if not components:
        return None
    blocks: list[Block] = [
        Text(
            "Turned so that higher means more likely hallucinated by the idea of the index: near "
            "the question, far from the context.",
            "muted",
            where="page",
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
            Column(f"{plain(item['encoder'])}, n = {item['n']:,}", brief=""),
            Column("Cohen's d", "right", where="page"),
            Column("AUROC", "right"),
            Column("Interval", where="terminal"),
        )
        blocks.append(Text(item["sentence"], where="page"))
        blocks.append(Table("The parts of the index", columns, rows))
    return Section("The parts of the index", blocks)


def _agreement(pairs: Sequence[_Dict]) -> Section | None:
    if not pairs:
        return None
    tops = [f"Same among top {percent(top['share'])}" for top in pairs[0]["top"]]
    heads = ("Pearson", "Spearman", "Spearman given the label", *tops)
    rows = [
        (
            Cell(f"{plain(pair['first'])} and {plain(pair['second'])}", f"n = {pair['n']:,}"),
            *(measure_cell(pair[key], 2) for key in ("pearson", "spearman", "given_label")),
            *(
                Cell(percent(top["overlap"]), f"by chance {percent(top['by_chance'])}")
                for top in pair["top"]
            ),
        )
        for pair in pairs
    ]
    columns = (Column("Pair"), *numbers(*heads))
    title = "Do they agree?"
    return Section(title, (Table(title, columns, rows),), where="page")


def _leakage(leakage: _Dict) -> Section:
    """Show what could give labels away."""
    copies = {f"Near-duplicates {_ACROSS[item['across']]}": item for item in leakage["copies"]}
    brief = [
        (name, f"{item['n']:,} ({item['exact']:,} identical)") for name, item in copies.items()
    ]
    rows: list[_Row] = []
    for name, item in copies.items():
        example = ""
        if item["pairs"]:
            first, second = item["pairs"][0]
            example = f"; e.g. {plain(first)} and {plain(second)}"
        rows.append(
            (
                name,
                f"{item['n']:,}",
                Cell(f"{item['exact']:,} identical{example}", style="muted"),
            )
        )
    for item in leakage["shared"]:
        about = f"{item['n_repeated']:,} occur more than once, {item['n_both']:,} with both labels"
        rows.append((_SHARED[item["what"]], f"{item['n_distinct']:,}", Cell(about, style="muted")))
    for item in leakage["giveaways"]:
        name = f"Label from the others of its {plain(item['column'])}"
        if item["auroc"]["estimate"] is not None:
            brief.append((name, f"AUROC {estimate(item['auroc'])}"))
        about = (
            f"AUROC; {item['n_values']:,} in all, of those with several answers "
            f"{item['n_mixed']:,} hold both labels, {item['n_alike']:,} one"
        )
        rows.append((name, measure_cell(item["auroc"]), Cell(about, style="muted")))
    rows.append(("Ids that repeat", f"{leakage['n_ids_repeated']:,}", ""))
    title = "Could the label be known otherwise?"
    columns = (Column("What"), Column("Number", "right"), Column("About it"))
    return Section(
        title, (Facts(brief, where="terminal"), Table(title, columns, rows, where="page"))
    )


def _limits(audit: _Dict, clustered: bool) -> Section:
    together = "; they count answers of one group as belonging together" if clustered else ""
    lines = (
        "Pairs are alike in one feature at a time, and in nothing else. What a feature explains "
        "may be due to something that goes with it, and pairs that are alike may be unlike the "
        "rest of the data.",
        f"Intervals hold at the {percent(audit['confidence'])} level each, not all together"
        f"{together}. Tests of strata are corrected for the number of divisions (Holm).",
        "The labels are right.",
    )
    return listing("What this rests on", lines, where="page")
