"""What does a leaderboard say about detectors on several data sets, in words and in tables?"""

import re
import shlex
from collections.abc import Mapping
from functools import partial
from typing import Final

from calibrail.formatting import (
    Scale,
    count,
    duration,
    floor_percent,
    listed,
    percent,
    upper_percent,
)
from calibrail.options.guarantee import OF_THIS_THRESHOLD
from calibrail.report import document as parts
from calibrail.report.document import Document, Json
from calibrail.report.text import (
    bounds,
    estimate,
    interval,
    named,
    p_value,
    plain,
    share,
)

from .figures import best_known, cost_svg, forest_svg, shipped_svg

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
    heads = ["Detector"]
    heads += [">Shipped threshold"] if has["shipped"] else []
    heads += [">AUROC"]
    for target in targets:
        at = percent(target["coverage"])
        heads += [f">False alarms at {at}", f">Caught, {at} promised", f">Certified limit at {at}"]
    heads += [f">{_head(item)}"] if has["against"] else []
    heads += [">Undefined"] if has["undefined"] else []
    heads += [">1,000 answers"] if has["seconds"] else []

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
    return parts.table(f"Detectors on {item['name']}", heads, body, where="page", sortable=True)


def _base(item: Json) -> str | None:
    """Return the detector that the others of a data set were made of, if they were."""
    against = {row["against"]["name"] for row in item["rows"] if row["against"]}
    return next((row["name"] for row in _own(item) if row["name"] in against), None)


def _head(item: Json) -> str:
    base = _base(item)
    return "Against best baseline" if base is None else f"Against {named(base)}"


def _own(item: Json) -> list[Json]:
    return [row for row in item["rows"] if not row["baseline"]]


def brief_table(item: Json) -> parts.Table:
    """Return what fits a terminal."""
    targets = item["rows"][0]["targets"]
    heads: list[str | parts.TableColumn] = [parts.TableColumn("Detector", most=26)]
    for target in targets:
        at = percent(target["coverage"])
        heads += [f">FPR at {at}", ">Certified"]
    heads += ["Compared", parts.TableColumn("Marks", most=24)]
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
    return parts.table(item["name"], heads, rows, where="terminal")


def _shipped(row: Json) -> parts.Cell:
    known = row["shipped"]
    if known is None:
        return parts.Cell("")
    below = f"catches {share(known['caught'])} ({interval(known['caught'])}), false alarms "
    below += f"{share(known['fpr'])} ({interval(known['fpr'])})"
    return parts.Cell(Scale().text(known["threshold"]), below)


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
            f"<= {upper_percent(target['limit'])}",
            f"{floor_percent(target['confidence'])} confidence",
        )
    fpr, caught = target["fpr"], target["caught"]
    sign = "<=" if row["higher"] == "faithful" else ">="
    scale = Scale(negated=row["higher"] == "faithful")
    flagged = f"flags {sign} {scale.cell(scale.shown(target['threshold']))}"
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


def document(board: Json, costs: Mapping[str, Mapping[str, float]] | None = None) -> Document:
    """Return what a leaderboard says.

    Parameters
    ----------
    board : mapping
        The content of ``leaderboard.json``.
    costs : mapping of str to mapping of str to float, optional
        Seconds per 1,000 answers, by data set and score; measured, so only the page shows them.
    """
    sets = board["data_sets"]
    coverages = [percent(item["coverage"]) for item in sets[0]["rows"][0]["targets"]]
    return Document(
        "leaderboard",
        subject=board["title"],
        headline=_headline(board),
        summary=_summary(board),
        blocks=(
            parts.section(
                f"As shipped, and at {coverages[0]} caught",
                parts.Figure(
                    "shipped",
                    partial(shipped_svg, board),
                    "Every detector that ships a threshold, on its largest data set: how many "
                    "hallucinations that threshold catches, and how many faithful answers are "
                    f"flagged at the one calibrated to catch {coverages[0]} (dashed). Hollow, at "
                    f"100%: it cannot be set to that.{_hard_cases(sets)}",
                ),
                where="page",
            )
            if best_known(board)
            else None,
            *(_data_set(item, board, (costs or {}).get(item["name"], {})) for item in sets),
            parts.listing("How to read it", _how_to_read(board, coverages), where="page"),
            _add_your_own(board),
        ),
        next_step="Look at the detector that you would use on the data that is most like yours, "
        "and calibrate it on your own answers (calibrail calibrate).",
        footer="Every number on this page but the measured times is in leaderboard.json and "
        "leaderboard.csv; the figures are in figures/.",
        wide=True,
    )


