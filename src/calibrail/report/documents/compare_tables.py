"""Its tables."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from calibrail.formatting import Scale, percent
from calibrail.report import document as parts
from calibrail.report.document import Json
from calibrail.report.documents import measures
from calibrail.report.figures.comparison import MOST_SERIES, coverage_svg, sweep_rows, sweep_svg
from calibrail.report.text import (
    count_of,
    interval,
    measure_cell,
    p_number,
    p_value,
    plain,
    share,
    share_cell,
)

#: Characters of a name in a terminal's table.
_NAME_WIDTH: Final = 22
#: Baselines that a terminal shows below many detectors.
_BASELINES: Final = 3


def all_scores(comparison: Json) -> parts.Section:
    """Show detectors first, then the baselines, then why some have no numbers."""
    winner, many = comparison["winner"]["name"], _are_many(comparison)
    where: parts.Where = "page" if many else "both"
    against = {test["name"]: test["fpr"] for test in comparison["paired"]["against_best"]}

    def row(item: Json) -> parts.Row:
        test = item.get("test") or item
        caught, band = test.get("coverage"), test.get("coverage_band")
        low = band and not band["inside"] and test["coverage"]["count"] <= band["highest"]
        return (
            parts.Cell(str(item["name"]), style="strong" if item["name"] == winner else ""),
            Scale.of(item.get("score")).text(item.get("threshold")),
            parts.Cell(share(caught), interval(caught) + ", below the expected range" * bool(low)),
            share_cell(test.get("fpr")),
            measure_cell(test.get("auroc")),
            measure_cell(item.get("partial_auroc")),
            measure_cell(test.get("overlap")),
            *([_tested(against.get(item["name"]))] if many else []),
            str(item.get("verdict") or ""),
        )

    others, baselines = comparison["uncalibrated"], comparison["baselines"]
    least = percent(comparison["partial_auroc"]["least_coverage"])
    columns = (
        parts.TableColumn("Score", most=None if many else _NAME_WIDTH),
        *parts.numbers("Threshold", "Caught"),
        parts.TableColumn("False alarms", "right", brief="FPR"),
        parts.TableColumn("AUROC", "right"),
        parts.TableColumn(f"AUROC, {least}+ caught", "right", brief="AUROC 80+", where=where),
        parts.TableColumn("Overlap", "right", where=where),
        # In place of the table of paired tests, which would not fit on the screen.
        *([parts.TableColumn("p", "right", where="terminal")] if many else []),
        parts.TableColumn("Verdict"),
    )
    every = (*comparison["detectors"], *others)
    title, rows = "Fewest false alarms first", measures.with_baselines(row, every, baselines)
    on_page = parts.Table(f"{title}, on the test part", columns, rows, where=where)
    tables = [on_page]
    if many:
        candidate = comparison["winner"]["candidate"]
        tested = f"; p: more than {plain(candidate)} at the same coverage (Holm)" if against else ""
        best = measures.with_baselines(row, every, baselines[:_BASELINES])
        if baselines[_BASELINES:]:
            at = best.index(parts.Heading("Baselines"))
            best[at] = parts.Heading(f"The best {_BASELINES} baselines of {len(baselines)}")
        tables.append(parts.Table(f"{title}{tested}", columns, best, where="terminal"))
    return parts.section(
        "All scores on the same split",
        *tables,
        measures.without_threshold((*others, *baselines)),
        parts.note(
            f"{_expected(comparison)}AUROC at high coverage counts only thresholds that catch "
            f"at least {least}, standardised (0.5 = guessing, 1 = perfect){_few(comparison)}. "
            "Overlap: 0 = the two classes' scores are apart, 1 = the same. Each verdict is on this "
            "score alone, named in advance."
        ),
    )


def _tested(gap: Json | None) -> str:
    return "" if gap is None or gap["p_adjusted"] is None else p_number(gap["p_adjusted"])


def _few(comparison: Json) -> str:
    """Say why the AUROC at high coverage has no interval, where it has none."""
    reasons = [item.get("partial_auroc") or {} for item in comparison["detectors"]]
    why = next((item["reason"] for item in reasons if item.get("reason")), "")
    return f"; {why}" if why else ""


def _are_many(comparison: Json) -> bool:
    """Return whether a screen holds one table of the detectors, and no more."""
    return len(comparison["detectors"]) + len(comparison["uncalibrated"]) > MOST_SERIES


def _expected(comparison: Json) -> str:
    """Say where chance puts the share caught: the same for all scores, whatever they are."""
    for item in comparison["detectors"]:
        if band := item["test"]["coverage_band"]:
            return (
                f"If the promise holds, {interval(band)} of the test hallucinations are caught in "
                f"{percent(band['confidence'])} of all splits (ties only add to that). "
            )
    return ""


def paired_tests(comparison: Json) -> parts.Section | None:
    """Show the tests against the best detector and against the best baseline."""
    winner, paired = comparison["winner"], comparison["paired"]
    if not paired["against_best"]:
        return None
    halves, level = winner["halves"], f"{winner['level']:.3g}"
    return parts.section(
        "Who is ahead",
        parts.Text(
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
        parts.note(
            "At these thresholds: faithful answers that only this score flags, against those "
            "that only the reference flags. McNemar's test takes the calibrated thresholds as "
            "given, the luck of one calibration with them; so it does not choose."
        ),
    )


def _paired(comparison: Json, reference: str | None, tests: Sequence[Json]) -> parts.Section | None:
    """Return paired tests against one reference."""
    if not tests:
        return None
    columns = (
        parts.TableColumn("Score", most=_NAME_WIDTH),
        parts.TableColumn("False alarms, points", "right", brief="FPR, points"),
        _interval_column(comparison),
        parts.TableColumn("p, corrected", "right", brief="p"),
        parts.TableColumn("At these thresholds", "right", where="page"),
        parts.TableColumn("AUROC", "right"),
        parts.TableColumn("p, corrected", "right", brief="p"),
    )
    rows = []
    for test in tests:
        fpr, area, counts = test["fpr"], test["auroc"], test["mcnemar"]
        gap, ranked = parts.Cell("none"), parts.Cell("none")
        if fpr["estimate"] is not None:
            span = f"{_points(fpr['lower'])} to {_points(fpr['upper'])}"
            gap = parts.Cell(_points(fpr["estimate"]), span)
        if area["estimate"] is not None:
            span = f"{area['lower']:+.3f} to {area['upper']:+.3f}"
            ranked = parts.Cell(f"{area['estimate']:+.3f}", span)
        mcnemar = parts.Cell(
            f"{counts['only_first']:,} against {counts['only_second']:,}",
            f"McNemar {p_value(counts['p_adjusted'])}",
        )
        p, p_area = p_number(fpr["p_adjusted"]), p_number(area["p_adjusted"])
        rows.append((_name(test), gap, gap.below, p, mcnemar, ranked, p_area))
    name = plain(reference)
    title = f"Against {name}, at the same coverage; p corrected (Holm)"
    where: parts.Where = "page" if _are_many(comparison) else "both"
    return parts.section(f"Against {name}", parts.Table(title, columns, rows, where=where))


def _name(item: Json) -> parts.Cell:
    return parts.Cell(item["name"], "baseline" if item["baseline"] else "")


def _interval_column(comparison: Json) -> parts.TableColumn:
    level = percent(comparison["detectors"][0]["confidence"])
    return parts.TableColumn(f"{level} interval", "right", where="terminal")


def _points(share: float) -> str:
    """Return a difference of shares in percentage points, with its sign.

    Examples
    --------
    >>> _points(0.123), _points(-0.04), _points(0.0)
    ('+12.3', '-4', '0')
    """
    text = f"{100.0 * share:+.1f}".removesuffix(".0")
    return "0" if text in ("+0", "-0") else text


def on_answers_that_did_not_choose(comparison: Json) -> parts.Section | None:
    """Say what the answers that did not choose the winner show about it."""
    winner, tests = comparison["winner"], comparison["paired"]["confirming"]
    if not winner["name"]:
        return None
    counts, bounds = winner["halves"]["confirming"], winner["certificate"]
    return parts.section(
        "On answers that did not choose",
        parts.Text(
            f"{counts['n_hallucinated']:,} hallucinated and {counts['n_faithful']:,} faithful "
            "test answers had no part in the choice. At the calibrated thresholds, as they are:",
            where="page",
        ),
        *(
            parts.Text(
                f"On answers that did not choose, the threshold of {test['name']} flags "
                f"{_points(abs(gap)).removeprefix('+')} points {'more' if gap > 0 else 'fewer'} of "
                f"the faithful ones than that of {test['against']} "
                f"(McNemar, {p_value(test['fpr']['p_adjusted'])}).",
                where="page",
            )
            for test in tests
            if (gap := test["fpr"]["estimate"]) is not None
        ),
        parts.Text(
            f"Exact bounds there (Clopper-Pearson, counting {bounds['counted']}): caught "
            f"{share(bounds['coverage'])} ({interval(bounds['coverage'])}), false alarms "
            f"{share(bounds['fpr'])} ({interval(bounds['fpr'])}). "
            f"{bounds['verdict'].capitalize()}. {bounds['reason']}",
            where="page",
        ),
    )


def at_same_coverage(comparison: Json) -> parts.Section | None:
    """Compare thresholds that catch the same share of the test answers."""
    matched, detectors = comparison["matched_coverage"], comparison["detectors"]
    if not matched["levels"]:
        return None
    figure = None
    if any(item.get("curve") for item in detectors[:MOST_SERIES]):
        some = f", for the {MOST_SERIES} detectors with the fewest false alarms"
        figure = parts.Figure(
            "coverage",
            partial(coverage_svg, comparison),
            "What every coverage costs on the test answers"
            f"{some if len(detectors) > MOST_SERIES else ''}. Dashed: the target. Shaded: where "
            "the AUROC at high coverage counts.",
        )
    attainable = [
        f"{plain(item['name'])} can catch, for so many false alarms: "
        + "; ".join(f"{share(at['coverage'])} for {share(at['fpr'])}" for at in item["at"][::-1])
        + "."
        for item in matched["attainable"]
    ]
    few = "Scores with few distinct values"
    return parts.section(
        "At the same coverage of the test answers",
        parts.Text(
            "Calibrated thresholds catch somewhat different shares of the test answers. Here "
            "each threshold is set on the test answers themselves, so that all catch the same "
            "share, or the next one that ties allow. This describes the data; it promises "
            "nothing and decides nothing.",
            where="page",
        ),
        figure,
        *(_level(comparison, level) for level in matched["levels"]),
        parts.folded(few, parts.Bullets(few, attainable)),
    )


def _level(comparison: Json, level: Json) -> parts.Block:
    which, setter = "the target", level["set_by"]
    if setter is not None:
        which = f"the most that {plain(setter)} catches short of flagging everything"
    heading = f"{percent(level['coverage'])} of the test hallucinations caught ({which})"
    rates = parts.numbers("Caught", "False alarms")
    columns = (parts.TableColumn("Score", most=26), *rates, _interval_column(comparison))
    rows = [
        (
            _name(row),
            parts.Cell(share(row["attained"]), count_of(row["attained"])),
            share_cell(row["fpr"]),
            interval(row["fpr"]),
        )
        for row in level["rows"]
    ]
    table = parts.Table(f"With {heading}", columns, rows)
    missing = next((why for row in level["rows"] if (why := row["fpr"]["reason"])), "")
    why = parts.note(f"At least: {missing}." if missing else "")
    if setter is None:
        return parts.section(heading, table, why, where="page")
    where: parts.Where = "page" if _are_many(comparison) else "both"
    return parts.Folded(heading, (table, why), where)


def other_targets(comparison: Json) -> parts.Section:
    """Show what other targets would cost; a dash where they cannot be promised."""
    sweep = comparison["alpha_sweep"]
    short: list[parts.Row] = []
    full: list[parts.Row] = []
    scales = {item["name"]: Scale.of(item["score"]) for item in comparison["detectors"]}
    for name, baseline, entries in sweep_rows(comparison):
        scale = scales.get(name, Scale())
        if not baseline:
            short.append((name, *(share(e["fpr"]) if e and e["fpr"] else "-" for e in entries)))
        full.append(
            (
                parts.Cell(name, "baseline" if baseline else ""),
                *(_target(entry, scale) for entry in entries),
            )
        )
    notes = [
        f"{percent(1 - entry['alpha'])} cannot be promised with n = {entry['n']:,}: "
        f"{entry['minimum_n']:,} "
        + ("groups with " if entry["counted"] == "groups" else "")
        + "hallucinated calibration answers are needed."
        for entry in sweep
        if not entry["rank"]
    ]
    shown = [] if _are_many(comparison) else short
    columns = parts.numbers(*(percent(1.0 - entry["alpha"]) for entry in sweep))
    title = "Caught and false alarms at every target"
    figure = parts.Figure("alpha_sweep", partial(sweep_svg, comparison))
    return parts.section(
        "Other targets",
        parts.Text(
            "What it would cost to promise more or less. Each promise holds for one target "
            "chosen in advance, not for the best of these.",
            where="page",
        ),
        figure if short and comparison["detectors"] else None,
        parts.Table(
            "False alarms if so many hallucinations are to be caught",
            (parts.TableColumn("Score", most=_NAME_WIDTH), *columns),
            shown,
            where="terminal",
        ),
        parts.Text(f"-: {' '.join(notes)}" if notes and shown else "", where="terminal"),
        *map(parts.note, notes),
        parts.folded(title, parts.Table(title, (parts.TableColumn("Promised"), *columns), full)),
    )


def _target(row: Json | None, scale: Scale) -> parts.Cell:
    if not row or not row["fpr"]:
        return parts.Cell("none")
    caught, limit = share(row["coverage"]), scale.text(row["threshold"])
    below = f"{interval(row['fpr'])}; caught {caught}; threshold {limit}"
    return parts.Cell(share(row["fpr"]), below)
