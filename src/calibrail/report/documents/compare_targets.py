"""What do the scores of a comparison cost at other coverages and other targets?"""

from collections.abc import Sequence
from functools import partial

from calibrail.phrases import percent
from calibrail.report.blocks import (
    Bullets,
    Cell,
    Column,
    Figure,
    Folded,
    Heading,
    Json,
    Section,
    Table,
    Text,
)
from calibrail.report.compare_figures import MOST_SERIES, coverage_svg, sweep_rows, sweep_svg
from calibrail.report.documents.compare_scores import NAME_WIDTH, confidence_percent
from calibrail.report.phrases import count_of, interval, plain, share, share_cell, threshold

_Row = Sequence[Cell | str] | Heading


def at_same_coverage(comparison: Json) -> Section | None:
    """Compare thresholds that catch the same share of the test answers."""
    matched = comparison["matched_coverage"]
    if not matched["levels"]:
        return None
    figure = None
    if any(item.get("curve") for item in comparison["detectors"][:MOST_SERIES]):
        n = len(comparison["detectors"])
        some = ""
        if n > MOST_SERIES:
            some = f", for the {MOST_SERIES} detectors with the fewest false alarms"
        figure = Figure(
            "coverage",
            partial(coverage_svg, comparison),
            f"What every coverage costs on the test answers{some}. Dashed: the target. Shaded: "
            "where the AUROC at high coverage counts.",
        )
    attainable = [
        f"{plain(item['name'])} can catch, for so many false alarms: "
        + "; ".join(f"{share(at['coverage'])} for {share(at['fpr'])}" for at in item["at"][::-1])
        + "."
        for item in matched["attainable"]
    ]
    few = "Scores with few distinct values"
    return Section(
        "At the same coverage of the test answers",
        (
            Text(
                "Calibrated thresholds catch somewhat different shares of the test answers. Here "
                "each threshold is set on the test answers themselves, so that all catch the same "
                "share, or the next one that ties allow. This describes the data; it promises "
                "nothing and decides nothing.",
                where="page",
            ),
            figure,
            *(_level(comparison, level) for level in matched["levels"]),
            Folded(few, (Bullets(few, attainable),)),
        ),
    )


def _level(comparison: Json, level: Json) -> Section:
    where = f"{percent(level['coverage'])} of the test hallucinations caught"
    if level["set_by"] is None:
        heading = f"{where} (the target)"
    else:
        setter = plain(level["set_by"])
        heading = f"{where} (the most that {setter} catches short of flagging everything)"
    columns = (
        Column("Score", most=26),
        Column("Caught", "right"),
        Column("False alarms", "right"),
        Column(f"{confidence_percent(comparison)} interval", "right", where="terminal"),
    )
    rows = [
        (
            Cell(row["name"], "baseline" if row["baseline"] else ""),
            Cell(share(row["attained"]), count_of(row["attained"])),
            share_cell(row["fpr"]),
            interval(row["fpr"]),
        )
        for row in level["rows"]
    ]
    table = Table(f"With {heading}", columns, rows)
    return Section(heading, (table,), where="page" if level["set_by"] is None else "both")


def other_targets(comparison: Json) -> Section:
    """Show what other targets would cost; a dash where they cannot be promised."""
    sweep = comparison["alpha_sweep"]
    columns = [Column(percent(1.0 - entry["alpha"]), "right") for entry in sweep]
    short: list[_Row] = []
    full: list[_Row] = []
    for name, baseline, entries in sweep_rows(comparison):
        rates = [share(entry["fpr"]) if entry and entry["fpr"] else "-" for entry in entries]
        if not baseline:
            short.append((name, *rates))
        full.append((Cell(name, "baseline" if baseline else ""), *map(_target, entries)))
    notes = [
        f"{percent(1 - entry['alpha'])} cannot be promised with n = {entry['n']:,}: "
        f"{entry['minimum_n']:,} hallucinated calibration answers are needed."
        for entry in sweep
        if not entry["rank"]
    ]
    title = "Caught and false alarms at every target"
    figure = (
        Figure("alpha_sweep", partial(sweep_svg, comparison))
        if short and comparison["detectors"]
        else None
    )
    return Section(
        "Other targets",
        (
            Text(
                "What it would cost to promise more or less. Each promise holds for one target "
                "chosen in advance, not for the best of these.",
                where="page",
            ),
            figure,
            Table(
                "False alarms if so many hallucinations are to be caught",
                (Column("Score", most=NAME_WIDTH), *columns),
                short,
                where="terminal",
            ),
            Text(f"-: {' '.join(notes)}" if notes and short else "", where="terminal"),
            *(Text(note, "muted", where="page") for note in notes),
            Folded(title, (Table(title, (Column("Promised"), *columns), full),)),
        ),
    )


def _target(entry: Json | None) -> Cell | str:
    if not entry or not entry["fpr"]:
        return "none"
    caught, limit = share(entry["coverage"]), threshold(entry["threshold"])
    return Cell(share(entry["fpr"]), f"{interval(entry['fpr'])}; caught {caught}; from {limit}")
