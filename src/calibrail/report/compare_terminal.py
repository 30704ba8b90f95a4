"""How does a comparison look in a terminal?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from calibrail.evaluation.compare.conclusion import p_value, points
from calibrail.evaluation.stats.phrases import percent
from calibrail.report import blocks, compare_story, phrases
from calibrail.report.documents.calibrate import title

_Dict = Mapping[str, Any]


def print_compare(comparison: _Dict, console: Console) -> None:
    """Print a comparison: finding, all scores, who is ahead, other targets, warnings, next step.

    Parameters
    ----------
    comparison : mapping
        ``Comparison.to_dict()``.
    console : rich.console.Console
        Where to print; 80 columns without colours are enough.
    """
    blocks.paragraph(console, comparison["finding"], style="bold")
    if said := compare_story.parts(comparison):
        blocks.paragraph(console, said)
    _scores(comparison, console)
    _ahead(comparison, console)
    _levels(comparison, console)
    _sweep(comparison, console)
    short = [
        f"{item['name']}: {'; '.join(title(w['code']) for w in item['warnings'])}"
        for item in comparison["detectors"]
        if item["warnings"]
    ]
    blocks.bullets(console, "Warnings", short, style="bold yellow")
    blocks.next_step(console, compare_story.next_step(comparison))


def _scores(comparison: _Dict, console: Console) -> None:
    """Print detectors first, then the baselines under a rule, then why some have no numbers."""
    table = blocks.table("Fewest false alarms first, on the test part")
    table.add_column("Score", overflow="fold", max_width=22)
    for name in ("Threshold", "Caught", "FPR", "AUROC", "AUROC 80+", "Overlap"):
        table.add_column(name, justify="right")
    table.add_column("Verdict")
    for part, rows in (
        ("", [*comparison["detectors"], *comparison["uncalibrated"]]),
        ("Baselines", comparison["baselines"]),
    ):
        if part and rows:
            table.add_row()
            table.add_row(Text(part, style="underline"))
        for item in rows:
            test = item.get("test") or item
            cells = [
                str(item["name"]),
                compare_story.threshold(item),
                phrases.share(test.get("coverage")),
                phrases.share(test.get("fpr")),
                compare_story.measure(test.get("auroc"))[0],
                compare_story.measure(item.get("partial_auroc"))[0],
                compare_story.measure(test.get("overlap"))[0],
                str(item.get("verdict") or ""),
            ]
            table.add_row(*(blocks.cell(text) for text in cells))
    blocks.show(console, table)
    missing = [
        f"{item['name']}: {item['reason']}"
        for item in (*comparison["uncalibrated"], *comparison["baselines"])
        if item.get("reason") and item.get("fpr") is None
    ]
    blocks.bullets(console, "Without a threshold", missing)


def _ahead(comparison: _Dict, console: Console) -> None:
    """Print the tests against the best detector and against the best baseline."""
    winner, paired = comparison["winner"], comparison["paired"]
    families = (
        (winner["candidate"], paired["against_best"]),
        (winner["best_baseline"], paired["against_best_baseline"]),
    )
    for reference, tests in families:
        if not tests:
            continue
        table = _titled(
            console, f"Against {phrases.plain(reference)}, at the same coverage; p corrected (Holm)"
        )
        table.add_column("Score", overflow="fold", max_width=22)
        table.add_column("FPR, points", justify="right")
        table.add_column(f"{_confidence(comparison)} interval", justify="right")
        table.add_column("p", justify="right")
        table.add_column("AUROC", justify="right")
        table.add_column("p", justify="right")
        for row in compare_story.paired_rows(tests):
            (name, _), (gap, span), (p, _), _, (area, _), (q, _) = row
            table.add_row(*(blocks.cell(text) for text in (name, gap, span, p, area, q)))
        blocks.show(console, table)
    for test in paired["confirming"]:
        gap = test["fpr"]["estimate"]
        if gap is not None:
            blocks.paragraph(
                console,
                f"On answers that did not choose, the threshold of {test['name']} flags "
                f"{points(abs(gap)).removeprefix('+')} points {'more' if gap > 0 else 'fewer'} of "
                f"the faithful ones than that of {test['against']} "
                f"(McNemar, {p_value(test['fpr']['p_adjusted'])}).",
            )


def _levels(comparison: _Dict, console: Console) -> None:
    """Print the comparison at the coverage that some detector cannot exceed."""
    for level in comparison["matched_coverage"]["levels"]:
        if level["set_by"] is None:
            continue
        table = _titled(console, f"With {compare_story.level_heading(level)}")
        table.add_column("Score", overflow="fold", max_width=26)
        table.add_column("Caught", justify="right")
        table.add_column("False alarms", justify="right")
        table.add_column(f"{_confidence(comparison)} interval", justify="right")
        for (name, _), (caught, _), (fpr, span) in compare_story.level_rows(level):
            table.add_row(*(blocks.cell(text) for text in (name, caught, fpr, span)))
        blocks.show(console, table)


def _sweep(comparison: _Dict, console: Console) -> None:
    """Print what other targets would cost; a dash where they cannot be promised."""
    sweep = comparison["alpha_sweep"]
    rows = [row for row in compare_story.sweep_cells(comparison) if not row[1]]
    if not rows:
        return
    table = _titled(console, "False alarms if so many hallucinations are to be caught")
    table.add_column("Score", overflow="fold", max_width=22)
    for entry in sweep:
        table.add_column(percent(1.0 - entry["alpha"]), justify="right")
    for name, _, cells in rows:
        shown = [phrases.share(cell["fpr"]) if cell and cell["fpr"] else "-" for cell in cells]
        table.add_row(*(blocks.cell(text) for text in (name, *shown)))
    blocks.show(console, table)
    notes = [note for entry in sweep if (note := compare_story.sweep_note(entry))]
    if notes:
        blocks.paragraph(console, f"-: {' '.join(notes)}")


def _titled(console: Console, title: str) -> Table:
    """Print a title, and return a table that may be narrower than it."""
    console.print(Text(phrases.plain(title), style="bold"))
    table = blocks.table("")
    table.title = None
    return table


def _confidence(comparison: _Dict) -> str:
    return percent(comparison["detectors"][0]["confidence"])
