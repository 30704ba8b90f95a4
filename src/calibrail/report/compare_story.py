"""What does a comparison say in plain words, wherever it is shown?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from calibrail.evaluation.compare.conclusion import p_value, points
from calibrail.evaluation.stats.phrases import count, listed, number, percent
from calibrail.report.phrases import plain, share
from calibrail.report.sanitize import short

_Dict = Mapping[str, Any]

#: What stands where a number would be, if there is none.
NONE: Final = "none"


def named(text: object) -> str:
    """Return a name as it is shown: on one line, without characters that act, not too long."""
    return short(plain(text), 60)


def headline(comparison: _Dict) -> str:
    """Say in a few words whether somebody wins."""
    winner = comparison["winner"]
    if winner["name"] is None:
        return "No winner"
    return f"{named(winner['name'])} wins{'' if winner['confirmed'] else ', not confirmed'}"


def tone(comparison: _Dict) -> str:
    """Return the class that colours the headline: the verdict on a confirmed winner, or none."""
    winner = comparison["winner"]
    return str(winner["certificate"]["verdict"]) if winner["confirmed"] else "neutral"


def parts(comparison: _Dict) -> str:
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


def next_step(comparison: _Dict) -> str:
    """Say what to do now."""
    winner = comparison["winner"]
    if not comparison["detectors"]:
        return "Label more hallucinated answers, or tolerate more misses (--alpha)."
    if winner["candidate"] is None:
        return "Add faithful and hallucinated answers to the test part."
    if winner["name"] is not None:
        if not winner["confirmed"]:
            return (
                "Label more answers before you rely on the lead: the half of the test part that "
                "did not choose does not show it at these thresholds."
            )
        if winner["certificate"]["verdict"] == "certified":
            return (
                f"Calibrate {named(winner['name'])} alone with calibrail calibrate (data, split "
                "and target as here), and freeze it with calibrail export."
            )
        if winner["certificate"]["max_fpr"] is None:
            return "Say how many false alarms you accept, e.g. --max-fpr 0.2, to get a verdict."
        return "Label more answers to settle the verdict, or ask for less (--min-coverage)."
    alike = [winner["candidate"], *winner["not_separated"]]
    chosen = [item["name"] for item in comparison["detectors"] if item["name"] in alike]
    if len(chosen) > 1:
        return (
            f"Label more answers, or choose among {_names(chosen)} by what they cost; certify the "
            "one you choose on data that this comparison did not see (calibrail certify)."
        )
    if any(
        test["fpr"]["p_adjusted"] <= winner["level"] and (test["fpr"]["estimate"] or 0.0) < 0.0
        for test in comparison["paired"]["against_best"]
    ):
        return (
            "Check whether the data gives the answer away by surface features (calibrail doctor); "
            "if it does not, find a better detector."
        )
    return (
        "Label more answers, or find a better detector: none was shown to raise fewer false alarms "
        "than every baseline."
    )


def paired_heads(reference: str) -> tuple[str, ...]:
    """Return the heads of the table of paired tests."""
    return (
        f"Against {named(reference)}", "False alarms, points", "p, corrected",
        "At these thresholds", "AUROC", "p, corrected",
    )  # fmt: skip


def paired_rows(tests: Sequence[_Dict]) -> list[tuple[tuple[str, str], ...]]:
    """Return one row a test, each cell as text with a second line (empty where there is none)."""
    return [
        (
            (named(test["name"]), "baseline" if test["baseline"] else ""),
            _points(test["fpr"]),
            (_p(test["fpr"]["p_adjusted"]), ""),
            (
                f"{test['mcnemar']['only_first']:,} against {test['mcnemar']['only_second']:,}",
                f"McNemar {p_value(test['mcnemar']['p_adjusted'])}",
            ),
            _difference(test["auroc"]),
            (_p(test["auroc"]["p_adjusted"]), ""),
        )
        for test in tests
    ]


def level_heading(level: _Dict) -> str:
    """Say at which coverage scores are compared, and why there."""
    where = f"{percent(level['coverage'])} of the test hallucinations caught"
    if level["set_by"] is None:
        return f"{where} (the target)"
    return f"{where} (the most that {named(level['set_by'])} catches short of flagging everything)"


def level_rows(level: _Dict) -> list[tuple[tuple[str, str], ...]]:
    """Return name, share caught and FPR of every score at one coverage."""
    return [
        (
            (named(row["name"]), "baseline" if row["baseline"] else ""),
            (share(row["attained"]), f"{row['attained']['count']:,} of {row['attained']['n']:,}"),
            (share(row["fpr"]), span(row["fpr"])),
        )
        for row in level["rows"]
    ]


def attainable(item: _Dict) -> str:
    """List the coverages that a score with few distinct values can reach, with their cost."""
    told = [f"{share(at['coverage'])} for {share(at['fpr'])}" for at in reversed(item["at"])]
    return f"{named(item['name'])} can catch, for so many false alarms: {'; '.join(told)}."


def sweep_note(entry: _Dict) -> str:
    """Say why a target has no row; empty where it has."""
    if entry["rank"]:
        return ""
    return (
        f"{percent(1 - entry['alpha'])} cannot be promised with n = {entry['n']:,}: "
        f"{entry['minimum_n']:,} hallucinated calibration answers are needed."
    )


def sweep_cells(comparison: _Dict) -> list[tuple[str, bool, list[_Dict | None]]]:
    """Return each score with its row at every alpha; None where nothing can be promised."""
    sweep = comparison["alpha_sweep"]
    names: dict[str, bool] = {}
    for entry in sweep:
        names.update({row["name"]: row["baseline"] for row in entry["rows"]})
    order = [item["name"] for part in ("detectors", "baselines") for item in comparison[part]]
    ranked = sorted(names, key=lambda name: order.index(name) if name in order else len(order))
    return [
        (
            name,
            names[name],
            [next((r for r in e["rows"] if r["name"] == name), None) for e in sweep],
        )
        for name in ranked
    ]


def cost_rows(comparison: _Dict, cost: _Dict) -> list[tuple[str, ...]]:
    """Return name, latency, passes, calls and price of each score, the cheapest first."""
    prices = {item["score"]: item for item in comparison["data"].get("calls") or ()}
    rows: list[tuple[str, ...]] = []
    known = [item for item in cost["scores"] if item["seconds_per_1000"] is not None]
    for item in sorted(known, key=lambda item: item["seconds_per_1000"]):
        usage = (item.get("calls") or {}).get("usage") or {}
        dollars = prices.get(item["score"], {}).get("dollars_per_1000")
        rows.append(
            (
                named(item["score"]),
                _time(item["seconds_per_1000"] / 1000.0),
                _time(item["seconds_per_1000"]),
                f"{item['forward_passes']:,}" if item["forward_passes"] else "",
                f"{usage['n_sent']:,} sent, {usage['n_cached']:,} known" if usage else "",
                "" if dollars is None else f"${dollars:.2f}",
                ", ".join(named(name) for name in item["shared_with"]),
            )
        )
    return rows


def assumptions(comparison: _Dict) -> list[str]:
    """Return what the claims rest on."""
    detectors = comparison["detectors"]
    confidence = percent(detectors[0]["confidence"]) if detectors else "the stated"
    level = percent(comparison["winner"]["level"])
    clustered = any(
        "obuchowski" in test["auroc"]["method"] for test in comparison["paired"]["against_best"]
    )
    lines = [
        "All answers come from the same source, in exchangeable order; answers of different groups "
        "are independent of each other, and the labels are right.",
        "The winner is decided by one test, false alarms at the same coverage: calibration and "
        "test answers are drawn again by whole groups, every threshold is set anew in each draw, "
        "and the spread gives Student's t. AUROC is the second test; McNemar's takes the "
        "thresholds as they are and confirms on answers that did not choose.",
        "p-values are corrected (Holm) among the detectors and among the baselines; where several "
        f"are equally good, a winner is named in at most {level} of all such comparisons.",
        f"Intervals hold at {confidence} each, not all together, and a detector's own verdict "
        "holds for one that was named in advance. Thresholds of the tables at matched coverage "
        "were set on the test answers: they describe, and promise nothing.",
    ]
    if clustered:
        lines.append(
            "Answers share groups here, so every test counts groups: AUROC by Obuchowski's "
            "variance in place of DeLong's, McNemar by turning whole groups. The Wilson and DeLong "
            "intervals of single detectors take answers as independent."
        )
    return lines


def span(value: _Dict | None) -> str:
    """Return ``12.3 to 45.6%`` for an interval of a share, or nothing."""
    if value is None:
        return ""
    return f"{percent(value['lower']).removesuffix('%')} to {percent(value['upper'])}"


def measure(value: _Dict | None) -> tuple[str, str]:
    """Return a measure with three decimals and its interval, as two lines."""
    if not value or value["estimate"] is None:
        return NONE, ""
    if value["lower"] is None:
        return f"{value['estimate']:.3f}", ""
    return f"{value['estimate']:.3f}", f"{value['lower']:.3f} to {value['upper']:.3f}"


def band(item: _Dict) -> str:
    """Say that fewer were caught than chance explains; empty where that is not so."""
    found = (item.get("test") or {}).get("coverage_band")
    if not found or found["inside"] or item["test"]["coverage"]["count"] > found["highest"]:
        return ""
    return "below the expected range"


def expected(comparison: _Dict) -> str:
    """Say where chance puts the share caught: the same for all scores, whatever they are."""
    for item in comparison["detectors"]:
        if found := item["test"]["coverage_band"]:
            return (
                f"If the promise holds, {span(found)} of the test hallucinations are caught in "
                f"{percent(found['confidence'])} of all splits (ties only add to that). "
            )
    return ""


def body(comparison: _Dict) -> str:
    """Return the finding without what the headline says already."""
    finding = str(comparison["finding"])
    said = f"{headline(comparison)}: "
    text = plain(finding)
    if text.startswith(said):
        text = text[len(said) :]
        return text[:1].upper() + text[1:]
    return text


def threshold(item: _Dict) -> str:
    """Return a threshold, or a word."""
    return NONE if item.get("threshold") is None else number(item["threshold"])


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}" if seconds < 1e3 else f"{seconds:,.0f} s"
    return f"{seconds / 1e-6:.3g} \N{MICRO SIGN}s"


def _classes(item: _Dict) -> str:
    return f"{item['n_hallucinated']:,} hallucinated and {item['n_faithful']:,} faithful"


def _names(names: Sequence[str]) -> str:
    shown = [named(name) for name in names[:5]]
    return listed([*shown, count(len(names) - 5, "other")] if len(names) > 5 else shown)


def _points(found: _Dict) -> tuple[str, str]:
    if found["estimate"] is None:
        return NONE, ""
    return points(found["estimate"]), f"{points(found['lower'])} to {points(found['upper'])}"


def _difference(found: _Dict) -> tuple[str, str]:
    if found["estimate"] is None:
        return NONE, ""
    return f"{found['estimate']:+.3f}", f"{found['lower']:+.3f} to {found['upper']:+.3f}"


def _p(value: float) -> str:
    return p_value(value).removeprefix("p = ").removeprefix("p ")
