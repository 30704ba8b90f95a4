"""What do groups, clusters, a review and several risks add to what a report says?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from calibrail.evaluation.stats.phrases import count, number, percent
from calibrail.report.document import (
    Block,
    Bullets,
    Cell,
    Column,
    Figure,
    Section,
    Table,
    Text,
    listing,
)
from calibrail.report.figures import MOST_GROUPS, groups_svg
from calibrail.report.phrases import (
    bounds,
    estimate,
    interval,
    measure_cell,
    plain,
    share,
    share_with_bounds,
)

_Dict = Mapping[str, Any]
#: Measure, value, interval, what was asked, counts.
Line = tuple[str, str, str, str, str]


def of_report(report: _Dict) -> Iterator[Block]:
    """Yield the sections that only some reports have."""
    confidence = report["confidence"]
    if report["by_group"]:
        yield groups(report["by_group"])
    if report["attainable"]:
        yield _attainable(report["attainable"])
    if report["clustering"]:
        yield Section("Groups that count once", (Text(_clusters(report["clustering"])),))
    if report["shift"]:
        yield listing("Production", shift_sentences(report["shift"]))
    if risks := report["risks"]:
        yield Section(
            "Several risks at once",
            (
                measures_table(
                    "The risks on the test part", risk_lines(risks["measured"]), confidence
                ),
                Text(_risk_sentence(risks)),
            ),
        )
    if review := report["three_way"]:
        yield Section(
            "Pass, review, flag",
            (
                Text(_review_sentence(review)),
                measures_table(
                    "Pass, review, flag on the test part", _review_lines(review), confidence
                ),
                Text(_feasibility(review)),
            ),
        )
    if report["confounds"]:
        yield _confounds(report["confounds"])


def measures_table(title: str, lines: Sequence[Line], confidence: float) -> Table:
    """Return measures with their intervals and what was asked."""
    columns = (
        Column("Measure", brief=""),
        Column("Value", "right"),
        Column(f"{percent(confidence)} interval"),
        Column("Asked"),
        Column("Counts"),
    )
    return Table(title, columns, [(*line[:4], Cell(line[4], style="muted")) for line in lines])


def share_line(name: str, value: _Dict, asked: str, detail: str) -> Line:
    """Return a share as a line of a table of measures."""
    return (name, share(value), interval(value), asked, detail)


def rates(coverage: _Dict, fpr: _Dict, min_coverage: float, max_fpr: float | None) -> list[Line]:
    """Return what is caught and what is wrongly flagged, beside what was asked."""
    limit = "no limit" if max_fpr is None else f"<= {percent(max_fpr)}"
    return [
        share_line(
            "Caught",
            coverage,
            f">= {percent(min_coverage)}",
            f"{coverage['count']:,} of {coverage['n']:,} hallucinated",
        ),
        share_line("False alarms (FPR)", fpr, limit, f"{fpr['count']:,} of {fpr['n']:,} faithful"),
    ]


def measures(report: _Dict) -> list[Line]:
    """Return the measures of the test part: value, interval, what was asked, counts."""
    test = report["test"]
    accuracy = test["accuracy"]
    return [
        *rates(test["coverage"], test["fpr"], report["min_coverage"], report["max_fpr"]),
        share_line("Accuracy", accuracy, "", f"{accuracy['count']:,} of {accuracy['n']:,}"),
        _measure("AUROC", test["auroc"], "0.5 = guessing, 1 = perfect"),
        _measure("Overlap", test["overlap"], "1 = same, 0 = separate"),
    ]


def details_table(report: _Dict) -> Table:
    """Return the measures that specialists ask for."""
    test = report["test"]
    lines = [
        _measure("Overlap across medians", test["median_overlap"], "0.5 = same, 0 = separate"),
        _measure("Cohen's d", test["cohens_d"], "in pooled standard deviations"),
    ]
    for label in ("hallucinated", "faithful"):
        stats = test["means"][label]
        mean = "none" if stats["mean"] is None else number(stats["mean"])
        sd = "" if stats["sd"] is None else f"SD {number(stats['sd'])}, "
        lines.append((f"Mean score, {label}", mean, "", "", f"{sd}n = {stats['n']:,}"))
    welch = test["welch"]
    if welch["statistic"] is None:
        lines.append(("Welch's t", "none", "", "", welch["reason"]))
    else:
        detail = f"df = {welch['df']:.1f}, p = {welch['p_value']:.2g}"
        lines.append(("Welch's t", number(welch["statistic"]), "", "", detail))
    if band := test["coverage_band"]:
        place = "inside" if band["inside"] else "outside"
        span = f"{band['lowest']:,} to {band['highest']:,}"
        detail = f"of {band['n']:,}; observed lies {place}"
        lines.append(("Caught, expected range", span, "", "", detail))
    columns = (Column("Measure"), Column("Value", "right"), Column("About it"))
    rows = [(line[0], Cell(line[1], line[2]), Cell(line[4], style="muted")) for line in lines]
    return Table("More measures", columns, rows)


def _measure(name: str, value: _Dict, detail: str) -> Line:
    if value["estimate"] is None:
        return (name, "none", "", "", plain(value["reason"]))
    return (name, estimate(value), bounds(value), "", detail)


def flips(certificate: _Dict) -> str:
    """Say how many wrong labels a certificate survives; empty where nothing is certified."""
    survived = certificate.get("flips")
    if not survived:
        return ""
    side = {"coverage": "coverage", "fpr": "false alarms"}[survived["weakest"]]
    if survived["flips"] == 0:
        return (
            "It rests on every label: a single wrong one, at the worst place, could undo it "
            f"(the requirement on {side} has no slack)."
        )
    return (
        f"It holds up to {percent(survived['share'])} flipped labels: any "
        f"{count(survived['flips'], 'label')} of {survived['n']:,} may be wrong, wherever they are "
        f"({side} would be the first to fall)."
    )


def groups(section: _Dict) -> Section:
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
        (
            Column("Group"),
            Column("Threshold"),
            Column("Caught"),
            Column("False alarms"),
            Column("Verdict"),
            Column("Caught, shared"),
        ),
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


def _groups_sentence(section: _Dict) -> str:
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


def _broken_groups(section: _Dict) -> list[str]:
    """Name the groups in which a threshold catches too few, by a corrected test at 5 %."""
    sentences = []
    for row in section["rows"]:
        for key, what in (("", "its threshold"), ("shared_", "one shared threshold")):
            p, coverage = row[f"{key}p_undercovered"], row[f"{key}coverage"]
            if p <= 0.05:
                sentences.append(
                    f"In {plain(row['group'])!r} {what} catches {share(coverage)} "
                    f"({coverage['count']:,} of {coverage['n']:,}), less than the "
                    f"{percent(row['min_coverage'])} required (Holm-adjusted p = {p:.2g})."
                )
    return sentences


def _clusters(section: _Dict) -> str:
    """Say what counting each group once changed."""

    def effect(rule: _Dict) -> str:
        return f"{share(rule['coverage'])} caught, {share(rule['fpr'])} false alarms"

    def limit(rule: _Dict) -> str:
        return "flags all" if rule["threshold"] is None else number(rule["threshold"])

    once, naive = section["each_group_once"], section["naive"]
    return (
        f"The {count(section['n'], 'hallucinated calibration answer')} come from "
        f"{count(section['n_clusters'], 'group')} (up to {section['largest']:,} in one). Each "
        f"group counts once, so the promise is for an answer from a new group: threshold "
        f"{limit(once)}, {effect(once)}. Taken as independent, the same answers would give "
        f"{limit(naive)}, {effect(naive)}, with no promise."
    )


def shift_sentences(section: _Dict) -> list[str]:
    """Say how production differs, what is left of the calibration examples, and what follows."""
    area, moved = section["auroc"], section["weighted_threshold"]
    span = "" if area["lower"] is None else f", {bounds(area)}"
    answers = count(section["n"], "hallucinated calibration answer")
    return [
        f"{count(section['n_target'], 'production answer')} can be told from the calibration "
        f"answers by {', '.join(section['features'])} with an AUROC {estimate(area)}{span} "
        "(0.5 = no difference seen).",
        *(
            ["Most production answers lie outside what was labelled; no weighting repairs that."]
            if area["estimate"] > 0.9
            else []
        ),
        f"Weighted towards production, the {answers} are worth {section['effective_n']:,.0f}.",
        (
            "An answer of typical weight would always be flagged: production looks like nothing "
            "that was labelled."
            if moved is None
            else f"The threshold would move from {number(section['threshold'])} to {number(moved)}."
        )
        + " The weights are estimated, so no exact promise follows; fresh labels from production "
        "are the only proof.",
    ]


def _review_sentence(section: _Dict) -> str:
    """Say where answers pass, where they are flagged and what lies between."""
    below = section["pass_below"]
    promises = (
        f"At most {percent(section['alpha'])} of hallucinations are to pass, and at most "
        f"{percent(section['beta'])} of faithful answers to be flagged."
    )
    if section["by_group"]:
        return (
            "An answer passes below its group's threshold; of the others, those above "
            f"{number(section['flag_above'])} are flagged and the rest goes to review. {promises}"
        )
    if below is None:
        return "No answer passes: there were too few hallucinated calibration examples."
    if not section["needs_review"]:
        return (
            f"An answer passes below {number(below)} and is flagged from there on: one threshold "
            "keeps both promises, and nothing needs review."
        )
    return (
        f"An answer passes below {number(below)}, is flagged above "
        f"{number(section['flag_above'])}, and goes to review between the two. {promises}"
    )


def _review_lines(section: _Dict) -> list[Line]:
    """Return the promises on the test part and what they cost."""
    counts = section["counts"]
    missed, blocked = section["missed"], section["blocked"]
    passed = section["released_hallucinated"]
    return [
        share_line(
            "Hallucinations that pass",
            missed,
            f"<= {percent(section['alpha'])}",
            f"{missed['count']:,} of {missed['n']:,}; {section['shown']['pass']}",
        ),
        share_line(
            "Faithful answers flagged",
            blocked,
            f"<= {percent(section['beta'])}",
            f"{blocked['count']:,} of {blocked['n']:,}; {section['shown']['flag']}",
        ),
        share_line(
            "Sent to review",
            section["review"],
            "",
            f"{counts['hallucinated']['review']:,} hallucinated, "
            f"{counts['faithful']['review']:,} faithful",
        ),
        share_line(
            "Hallucinated among passed", passed, "", f"{passed['count']:,} of {passed['n']:,}"
        ),
    ]


def _feasibility(section: _Dict) -> str:
    """Say what share any detector has to withhold at the base rate seen."""
    least = section["least_withheld"]
    if least <= 0.0:
        return ""
    return (
        f"{percent(section['base_rate'])} of the test answers are hallucinated. To release answers "
        f"of which at most {percent(section['alpha'])} are, ANY detector, even a perfect one, has "
        f"to withhold at least {percent(least)} of them; this one withholds "
        f"{share(section['withheld'])}. (That share among the released is not promised here.)"
    )


def risk_lines(measured: Sequence[_Dict]) -> list[Line]:
    """Return every risk as the test part shows it."""
    return [
        share_line(
            str(item["name"]).capitalize(),
            item["test"],
            f"{item['relation']} {percent(item['level'])}",
            f"{item['test']['count']:,} of {item['test']['n']:,}; {item['shown']}",
        )
        for item in measured
    ]


def _risk_sentence(section: _Dict) -> str:
    """Say how the threshold was chosen among the valid ones."""
    learn = (
        f" {section['n_learn']:,} calibration examples chose the candidates and their order."
        if section["n_learn"]
        else ""
    )
    return (
        f"Valid are {section['n_valid']:,} of {len(section['candidates']):,} candidate thresholds "
        f"(Learn then Test, {section['method'].replace('_', ' ')}, "
        f"{section['n_hallucinated']:,} hallucinated and {section['n_faithful']:,} faithful "
        f"examples).{learn} Chosen is {section['rule']}."
    )


def _attainable(section: _Dict) -> Section:
    """Show all that a score with few distinct values can promise."""
    title = "All thresholds that this score offers"
    if section["n_distinct"] > len(section["steps"]):
        title = "The thresholds on either side of the target"
    target = percent(section["target"])
    sentence = (
        f"The target of {target} is among what these thresholds can promise."
        if section["is_attainable"]
        else f"No threshold promises {target} and not much more: nothing lies in between, and "
        "calibrail does not pretend that it does."
    )
    names = ("Threshold", "Can promise", "Caught", "False alarms")
    rows = [
        (
            f"{number(step['threshold'])}{' (in use)' if step['is_used'] else ''}",
            percent(max(0.0, step["promise"])),
            share_with_bounds(step["coverage"]),
            share_with_bounds(step["fpr"]),
        )
        for step in reversed(section["steps"])
    ]
    return Section(title, (Table(title, [Column(name) for name in names], rows), Text(sentence)))


def _confounds(section: _Dict) -> Section:
    """Show how trivial baselines rank beside the score."""
    columns = (
        Column("Baseline"),
        Column("AUROC", "right"),
        Column("Ranks the answers"),
        Column("Spearman with the score", "right"),
    )
    rows: list[Sequence[Cell | str]] = [
        (Cell("this score", style="strong"), measure_cell(section["auroc"]), "", "")
    ]
    rows += [
        (
            row["name"],
            measure_cell(row["auroc"]),
            Cell(row["ranks"] or "cannot tell", "turned round" if row["reversed"] else ""),
            measure_cell(row["spearman"], 2),
        )
        for row in section["rows"]
    ]
    return Section(
        "Could something plainer explain it?",
        (
            Text(section["finding"]),
            Table(
                f"Baselines beside the score, on the {section['n']:,} test answers", columns, rows
            ),
            Text(
                "A baseline reads no meaning. Where one ranks as well as a detector, the detector "
                "has not been shown to do more than it; where the two go together closely, what "
                "the detector finds may be just that.",
                "muted",
            ),
        ),
        where="page",
    )
