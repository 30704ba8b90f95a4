"""Tables of measures."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail import formatting
from calibrail.formatting import Scale, count, floor_percent, number, outward
from calibrail.report import document as parts
from calibrail.report import text
from calibrail.report.document import Json
from calibrail.report.figures import scores as figures
from calibrail.report.figures.plot import interval_lines
from calibrail.report.messages import facts, say, word
from calibrail.report.text import by_sentence, capital, share

#: The two classes, in the order in which they are named.
LABELS: Final = ("hallucinated", "faithful")


#: What values of an AUROC mean.
AUROC_MEANS: Final = "0.5 = guessing, 1 = perfect"

#: Measure, value, interval, what was asked (and in brackets the end that decided), counts.
Line = tuple[str, str, str, str, str]


def table(title: str, lines: Sequence[Line], confidence: float) -> parts.Table:
    """Return measures with their intervals, and what was asked where anything was."""
    asked = parts.asked_heading(line[3] for line in lines)
    measure, level = parts.TableColumn("Measure", brief=""), floor_percent(confidence)
    rows: list[parts.Row] = []
    for *first, said, counts in lines:
        limit, _, end = said.removesuffix(")").partition(" (")
        cells = [parts.Cell(limit, end)][: len(asked)]
        rows.append((*first, *cells, parts.Cell(counts, style="muted")))
    return parts.table(title, (measure, ">Value", f"{level} interval", *asked, "Counts"), rows)


def decided(title: str, lines: Sequence[Line], confidence: float) -> Sequence[parts.Block]:
    """Return `table`, and why its intervals differ from bounds that decide, where any do."""
    said = say("calibrate.ends") if any(line[3].endswith(")") for line in lines) else ""
    return table(title, lines, confidence), parts.Text(said)


def unit_words(content: Json) -> dict[str, str]:
    """Return the words for a report, a certificate or a guardrail; the catalogue explains them."""
    reviews = any(content.get(name) for name in ("three_way", "blocked", "upper"))
    unit = "sentence" if by_sentence(content) else "review" if reviews else "answer"
    return dict(facts(f"calibrate.{unit}_words"))


def share_line(name: str, value: Json, asked: str = "", about: str = "") -> Line:
    """Return a share as a line of a table of measures; ``about`` follows its counts."""
    counted, proven = text.count_of(value), text.is_proven(value)
    # Of few answers the counts say more.
    said = share(value) + f" ({counted})" * (not proven and 0 < value["n"] < 10)
    return (name, said, text.interval(value), asked, f"{counted}{'' if proven else about}")


def rates(measured: Json, asked: Json) -> list[Line]:
    """Return what is caught and what is wrongly flagged, beside what was asked."""
    if measured.get("kept_supported") or measured.get("kept"):
        return trim_rates(measured, asked)
    words, caught, review = unit_words(asked), measured["coverage"], asked.get("three_way") or asked
    lines = [
        share_line(capital(words[name]), measured[rate], _asked(rate, asked), f" {label}")
        for name, rate, label in zip(("caught", "alarms"), _BOTH, LABELS, strict=True)
    ]
    if text.is_proven(caught) and not caught["lower"] and asked.get("by_group"):
        lines[0] = (*lines[0][:2], say("calibrate.in_each_group", asked), *lines[0][3:])
    if blocked := review.get("blocked"):
        limit = text.required("<=", review.get("beta"))
        # Where all faithful answers decide, those of the test set are other ones.
        among = "" if blocked["n"] == measured["fpr"]["n"] else " in the test set"
        lines.append(share_line(f"Faithful answers flagged{among}", blocked, limit, " faithful"))
    if sent := review.get("review"):
        lines.append(share_line("Sent to review", sent, about=" answers"))
    return lines


def trim_rates(measured: Json, asked: Json) -> list[Line]:
    """Return what removing sentences frees, keeps and touches, beside what was asked.

    Of a report's test set, a certificate or a guardrail's headline; what was not measured, is
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
    most = _asked("fpr", asked)
    lines.append(share_line("Faithful answers altered", measured["fpr"], most, " faithful"))
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
        about = " answers; not shown, so they count as fully cleaned and keep nothing"
        yield share_line("The detector failed", failed, about=about)


