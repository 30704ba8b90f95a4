"""How do the scores of a comparison do, each alone and against the best?"""

from collections.abc import Sequence
from typing import Final

from calibrail.phrases import percent
from calibrail.report.blocks import Cell, Column, Heading, Json, Section, Table, Text
from calibrail.report.documents.compare_finding import p_value, points
from calibrail.report.documents.measures import without_threshold
from calibrail.report.phrases import interval, measure_cell, plain, share, share_cell, threshold

_Row = Sequence[Cell | str] | Heading

#: Characters of a name in a terminal's table.
NAME_WIDTH: Final = 22


def confidence_percent(comparison: Json) -> str:
    """Return the level of the intervals in percent."""
    return percent(comparison["detectors"][0]["confidence"])


def all_scores(comparison: Json) -> Section:
    """Show detectors first, then the baselines, then why some have no numbers."""
    detectors = [
        {**item, **{key: item["test"][key] for key in ("coverage", "fpr", "auroc", "overlap")}}
        for item in comparison["detectors"]
    ]
    others, baselines = comparison["uncalibrated"], comparison["baselines"]
    winner = comparison["winner"]["name"]
    rows: list[_Row] = [_score(item, winner) for item in (*detectors, *others)]
    if baselines:
        rows += [Heading("Baselines"), *(_score(item, winner) for item in baselines)]
    least = percent(comparison["partial_auroc"]["least_coverage"])
    columns = (
        Column("Score", most=NAME_WIDTH),
        Column("Threshold", "right"),
        Column("Caught", "right"),
        Column("False alarms", "right", brief="FPR"),
        Column("AUROC", "right"),
        Column(f"AUROC, {least}+ caught", "right", brief="AUROC 80+"),
        Column("Overlap", "right"),
        Column("Verdict"),
    )
    return Section(
        "All scores on the same split",
        (
            Table("Fewest false alarms first, on the test part", columns, rows),
            without_threshold((*others, *baselines)),
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


def _score(item: Json, winner: str | None) -> _Row:
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


def _below_band(item: Json) -> str:
    """Say that fewer were caught than chance explains; empty where that is not so."""
    band = (item.get("test") or {}).get("coverage_band")
    if not band or band["inside"] or item["coverage"]["count"] > band["highest"]:
        return ""
    return f"{interval(item['coverage'])}, below the expected range"


def _expected(comparison: Json) -> str:
    """Say where chance puts the share caught: the same for all scores, whatever they are."""
    for item in comparison["detectors"]:
        if band := item["test"]["coverage_band"]:
            return (
                f"If the promise holds, {interval(band)} of the test hallucinations are caught in "
                f"{percent(band['confidence'])} of all splits (ties only add to that). "
            )
    return ""


def paired_tests(comparison: Json) -> Section | None:
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


def _paired(comparison: Json, reference: str | None, tests: Sequence[Json]) -> Section | None:
    """Return paired tests against one reference."""
    if not tests:
        return None
    columns = (
        Column("Score", most=NAME_WIDTH),
        Column("False alarms, points", "right", brief="FPR, points"),
        Column(f"{confidence_percent(comparison)} interval", "right", where="terminal"),
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


def on_answers_that_did_not_choose(comparison: Json) -> Section | None:
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


def _fewer(test: Json) -> str:
    gap = test["fpr"]["estimate"]
    return (
        f"On answers that did not choose, the threshold of {test['name']} flags "
        f"{points(abs(gap)).removeprefix('+')} points {'more' if gap > 0 else 'fewer'} of the "
        f"faithful ones than that of {test['against']} "
        f"(McNemar, {p_value(test['fpr']['p_adjusted'])})."
    )
