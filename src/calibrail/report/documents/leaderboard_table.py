"""How do the rows of a leaderboard stand in a table?"""

from collections.abc import Mapping
from typing import Final

from calibrail.phrases import duration, percent
from calibrail.report import blocks as parts
from calibrail.report.blocks import Json
from calibrail.report.phrases import (
    bounds,
    estimate,
    interval,
    named,
    p_value,
    plain,
    share,
    threshold,
)

#: What weakens a row: in a few words, and in a sentence.
MARKS: Final = {
    "fitted": (
        "fitted here",
        "Scores were fitted, or heads, prompts or members chosen, on these very labels: what they "
        "cost elsewhere is not known.",
    ),
    "selected": (
        "selected data",
        "The answers were selected because these or sibling detectors disagreed about their "
        "sources: rates on hard cases, not on everyday traffic.",
    ),
    "judged": (
        "labels by a model",
        "A model made or chose the labels: what people would say is not known.",
    ),
    "few_groups": (
        "few groups",
        "Fewer than 50 independent test answers of a class, each group counting once: wide "
        "intervals, and thresholds that other groups may move far.",
    ),
    "few_answers": (
        "few answers",
        "Fewer than 50 test answers of a class: wide intervals, and thresholds that other answers "
        "may move far.",
    ),
    "assumed_independent": (
        "assumed independent",
        "Every answer counts, though some share a group: an assumption that the data contradicts.",
    ),
    "further_look": (
        "looked at before",
        "The answers were looked at before, so that nothing is certified on them.",
    ),
    "rows_alike": (
        "rows alike",
        "Many rows are the same as another one and nothing tells copies from chance, so that "
        "nothing is certified on them.",
    ),
}

#: Those that no comparison knows.
USER_MARKS: Final = ("fitted", "selected", "judged")

_STATES: Final = {
    "flags_all": ("cannot", "flags every answer"),
    "failed": ("none", "not calibrated"),
}
_SEPARATED: Final = {
    "fewer": ("good", "fewer"),
    "more": ("bad", "more"),
    "no": ("", "not separated"),
}


def table(item: Json, shared: list[str], seconds: Mapping[str, float]) -> parts.Table:
    """Return a data set's rows for the page, without the marks that all of them share."""
    rows, targets = item["rows"], item["rows"][0]["targets"]
    has = {
        "shipped": any(row["shipped"] for row in rows),
        "against": any(row["against"] for row in rows),
        "undefined": any(row["n_undefined"] for row in rows),
        "seconds": bool(seconds),
    }
    columns = [parts.Column("Detector")]
    columns += parts.numbers("Shipped threshold") if has["shipped"] else []
    columns += parts.numbers("AUROC")
    for target in targets:
        at = percent(target["coverage"])
        columns += parts.numbers(f"False alarms at {at}", f"Caught, {at} promised")
        columns += parts.numbers(f"Certified limit at {at}")
    columns += parts.numbers("Against best baseline") if has["against"] else []
    columns += parts.numbers("Undefined") if has["undefined"] else []
    columns += parts.numbers("1,000 answers") if has["seconds"] else []

    def cells(row: Json) -> parts.Row:
        taken = seconds.get(row["name"])
        about = ["higher = faithful"] if row["higher"] == "faithful" else []
        about += [MARKS[mark][0] for mark in row["marks"] if mark not in shared]
        line = [parts.Cell(named(row["name"]), ", ".join(about), href=item["page"] or "")]
        line += [_shipped(row)] if has["shipped"] else []
        line += [parts.Cell(estimate(row["auroc"]), bounds(row["auroc"]) if row["auroc"] else "")]
        for target in row["targets"]:
            line += _target(target, row)
        line += [_against(row)] if has["against"] else []
        line += [parts.Cell(f"{row['n_undefined']:,}")] if has["undefined"] else []
        time = "" if taken is None else duration(taken)
        line += [parts.Cell(time, value=taken)] if has["seconds"] else []
        return line

    detectors = [cells(row) for row in rows if not row["baseline"]]
    baselines = [cells(row) for row in rows if row["baseline"]]
    body: list[parts.Row] = [*detectors]
    if baselines:
        body += [parts.Heading("Baselines"), *baselines]
    return parts.Table(f"Detectors on {item['name']}", columns, body, where="page", sortable=True)


def brief_table(item: Json) -> parts.Table:
    """Return what fits a terminal."""
    targets = item["rows"][0]["targets"]
    columns = [parts.Column("Detector", most=26)]
    for target in targets:
        at = percent(target["coverage"])
        columns += parts.numbers(f"FPR at {at}", "Certified")
    columns += [parts.Column("Against baseline"), parts.Column("Marks", most=24)]
    rows: list[parts.Row] = []
    for row in item["rows"]:
        line = [parts.Cell(named(row["name"]))]
        for target in row["targets"]:
            fpr, _, limit = _target(target, row)
            line += [fpr, limit]
        separated = "" if row["against"] is None else _SEPARATED[row["against"]["separated"]][1]
        words = ", ".join(MARKS[mark][0] for mark in row["marks"])
        if row["baseline"] and not any(isinstance(r, parts.Heading) for r in rows):
            rows.append(parts.Heading("Baselines"))
        rows.append([*line, parts.Cell(separated), parts.Cell(words)])
    return parts.Table(item["name"], columns, rows, where="terminal")


def _shipped(row: Json) -> parts.Cell:
    known = row["shipped"]
    if known is None:
        return parts.Cell("")
    below = f"catches {share(known['caught'])} ({interval(known['caught'])}), false alarms "
    below += f"{share(known['fpr'])} ({interval(known['fpr'])})"
    return parts.Cell(threshold(known["threshold"]), below)


def _target(target: Json, row: Json) -> list[parts.Cell]:
    """Return false alarms, the share caught and the certified limit at one target."""
    state = target["state"]
    if state == "failed" and row["reason"]:
        return [parts.Cell("none", plain(row["reason"]), "bad"), parts.Cell("-"), parts.Cell("-")]
    if state == "few_labels":
        below = f"takes {target['needed']:,} to calibrate"
        return [parts.Cell("-", below, "muted"), parts.Cell("-"), parts.Cell("-")]
    if state in _STATES:
        text, below = _STATES[state]
        return [parts.Cell(text, below, "bad"), parts.Cell("-"), parts.Cell("-")]
    limit = parts.Cell("none", style="muted")
    if target["limit"] is not None:
        limit = parts.Cell(
            f"<= {percent(target['limit'])}", f"{percent(target['confidence'])} confidence"
        )
    fpr, caught = target["fpr"], target["caught"]
    sign = "<=" if row["higher"] == "faithful" else ">="
    flagged = f"flags {sign} {threshold(target['threshold'])}"
    return [
        parts.Cell(share(fpr), f"{interval(fpr)}; {flagged}"),
        parts.Cell(share(caught), interval(caught)),
        limit,
    ]


def _against(row: Json) -> parts.Cell:
    against = row["against"]
    if against is None or against["difference"] is None:
        return parts.Cell("")
    style, word = _SEPARATED[against["separated"]]
    gap = f"{100 * against['difference']:+.1f} points"
    ends = f"{100 * against['lower']:+.1f} to {100 * against['upper']:+.1f}"
    below = f"{ends}, {p_value(against['p_adjusted'])}; {word}, {plain(against['name'])}"
    return parts.Cell(gap, below, style)  # type: ignore[arg-type]
