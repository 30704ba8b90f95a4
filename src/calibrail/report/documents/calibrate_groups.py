"""What does every group of a report show?"""

from functools import partial

from calibrail.phrases import count, number, percent
from calibrail.report.blocks import Bullets, Figure, Json, Section, Table, Text, texts
from calibrail.report.figures import MOST_GROUPS, groups_svg
from calibrail.report.phrases import count_of, plain, share, share_with_bounds


def groups(section: Json) -> Section:
    """Show every group's threshold, bounds and verdict, and which groups are let down."""
    rows, column = section["rows"], plain(section["column"])

    first = f" The first {MOST_GROUPS} groups; the table has all." * (len(rows) > MOST_GROUPS)
    figure = Figure(
        "groups",
        partial(groups_svg, section),
        "What is caught and what is wrongly flagged in each group. Dashed: what was asked." + first,
    )
    table = Table(
        f"By {column}",
        texts("Group", "Threshold", "Caught", "False alarms", "Verdict", "Caught, shared"),
        [
            (
                plain(row["group"]) or "(none)",
                ("" if row["own"] else "shared ")
                + ("all" if row["threshold"] is None else number(row["threshold"])),
                share_with_bounds(row["coverage"]),
                share_with_bounds(row["fpr"]),
                str(row["verdict"]),
                share(row["shared_coverage"]),
            )
            for row in rows
        ],
    )
    return Section(
        f"By {column}",
        (
            figure if rows else None,
            table,
            Text(_groups_sentence(section)),
            Bullets("Caught too few", _broken_groups(section), style="bad"),
        ),
    )


def _groups_sentence(section: Json) -> str:
    """Say what the table of groups shows and at which level."""
    rows = section["rows"]
    alone = sum(row["own"] for row in rows)
    others = len(rows) - alone
    text = (
        f"{count(alone, 'group')} of {plain(section['column'])} with a threshold of "
        f"{'its' if alone == 1 else 'their'} own (at least {section['min_n']:,} hallucinated "
        "calibration examples)"
    )
    if others:
        small = section["scope"] == "small groups"
        source = "the small groups together" if small else "all examples"
        text += (
            f"; {count(others, 'other group')} under a shared threshold, made from {source}, for "
            "which nothing exact is promised"
        )
    return (
        f"{text}. Bounds are exact and corrected for the number of groups: with "
        f"{percent(section['confidence'])} confidence no verdict among them is wrong."
    )


def _broken_groups(section: Json) -> list[str]:
    """Name the groups in which a threshold catches too few, by a corrected test at 5 %."""
    sentences = []
    for row in section["rows"]:
        for key, what in (("", "its threshold"), ("shared_", "one shared threshold")):
            p, coverage = row[f"{key}p_undercovered"], row[f"{key}coverage"]
            if p <= 0.05:
                sentences.append(
                    f"In {plain(row['group'])!r} {what} catches {share(coverage)} "
                    f"({count_of(coverage)}), less than the "
                    f"{percent(row['min_coverage'])} required (Holm-adjusted p = {p:.2g})."
                )
    return sentences