def _hard_cases(sets: list[Json]) -> str:
    """Say which data sets hold hard cases alone."""
    named = [
        plain(item["name"])
        for item in sets
        if all("selected" in row["marks"] for row in item["rows"] if not row["baseline"])
    ]
    return f" Hard cases, selected for disagreement: {listed(named)}." if named else ""


def _detectors(board: Json) -> list[Json]:
    return [row for item in board["data_sets"] for row in _own(item)]


def _headline(board: Json) -> str:
    rows = [(_base(item) is not None, row) for item in board["data_sets"] for row in _own(item)]
    said = []
    for based, what in ((False, "a trivial baseline"), (True, "the detector they were made of")):
        tests = [row["against"] for own, row in rows if own is based and row["against"]]
        ahead = sum(test["separated"] == "fewer" for test in tests)
        if tests:
            said.append(f"{ahead} of {count(len(tests), 'row')} beat {what}")
    if said:
        return f"{'; '.join(said)} (fewer false alarms where as much is caught, beyond chance)"
    return f"{count(len(rows), 'row')} without a baseline beside them"


def _summary(board: Json) -> str:
    rows = _detectors(board)
    states = [row["targets"][0]["state"] for row in rows]
    coverage, few = percent(rows[0]["targets"][0]["coverage"]), states.count("few_labels")
    return (
        f"{count(len(rows), 'row')} on {count(len(board['data_sets']), 'data set')}; "
        f"{states.count('flags_all')} of them cannot be set to {coverage} caught at all, since too "
        "many hallucinations share their lowest score."
        + f" For {few} there are too few labels to promise that."
        * bool(few)
    )


def _data_set(item: Json, board: Json, seconds: Mapping[str, float]) -> parts.Section:
    rows, detectors = item["rows"], _own(item)
    number, coverage = (
        board["data_sets"].index(item) + 1,
        percent(rows[0]["targets"][0]["coverage"]),
    )
    shared = [
        mark for mark in MARKS if detectors and all(mark in row["marks"] for row in detectors)
    ]
    own = [mark for mark in MARKS if mark not in shared and any(mark in r["marks"] for r in rows)]
    warned = [
        *(parts.Bullet(MARKS[mark][1], f"All rows: {MARKS[mark][0]}") for mark in shared),
        *(parts.Bullet(MARKS[mark][1], MARKS[mark][0].capitalize()) for mark in own),
    ]
    hard = "On hard cases, see above. " if "selected" in shared else ""
    caption = (
        f"{hard}What each share of caught hallucinations costs in false alarms, on the test "
        f"answers that choose. Shaded: where the curves of the first {_SHADED} detectors lie with "
        f"{percent(board['confidence'])} confidence, at every threshold at once. Points: the best "
        f"baseline.{' Crosses: shipped thresholds.' * any(row['shipped'] for row in rows)}"
    )
    return parts.section(
        item["name"],
        parts.Text(plain(item["note"])),
        parts.Text(_answers(item, board)),
        parts.Bullets("", warned, "warning", where="page"),
        parts.Figure(
            f"rows-{number}",
            partial(forest_svg, item),
            f"Faithful answers flagged at {coverage} caught, with {percent(board['confidence'])} "
            "intervals. A bar to the right: the smallest limit that is certified. Grey: the best "
            f"baseline. Hollow, at 100%: the detector cannot be set to {coverage}.",
        )
        if rows[0]["targets"][0]["state"] != "few_labels"
        else None,
        parts.folded(
            "All numbers, and what each share caught costs",
            table(item, shared, seconds),
            parts.Figure(f"data-{number}", partial(cost_svg, item, _SHADED), caption),
        ),
        brief_table(item),
        parts.folded(
            "Compare this data set, with a column of your own",
            parts.Code(item["command"] + " --score-column YOURS"),
        ),
    )


_SHADED: Final = 2
#: In a checkout of calibrail.
_COMMAND: Final = ("python", "-m", "benchmarks.leaderboard")


def _errs(board: Json) -> bool:
    """Return whether the promise of all rows fails with a probability of its own."""
    return board["guarantee"] in OF_THIS_THRESHOLD


def _answers(item: Json, board: Json) -> str:
    """Say how many answers there are, and what sets and tests the thresholds."""
    n_test = item["n_test"]
    groups = f" in {count(item['n_groups'], 'group')}" if item["counted"] == "groups" else ""
    independent = "independent " if groups else ""
    promise = f", delta {board['delta']:g}" if _errs(board) and board["delta"] is not None else ""
    return (
        f"{count(item['n_examples'], 'labelled answer')}, {item['n_hallucinated']:,} hallucinated. "
        f"{item['n_calibration']:,} hallucinated answers{groups} set every threshold (guarantee: "
        f"{board['guarantee']}{promise}); {n_test['hallucinated']:,} hallucinated and "
        f"{n_test['faithful']:,} faithful {independent}answers test it, the half of the test part "
        "that chooses."
    )