def tiles(lines: Iterable[Line]) -> Iterator[parts.Tile]:
    """Yield the numbers to look at first: the bound that decides, or else the measured rate."""
    for name, value, span, asked, _ in lines:
        limit, _, end = asked.removesuffix(")").partition(" (")
        first, below = end.removesuffix(" shown") or value, f"measured {value}" if end else span
        if brief := word("calibrate.brief", name, name):
            yield parts.Tile(brief, first, "" if first == value and end else below, limit)


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
    # A share of 0 is what a threshold has of which nothing was asked.
    if (limit := asked.get(_LIMITS[name][0])) is None or (name != "fpr" and not limit):
        return ""
    said = text.required("<=" if name == "fpr" else ">=", limit)
    shown = shown_end(name, asked)
    return f"{said} ({shown})" if shown else said


def shown_end(name: str, asked: Json) -> str:
    """Return the end of a share that decides about its limit, in words; empty where none does."""
    side, end = _deciding(name, asked)
    if end is None:
        return ""
    return f"at {'least' if side == 'lower' else 'most'} {_END[side](end)} shown"


#: The rates of a verdict about answers, and how an end of each is rounded.
_BOTH: Final = ("coverage", "fpr")
_END: Final = {"lower": formatting.lower_percent, "upper": formatting.upper_percent}


def _deciding(name: str, asked: Json) -> tuple[str, float | None]:
    """Return which end of a share decides about its limit, and where it lies, if either does."""
    (limit_of, end_of), certificate = _LIMITS[name], asked.get("certificate") or asked
    sides = ("upper", "lower") if name == "fpr" else ("lower", "upper")
    limit, end = asked.get(limit_of), certificate.get(end_of)
    if limit is None or end is None or (name != "fpr" and not limit):
        return sides[0], None
    other, sign = certificate[name][sides[1]], 1.0 if name == "fpr" else -1.0
    if other is not None and sign * (other - limit) > 0.0:
        return sides[1], other
    return sides[0], None if sign * (end - limit) > _ROUNDING else end


def is_missed(asked: Json) -> bool:
    """Return whether bounds show a limit to be missed, whatever became of the verdict.

    ``asked`` is as for `target_box`.
    """
    asked = {**(asked.get("requirement") or {}), **asked}
    certificate = asked.get("certificate") or asked
    ends = {name: _deciding(name, asked)[0] for name in _LIMITS if certificate.get(name)}
    return any(end == ("lower" if name == "fpr" else "upper") for name, end in ends.items())


#: What float arithmetic adds to a limit.
_ROUNDING: Final = 1e-12


def target_box(asked: Json) -> figures.TargetBox | None:
    """Return the box of what is shown of both rates, and the corner that was required.

    Its ends are those of the intervals that hold together, but for the ends that decide about a
    limit: so it lies inside the corner where both limits are shown to be kept, outside where one is
    shown to be missed, and across its edge otherwise.

    Parameters
    ----------
    asked : mapping
        A certificate, a row of a group, or a report or headline that holds its ``certificate``.

    Returns
    -------
    TargetBox or None
        None where sentences are removed, of which a third share is required, and where a rate has
        no bounds.
    """
    certificate, most = asked.get("certificate") or asked, asked["max_fpr"]
    shown = certificate.get("region") or certificate
    # A verdict about risks, or about what errors cost, is not one about these limits.
    required = not (asked.get("requirement") or asked).get("risks") and (
        most is not None or _deciding("coverage", asked)[0] == "upper"
    )
    ends = {name: {end: shown[name][end] for end in _END} for name in _BOTH}
    for name, of_rate in ends.items():
        side, end = _deciding(name, asked)
        if end is not None and (required or _is_promised(shown[name])):
            of_rate[side] = end
    coverage, fpr = ((item["lower"], item["upper"]) for item in ends.values())
    if (certificate.get("kept") or asked.get("kept_supported")) or None in (*coverage, *fpr):
        return None
    seen = shown["coverage"]["estimate"], shown["fpr"]["estimate"]
    corner = (asked["min_coverage"], 1.0 if most is None else most) if required else None
    at = None if None in seen else seen
    # A certificate on a condition has the colour of what is open.
    colour = "inconclusive" if (tone := text.tone(asked)) == "conditional" else tone
    return figures.TargetBox(coverage, fpr, at, corner, colour if required else "")


