"""What do groups, clusters, a review and several risks add to a report, in plain words?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrail.evaluation.stats.phrases import count, number, percent
from calibrail.report.story import Line, interval, plain, share

_Dict = Mapping[str, Any]


def flips(certificate: _Dict) -> str:
    """Say how many wrong labels a certificate survives; empty where nothing is certified."""
    found = certificate.get("flips")
    if not found:
        return ""
    if found["flips"] == 0:
        return (
            "It rests on every label: a single wrong one, at the worst place, could undo it "
            f"(the requirement on {_side(found['weakest'])} has no slack)."
        )
    return (
        f"It holds up to {percent(found['share'])} flipped labels: any "
        f"{count(found['flips'], 'label')} of {found['n']:,} may be wrong, wherever they are "
        f"({_side(found['weakest'])} would be the first to fall)."
    )


def groups_heading(section: _Dict) -> str:
    """Say what the table of groups shows and at which level."""
    rows = section["rows"]
    own = sum(row["own"] for row in rows)
    shared = len(rows) - own
    text = (
        f"{count(own, 'group')} of {plain(section['column'])} with a threshold of "
        f"{'its' if own == 1 else 'their'} own (at least {section['min_n']:,} hallucinated "
        "calibration examples)"
    )
    if shared:
        source = (
            "the small groups together" if section["scope"] == "small groups" else "all examples"
        )
        text += (
            f"; {count(shared, 'other group')} under a shared threshold, made from {source}, for "
            "which nothing exact is promised"
        )
    return (
        f"{text}. Bounds are exact and corrected for the number of groups: with "
        f"{percent(section['confidence'])} confidence no verdict among them is wrong."
    )


def group_rows(section: _Dict) -> list[tuple[str, ...]]:
    """Return name, threshold, caught, false alarms, verdict, caught by one shared threshold."""
    return [
        (
            plain(row["group"]) or "(none)",
            ("" if row["own"] else "shared ")
            + ("all" if row["threshold"] is None else number(row["threshold"])),
            _with_bounds(row["coverage"]),
            _with_bounds(row["fpr"]),
            str(row["verdict"]),
            share(row["shared_coverage"]),
        )
        for row in section["rows"]
    ]


def broken_groups(section: _Dict) -> list[str]:
    """Name the groups in which a threshold catches too few, by a corrected test at 5 %."""
    said = []
    for row in section["rows"]:
        for key, what in (("", "its threshold"), ("shared_", "one shared threshold")):
            if row[f"{key}p_undercovered"] <= 0.05:
                found = row[f"{key}coverage"]
                said.append(
                    f"In {plain(row['group'])!r} {what} catches {share(found)} "
                    f"({found['count']:,} of {found['n']:,}), less than the "
                    f"{percent(row['min_coverage'])} required (Holm-adjusted p = "
                    f"{row[f'{key}p_undercovered']:.2g})."
                )
    return said


def clusters(section: _Dict) -> str:
    """Say what counting each group once changed."""
    once, naive = section["each_group_once"], section["naive"]
    return (
        f"The {count(section['n'], 'hallucinated calibration answer')} come from "
        f"{count(section['n_clusters'], 'group')} (up to {section['largest']:,} in one). Each "
        f"group counts once, so the promise is for an answer from a new group: threshold "
        f"{_threshold(once)}, {share(once['coverage'])} caught, {share(once['fpr'])} false alarms. "
        f"Taken as independent, the same answers would give {_threshold(naive)}, "
        f"{share(naive['coverage'])} caught, {share(naive['fpr'])} false alarms, with no promise."
    )


def shift_sentences(section: _Dict) -> list[str]:
    """Say how production differs, what is left of the calibration examples, and what follows."""
    area, n, effective = section["auroc"], section["n"], section["effective_n"]
    moved = section["weighted_threshold"]
    told = f"AUROC {area['estimate']:.3f}" + (
        "" if area["lower"] is None else f", {area['lower']:.3f} to {area['upper']:.3f}"
    )
    return [
        f"{count(section['n_target'], 'production answer')} can be told from the calibration "
        f"answers by {', '.join(section['features'])} with an {told} (0.5 = no difference seen).",
        *(
            ["Most production answers lie outside what was labelled; no weighting repairs that."]
            if area["estimate"] > 0.9
            else []
        ),
        f"Weighted towards production, the {count(n, 'hallucinated calibration answer')} are worth "
        f"{effective:,.0f}.",
        (
            "An answer of typical weight would always be flagged: production looks like nothing "
            "that was labelled."
            if moved is None
            else f"The threshold would move from {number(section['threshold'])} to {number(moved)}."
        )
        + " The weights are estimated, so no exact promise follows; fresh labels from production "
        "are the only proof.",
    ]


def review_sentence(section: _Dict) -> str:
    """Say where answers pass, where they are flagged and what lies between."""
    below = section["pass_below"]
    if section["by_group"]:
        return (
            "An answer passes below its group's threshold; of the others, those above "
            f"{number(section['flag_above'])} are flagged and the rest goes to review. At most "
            f"{percent(section['alpha'])} of hallucinations are to pass, and at most "
            f"{percent(section['beta'])} of faithful answers to be flagged."
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
        f"{number(section['flag_above'])}, and goes to review between the two. At most "
        f"{percent(section['alpha'])} of hallucinations are to pass, and at most "
        f"{percent(section['beta'])} of faithful answers to be flagged."
    )


def review_lines(section: _Dict) -> list[Line]:
    """Return the promises on the test part and what they cost."""
    counts = section["counts"]

    def line(name: str, value: _Dict, asked: str, detail: str) -> Line:
        return Line(name, share(value), interval(value), asked, detail)

    missed, blocked = section["missed"], section["blocked"]
    return [
        line(
            "Hallucinations that pass", missed, f"<= {percent(section['alpha'])}",
            f"{missed['count']:,} of {missed['n']:,}; {section['shown']['pass']}",
        ),
        line(
            "Faithful answers flagged", blocked, f"<= {percent(section['beta'])}",
            f"{blocked['count']:,} of {blocked['n']:,}; {section['shown']['flag']}",
        ),
        line(
            "Sent to review", section["review"], "",
            f"{counts['hallucinated']['review']:,} hallucinated, "
            f"{counts['faithful']['review']:,} faithful",
        ),
        line(
            "Hallucinated among passed", section["released_hallucinated"], "",
            f"{section['released_hallucinated']['count']:,} of "
            f"{section['released_hallucinated']['n']:,}",
        ),
    ]  # fmt: skip


def risk_lines(section: _Dict) -> list[Line]:
    """Return every risk as the test part shows it."""
    return [
        Line(
            str(item["name"]).capitalize(), share(item["test"]), interval(item["test"]),
            f"{item['relation']} {percent(item['level'])}",
            f"{item['test']['count']:,} of {item['test']['n']:,}; {item['shown']}",
        )
        for item in section["measured"]
    ]  # fmt: skip


def risk_sentence(section: _Dict) -> str:
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


def attainable_rows(section: _Dict) -> list[tuple[str, ...]]:
    """Return threshold, promise, caught and false alarms of every threshold there is."""
    return [
        (
            f"{number(step['threshold'])}{' (in use)' if step['is_used'] else ''}",
            percent(max(0.0, step["promise"])),
            _with_bounds(step["coverage"]),
            _with_bounds(step["fpr"]),
        )
        for step in reversed(section["steps"])
    ]


def attainable_heading(section: _Dict) -> str:
    """Name the table: all thresholds, or those about a gap."""
    if section["n_distinct"] > len(section["steps"]):
        return "The thresholds on either side of the target"
    return "All thresholds that this score offers"


def attainable_sentence(section: _Dict) -> str:
    """Say whether the target is among what can be promised."""
    target = percent(section["target"])
    if section["is_attainable"]:
        return f"The target of {target} is among what these thresholds can promise."
    return (
        f"No threshold promises {target} and not much more: nothing lies in between, and calibrail "
        "does not pretend that it does."
    )


def feasibility(section: _Dict) -> str:
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


def _with_bounds(value: _Dict) -> str:
    if value["estimate"] is None:
        return "none"
    return f"{share(value)} ({100 * value['lower']:.0f} to {100 * value['upper']:.0f})"


def _threshold(rule: _Dict) -> str:
    return "flags all" if rule["threshold"] is None else number(rule["threshold"])


def _side(name: str) -> str:
    return {"coverage": "coverage", "fpr": "false alarms"}[name]


def certified_rows(section: _Dict) -> list[tuple[str, ...]]:
    """Return name, caught, false alarms, verdict and needed examples of each certified group."""
    return [
        (
            plain(row["group"]) or "(none)",
            _with_bounds(row["coverage"]),
            _with_bounds(row["fpr"]),
            str(row["verdict"]),
            _needed(row["needed"]) if row["verdict"] == "inconclusive" else "",
        )
        for row in section["rows"]
    ]


def _needed(needed: _Dict) -> str:
    said = [
        f"{'?' if needed[label] is None else format(needed[label], ',')} {label}"
        for label in ("hallucinated", "faithful")
        if needed[label] != 0
    ]
    return ", ".join(said)
