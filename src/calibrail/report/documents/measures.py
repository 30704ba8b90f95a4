"""Tables of measures."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrail.formatting import (
    Scale,
    ceiling_percent,
    count,
    floor_percent,
    lower_percent,
    number,
    outward,
    percent,
    upper_percent,
)
from calibrail.report import document as parts
from calibrail.report import text
from calibrail.report.document import Json
from calibrail.report.figures.plot import interval_lines
from calibrail.report.figures.scores import distributions_svg, drawn_range, rates_svg
from calibrail.report.messages import say, word
from calibrail.report.text import share

#: The two classes, in the order in which they are named.
LABELS: Final = ("hallucinated", "faithful")


#: Measure, value, interval, what was asked (and in brackets the end that decided), counts.
Line = tuple[str, str, str, str, str]


def table(title: str, lines: Sequence[Line], confidence: float) -> parts.Table:
    """Return measures with their intervals, and what was asked where anything was."""
    asked = parts.asked_heading(line[3] for line in lines)
    heads = parts.texts(f"{floor_percent(confidence)} interval", *asked, "Counts")
    columns = (parts.TableColumn("Measure", brief=""), parts.TableColumn("Value", "right"), *heads)
    rows: list[parts.Row] = []
    for *first, said, counts in lines:
        limit, _, end = said.removesuffix(")").partition(" (")
        cells = [parts.Cell(limit, end)][: len(asked)]
        rows.append((*first, *cells, parts.Cell(counts, style="muted")))
    return parts.Table(title, columns, rows)


def share_line(name: str, value: Json, asked: str = "", about: str = "") -> Line:
    """Return a share as a line of a table of measures; ``about`` follows its counts."""
    counts = f"{text.count_of(value)}{'' if text.is_proven(value) else about}"
    return (name, share(value), text.interval(value), asked, counts)


def rates(measured: Json, asked: Json) -> list[Line]:
    """Return what is caught and what is wrongly flagged, beside what was asked."""
    if measured.get("kept_supported") or measured.get("kept"):
        return trim_rates(measured, asked)
    return [
        share_line("Caught", measured["coverage"], _asked("coverage", asked), " hallucinated"),
        share_line("False alarms", measured["fpr"], _asked("fpr", asked), " faithful"),
    ]


def trim_rates(measured: Json, asked: Json) -> list[Line]:
    """Return what removing sentences frees, keeps and touches, beside what was asked.

    Of a report's test part, a certificate or a guardrail's headline; what was not measured, is
    left out.
    """
    freed = measured.get("freed") or measured["coverage"]
    withheld = [
        words
        for name, words in (("reviewed", "sent to review"), ("failed", "that failed"))
        if (measured.get(name) or {}).get("count")
    ]
    among = f", those {' or '.join(withheld)} among them" if withheld else ""
    about = f" hallucinated answers{among}"
    lines = [share_line("Fully cleaned", freed, _asked("coverage", asked), about)]
    if kept := measured.get("kept_supported") or measured.get("kept"):
        # A mean of shares: its count is no number of answers.
        over = f"mean over {count(kept['n'], 'answer')}"
        least = _asked("kept", asked)
        lines.append(("Supported sentences kept", share(kept), text.interval(kept), least, over))
    lines.append(
        share_line("Faithful answers altered", measured["fpr"], _asked("fpr", asked), " faithful")
    )
    if emptied := measured.get("emptied"):
        lines.append(share_line("Nothing left", emptied, about=" answers"))
    return lines


def left_whole(measured: Json) -> Iterator[Line]:
    """Yield how many answers are shown whole, and how many not before a person has looked.

    Of a certificate also those on which the detector failed, if there are any.
    """
    yield share_line("Unchanged", measured["untouched"], about=" answers")
    yield share_line("Sent to review", measured["reviewed"], about=" answers")
    if (failed := measured.get("failed")) and failed["count"]:
        about = " answers; not shown, so they count as freed and keep nothing"
        yield share_line("The detector failed", failed, about=about)


def tiles(lines: Iterable[Line]) -> Iterator[parts.Tile]:
    """Yield rates as the numbers to look at first."""
    for name, value, span, asked, _ in lines:
        yield parts.Tile(word("calibrate.brief", name, name), value, span, asked)


#: Of what a limit may be set: the limit, and the end of a certificate that shows it to be kept.
_LIMITS: Final = {
    "coverage": ("min_coverage", "coverage_at_least"),
    "kept": ("min_kept", "kept_at_least"),
    "fpr": ("max_fpr", "fpr_at_most"),
}


def _asked(name: str, asked: Json) -> str:
    """Return what was asked of a share, and the end that decided; empty where nothing was asked.

    The end is that of a certificate, or of a report's own, and holds by itself.
    """
    least, (limit_of, end_of) = name != "fpr", _LIMITS[name]
    # A share of 0 is what a threshold has of which nothing was asked.
    if (limit := asked.get(limit_of)) is None or (least and not limit):
        return ""
    said = f">= {floor_percent(limit)}" if least else f"<= {ceiling_percent(limit)}"
    certificate = asked.get("certificate") or asked
    if (end := certificate.get(end_of)) is None:
        return said
    other = certificate[name]["upper" if least else "lower"]
    if missed := other is not None and (other < limit if least else other > limit):
        end = other
    shown = f"least {lower_percent(end)}" if least != missed else f"most {upper_percent(end)}"
    return f"{said} (at {shown} shown)"


def together(certificate: Json) -> Json:
    """Return a certificate with the intervals that hold together in place of those that decide.

    What is proven stands as it was promised.
    """
    region = certificate.get("region") or {}
    proven = {"coverage"} if text.is_proven(certificate.get("coverage")) else set[str]()
    return {**certificate, **{k: v for k, v in region.items() if v is not None and k not in proven}}


def rates_figure(measured: Json, asked: Json) -> parts.Figure:
    """Return a picture of what is caught and wrongly flagged, beside what was asked."""
    caught, alarms, about = "caught", "false alarms", "What is caught and what is wrongly flagged"
    between: list[tuple[str, Json, float | None]] = []
    if kept := measured.get("kept"):
        caught, alarms, about = "freed", "touched", "What is freed, kept and touched"
        between = [("kept", kept, asked["min_kept"])]
    rows = [
        (caught, measured["coverage"], asked["min_coverage"] or None),
        *between,
        (alarms, measured["fpr"], asked["max_fpr"]),
    ]
    return parts.Figure(
        "rates",
        partial(rates_svg, rows),
        f"{about}, with bounds. Dashed: required.",
        lines=interval_lines(rows),
    )


def costs_in_words(cost: Json | None, why: str = "") -> list[str]:
    """Say what a threshold costs, and on what base rate that rests; nothing without costs.

    ``why`` there is no bound is said where there is none.
    """
    if cost is None:
        return []
    best = min(("flag_all", "pass_all"), key=lambda way: cost[way])
    shown = {
        "best": best,
        "why": why,
        "most": amount(cost["upper"], upper=True),
        "least": amount(cost[best]),
    }
    return [say(f"fixed_threshold.cost_{name}", cost, shown) for name in ("bound", "base")]


def amount(cost: float | None, *, upper: bool | None = None) -> str:
    """Return a cost to a tenth, a small one to four digits, a bound rounded outward; or nothing.

    >>> amount(500000.0), amount(345.44), amount(0.0123)
    ('500,000', '345.4', '0.0123')
    """
    if cost is None:
        return ""
    if upper is not None:
        cost = float(outward(cost, 1 if cost > 1.0 else 4, upper=upper))
    return f"{cost:,.1f}".removesuffix(".0") if cost >= 1.0 else number(cost)


def cost_section(cost: Json | None) -> parts.Section | None:
    """Set the threshold beside flagging and passing everything."""
    if cost is None:
        return None
    ways = {"this threshold": "estimate", "flag everything": "flag_all"}
    ways["pass everything"] = "pass_all"
    most = amount(cost["upper"], upper=True)
    rows = [(name, amount(cost[way]), most * (way == "estimate")) for name, way in ways.items()]
    errors = [amount(cost["costs"][name]) for name in ("cost_miss", "cost_alarm")]
    title = say("fixed_threshold.cost_title", cost, errors=errors)
    bound = f"At most ({floor_percent(cost['confidence'])})"
    columns = (*parts.texts("Way"), *parts.numbers("Cost", bound))
    table = parts.Table(title, columns, rows)
    return parts.section("Expected cost", table, parts.Text(costs_in_words(cost)[1]))


def measured_on(test: Json) -> str:
    """Return on which answers a report measures: the test part, or all without one."""
    return "On all answers" if text.is_proven(test["coverage"]) else "On the test part"


def of_test_part(report: Json) -> list[Line]:
    """Return the measures of the test part: value, interval, what was asked, counts."""
    test = report["test"]
    return [
        *rates(test, report),
        *([share_line("Accuracy", test["accuracy"])] if test["accuracy"]["n"] else []),
        _measure("AUROC", test["auroc"], "0.5 = guessing, 1 = perfect"),
        _measure("Overlap", test["overlap"], "1 = same, 0 = separate"),
    ]


def _measure(name: str, value: Json, detail: str) -> Line:
    if value["estimate"] is None:
        return (name, "none", "", "", text.plain(value["reason"]))
    return (name, text.estimate(value), text.bounds(value), "", detail)


def risk_lines(measured: Sequence[Json]) -> list[Line]:
    """Return every risk as the test part shows it."""
    return [
        share_line(
            str(item["name"]).capitalize(),
            item["test"],
            f"{item['relation']} {percent(item['level'])}",
            f"; {item['shown']}",
        )
        for item in measured
    ]


def flips(certificate: Json) -> str:
    """Say how many wrong labels a certificate survives; empty where nothing is certified."""
    survived = certificate.get("flips")
    if not survived:
        return ""
    side = {"coverage": "what is caught", "fpr": "false alarms"}[survived["weakest"]]
    return say("certify.flips" if survived["flips"] else "certify.no_flips", survived, side=side)


def with_baselines(
    row: Callable[[Json], parts.Row],
    items: Iterable[Json],
    baselines: Iterable[Json],
) -> list[parts.Row]:
    """Return the rows of detectors, and below them those of the baselines, if there are any."""
    below = [row(item) for item in baselines]
    return [*map(row, items), *([parts.Heading("Baselines")] if below else []), *below]


def baselines_in_brief(
    baselines: Iterable[Json], compared: Callable[[Json], str] = lambda _: ""
) -> parts.Text:
    """Return one line for the false alarms of all baselines, which stands for their table."""
    rows = [
        {"name": item["name"], "fpr": fpr, "compared": compared(item)}
        for item in baselines
        if (fpr := item.get("fpr") or (item.get("test") or {}).get("fpr"))
    ]
    return parts.Text(say("calibrate.baselines", rows=rows) if rows else "", where="brief")


def without_threshold(items: Iterable[Json]) -> parts.Bullets:
    """Say why some scores could not be given a threshold."""
    return parts.Bullets(
        "Without a threshold",
        [
            f"{item['name']}: {item['reason']}"
            for item in items
            if item.get("reason") and item.get("fpr") is None
        ],
    )


def part_note(part: Json | None) -> tuple[str, ...]:
    """Return on which part of the source a result rests: a sentence, or none.

    Parameters
    ----------
    part : mapping or None
        What ``Reading.part`` returns.
    """
    if part is None:
        return ()
    return (say("data.first_rows" if part["sample"] is None else "data.drawn_rows", part),)


#: The scores of the two classes, as they are shown.
BothScores = tuple[NDArray[np.float64], NDArray[np.float64]]


def scores_figure(
    report: Json,
    scores: BothScores | None,
    *,
    caption: str,
    dashed: str,
    draw: Callable[..., str] = distributions_svg,
) -> parts.Figure | None:
    """Return the figure of both classes' scores; None without scores.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    scores : pair of ndarrays of float64, or None
        Test scores of both classes, as they are shown.
    caption : str
        What it shows, with ``{dashed}`` where ``dashed`` comes if one threshold decides.
    dashed : str
        What becomes of what lies at the dashed line or at its ``{side}``.
    draw : callable
        As ``distributions_svg``.
    """
    if scores is None:
        return None
    scale, used, said = Scale.of(report["score"]), None, ""
    if report["threshold"] is not None and not report["by_group"]:
        used = scale.shown(report["threshold"])
        said = dashed.format(side="left" if scale.negated else "right")
    name = scale.named(scale.column or str(report["score"]["name"]))
    return parts.Figure(
        "distributions",
        partial(draw, *scores, used, name, scale),
        caption.format(dashed=said),
        limits=(*drawn_range(*scores, used), 0.0, 1.0),
    )
