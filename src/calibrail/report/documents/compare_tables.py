"""Its tables."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from calibrail.formatting import Scale, percent
from calibrail.report import document as parts
from calibrail.report import text
from calibrail.report.document import Json
from calibrail.report.documents import measures
from calibrail.report.figures.comparison import MOST_SERIES, coverage_svg, sweep_rows, sweep_svg
from calibrail.report.messages import say

#: Characters of a name in a terminal's table.
_NAME_WIDTH: Final = 22
#: Baselines that a terminal shows below many detectors.
_BASELINES: Final = 3


def all_scores(comparison: Json) -> parts.Section:
    """Show detectors first, then the baselines, then why some have no numbers."""
    winner, where = comparison["winner"], _where(comparison)
    many, against = where == "page", comparison["paired"]["against_best"]
    p_values = {test["name"]: test["fpr"]["p_adjusted"] for test in against}

    def row(item: Json) -> parts.Row:
        test = item.get("test") or item
        caught, band = test.get("coverage"), test.get("coverage_band")
        low = band and not band["inside"] and test["coverage"]["count"] <= band["highest"]
        below, p = ", below the expected range" * bool(low), p_values.get(item["name"])
        return (
            parts.Cell(str(item["name"]), style="strong" if item["name"] == winner["name"] else ""),
            Scale.of(item.get("score")).text(item.get("threshold")),
            parts.Cell(text.share(caught), text.interval(caught) + below),
            text.share_cell(test.get("fpr")),
            text.measure_cell(test.get("auroc")),
            text.measure_cell(item.get("partial_auroc")),
            text.measure_cell(test.get("overlap")),
            "" if p is None or not many else text.p_number(p),
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
        parts.TableColumn("p", "right", where="terminal"),
        parts.TableColumn("Verdict"),
    )
    every = (*comparison["detectors"], *others)
    title, rows = "Fewest false alarms first", measures.with_baselines(row, every, baselines)
    tables = [parts.Table(f"{title}, on the test part", columns, rows, where=where)]
    if many:
        best = measures.with_baselines(row, every, baselines[:_BASELINES])
        if baselines[_BASELINES:]:
            at = best.index(parts.Heading("Baselines"))
            best[at] = parts.Heading(f"The best {_BASELINES} baselines of {len(baselines)}")
        tested = say("compare.tested_against", winner) if against else ""
        tables.append(parts.Table(f"{title}{tested}", columns, best, where="terminal"))
    # Where chance puts the share caught: the same for all scores, whatever they are.
    bands = (item["test"]["coverage_band"] for item in comparison["detectors"])
    reasons = ((item.get("partial_auroc") or {}).get("reason") for item in comparison["detectors"])
    about = {"band": next(filter(None, bands), None), "why": next(filter(None, reasons), "")}
    return parts.section(
        "All scores on the same split",
        *tables,
        measures.without_threshold((*others, *baselines)),
        parts.note(say("compare.score_columns", about, least=least)),
    )


def _where(comparison: Json) -> parts.Where:
    """Return where all tables are shown: of many detectors a screen holds one, and no more."""
    many = len(comparison["detectors"]) + len(comparison["uncalibrated"]) > MOST_SERIES
    return "page" if many else "both"


def paired_tests(comparison: Json) -> parts.Section | None:
    """Show the tests against the best detector and against the best baseline."""
    winner, paired = comparison["winner"], comparison["paired"]
    if not paired["against_best"]:
        return None
    return parts.section(
        "Who is ahead",
        parts.Text(say("compare.paired", winner), where="page"),
        _paired(comparison, winner["candidate"], paired["against_best"]),
        _paired(comparison, winner["best_baseline"], paired["against_best_baseline"]),
        parts.note(say("compare.mcnemar")),
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
        gap = _difference([_points(fpr[end]) for end in _ENDS if fpr["estimate"] is not None])
        ranked = _difference([f"{area[end]:+.3f}" for end in _ENDS if area["estimate"] is not None])
        mcnemar = parts.Cell(
            f"{counts['only_first']:,} against {counts['only_second']:,}",
            f"McNemar {text.p_value(counts['p_adjusted'])}",
        )
        p, p_area = (text.p_number(measure["p_adjusted"]) for measure in (fpr, area))
        rows.append((_name(test), gap, gap.below, p, mcnemar, ranked, p_area))
    name = f"Against {text.plain(reference)}"
    title = f"{name}, at the same coverage; p corrected (Holm)"
    return parts.section(name, parts.Table(title, columns, rows, where=_where(comparison)))


#: What is known of a difference.
_ENDS: Final = ("estimate", "lower", "upper")


def _difference(texts: Sequence[str]) -> parts.Cell:
    """Return a difference with its interval below, or a word where there is none."""
    return parts.Cell(texts[0], " to ".join(texts[1:])) if texts else parts.Cell("none")


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
    sentences = [
        say("compare.not_choosing", winner["halves"]["confirming"]),
        *(
            say("compare.gap", test, points=_points(abs(gap)).removeprefix("+"))
            for test in tests
            if (gap := test["fpr"]["estimate"]) is not None
        ),
        say("compare.exact_bounds", winner["certificate"]),
    ]
    blocks = (parts.Text(sentence, where="page") for sentence in sentences)
    return parts.section("On answers that did not choose", *blocks)


def at_same_coverage(comparison: Json) -> parts.Section | None:
    """Compare thresholds that catch the same share of the test answers."""
    matched, detectors = comparison["matched_coverage"], comparison["detectors"]
    if not matched["levels"]:
        return None
    figure = None
    if any(item.get("curve") for item in detectors[:MOST_SERIES]):
        caption = say("compare.coverage_figure", comparison, most=MOST_SERIES)
        figure = parts.Figure("coverage", partial(coverage_svg, comparison), caption)
    attainable = [say("compare.attainable", item) for item in matched["attainable"]]
    few = "Scores with few distinct values"
    return parts.section(
        "At the same coverage of the test answers",
        parts.Text(say("compare.same_coverage"), where="page"),
        figure,
        *(_level(comparison, level) for level in matched["levels"]),
        parts.folded(few, parts.Bullets(few, attainable)),
    )


def _level(comparison: Json, level: Json) -> parts.Block:
    heading = say("compare.level", level)
    rates = parts.numbers("Caught", "False alarms")
    columns = (parts.TableColumn("Score", most=26), *rates, _interval_column(comparison))
    rows = [
        (
            _name(row),
            parts.Cell(text.share(row["attained"]), text.count_of(row["attained"])),
            text.share_cell(row["fpr"]),
            text.interval(row["fpr"]),
        )
        for row in level["rows"]
    ]
    table = parts.Table(f"With {heading}", columns, rows)
    missing = next((why for row in level["rows"] if (why := row["fpr"]["reason"])), "")
    why = parts.note(f"At least: {missing}." if missing else "")
    if level["set_by"] is None:
        return parts.section(heading, table, why, where="page")
    return parts.Folded(heading, (table, why), _where(comparison))


def other_targets(comparison: Json) -> parts.Section:
    """Show what other targets would cost; a dash where they cannot be promised."""
    sweep = comparison["alpha_sweep"]
    short: list[parts.Row] = []
    full: list[parts.Row] = []
    scales = {item["name"]: Scale.of(item["score"]) for item in comparison["detectors"]}
    for name, baseline, entries in sweep_rows(comparison):
        known = [entry if entry and entry["fpr"] else None for entry in entries]
        if not baseline:
            short.append((name, *(text.share(e["fpr"]) if e else "-" for e in known)))
        about = {"scale": scales.get(name, Scale())}
        cells = (
            parts.Cell(text.share(entry["fpr"]), say("compare.at_target", entry, about))
            if entry
            else parts.Cell("none")
            for entry in known
        )
        full.append((parts.Cell(name, "baseline" if baseline else ""), *cells))
    notes = [say("compare.not_promised", entry) for entry in sweep if not entry["rank"]]
    shown = [] if _where(comparison) == "page" else short
    columns = parts.numbers(*(percent(1.0 - entry["alpha"]) for entry in sweep))
    title = "Caught and false alarms at every target"
    figure = parts.Figure("alpha_sweep", partial(sweep_svg, comparison))
    return parts.section(
        "Other targets",
        parts.Text(say("compare.other_targets"), where="page"),
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
