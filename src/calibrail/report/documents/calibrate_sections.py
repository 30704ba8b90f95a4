"""What do attainable thresholds, clusters, production, risks and confounds add to a report?"""

from collections.abc import Iterator, Sequence

from calibrail.phrases import count, number, percent
from calibrail.report.blocks import Block, Cell, Column, Json, Section, Table, Text, listing, texts
from calibrail.report.documents.calibrate_groups import groups
from calibrail.report.documents.calibrate_review import review
from calibrail.report.documents.measures import measures_table, risk_lines
from calibrail.report.phrases import bounds, estimate, measure_cell, share, share_with_bounds


def of_report(report: Json) -> Iterator[Block]:
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
    if report["three_way"]:
        yield review(report["three_way"], confidence)
    if report["confounds"]:
        yield _confounds(report["confounds"])


def _clusters(section: Json) -> str:
    """Say what counting each group once changed."""

    def effect(rule: Json) -> str:
        return f"{share(rule['coverage'])} caught, {share(rule['fpr'])} false alarms"

    def limit(rule: Json) -> str:
        return "flags all" if rule["threshold"] is None else number(rule["threshold"])

    once, naive = section["each_group_once"], section["naive"]
    return (
        f"The {count(section['n'], 'hallucinated calibration answer')} come from "
        f"{count(section['n_clusters'], 'group')} (up to {section['largest']:,} in one). Each "
        f"group counts once, so the promise is for an answer from a new group: threshold "
        f"{limit(once)}, {effect(once)}. Taken as independent, the same answers would give "
        f"{limit(naive)}, {effect(naive)}, with no promise."
    )


def shift_sentences(section: Json) -> list[str]:
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


def _risk_sentence(section: Json) -> str:
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


def _attainable(section: Json) -> Section:
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
    return Section(title, (Table(title, texts(*names), rows), Text(sentence)))


def _confounds(section: Json) -> Section:
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
