"""Document of compare."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from calibrail.formatting import count, duration, listed, percent
from calibrail.report import document as parts
from calibrail.report.document import Document, Json
from calibrail.report.documents import calibrate_messages
from calibrail.report.documents.compare_tables import (
    all_scores,
    at_same_coverage,
    on_answers_that_did_not_choose,
    other_targets,
    paired_tests,
)
from calibrail.report.figures.comparison import forest_svg
from calibrail.report.figures.plot import interval_lines
from calibrail.report.messages import say, title
from calibrail.report.text import capital, p_number, p_value, plain, share

#: Detectors that a sentence names; of more it gives the number.
_MOST_NAMED: Final = 4


def finding(comparison: Json) -> str:
    """Return who wins and what confirms it, or whom the data does not separate.

    Parameters
    ----------
    comparison : mapping
        ``Comparison.to_dict()``.
    """
    detectors, winner = comparison["detectors"], comparison["winner"]
    if not detectors:
        return "No detector could be calibrated to this target."
    if detectors[0]["test"]["fpr"]["estimate"] is None:
        return "The test part has no faithful example, so false alarms cannot be compared."
    name = winner["candidate"] or detectors[0]["name"]
    detector = next(item for item in detectors if item["name"] == name)
    fpr = detector["test"]["fpr"]
    flags = (
        f"flags {share(fpr)} of the faithful test answers ({percent(fpr['lower'])} to "
        f"{percent(fpr['upper'])}) at its own threshold, which aims to catch "
        f"{percent(1 - detector['alpha'])} of hallucinations"
    )
    tests = comparison["paired"]["against_best"]
    if not tests:
        return f"{name} {flags}. There is nothing to compare it with."
    ahead = f"{_first_in_table(detectors, detector, winner)}{_ahead(winner, tests)}"
    if winner["name"] is not None:
        confirmed = _confirmed(winner, comparison["paired"]["confirming"])
        return f"{headline(comparison)}: it {flags}.{ahead} {confirmed}"
    more = ""
    if (times := winner["times"]) is not None:
        more = (
            f" If the differences seen are the true ones, about {times:.{1 if times < 3.0 else 0}f}"
            " times as many labelled answers would separate it."
        )
    if winner["contradicted_by"]:
        why = _contradicted(winner, comparison["paired"]["confirming"])
    else:
        why = _undecided(winner, tests)
    return f"No winner: {why} {name} {flags}.{ahead}{more}"


def _first_in_table(detectors: Sequence[Json], detector: Json, winner: Json) -> str:
    """Say why the first detector of the table is not the one that is spoken of, where it is not."""
    if (first := detectors[0]) is detector:
        return ""
    own, other = (
        f"{share(item['test']['fpr'])} ({share(item['test']['coverage'])} caught)"
        for item in (first, detector)
    )
    there = "the data does not separate the two"
    if first["name"] in winner["ahead_of"]:
        there = f"{first['name']} raises more"
    return (
        " The table is ordered by what each score's own threshold does on the whole test part, "
        f"where {first['name']} comes first: {own} against {other} of {detector['name']}. The "
        "choice is made at one coverage for all, on calibration answers and half of the test part; "
        f"there {there}."
    )


def headline(comparison: Json) -> str:
    """Say in a few words whether somebody wins."""
    winner = comparison["winner"]
    if winner["name"] is None:
        return "No winner"
    return f"{winner['name']} wins{'' if winner['confirmed'] else ', not confirmed'}"


def _worse(test: Json, measure: str, winner: Json) -> bool:
    """Return whether a test shows that the reference has more of a measure than the score."""
    gap = test[measure]
    return bool(gap["p_adjusted"] <= winner["level"] and (gap["estimate"] or 0.0) < 0.0)


def _undecided(winner: Json, tests: Sequence[Json]) -> str:
    """Say who raises fewer false alarms than the best detector, and who cannot be told apart."""
    beaten = [test for test in tests if _worse(test, "fpr", winner)]
    alike = [t for t in tests if t["name"] in winner["not_separated"] and t not in beaten]
    others = [test["name"] for test in alike if not test["baseline"]]
    trivial = [test["name"] for test in alike if test["baseline"]]
    who, clauses = winner["candidate"], []
    if beaten:
        raises = "raise" if len(beaten) > 1 else "raises"
        clauses.append(
            f"{_baselines(beaten)} {_named(beaten, 'fpr')} {raises} fewer false alarms than {who}, "
            "the best detector"
        )
        who = "it"
    else:
        who = f"{who}, the detector with the fewest false alarms at the same coverage,"
    names = [few(others)] if others else []
    if trivial:
        names.append(f"{_baselines(trivial)} {few(trivial)}")
    if names:
        clauses.append(f"the data does not separate {who} from {' or '.join(names)}")
    return f"{'; '.join(clauses)}."


def _contradicted(winner: Json, tests: Sequence[Json]) -> str:
    """Say that the half that confirms takes back what the data that chooses shows."""
    return (
        f"the data that chooses separates {winner['candidate']} from all others, but the half of "
        f"the test part that did not choose says the opposite: {_rates(winner, tests)}."
    )


def _rates(winner: Json, tests: Sequence[Json]) -> str:
    """Set the rates of false alarms side by side that the confirming half shows."""

    def rate(name: str) -> str:
        return percent(winner["fpr"][name]["estimate"] or 0.0)

    return "; ".join(
        f"{rate(winner['candidate'])} against {rate(test['name'])} of {test['name']} "
        f"({p_value(test['fpr']['p_adjusted'])})"
        for test in tests
    )


def _baselines(items: Sequence[object]) -> str:
    return "the baselines" if len(items) > 1 else "the baseline"


def _ahead(winner: Json, tests: Sequence[Json]) -> str:
    """Say from whom the tests separate the candidate, by false alarms and by AUROC."""
    fewer = [test for test in tests if test["name"] in winner["ahead_of"]]
    better = [test for test in tests if _worse(test, "auroc", winner)]
    same = {test["name"] for test in fewer} == {test["name"] for test in better}
    if same and sum(not test["baseline"] for test in better) > _MOST_NAMED:
        return f" It raises fewer false alarms and ranks better (AUROC) than {_number(better)}."
    clauses = []
    if fewer:
        clauses.append(f"raises fewer false alarms than {_named(fewer, 'fpr')}")
    if better:
        # One list serves both where the same are named.
        them = "all of them" if same else _named(better, "auroc")
        clauses.append(f"ranks better (AUROC) than {them}")
    return f" It {', and '.join(clauses)}; corrected for all comparisons." if clauses else ""


def _named(tests: Sequence[Json], measure: str) -> str:
    """Name detectors with their p-values, or their number, and that of the baselines."""
    detectors = [test for test in tests if not test["baseline"]]
    trivial = len(tests) - len(detectors)
    baselines = [count(trivial, "baseline")] if trivial else []
    if len(detectors) > _MOST_NAMED:
        return _number(tests, measure)
    names = [f"{t['name']} ({p_value(t[measure]['p_adjusted'])})" for t in detectors or tests]
    return listed([*names, *(baselines if detectors else [])])


def _number(tests: Sequence[Json], *measures: str) -> str:
    """Return how many detectors and baselines, with the largest of their p-values."""
    trivial = sum(test["baseline"] for test in tests)
    kinds = ((len(tests) - trivial, "detector"), (trivial, "baseline"))
    used = measures or ("fpr", "auroc")
    largest = max(test[measure]["p_adjusted"] for test in tests for measure in used)
    level = "each p < 0.001" if largest < 0.001 else f"p at most {p_number(largest)}"
    return f"{listed([count(n, kind) for n, kind in kinds if n])} ({level}, corrected)"


def few(names: list[str]) -> str:
    """Return names as an enumeration, of many only the first ones."""
    return listed(names if len(names) < 7 else [*names[:5], f"{len(names) - 5} others"])


def _confirmed(winner: Json, tests: Sequence[Json]) -> str:
    """Say what the half that did not choose the winner shows."""
    certificate = winner["certificate"] or {}
    reason = certificate.get("reason", "")
    shows = "confirms that" if winner["confirmed"] else "does not confirm that beyond chance"
    return (
        f"The half of the test part that did not choose it {shows}: {_rates(winner, tests)}. "
        f"There it is {certificate.get('verdict')}: {reason[:1].lower()}{reason[1:]}"
    )


def next_step(comparison: Json) -> str:
    """Say what to do now."""
    winner, detectors = comparison["winner"], comparison["detectors"]
    if not detectors:
        return "Label more hallucinated answers, or tolerate more misses (--alpha)."
    if winner["candidate"] is None:
        return "Add faithful and hallucinated answers to the test part."
    if winner["name"] is not None:
        return _use(comparison)
    if len(detectors) == 1 and not comparison["baselines"]:
        return "Name further detectors, with --score or --score-column: nothing stood beside it."
    alike = [winner["candidate"], *winner["not_separated"], *winner["contradicted_by"]]
    chosen = [plain(item["name"]) for item in detectors if item["name"] in alike]
    if len(chosen) > 1:
        return (
            f"Label more answers, or choose among {few(chosen)} by what they cost, and certify the "
            f"one you choose on data that this comparison did not see{_in_full(comparison)}"
        )
    if any(_worse(test, "fpr", winner) for test in comparison["paired"]["against_best"]):
        return (
            "Check whether the data gives the answer away by surface features (calibrail doctor); "
            "if it does not, find a better detector."
        )
    return (
        "Label more answers, or find a better detector: none was shown to raise fewer false alarms "
        "than every baseline."
    )


def _in_full(comparison: Json) -> str:
    """Return the command that calibrates the best detector, at the end of a sentence."""
    name = comparison["winner"]["candidate"]
    command = calibrate_messages.for_one(comparison, name)
    return f" (calibrail certify). To start with {plain(name)}: {command}" if command else "."


def _use(comparison: Json) -> str:
    """Say what to do with a winner."""
    winner = comparison["winner"]
    if not winner["confirmed"]:
        return (
            "Label more answers before you rely on the lead: the half of the test part that did "
            "not choose does not show it at these thresholds."
        )
    if winner["certificate"]["verdict"] == "certified":
        if command := calibrate_messages.for_one(comparison, winner["name"]):
            return f"Calibrate {plain(winner['name'])} alone, and freeze it: {command}"
        return (
            f"Calibrate {plain(winner['name'])} alone with calibrail calibrate (data, split and "
            "target as here), and freeze it with calibrail export."
        )
    if winner["certificate"]["max_fpr"] is None:
        return say("verdict.state_limit")
    return "Label more answers to settle the verdict, or ask for less (--min-coverage)."


def assumptions(comparison: Json) -> list[str]:
    """Return what the claims rest on."""
    detectors = comparison["detectors"]
    confidence = percent(detectors[0]["confidence"]) if detectors else "the stated"
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
    tests = comparison["paired"]["against_best"]
    if any("obuchowski" in test["auroc"]["method"] for test in tests):
        lines.append(
            "Answers share groups here, so every test counts groups: AUROC by Obuchowski's "
            "variance in place of DeLong's, McNemar by turning whole groups. The Wilson and DeLong "
            "intervals of single detectors take answers as independent."
        )
    return lines


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
        headings[code] = (
            f"{title(f'warning.{code}')}: {'all detectors' if everyone else few(named)}"
        )
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
        alike.setdefault(who, []).append(title(f"warning.{code}"))
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
    columns = (parts.TableColumn("Score"), *heads, parts.TableColumn("Shares passes with"))
    return parts.section(
        "What the scores cost",
        parts.Table("What the scores cost", columns, rows),
        parts.note(
            "Measured when these answers were scored, models that several scores share included"
            f"{', the opening of models not' if timed else ''}; in cost.json."
        ),
        where="page",
    )