def target_figure(
    asked: Json, confidence: float, curve: Json | None = None, *, moves: bool = False
) -> parts.Figure | None:
    """Return the picture of `target_box`, if there is one.

    Parameters
    ----------
    asked : mapping
        As for `target_box`.
    confidence : float
        Of what is shown.
    curve : mapping, optional
        Of a report.
    moves : bool
        Whether a slider moves a box in it.
    """
    if (box := target_box(asked)) is None:
        return None
    unit = unit_words(asked)
    ends = {unit["caught"]: _span(box.coverage), unit["alarms"]: _span(box.fpr)}
    agrees = _VERDICTS.get(box.lies) == box.verdict
    about = {"box": box, "ends": ends, "confidence": confidence, "agrees": agrees, "unit": unit}
    caption = say("calibrate.target_caption", about, curve=curve is not None)
    said = partial(say, "calibrate.target", about)
    draw = partial(figures.target_svg, box, said, ends, curve)
    return parts.Figure("target", draw, caption, figures.TARGET_RANGE if moves else None, "fixed")


def share_of_group(row: Json, name: str) -> parts.Cell:
    """Return a rate of a group with its bounds, and below the end that decides."""
    return parts.Cell(text.share_with_bounds(together(row)[name]), shown_end(name, row))


def group_targets(
    rows: Sequence[Json], confidence: float, unit: Mapping[str, str]
) -> parts.Figure | None:
    """Return a small target for each of the first groups; None where they have no verdicts.

    ``unit`` are the words of the report or the certificate.
    """
    first = [
        (row, text.group_of(row), box)
        for row in rows[: figures.MOST_GROUPS]
        if (box := target_box(row)) and box.corner
    ]
    rates = [(unit["caught"], "coverage"), (unit["alarms"], "fpr")]
    groups = [
        ", ".join(
            [f"{name} {verdict_word(row)}"]
            + [f"{called} {end}" for called, rate in rates if (end := shown_end(rate, row))]
        )
        for row, name, _ in first
    ]
    if not groups:
        return None
    about: dict[str, Any] = {"groups": groups, "confidence": confidence, "unit": unit}
    about["more"] = len(rows) - len(groups)
    about["inside"] = verdict_word({**rows[0], "verdict": "certified"})
    about["agrees"] = all(_VERDICTS[box.lies] == row["verdict"] for row, _, box in first)
    boxes = [(name, word("verdict.in_box", text.tone(row)), box) for row, name, box in first]
    draw = partial(figures.group_targets_svg, boxes, say("calibrate.targets", about))
    caption = say("calibrate.targets_caption", about, most=figures.MOST_GROUPS)
    return parts.Figure("groups", draw, caption)


def target_section(report: Json, *more: parts.Block) -> parts.Section:
    """Return the target of a report, and what moves a box in it."""
    confidence = (report["certificate"].get("region") or report)["confidence"]
    moves = any(isinstance(block, parts.Slider) for block in more)
    limits = report["max_fpr"] is not None
    heading = "What is required and what is shown" if limits else "What is shown"
    shown = partial(target_figure, report, confidence, report["curve"], moves=moves)
    return parts.Section(heading, parts.Later(lambda: (shown(), *more)), "page")


#: What the place of a box says about the limits.
_VERDICTS: Final = {"inside": "certified", "outside": "rejected", "across": "inconclusive"}


def _span(ends: tuple[float, float]) -> str:
    """Return an interval in percent, rounded outward, without an end that says nothing.

    >>> _span((0.8, 1.0)), _span((0.0, 0.123)), _span((0.41, 0.525))
    ('at least 80%', 'at most 12.3%', '41 to 52.5%')
    """
    low, high = formatting.lower_percent(ends[0]), formatting.upper_percent(ends[1])
    if ends[1] >= 1.0:
        return f"at least {low}" if ends[0] > 0.0 else "0 to 100%"
    return f"at most {high}" if ends[0] <= 0.0 else f"{low.removesuffix('%')} to {high}"


