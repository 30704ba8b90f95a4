"""What does `calibrail compare` say about several detectors?"""

from collections.abc import Iterator, Mapping
from functools import partial

from calibrail.phrases import count, duration, listed, percent
from calibrail.report import blocks as parts
from calibrail.report.blocks import Json
from calibrail.report.character_figure import interval_lines
from calibrail.report.compare_figures import forest_svg
from calibrail.report.document import Document
from calibrail.report.documents.calibrate_words import title
from calibrail.report.documents.compare_finding import (
    assumptions,
    few,
    finding,
    headline,
    next_step,
)
from calibrail.report.documents.compare_scores import (
    all_scores,
    at_same_coverage,
    on_answers_that_did_not_choose,
    other_targets,
    paired_tests,
)
from calibrail.report.phrases import capital, plain


def document(comparison: Json, cost: Json | None = None) -> Document:
    """Return what a comparison says.

    Parameters
    ----------
    comparison : mapping
        The content of ``compare.json``.
    cost : mapping, optional
        The content of ``cost.json``. Its times are measured, so only the page shows them.
    """
    detectors, winner = comparison["detectors"], comparison["winner"]
    lead, text, target = headline(comparison), plain(finding(comparison)), "detectors"
    if detectors:
        first = detectors[0]
        target = (
            f"{count(len(detectors) + len(comparison['uncalibrated']), 'detector')} at "
            f"{percent(1 - first['alpha'])} caught ({first['guarantee']})"
        )
    return Document(
        "comparison of",
        subject=target,
        headline=lead,
        verdict=winner["certificate"]["verdict"] if winner["confirmed"] else "",
        summary=capital(text.removeprefix(f"{plain(lead)}: ")),
        brief=text,
        blocks=(
            *(_split_and_forest(comparison) if detectors else ()),
            all_scores(comparison),
            paired_tests(comparison),
            on_answers_that_did_not_choose(comparison),
            at_same_coverage(comparison),
            other_targets(comparison),
            None if cost is None else _cost(comparison, cost),
            *_warnings(comparison),
            parts.listing("What the claims rest on", assumptions(comparison), where="page"),
        ),
        notes=detectors[0]["notes"] if detectors else (),
        next_step=next_step(comparison),
        reproduce=comparison["reproduce"],
        data=comparison["data"],
        footer="Every number on this page but the measured times is in compare.json; the figures "
        "are in figures/.",
    )


def _split_and_forest(comparison: Json) -> Iterator[parts.Block]:
    """Say which answers calibrate, choose and confirm, and show the scores beside each other."""
    first, halves = comparison["detectors"][0], comparison["winner"]["halves"]
    tested, choosing, confirming = (
        f"{part['n_hallucinated']:,} hallucinated and {part['n_faithful']:,} faithful"
        for part in (first["test"], halves["choosing"], halves["confirming"])
    )
    setting = f"{first['n_calibration']:,} hallucinated answers"
    yield parts.Text(f"Thresholds: {setting}. Test: {tested}; half confirms.", where="terminal")
    yield parts.Text(
        f"Same split for all: {setting} set each threshold "
        f"(guarantee: {first['guarantee']}), {tested} test it. To choose, calibration answers and "
        f"half of the test part serve together ({choosing}); the other half ({confirming}) "
        "confirms.",
        where="page",
    )
    limit = "" if first["max_fpr"] is None else "; dashed: the accepted limit"
    caption = (
        f"On the whole test part, with {percent(first['confidence'])} intervals of each score by "
        "itself. First the faithful answers flagged at each score's own threshold (fewer is better"
        f"{limit}), then AUROC (dotted: guessing). Grey: baselines."
    )
    tests = [
        *((item["name"], item["test"]["fpr"]) for item in comparison["detectors"]),
        *((item["name"], item["fpr"]) for item in comparison["baselines"]),
    ]
    alarms = interval_lines(((*test, first["max_fpr"]) for test in tests), "false alarms")
    figure = parts.Figure("forest", partial(forest_svg, comparison), caption, lines=alarms)
    yield parts.section("False alarms and ranking", figure)


def _warnings(comparison: Json) -> Iterator[parts.Block]:
    """Yield warnings in a few words for a terminal, and folded for the page, each kind once."""
    detectors = comparison["detectors"]
    names = [plain(item["name"]) for item in detectors]
    warned: dict[str, dict[str, list[str]]] = {}
    for item in detectors:
        for warning in item["warnings"]:
            same = warned.setdefault(warning["code"], {})
            same.setdefault(warning["message"], []).append(plain(item["name"]))
    headings = {}
    for code, messages in warned.items():
        named = [name for several in messages.values() for name in several]
        everyone = len(named) == len(detectors) > 1
        headings[code] = f"{title(code)}: {'all detectors' if everyone else few(named)}"
    yield parts.Bullets("Warnings", list(_in_brief(warned, names)), "warning", where="terminal")
    lists = (
        parts.folded(
            capital(headings[code]),
            parts.Bullets(
                "",
                [
                    parts.Bullet(message, few(several) if len(messages) > 1 else "")
                    for message, several in messages.items()
                ],
                "warning",
            ),
        )
        for code, messages in warned.items()
    )
    yield parts.section("Warnings", *lists, where="page")


def _in_brief(warned: Mapping[str, Mapping[str, list[str]]], names: list[str]) -> Iterator[str]:
    """Yield what the same detectors are warned of in one line, those of most detectors first."""
    alike: dict[frozenset[str], list[str]] = {}
    for code, messages in warned.items():
        who = frozenset(name for several in messages.values() for name in several)
        alike.setdefault(who, []).append(title(code))
    for who, titles in sorted(alike.items(), key=lambda item: -len(item[0])):
        others = [name for name in names if name not in who]
        said = few([name for name in names if name in who])
        if not others and len(names) > 1:
            said = "all detectors"
        elif 0 < len(others) <= 2 < len(who):
            said = f"all but {listed(others)}"
        elif len(who) > 3:
            said = f"{len(who)} detectors"
        yield f"{said}: {'; '.join(titles)}"


def _cost(comparison: Json, cost: Json) -> parts.Section | None:
    """Return time, passes, calls and price of each score that is computed, the fastest first."""
    prices = {item["score"]: item for item in comparison["data"].get("calls") or ()}
    known = [item for item in cost["scores"] if item["seconds_per_1000"] is not None]
    if not known:
        return None
    # Earlier runs did not tell it apart.
    timed = all("seconds_opening" in item for item in known)
    rows = []
    for item in sorted(known, key=lambda item: item["seconds_per_1000"]):
        usage = (item.get("calls") or {}).get("usage") or {}
        dollars = prices.get(item["score"], {}).get("dollars_per_1000")
        rows.append(
            (
                plain(item["score"]),
                duration(item["seconds_per_1000"]),
                f"{item['forward_passes']:,}" if item["forward_passes"] else "",
                f"{usage['n_sent']:,} sent, {usage['n_cached']:,} known" if usage else "",
                "" if dollars is None else f"${dollars:.2f}",
                ", ".join(plain(name) for name in item["shared_with"]),
            )
        )
    heads = parts.numbers("Time for 1,000 answers", "Forward passes", "Calls", "Price of 1,000")
    columns = (parts.Column("Score"), *heads, parts.Column("Shares passes with"))
    return parts.section(
        "What the scores cost",
        parts.Table("What the scores cost", columns, rows),
        parts.note(
            "Measured when these answers were scored, models that several scores share included"
            f"{', the opening of models not' if timed else ''}; in cost.json."
        ),
        where="page",
    )
