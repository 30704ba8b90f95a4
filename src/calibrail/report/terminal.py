"""How does a result look in a terminal?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from calibrail.evaluation.stats.phrases import number, percent
from calibrail.report import blocks, promises, story

_Dict = Mapping[str, Any]
_COLOURS = {"certified": "bold green", "rejected": "bold red", "inconclusive": "bold yellow"}


def print_report(report: _Dict, console: Console) -> None:
    """Print a report: verdict, threshold, measures, baselines, warnings, next step.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    console : rich.console.Console
        Where to print; 80 columns without colours are enough.
    """
    _verdict(console, report["verdict"], story.score_name(report), report["reason"])
    blocks.paragraph(console, story.threshold_sentence(report))
    _lines(console, story.measures(report), report["confidence"])
    _promises(console, report)
    this = {
        "name": report["score"]["name"],
        "this": True,
        "threshold": None if report["by_group"] else report["threshold"],
        "coverage": report["test"]["coverage"],
        "fpr": report["test"]["fpr"],
        "auroc": report["test"]["auroc"],
    }
    if report["detectors"] or report["baselines"]:
        heading = (
            f"At the same target ({percent(1 - report['alpha'])} caught), on the same examples"
        )
        if report["risks"]:
            heading = f"Other scores at {percent(1 - report['alpha'])} caught, for comparison"
        _rows(console, heading, [this, *report["detectors"]], report["baselines"])
    blocks.warnings(console, report["warnings"])
    blocks.bullets(console, "Notes", report["notes"])
    blocks.next_step(console, story.next_step(report))


def print_certificate(certificate: _Dict, console: Console) -> None:
    """Print the verdict of `calibrail certify` with its exact bounds.

    Parameters
    ----------
    certificate : mapping
        ``Certificate.to_dict()``; a ``name`` beside it is shown.
    console : rich.console.Console
        Where to print.
    """
    name = str(certificate.get("name", "the guardrail"))
    _verdict(console, certificate["verdict"], name, certificate["reason"])
    coverage, fpr, limit = certificate["coverage"], certificate["fpr"], certificate["max_fpr"]
    required = f">= {percent(certificate['min_coverage'])}"
    allowed = "no limit" if limit is None else f"<= {percent(limit)}"
    lines = [
        story.Line(
            "Caught", story.share(coverage), story.interval(coverage), required,
            f"{coverage['count']:,} of {coverage['n']:,} hallucinated",
        ),
        story.Line(
            "False alarms (FPR)", story.share(fpr), story.interval(fpr), allowed,
            f"{fpr['count']:,} of {fpr['n']:,} faithful",
        ),
    ]  # fmt: skip
    _lines(console, lines, coverage["confidence"], "On the held-out data")
    blocks.paragraph(
        console,
        f"The bounds are exact (Clopper-Pearson). Those that decide, coverage from below and the "
        f"FPR from above, hold together with {percent(certificate['confidence'])} confidence.",
    )
    if survives := promises.flips(certificate):
        blocks.paragraph(console, survives)
    if certificate.get("blocked"):
        flagged = certificate["blocked"]
        blocks.paragraph(
            console,
            f"Faithful answers flagged, not merely reviewed: {story.share(flagged)} "
            f"({story.interval(flagged)}).",
        )
    if certificate.get("risks"):
        lines = promises.risk_lines({"measured": certificate["risks"]})
        _lines(console, lines, certificate["confidence"], "The risks")
    if certificate.get("by_group"):
        _certified_groups(certificate["by_group"], console)
    step = {
        "certified": "Put this guardrail to use on answers from the same source.",
        "rejected": "Do not rely on this guardrail for what was asked; try another detector, or "
        "ask for less (--min-coverage, --max-fpr).",
    }.get(certificate["verdict"])
    if step is None and limit is None:
        step = "Say how many false alarms you accept, e.g. --max-fpr 0.2, to get a verdict."
    blocks.next_step(
        console,
        step
        or story.label_more(certificate["needed"])
        or "The requirement lies too close to what the guardrail does for more examples to settle "
        "it; ask for less (--min-coverage, --max-fpr).",
    )


def _promises(console: Console, report: _Dict) -> None:
    """Print what groups, clusters, a review and several risks add."""
    if certified := promises.flips(report["certificate"]):
        blocks.paragraph(console, certified)
    if report["by_group"]:
        print_groups(report["by_group"], console)
    if report["attainable"]:
        _attainable(report["attainable"], console)
    if report["clustering"]:
        blocks.paragraph(console, promises.clusters(report["clustering"]))
    if report["shift"]:
        blocks.bullets(console, "Production", promises.shift_sentences(report["shift"]))
    if risks := report["risks"]:
        heading = "The risks on the test part"
        _lines(console, promises.risk_lines(risks), report["confidence"], heading)
        blocks.paragraph(console, promises.risk_sentence(risks))
    if review := report["three_way"]:
        blocks.paragraph(console, promises.review_sentence(review))
        heading = "Pass, review, flag on the test part"
        _lines(console, promises.review_lines(review), report["confidence"], heading)
        if rule := promises.feasibility(review):
            blocks.paragraph(console, rule)


def _attainable(section: _Dict, console: Console) -> None:
    """Print all that a score with few distinct values can promise."""
    table = blocks.table(promises.attainable_heading(section))
    for name in ("Threshold", "Can promise", "Caught", "False alarms"):
        table.add_column(name, overflow="fold")
    for row in promises.attainable_rows(section):
        table.add_row(*(blocks.cell(cell) for cell in row))
    blocks.show(console, table)
    blocks.paragraph(console, promises.attainable_sentence(section))


def print_groups(section: _Dict, console: Console) -> None:
    """Print every group's threshold, bounds and verdict, and which groups are let down."""
    table = blocks.table(f"By {story.plain(section['column'])}")
    for name in ("Group", "Threshold"):
        table.add_column(name, overflow="fold")
    for name in ("Caught", "False alarms"):
        table.add_column(name, overflow="fold")
    table.add_column("Verdict")
    table.add_column("Caught, shared")
    for row in promises.group_rows(section):
        table.add_row(*(blocks.cell(cell) for cell in row))
    blocks.show(console, table)
    blocks.paragraph(console, promises.groups_heading(section))
    blocks.bullets(console, "Caught too few", promises.broken_groups(section), "bold red")