def together(certificate: Json) -> Json:
    """Return a certificate with the intervals that hold together in place of those that decide.

    What is proven stands as it was promised.
    """
    region = certificate.get("region") or {}
    proven = {"coverage"} if text.is_proven(certificate.get("coverage")) else set[str]()
    return {**certificate, **{k: v for k, v in region.items() if v is not None and k not in proven}}


def rates_figure(measured: Json, asked: Json) -> parts.Figure:
    """Return a picture of both rates as they are shown, or of what removing sentences does."""
    kept, words = measured.get("kept"), unit_words(asked)
    rows = [
        (words["caught"], measured["coverage"], asked["min_coverage"] or None),
        *([("supported kept", kept, asked["min_kept"])] if kept else []),
        (words["alarms"], measured["fpr"], asked["max_fpr"]),
    ]
    figure = target_figure(asked, measured["confidence"])
    if figure is None:
        caption = "What is fully cleaned, kept and altered, with bounds. Dashed: required."
        figure = parts.Figure("rates", partial(figures.rates_svg, rows), caption)
    return replace(figure, lines=interval_lines(rows))


def costs_in_words(cost: Json | None, why: str = "") -> list[str]:
    """Say what a threshold costs, and on what base rate that rests; nothing without costs.

    ``why`` there is no bound is said where there is none.
    """
    if cost is None:
        return []
    shown = {name: amount(cost[name]) for name in ("estimate", "flag_all", "pass_all")}
    shown["upper"] = amount(cost["upper"], upper=True)
    about = {"why": why, "shown": shown, "errors": _errors(cost)}
    return [say(f"fixed_threshold.cost_{name}", cost, about) for name in ("bound", "base")]


def amount(cost: float | None, *, upper: bool | None = None) -> str:
    """Return a cost to a tenth, or to what is worth showing; a bound rounded outward; or nothing.

    >>> amount(244613821.1), amount(345.44), amount(0.0123)
    ('244,613,821', '345.4', '0.0123')
    """
    if cost is None:
        return ""
    digits = 0 if cost >= 10_000.0 else 1
    if upper is not None:
        cost = float(outward(cost, digits if cost > 1.0 else 4, upper=upper))
    return f"{cost:,.{digits}f}".removesuffix(".0") if cost >= 1.0 else number(cost)


def _errors(cost: Json) -> list[str]:
    """Return what a miss and a false alarm cost."""
    return [amount(cost["costs"][name]) for name in ("cost_miss", "cost_alarm")]


def cost_section(cost: Json | None) -> parts.Section | None:
    """Set the threshold beside flagging and passing everything."""
    if cost is None:
        return None
    ways = {"this threshold": "estimate", "flag everything": "flag_all"}
    ways["pass everything"] = "pass_all"
    most = amount(cost["upper"], upper=True)
    rows = [(name, amount(cost[way]), most * (way == "estimate")) for name, way in ways.items()]
    title = say("fixed_threshold.cost_title", cost, errors=_errors(cost))
    bound = f">At most ({floor_percent(cost['confidence'])})"
    table = parts.table(title, ("Way", ">Cost", bound), rows)
    return parts.section("Expected cost", table, parts.Text(costs_in_words(cost)[1]))


def of_verdict(measured: Json, asked: Json) -> list[Line]:
    """Return both rates as the verdict counts them, with intervals that hold together.

    ``measured`` on the test set they are where a certificate has none; ``asked`` is as for
    `target_box`.
    """
    certificate = asked.get("certificate") or measured
    region = certificate.get("region") or certificate
    # Of a share that is promised the test set tells more.
    shown = {name: measured[name] if _is_promised(region[name]) else region[name] for name in _BOTH}
    return rates(shown, asked)


