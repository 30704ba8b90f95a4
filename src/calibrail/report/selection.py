"""How does a selection look in a terminal?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from calibrail.evaluation.stats.phrases import count, number, percent
from calibrail.report import blocks


def print_selection(selection: Mapping[str, Any], console: Console) -> None:
    """Print what is released, what that promises, and the bounds of other cut-offs.

    Parameters
    ----------
    selection : mapping
        ``BatchSelection.to_dict()``.
    console : rich.console.Console
        Where to print.
    """
    n, released, fdr = selection["n"], selection["n_released"], selection["fdr"]
    blocks.paragraph(console, f"RELEASED {released:,} of {count(n, 'answer')}", style="bold")
    if released:
        blocks.paragraph(
            console,
            f"Released are the answers with a p-value up to {number(selection['cutoff'])}. Over "
            "calibration sets and batches like these, the expected share of hallucinated answers "
            f"among the released is at most {percent(fdr)} times their share in the batch, so at "
            f"most {percent(fdr)} whatever that is.",
        )
    else:
        blocks.paragraph(console, _why_none(selection))
    table = blocks.table("Other choices")
    for name in ("p-value up to", "Released", "Hallucinated at most", "Share at most"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in selection["table"]:
        share = "none" if row["share"] is None else percent(row["share"])
        cells = (
            number(row["cutoff"]), f"{row['released']:,}", f"{row['most_hallucinated']:,}", share,
            "chosen" if row["chosen"] else "",
        )  # fmt: skip
        table.add_row(*(blocks.cell(cell) for cell in cells))
    blocks.show(console, table)
    blocks.paragraph(
        console,
        f"With {percent(selection['confidence'])} confidence all these bounds hold together, so "
        "you may choose a row after looking. In the whole batch at most "
        f"{selection['most_hallucinated_in_batch']:,} of {count(n, 'answer')} are hallucinated. "
        f"The bounds rest on {count(selection['n_calibration'], 'hallucinated calibration answer')}"
        " from the same source as the batch.",
    )
    left = [
        f"{count(selection[key], 'answer')} {what}"
        for key, what in (
            ("n_seen_before", "set the threshold and were left out: select from fresh ones"),
            ("n_undefined", "without a score: not released"),
            ("n_errors", "that could not be judged: not released"),
        )
        if selection[key]
    ]
    blocks.bullets(console, "Notes", left)


def _why_none(selection: Mapping[str, Any]) -> str:
    needed, n = selection["n_calibration_for_one"], selection["n_calibration"]
    said = (
        f"Nothing can be released at a false discovery rate of {percent(selection['fdr'])}: too "
        "few answers look harmless enough."
    )
    if n < needed:
        said += (
            f" The smallest p-value that {count(n, 'calibration answer')} can give is "
            f"{number(1 / (n + 1))}; to release a single answer of {selection['n']:,}, "
            f"{needed:,} are needed."
        )
    return said