def _how_to_read(board: Json, coverages: list[str]) -> list[str]:
    level = percent(board["confidence"])
    joint = next(
        (
            floor_percent(target["confidence"])
            for row in _detectors(board)
            for target in row["targets"]
            if target["confidence"] is not None
        ),
        level,
    )
    return [
        f"False alarms at {listed(coverages)}: each detector's threshold was calibrated to catch "
        f"that share under the guarantee named, and tested on answers that had no part in it: the "
        "half of the test part that chooses, as on the comparison's own page. The other half is "
        "for whoever a comparison names the winner, and no row of this page has seen it. "
        f"Intervals are Wilson's at {level}, of each row by itself.",
        "Where answers share a source, thresholds count each source once, and one answer of each "
        "source and class tests them.",
        f"Certified limit: with {joint} confidence the threshold catches what is promised and "
        "flags at most this share of faithful answers. This holds for one row that is named in "
        "advance, and not for the lowest limit of a table: whoever picks that row certifies it on "
        "fresh answers. None where the test answers do not show the coverage, or contradict it.",
        "Cannot: so many hallucinations share the detector's lowest score that only a threshold "
        "that flags every answer catches enough of them. A yes/no judge that misses a third cannot "
        f"be set to catch {coverages[0]}, whatever is paid for it.",
        "Against best baseline, or the base model that a detector was made of: the test of the "
        "comparison's own page, on the answers of the rest of the row and those that calibrated, "
        "every score set at the same rank among the hallucinated ones, which catches at least what "
        "is promised. So it may point the other way than two rates of the table. The baseline is "
        "the one with the fewest false alarms there (answer length, words that are not in the "
        "contexts, ...); that it was picked makes fewer hard to show, and more too easy; a base "
        "model is named beforehand. p-values are corrected for all rows of this page together "
        "(Holm), so they grow with rows that are added.",
        "Shipped threshold: the one that the detector's authors recommend or use, on the same "
        "answers; a value equal to it is flagged. Empty where none is known.",
    ]


def _add_your_own(board: Json) -> parts.Section:
    sets = board["data_sets"]
    delta = f" --delta {board['delta']:g}" if _errs(board) else ""
    promise = f"--alpha 0.1 --guarantee {board['guarantee']}{delta}"
    return parts.section(
        "Add your own column",
        parts.Text(
            "Write one line an answer into a file: its label (1 = hallucinated), the score, and "
            "what it shares with others (the question, the source), if anything. Texts are not "
            "needed; with them trivial baselines stand beside the detector. For example mine.csv:"
        ),
        parts.Code("id,group,label,my_score\n1,q1,0,0.12\n2,q1,1,0.87"),
        parts.Text("Then compare it, and make a page of it in a checkout of calibrail:"),
        parts.Code(
            "calibrail compare mine.csv --score-column my_score --higher hallucinated "
            f"--group-column group {promise} -o runs/mine\n"
            "python -m benchmarks.leaderboard Mine=runs/mine -o page/"
        ),
        parts.Text(
            "To stand beside the rows of this page, make its comparisons, each by the command that "
            "stands folded below its table, and the page with all of them:"
        ),
        parts.Code(shlex.join([*_COMMAND, "Mine=runs/mine", *_words(sets)])),
        where="page",
    )


def _words(sets: list[Json]) -> list[str]:
    """Return the runs of a page, and what it was told of them, as on a command line."""
    words, told = [], []
    for number, item in enumerate(sets, 1):
        given = re.search(r" (?:-o|--output) (\S+)", item["command"])
        words.append(f"{item['name']}={given[1] if given else f'runs/{number}'}")
        told += ["--note", f"{item['name']}={item['note']}"] if item["note"] else []
        rows = [row for row in item["rows"] if not row["baseline"]]
        for mark in USER_MARKS:
            marked = [row["name"] for row in rows if mark in row["marks"]]
            names = [item["name"]] if len(marked) == len(rows) else []
            names = names or [f"{item['name']}/{name}" for name in marked]
            told += [word for name in names for word in ("--mark", f"{name}={mark}")]
        for row in rows:
            if row["shipped"]:
                at = f"{item['name']}/{row['name']}={row['shipped']['threshold']:g}"
                told += ["--shipped", at]
    return [*words, *told, "-o", "page/"]
