"""What does `calibrail doctor` say about a file?"""

import shlex
from collections.abc import Iterator

from calibrail.phrases import count, percent
from calibrail.report.blocks import Bullet, Column, Facts, Json, Section, Table, texts
from calibrail.report.document import Document


def document(diagnosis: Json) -> Document:
    """Return what is in a file and what it supports; fields that are absent are left out.

    Parameters
    ----------
    diagnosis : mapping
        What ``calibrail doctor --json`` prints.
    """
    source, kind = diagnosis.get("source", "data"), diagnosis.get("format", "unknown format")
    title = "Can a threshold keep its promise at the default split?"
    supports = [
        (
            percent(1.0 - item["alpha"]),
            item["guarantee"],
            f"{item['needed']:,}",
            f"{item['available']:,}",
            "yes" if item.get("possible", item["available"] >= item["needed"]) else "too few",
        )
        for item in diagnosis.get("supports", ())
    ]
    heads = ("Catch at least", "Guarantee", "Hallucinated needed", "There are")
    columns = (*texts(*heads), Column("Enough?", brief=""))
    return Document(
        "diagnosis of",
        subject=str(source),
        headline=f"{source} ({kind})",
        blocks=(
            Section("What it holds", (Facts(list(_contents(diagnosis))),)),
            Section(title, (Table(title, columns, supports),)),
            Section("What can be calibrated", (Facts(list(_candidates(diagnosis))),)),
        ),
        warnings=[Bullet(item["message"]) for item in diagnosis.get("warnings", ())],
        next_step=_next_step(diagnosis, str(source)),
        footer="Every number on this page is in what --json prints.",
    )


def _next_step(diagnosis: Json, source: str) -> str:
    if all(diagnosis.get(key) for key in ("usable", "n_faithful", "n_hallucinated")):
        return f"calibrail calibrate {shlex.quote(source)} {_first_score(diagnosis)} -o RUN"
    return "Both classes need labelled examples before anything can be calibrated."


def _first_score(diagnosis: Json) -> str:
    """Return the options for a score that this file allows."""
    usable = diagnosis.get("usable")
    texts = [item["name"] for item in diagnosis.get("scores", ()) if item.get("n") == usable]
    columns = [c for c in diagnosis.get("numeric_columns", ()) if c.get("auroc") is not None]
    if texts or not columns:
        return f"--score {texts[0] if texts else 'NAME'} --alpha 0.05"
    best = max(columns, key=lambda column: abs(column["auroc"] - 0.5))
    higher = "hallucinated" if best["auroc"] >= 0.5 else "faithful"
    return f"--score-column {shlex.quote(best['name'])} --higher {higher} --alpha 0.05"


def _contents(diagnosis: Json) -> Iterator[tuple[str, str]]:
    """Yield what the file holds."""
    yield "Rows read", f"{diagnosis.get('rows', 0):,}"
    hallucinated, faithful = diagnosis.get("n_hallucinated", 0), diagnosis.get("n_faithful", 0)
    labels = f"{hallucinated:,} hallucinated, {faithful:,} faithful"
    yield "Usable examples", f"{diagnosis.get('usable', 0):,}: {labels}"
    for key, name in (
        ("n_unlabelled", "Without a label"),
        ("filtered", "Left out on request"),
        ("quarantined", "Cannot be used"),
    ):
        if diagnosis.get(key):
            yield name, f"{diagnosis[key]:,}"
    for field, reason, n in diagnosis.get("reasons", ()):
        yield "", f"{n:,} x {field}: {reason}"
    groups = diagnosis.get("groups") or {}
    if groups.get("n"):
        largest = count(groups["largest"], "example")
        mixed = f", {groups['mixed']:,} with both classes" if groups.get("mixed") else ""
        yield "Groups", f"{groups['n']:,}, the largest with {largest}{mixed}"
    if columns := diagnosis.get("columns") or {}:
        named = (k if k == v else f"{k} from {v}" for k, v in columns.items())
        yield "Fields found", ", ".join(named)
    for length in diagnosis.get("lengths", ()):
        middle, high = length.get("median_chars"), length.get("p95_chars")
        if middle is not None:
            tail = "" if high is None else f", {high:,.0f} at the 95th percentile"
            yield f"Length of {length['field']}", f"{middle:,.0f} characters (median){tail}"


def _candidates(diagnosis: Json) -> Iterator[tuple[str, str]]:
    """Yield the scores that can run, and the columns that hold some."""
    if scores := diagnosis.get("scores", ()):
        names = ", ".join(f"{item['name']} ({item['n']:,})" for item in scores if item.get("n"))
        yield "Scores that can run", names or "none: no texts were found"
    for item in diagnosis.get("numeric_columns", ()):
        area, detail = item.get("auroc"), "no AUROC without both classes"
        if area is not None:
            side = "hallucinated" if area >= 0.5 else "faithful"
            detail = f"AUROC {max(area, 1 - area):.3f} with --higher {side}"
        missing = f", {item['missing']:,} missing" if item.get("missing") else ""
        yield f"Column {item['name']}", detail + missing