def in_short(measured: Json, asked: Json) -> list[parts.Bullet]:
    """Return both rates in answers of a hundred, and which groups have which verdict.

    ``asked`` is the report, certificate or headline that holds groups and reviews, if any.
    """
    by_group = asked.get("by_group") or {"rows": ()}
    rows = [
        {**row, "verdict": verdict_word({**asked, **row})}
        for row in by_group["rows"]
        if row["max_fpr"] is not None
    ]
    three_way = asked.get("three_way") or (asked if asked.get("blocked") else None)
    code = "verdict.in_short_of_reviews" if three_way else "verdict.in_short"
    said = say(code, measured, three_way=three_way)
    said += say("verdict.by_themselves", by_group, groups=rows) if rows else ""
    return [parts.Bullet(said, "In short")] if said else []


def verdict_word(result: Json) -> str:
    """Return a verdict among others in a sentence or a table, with its condition."""
    return say("verdict.unless_picked", verdict=result["verdict"], codes=text.warned(result))


def _is_promised(bound: Json) -> bool:
    """Return whether a share is bounded by how its threshold was made, from below alone."""
    return bool(bound["upper"] == 1.0 and bound["estimate"] != 1.0)


def of_test_part(report: Json) -> list[Line]:
    """Return the measures of the test set: value, interval, what was asked, counts.

    Where the verdict counts other answers, its rates follow those of the test set.
    """
    test, decided = report["test"], of_verdict(report["test"], report)
    tested = rates(test, {**report, "min_coverage": None, "max_fpr": None})
    lines = []
    for line, counted in zip(tested, decided, strict=True):
        same = line[4] == counted[4]
        lines += [counted] if same else [line, (f"{line[0]} in the verdict", *counted[1:])]
    return [
        *lines,
        *([share_line("Accuracy", test["accuracy"])] if test["accuracy"]["n"] else []),
        measure_line("AUROC", test["auroc"], AUROC_MEANS),
        measure_line("Overlap", test["overlap"], "1 = same, 0 = separate"),
    ]


def auroc_tile(area: Json, name: str = "AUROC") -> parts.Tile:
    """Return an AUROC as one of the numbers to look at first, with what its values mean."""
    return parts.Tile(name, text.estimate(area), text.bounds(area), note=AUROC_MEANS)


def counted(report: Json) -> str:
    """Say which faithful answers the verdict counts, where the test set holds fewer."""
    n, n_test = (report[part]["fpr"]["n"] for part in ("certificate", "test"))
    return "" if n == n_test else say("verdict.all_faithful", n=n, n_test=n_test)


def measure_line(name: str, value: Json, detail: str) -> Line:
    """Return the line of a measure with its interval; without one, why there is none."""
    if value["estimate"] is None:
        return (name, "none", "", "", text.plain(value["reason"]))
    return (name, text.estimate(value), text.bounds(value), "", detail)


def risk_lines(measured: Sequence[Json]) -> list[Line]:
    """Return every risk as the test set shows it."""
    return [
        share_line(
            str(item["name"]).capitalize(),
            item["test"],
            text.required(item["relation"], item["level"]),
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
    row: Callable[[Json], parts.Row], items: Iterable[Json], baselines: Iterable[Json]
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
    lacking = [item for item in items if item.get("reason") and item.get("fpr") is None]
    said = [f"{item['name']}: {item['reason']}" for item in lacking]
    return parts.Bullets("Without a threshold", said)


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
    names: tuple[str, str] = LABELS,
    acted: tuple[str, str] = ("flagged", "answers"),
) -> parts.Figure | None:
    """Return the figure of both classes' scores; None without scores.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    scores : pair of ndarrays of float64, or None
        Test scores of both classes, as they are shown.
    caption : str
        What it shows, with ``{dashed}`` where it says what the line does, if one threshold decides.
    names, acted : pair of str
        As for ``distributions_svg``.
    """
    if scores is None:
        return None
    scale, used, said = Scale.of(report["score"]), None, ""
    if report["threshold"] is not None and not report["by_group"]:
        used = scale.shown(report["threshold"])
        side = "left" if scale.negated else "right"
        said = f" {capital(acted[1])} at or {side} of the dashed line are {acted[0]}."
    name = scale.named(scale.column or str(report["score"]["name"]))
    return parts.Figure(
        "distributions",
        partial(figures.distributions_svg, *scores, used, name, scale, names=names, acted=acted),
        caption.format(dashed=said),
        limits=(*figures.drawn_range(*scores, used), 0.0, 1.0),
    )