def _certified_groups(section: _Dict, console: Console) -> None:
    table = blocks.table(f"By {story.plain(section['column'])}")
    for name in ("Group", "Caught", "False alarms", "Verdict", "More needed"):
        table.add_column(name, overflow="fold")
    for row in promises.certified_rows(section):
        table.add_row(*(blocks.cell(cell) for cell in row))
    blocks.show(console, table)
    blocks.paragraph(
        console,
        f"Corrected for the {len(section['rows'])} groups: with "
        f"{percent(section['confidence'])} confidence no verdict among them is wrong.",
    )


def _verdict(console: Console, verdict: str, name: str, reason: str) -> None:
    head = Text()
    head.append(verdict.upper(), style=_COLOURS[verdict])
    head.append(f"  {story.plain(name)}", style="bold")
    console.print(head)
    blocks.paragraph(console, f"{story.VERDICTS[verdict]} {reason}")


def _lines(
    console: Console,
    lines: Iterable[story.Line],
    confidence: float,
    heading: str = "On the test part",
) -> None:
    table = blocks.table(heading)
    table.add_column("")
    table.add_column("Value", justify="right")
    table.add_column(f"{percent(confidence)} interval")
    table.add_column("Asked")
    table.add_column("Counts")
    for line in lines:
        cells = (line.measure, line.value, line.interval, line.asked, line.detail)
        table.add_row(*(blocks.cell(cell) for cell in cells))
    blocks.show(console, table)


def _rows(
    console: Console, heading: str, detectors: Sequence[_Dict], baselines: Sequence[_Dict]
) -> None:
    """Print detectors first, then the baselines under a rule, then why some have no numbers."""
    versus = any(item.get("auroc_difference") for item in baselines)
    table = blocks.table(heading)
    table.add_column("Score", overflow="fold", max_width=26)
    table.add_column("Threshold", justify="right")
    table.add_column("Caught", justify="right")
    table.add_column("False alarms", justify="right")
    table.add_column("AUROC", justify="right")
    if versus:
        table.add_column("Compared")
    for part, rows in (("", detectors), ("Baselines", baselines)):
        if part and rows:
            table.add_row()
            table.add_row(Text(part, style="underline"))
        for item in rows:
            cells = [str(item["name"]), *_numbers(item)]
            if versus:
                cells.append(str(story.against(item)))
            table.add_row(*(blocks.cell(cell) for cell in cells))
    blocks.show(console, table)
    missing = [item for item in (*detectors, *baselines) if item.get("reason") and _failed(item)]
    blocks.bullets(console, "Without a threshold", [f"{r['name']}: {r['reason']}" for r in missing])


def _failed(item: _Dict) -> bool:
    return item.get("fpr") is None


def _numbers(item: _Dict) -> list[str]:
    area = item.get("auroc") or {"estimate": None}
    threshold = item.get("threshold")
    return [
        "none" if threshold is None else number(threshold),
        story.share(item.get("coverage")),
        story.share(item.get("fpr")),
        "none" if area["estimate"] is None else f"{area['estimate']:.3f}",
    ]
