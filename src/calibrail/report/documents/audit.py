"""What does `calibrail audit` say about what detectors really measure?"""

from collections.abc import Sequence
from typing import Final

from calibrail.phrases import count, listed, percent
from calibrail.report import blocks as parts
from calibrail.report.blocks import Json
from calibrail.report.document import Document
from calibrail.report.documents.audit_detector import detector_section, matched_figure
from calibrail.report.documents.audit_words import COMPONENTS
from calibrail.report.documents.part_words import part_note
from calibrail.report.phrases import bounds, estimate, measure_cell, plain

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
            parts.Column(f"{plain(item['encoder'])}, n = {item['n']:,}", brief=""),
            parts.Column("Cohen's d", "right", where="page"),
            parts.Column("AUROC", "right"),
            parts.Column("Interval", where="terminal"),
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
    table = parts.Table("Do they agree?", (parts.Column("Pair"), *heads), rows)
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
    columns = (parts.Column("What"), parts.Column("Number", "right"), parts.Column("About it"))
    return parts.section(
        title, parts.Facts(brief, where="terminal"), parts.Table(title, columns, rows, where="page")
    )
