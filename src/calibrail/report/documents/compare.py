"""What does `calibrail compare` say about several detectors?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from calibrail.evaluation.stats.phrases import count, listed, percent
from calibrail.report.compare_figures import (
    MOST_SERIES,
    coverage_svg,
    forest_svg,
    sweep_rows,
    sweep_svg,
)
from calibrail.report.document import (
    Block,
    Bullets,
    Cell,
    Column,
    Document,
    Figure,
    Finding,
    Folded,
    Part,
    Section,
    Table,
    Text,
    Verdict,
    listing,
)
from calibrail.report.documents.calibrate import title
from calibrail.report.documents.compare_cost import cost_section
from calibrail.report.documents.compare_finding import (
    finding,
    headline,
    p_value,
    points,
    worse_than,
)
from calibrail.report.phrases import (
    interval,
    measure_cell,
    plain,
    share,
    share_cell,
    threshold,
)

_Dict = Mapping[str, Any]
_Row = Sequence[Cell | str] | Part

#: Characters of a name in a terminal's table.
_NAME: Final = 22


def document(comparison: _Dict, cost: _Dict | None = None) -> Document:
    """Return what a comparison says.

    Parameters
    ----------
    comparison : mapping
        The content of ``compare.json``.
    cost : mapping, optional
        The content of ``cost.json``. Its times are measured, so only the page shows them.
    """
    detectors, winner = comparison["detectors"], comparison["winner"]
    verdict: Verdict = winner["certificate"]["verdict"] if winner["confirmed"] else ""
    lead, text = headline(comparison), plain(finding(comparison))
    rest = text.removeprefix(f"{plain(lead)}: ")
    target = ""
    if detectors:
        first = detectors[0]
        target = f"at {percent(1 - first['alpha'])} caught, guarantee {first['guarantee']}"
    return Document(
        "comparison",
        subject=target,
        headline=lead,
        verdict=verdict,
        summary=f"{rest[:1].upper()}{rest[1:]}",
        brief=text,
        blocks=(
            Text(_split(comparison)),
            _forest(comparison),
            _scores(comparison),
            _tests(comparison),
            _confirming(comparison),
            _same_coverage(comparison),
            _other_targets(comparison),
            None if cost is None else cost_section(comparison, cost),
            *_warnings(detectors),
            listing("What the claims rest on", _assumptions(comparison), where="page"),
        ),
        next_step=_next_step(comparison),
        reproduce=comparison["reproduce"],
        data=comparison["data"],
        footer="Every number on this page but the measured times is in compare.json; the figures "
        "are in figures/.",
    )


def _split(comparison: _Dict) -> str:
    """Say which answers calibrate, which choose and which confirm."""
    if not comparison["detectors"]:
        return ""
    first, halves = comparison["detectors"][0], comparison["winner"]["halves"]
    return (
        f"Same split for all: {first['n_calibration']:,} hallucinated answers set each threshold "
        f"(guarantee: {first['guarantee']}), {_classes(first['test'])} test it. To choose, "
        f"calibration answers and half of the test part serve together "
        f"({_classes(halves['choosing'])}); the other half ({_classes(halves['confirming'])}) "
        "confirms."
    )


def _classes(counts: _Dict) -> str:
    return f"{counts['n_hallucinated']:,} hallucinated and {counts['n_faithful']:,} faithful"


def _confidence(comparison: _Dict) -> str:
    return percent(comparison["detectors"][0]["confidence"])


def _forest(comparison: _Dict) -> Section | None:
    detectors = comparison["detectors"]
    if not detectors:
        return None
    limit = "" if detectors[0]["max_fpr"] is None else "; dashed: the accepted limit"
    caption = (
        f"On the whole test part, with {_confidence(comparison)} intervals of each score by "
        "itself. First the faithful answers flagged at each score's own threshold (fewer is better"
        f"{limit}), then AUROC (dotted: guessing). Grey: baselines."
    )
    return Section(
        "False alarms and ranking", (Figure("forest", partial(forest_svg, comparison), caption),)
    )


def _scores(comparison: _Dict) -> Section:
    """Show detectors first, then the baselines, then why some have no numbers."""
    detectors = [
        {**item, **{key: item["test"][key] for key in ("coverage", "fpr", "auroc", "overlap")}}
        for item in comparison["detectors"]
    ]
    others, baselines = comparison["uncalibrated"], comparison["baselines"]
    winner = comparison["winner"]["name"]
    rows: list[_Row] = [_score(item, winner) for item in (*detectors, *others)]
    if baselines:
        rows += [Part("Baselines"), *(_score(item, winner) for item in baselines)]
    least = percent(comparison["partial_auroc"]["least_coverage"])
    columns = (
        Column("Score", most=_NAME),
        Column("Threshold", "right"),
        Column("Caught", "right"),
        Column("False alarms", "right", brief="FPR"),
        Column("AUROC", "right"),
        Column(f"AUROC, {least}+ caught", "right", brief="AUROC 80+"),
        Column("Overlap", "right"),
        Column("Verdict"),
    )
    without = [
        f"{item['name']}: {item['reason']}"
        for item in (*others, *baselines)
        if item.get("reason") and item.get("fpr") is None
    ]
    return Section(
        "All scores on the same split",
        (
            Table("Fewest false alarms first, on the test part", columns, rows),
            Bullets("Without a threshold", without),
            Text(
                f"{_expected(comparison)}AUROC at high coverage counts only thresholds that catch "
                f"at least {least}, standardised (0.5 = guessing, 1 = perfect). Overlap: 0 = the "
                "two classes' scores are apart, 1 = the same. Each verdict is on this score alone, "
                "named in advance.",
                "muted",
                where="page",
            ),
        ),
    )


def _score(item: _Dict, winner: str | None) -> _Row:
    return (
        Cell(str(item["name"]), style="strong" if item["name"] == winner else ""),
        threshold(item.get("threshold")),
        Cell(share(item.get("coverage")), _below_band(item) or interval(item.get("coverage"))),
        share_cell(item.get("fpr")),
        measure_cell(item.get("auroc")),
        measure_cell(item.get("partial_auroc")),
        measure_cell(item.get("overlap")),
        str(item.get("verdict") or ""),
    )


def _below_band(item: _Dict) -> str:
    """Say that fewer were caught than chance explains; empty where that is not so."""
    band = (item.get("test") or {}).get("coverage_band")
    if not band or band["inside"] or item["coverage"]["count"] > band["highest"]:
        return ""
    return f"{interval(item['coverage'])}, below the expected range"


def _expected(comparison: _Dict) -> str:
    """Say where chance puts the share caught: the same for all scores, whatever they are."""
    for item in comparison["detectors"]:
        if band := item["test"]["coverage_band"]:
            return (
                f"If the promise holds, {interval(band)} of the test hallucinations are caught in "
                f"{percent(band['confidence'])} of all splits (ties only add to that). "
            )
    return ""


def _tests(comparison: _Dict) -> Section | None:
    """Show the tests against the best detector and against the best baseline."""
    winner, paired = comparison["winner"], comparison["paired"]
    if not paired["against_best"]:
        return None
    halves, level = winner["halves"], f"{winner['level']:.3g}"
    return Section(
        "Who is ahead",
        (
            Text(
                "Every score against the same reference, on the same answers (calibration part and "
                f"the half of the test part that chooses: rank {halves['rank']} of "
                f"{halves['choosing']['n_hallucinated']:,} hallucinated answers, "
                f"{halves['choosing']['n_faithful']:,} faithful ones). A positive number of points "
                "means more false alarms than the reference at the same coverage. p-values up to "
                f"{level} separate; they are corrected (Holm) among the detectors, and among the "
                "baselines.",
                where="page",
            ),
            _paired(comparison, winner["candidate"], paired["against_best"]),
            _paired(comparison, winner["best_baseline"], paired["against_best_baseline"]),
            Text(
                "At these thresholds: faithful answers that only this score flags, against those "
                "that only the reference flags. McNemar's test takes the calibrated thresholds as "
                "given, the luck of one calibration with them; so it does not choose.",
                "muted",
                where="page",
            ),
        ),
    )


def _paired(comparison: _Dict, reference: str | None, tests: Sequence[_Dict]) -> Section | None:
    """Return paired tests against one reference."""
    if not tests:
        return None
    columns = (
        Column("Score", most=_NAME),
        Column("False alarms, points", "right", brief="FPR, points"),
        Column(f"{_confidence(comparison)} interval", "right", where="terminal"),
        Column("p, corrected", "right", brief="p"),
        Column("At these thresholds", "right", where="page"),
        Column("AUROC", "right"),
        Column("p, corrected", "right", brief="p"),
    )
    rows = []
    for test in tests:
        fpr, area, counts = test["fpr"], test["auroc"], test["mcnemar"]
        known, ranked = fpr["estimate"] is not None, area["estimate"] is not None
        span = f"{points(fpr['lower'])} to {points(fpr['upper'])}" if known else ""
        rows.append(
            (
                Cell(test["name"], "baseline" if test["baseline"] else ""),
                Cell(points(fpr["estimate"]), span) if known else "none",
                span,
                _p(fpr["p_adjusted"]),
                Cell(
                    f"{counts['only_first']:,} against {counts['only_second']:,}",
                    f"McNemar {p_value(counts['p_adjusted'])}",
                ),
                Cell(
                    f"{area['estimate']:+.3f}" if ranked else "none",
                    f"{area['lower']:+.3f} to {area['upper']:+.3f}" if ranked else "",
                ),
                _p(area["p_adjusted"]),
            )
        )
    name = plain(reference)
    title = f"Against {name}, at the same coverage; p corrected (Holm)"
    return Section(f"Against {name}", (Table(title, columns, rows),))


def _p(value: float) -> str:
    return p_value(value).removeprefix("p = ").removeprefix("p ")


def _confirming(comparison: _Dict) -> Section | None:
    """Say what the answers that did not choose the winner show about it."""
    winner, tests = comparison["winner"], comparison["paired"]["confirming"]
    if not winner["name"]:
        return None
    counts, bounds = winner["halves"]["confirming"], winner["certificate"]
    return Section(
        "On answers that did not choose",
        (
            Text(
                f"{counts['n_hallucinated']:,} hallucinated and {counts['n_faithful']:,} faithful "
                "test answers had no part in the choice. At the calibrated thresholds, as they "
                "are:",
                where="page",
            ),
            *(Text(_fewer(test)) for test in tests if test["fpr"]["estimate"] is not None),
            Text(
                f"Exact bounds there (Clopper-Pearson, counting {bounds['counted']}): caught "
                f"{share(bounds['coverage'])} ({interval(bounds['coverage'])}), false alarms "
                f"{share(bounds['fpr'])} ({interval(bounds['fpr'])}). "
                f"{bounds['verdict'].capitalize()}. {bounds['reason']}",
                where="page",
            ),
        ),
    )


def _fewer(test: _Dict) -> str:
    gap = test["fpr"]["estimate"]
    return (
        f"On answers that did not choose, the threshold of {test['name']} flags "
        f"{points(abs(gap)).removeprefix('+')} points {'more' if gap > 0 else 'fewer'} of the "
        f"faithful ones than that of {test['against']} "
        f"(McNemar, {p_value(test['fpr']['p_adjusted'])})."
    )


def _same_coverage(comparison: _Dict) -> Section | None:
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


def _level(comparison: _Dict, level: _Dict) -> Section:
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
        Column(f"{_confidence(comparison)} interval", "right", where="terminal"),
    )
    rows = [
        (
            Cell(row["name"], "baseline" if row["baseline"] else ""),
            Cell(
                share(row["attained"]), f"{row['attained']['count']:,} of {row['attained']['n']:,}"
            ),
            share_cell(row["fpr"]),
            interval(row["fpr"]),
        )
        for row in level["rows"]
    ]
    table = Table(f"With {heading}", columns, rows)
    return Section(heading, (table,), where="page" if level["set_by"] is None else "both")


def _other_targets(comparison: _Dict) -> Section:
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
                (Column("Score", most=_NAME), *columns),
                short,
                where="terminal",
            ),
            Text(f"-: {' '.join(notes)}" if notes and short else "", where="terminal"),
            *(Text(note, "muted", where="page") for note in notes),
            Folded(title, (Table(title, (Column("Promised"), *columns), full),)),
        ),
    )


def _target(entry: _Dict | None) -> Cell | str:
    if not entry or not entry["fpr"]:
        return "none"
    caught, limit = share(entry["coverage"]), threshold(entry["threshold"])
    return Cell(share(entry["fpr"]), f"{interval(entry['fpr'])}; caught {caught}; from {limit}")


def _warnings(detectors: Sequence[_Dict]) -> list[Block]:
    """Return warnings in a few words for a terminal, and folded by detector for the page."""
    warned = [
        (item, f"{item['name']}: {'; '.join(title(w['code']) for w in item['warnings'])}")
        for item in detectors
        if item["warnings"]
    ]
    folded = [
        Folded(
            heading,
            (Bullets(heading, [Finding(w["message"]) for w in item["warnings"]], "warning"),),
        )
        for item, heading in warned
    ]
    return [
        Bullets("Warnings", [text for _, text in warned], "warning", where="terminal"),
        Section("Warnings", folded, where="page"),
    ]


def _next_step(comparison: _Dict) -> str:
    """Say what to do now."""
    winner, detectors = comparison["winner"], comparison["detectors"]
    if not detectors:
        return "Label more hallucinated answers, or tolerate more misses (--alpha)."
    if winner["candidate"] is None:
        return "Add faithful and hallucinated answers to the test part."
    if winner["name"] is not None:
        return _use(winner)
    alike = [winner["candidate"], *winner["not_separated"]]
    chosen = [plain(item["name"]) for item in detectors if item["name"] in alike]
    if len(chosen) > 1:
        few = [*chosen[:5], count(len(chosen) - 5, "other")] if len(chosen) > 5 else chosen
        return (
            f"Label more answers, or choose among {listed(few)} by what they cost; certify the one "
            "you choose on data that this comparison did not see (calibrail certify)."
        )
    tests = comparison["paired"]["against_best"]
    if any(worse_than(test, "fpr", winner["level"]) for test in tests):
        return (
            "Check whether the data gives the answer away by surface features (calibrail doctor); "
            "if it does not, find a better detector."
        )
    return (
        "Label more answers, or find a better detector: none was shown to raise fewer false alarms "
        "than every baseline."
    )


def _use(winner: _Dict) -> str:
    """Say what to do with a winner."""
    if not winner["confirmed"]:
        return (
            "Label more answers before you rely on the lead: the half of the test part that did "
            "not choose does not show it at these thresholds."
        )
    if winner["certificate"]["verdict"] == "certified":
        return (
            f"Calibrate {plain(winner['name'])} alone with calibrail calibrate (data, split and "
            "target as here), and freeze it with calibrail export."
        )
    if winner["certificate"]["max_fpr"] is None:
        return "Say how many false alarms you accept, e.g. --max-fpr 0.2, to get a verdict."
    return "Label more answers to settle the verdict, or ask for less (--min-coverage)."


def _assumptions(comparison: _Dict) -> list[str]:
    """Return what the claims rest on."""
    confidence = _confidence(comparison) if comparison["detectors"] else "the stated"
    tests = comparison["paired"]["against_best"]
    lines = [
        "All answers come from the same source, in exchangeable order; answers of different groups "
        "are independent of each other, and the labels are right.",
        "The winner is decided by one test, false alarms at the same coverage: calibration and "
        "test answers are drawn again by whole groups, every threshold is set anew in each draw, "
        "and the spread gives Student's t. AUROC is the second test; McNemar's takes the "
        "thresholds as they are and confirms on answers that did not choose.",
        "p-values are corrected (Holm) among the detectors and among the baselines; where several "
        "are equally good, a winner is named in at most "
        f"{percent(comparison['winner']['level'])} of all such comparisons.",
        f"Intervals hold at {confidence} each, not all together, and a detector's own verdict "
        "holds for one that was named in advance. Thresholds of the tables at matched coverage "
        "were set on the test answers: they describe, and promise nothing.",
    ]
    if any("obuchowski" in test["auroc"]["method"] for test in tests):
        lines.append(
            "Answers share groups here, so every test counts groups: AUROC by Obuchowski's "
            "variance in place of DeLong's, McNemar by turning whole groups. The Wilson and DeLong "
            "intervals of single detectors take answers as independent."
        )
    return lines
