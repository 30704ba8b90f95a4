"""How does an audit look in a terminal?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from calibrail.evaluation.audit.wording import COMPONENTS, third
from calibrail.report import blocks
from calibrail.report.audit_page import ACROSS, VERDICTS, estimate, interval, p_value
from calibrail.report.phrases import plain

_Dict = Mapping[str, Any]


def print_audit(audit: _Dict, console: Console) -> None:
    """Print an audit: its conclusions, then compact tables.

    Parameters
    ----------
    audit : mapping
        ``Audit.to_dict()``.
    console : rich.console.Console
        Where to print; 80 columns without colours are enough.
    """
    conclusions = audit["conclusions"]
    for item in conclusions[:1]:
        blocks.paragraph(console, item["message"], style="bold")
    blocks.bullets(console, "What the data shows", [item["message"] for item in conclusions[1:]])
    for detector in audit["detectors"]:
        _confounds(detector, console)
        _strata(detector, console)
    for item in audit["components"]:
        table = blocks.table("The parts of the index")
        for name in ("", "AUROC", "Interval"):
            table.add_column(name)
        for row in item["rows"]:
            cells = (COMPONENTS[row["name"]], estimate(row["auroc"]), interval(row["auroc"]))
            table.add_row(*map(blocks.cell, cells))
        blocks.show(console, table)
    _copies(audit["leakage"], console)
    left = [f"{item['part']}: {item['reason']}" for item in audit["left_out"]]
    blocks.bullets(console, "Left out", left)


def _confounds(detector: _Dict, console: Console) -> None:
    rows = [row for row in detector["confounds"] if row["verdict"] != "is the score"]
    if not rows:
        return
    table = blocks.table(f"{plain(detector['name'])}: AUROC over pairs that are alike")
    table.add_column("Alike in", overflow="fold")
    for name in ("AUROC", "Interval", "Feature alone"):
        table.add_column(name, justify="right")
    table.add_column("", overflow="fold")
    table.add_row(
        *map(
            blocks.cell,
            ("(all pairs)", estimate(detector["auroc"]), interval(detector["auroc"]), "", ""),
        )
    )
    for row in rows:
        cells = (
            row["called"], estimate(row["matched"]), interval(row["matched"]),
            estimate(row["feature_auroc"]), VERDICTS[row["verdict"]],
        )  # fmt: skip
        table.add_row(*map(blocks.cell, cells))
    blocks.show(console, table)


def _strata(detector: _Dict, console: Console) -> None:
    if not detector["strata"]:
        return
    table = blocks.table(f"{plain(detector['name'])}: strata")
    table.add_column("", overflow="fold")
    for name in ("Hall.", "Faithful", "AUROC", "Interval"):
        table.add_column(name, justify="right")
    for division in detector["strata"]:
        p = division["test"]["p_holm"]
        differ = "no test" if p is None else f"differ? p {p_value(p)}"
        called = division["called"]
        table.add_row(Text(blocks.cell(f"{called} ({differ})").plain, style="underline"))
        for row in division["strata"]:
            cells = (
                f"  {third(division['name'], row['name'])}", f"{row['n_hallucinated']:,}",
                f"{row['n_faithful']:,}", estimate(row["auroc"]), interval(row["auroc"]),
            )  # fmt: skip
            table.add_row(*map(blocks.cell, cells))
    blocks.show(console, table)


def _copies(leakage: _Dict, console: Console) -> None:
    pairs = [
        (
            f"Near-duplicates {ACROSS[item['across']]}",
            f"{item['n']:,} ({item['exact']:,} identical)",
        )
        for item in leakage["copies"]
    ]
    pairs.extend(
        (f"Label from the others of its {item['column']}", f"AUROC {estimate(item['auroc'])}")
        for item in leakage["giveaways"]
        if item["auroc"]["estimate"] is not None
    )
    if pairs:
        blocks.facts(console, pairs)
