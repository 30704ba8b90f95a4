"""How does what `calibrail doctor` found look in a terminal?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from calibrail.evaluation.stats.phrases import count, percent
from calibrail.report import blocks

_Dict = Mapping[str, Any]


def print_diagnosis(diagnosis: _Dict, console: Console) -> None:
    """Print what `calibrail doctor` found; fields that are absent are left out.

    Parameters
    ----------
    diagnosis : mapping
        ``Diagnosis.to_dict()``.
    console : rich.console.Console
        Where to print.
    """
    usable, faithful = diagnosis.get("usable", 0), diagnosis.get("n_faithful", 0)
    hallucinated = diagnosis.get("n_hallucinated", 0)
    source, kind = diagnosis.get("source", "data"), diagnosis.get("format", "unknown format")
    blocks.paragraph(console, f"{source} ({kind})", style="bold")
    blocks.facts(console, list(_contents(diagnosis)))
    _supports(console, diagnosis.get("supports", ()))
    _candidates(console, diagnosis)
    blocks.warnings(console, diagnosis.get("warnings", ()))
    if usable and hallucinated and faithful:
        file = shlex.quote(str(source))
        blocks.next_step(console, f"calibrail calibrate {file} {_first_score(diagnosis)} -o RUN")
    else:
        blocks.next_step(
            console, "Both classes need labelled examples before anything can be calibrated."
        )


def _first_score(diagnosis: _Dict) -> str:
    """Return the options for a score that this file allows."""
    usable = diagnosis.get("usable")
    texts = [item["name"] for item in diagnosis.get("scores", ()) if item.get("n") == usable]
    columns = [c for c in diagnosis.get("numeric_columns", ()) if c.get("auroc") is not None]
    if texts or not columns:
        return f"--score {texts[0] if texts else 'NAME'} --alpha 0.05"
    best = max(columns, key=lambda column: abs(column["auroc"] - 0.5))
    higher = "hallucinated" if best["auroc"] >= 0.5 else "faithful"
    return f"--score-column {shlex.quote(best['name'])} --higher {higher} --alpha 0.05"


def _contents(diagnosis: _Dict) -> Iterator[tuple[str, str]]:
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
    columns = diagnosis.get("columns") or {}
    if columns:
        named = (k if k == v else f"{k} from {v}" for k, v in columns.items())
        yield "Fields found", ", ".join(named)
    for length in diagnosis.get("lengths", ()):
        middle, high = length.get("median_chars"), length.get("p95_chars")
        if middle is not None:
            tail = "" if high is None else f", {high:,.0f} at the 95th percentile"
            yield f"Length of {length['field']}", f"{middle:,.0f} characters (median){tail}"


def _supports(console: Console, supports: Sequence[_Dict]) -> None:
    if not supports:
        return
    table = blocks.table("Can a threshold keep its promise at the default split?")
    for name in ("Catch at least", "Guarantee", "Hallucinated needed", "There are", ""):
        table.add_column(name)
    for item in supports:
        enough = item.get("possible", item["available"] >= item["needed"])
        cells = (
            percent(1.0 - item["alpha"]), item["guarantee"], f"{item['needed']:,}",
            f"{item['available']:,}", "yes" if enough else "too few",
        )  # fmt: skip
        table.add_row(*(blocks.cell(cell) for cell in cells))
    blocks.show(console, table)


def _candidates(console: Console, diagnosis: _Dict) -> None:
    facts = []
    scores = diagnosis.get("scores", ())
    if scores:
        listed = ", ".join(f"{item['name']} ({item['n']:,})" for item in scores if item.get("n"))
        facts.append(("Scores that can run", listed or "none: no texts were found"))
    for item in diagnosis.get("numeric_columns", ()):
        area = item.get("auroc")
        if area is None:
            detail = "no AUROC without both classes"
        else:
            side = "hallucinated" if area >= 0.5 else "faithful"
            detail = f"AUROC {max(area, 1 - area):.3f} with --higher {side}"
        missing = f", {item['missing']:,} missing" if item.get("missing") else ""
        facts.append((f"Column {item['name']}", detail + missing))
    if facts:
        blocks.facts(console, facts)
