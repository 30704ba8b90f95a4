"""Does a watch say its three answers first, each with what it rests on, and what to do now?"""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from calibrail.formatting import Scale
from calibrail.guardrail import decision_log
from calibrail.options.fields import cli_spelling
from calibrail.pipelines import monitor_inputs
from calibrail.report import print_document, render_page
from calibrail.report.documents import guardrail, monitor
from calibrail.report.documents import monitor as words
from calibrail.report.figures import sequential as figures
from calibrail.report.figures.plot import drawing
from calibrail.report.html import figure_files
from calibrail.report.markdown import render_markdown
from tests.catalogue import catalogue
from tests.report import watch_status as made


@pytest.fixture(autouse=True)
def typed() -> Iterator[None]:
    """Say it as to who wrote a command."""
    with cli_spelling():
        yield


def printed(status: dict[str, Any], **details: Any) -> str:
    """Return what a terminal shows, on one line."""
    text = io.StringIO()
    print_document(monitor.document(status, **details), Console(file=text, width=80))
    return " ".join(text.getvalue().split())


def test_the_three_answers_come_first() -> None:
    lead = monitor.document(made.year()).lead
    assert [item.title for item in lead] == ["Promise", "Traffic", "Hallucinations"]
    promise, traffic, hallucinations = (item.text for item in lead)
    assert "since 2026-09-23 00:00 (2026-09-22 00:00 to 2026-09-23 12:00 UTC)" in traffic
    assert "sees a change by mistake once in 100,000 answers or more, on average" in traffic
    assert "from 301 to 360 characters (above 340: from 2% to 66.7% of answers)" in traffic
    assert "latest of 2 such changes" in traffic and "not by itself break the promise" in traffic
    assert promise.startswith("Broken, as the labels of answers up to 2026-11-12 prove: too little")
    assert "Over all draws, from the first day on, 88%" in promise
    assert "80 to 93%; promised: at least 90%" in promise
    assert hallucinations.startswith("4.5 to 9.8% of answers are hallucinated, from labels")
    assert "labelled answers drawn at random" in hallucinations
    terminal = printed(made.year())
    places = [terminal.index(item.text[:40]) for item in lead]
    assert places == sorted(places) and terminal.index("Changes of the traffic") > places[-1]


def test_a_language_that_came_is_named_rather_than_the_one_that_gave_way() -> None:
    alarm = made.year()["traffic"]["alarms"][0]
    assert words.moved(alarm) == "answers in de went from 0.2% to 15%"


def test_languages_that_the_reference_lacks_are_named_from_the_timeline() -> None:
    alarm = made.year()["traffic"]["alarms"][0] | {
        "row": 1000,
        "before": {"n": 2000, "shares": {"en": 1.0}},
        "after": {"n": 300, "shares": {"en": 0.6, "other": 0.4}},
        "histogram": {"edges": [], "names": ["en", "rarer", "other"], "before": [], "after": []},
    }
    alarm["since"] = {"row": 700}
    timeline = [
        made.day(0, 100, 3, languages={"sv": 100}, row=0),
        made.day(1, 400, 3, languages={"en": 250, "fr": 100, "de": 150}, row=600),
        made.day(2, 400, 3, languages={"pl": 400}, row=1001),
    ]
    lacks = "answers in languages that the first quarter of the reference lacks"
    assert words.moved(alarm, timeline) == f"{lacks} (de and fr) went from 0% to 40%"
    assert words.moved(alarm) == f"{lacks} went from 0% to 40%"
    timeline[1]["languages"] |= {"da": 3, "fi": 2, "it": 1}
    assert "(de, fr, da and others)" in words.moved(alarm, timeline)
    alarm["before"]["shares"]["rarer"] = 0.01
    assert f"{lacks} went" in words.moved(alarm, timeline)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (
            ("05-03T22:10", "05-04T02:00", "05-04T01:00"),
            "2026-05-04 01:00 (2026-05-03 22:10 to 2026-05-04 02:00 UTC)",
        ),
        (("05-04T00:10", "05-04T02:00", "05-04T01:00"), "2026-05-04 01:00 (00:10 to 02:00 UTC)"),
        (("05-01T22:10", "05-04T22:10", "05-04T01:00"), "2026-05-04 (2026-05-01 to 2026-05-04)"),
    ],
)
def test_a_short_interval_is_shown_to_the_minute(times: tuple[str, ...], said: str) -> None:
    lower, upper, since = ({"row": 7, "time": f"2026-{time}:00Z"} for time in times)
    assert words.since({"since": {**since, "lower": lower, "upper": upper}}) == said


def test_rates_that_no_label_tells_are_unknown_not_none() -> None:
    tiles = monitor.document(made.few()).tiles[:2]
    assert [tile.value for tile in tiles] == ["unknown", "unknown"]


def test_a_share_and_values_that_are_not_known_have_words() -> None:
    alarm = {"feature": "undefined", "before": {"share": 0.01}, "after": {"share": 0.2}}
    assert words.moved(alarm) == "answers without a score went from 1% to 20%"
    nothing: dict[str, Any] = {"edges": [0.5], "before": [0, 0], "after": [3, 1]}
    alarm = {
        "feature": "score",
        "before": {"mean": None},
        "after": {"mean": 0.4},
        "histogram": nothing,
    }
    assert words.moved(alarm) == "the mean score went from none to 0.4"


def test_scores_of_a_column_are_said_in_its_own_numbers() -> None:
    params = {"column": "support", "higher": "faithful"}
    scale = Scale.of({"name": "column", "params": params})
    alarm = {
        "feature": "score",
        "before": {"mean": -0.9},
        "after": {"mean": -0.6},
        "histogram": {"edges": [-0.8], "before": [9, 1], "after": [2, 8]},
    }
    assert words.moved(alarm, (), scale) == (
        "the mean support went from 0.9 to 0.6 (below 0.8: from 10% to 80% of answers)"
    )


@pytest.mark.parametrize(
    ("status", "headline", "said"),
    [
        (made.few(0), "No labels yet", "of which 0 are here"),
        (made.few(), "No labels yet", "of which 10 are here"),
        (made.few(5000), "No labels yet", "no change seen in 4,000 answers"),
        (
            made.year("kept"),
            "Kept so far, traffic has changed",
            "since number 700 (answers up to 2026-05-21)",
        ),
        (made.year("undecided"), "Undecided, traffic has changed", "show neither that it is kept"),
        (
            made.year(),
            "Broken, traffic has changed",
            "By 2026-11-12 (draw 1,600) the evidence against the promise (too little is caught)",
        ),
    ],
)
def test_every_state_is_said_on_every_medium(
    status: dict[str, Any], headline: str, said: str
) -> None:
    document = monitor.document(status)
    assert document.headline == headline
    assert said.casefold() in printed(status).casefold()
    page, text = render_page(document), render_markdown(document)
    for item in document.lead:
        assert item.text[:30] in page and item.text[:15] in text


def test_the_next_step_follows_from_the_state() -> None:
    names: dict[str, Any] = {"guardrail": "g b.json", "logs": ["log"]}
    drawn = "label --from-log log --guardrail 'g b.json' -o audit --per-day 20"
    assert drawn in printed(made.few(), **names)
    waiting = printed(made.year("kept"), **names, labels="people")
    # What came first has left a small screen by now.
    assert "calibrail label -o people KEPT SO FAR, TRAFFIC HAS CHANGED: Caught" in waiting
    broken = printed(made.year(), **names, labels="people")
    assert "calibrail recalibrate 'g b.json' log --labels people -o new.json" in broken


def test_groups_have_their_own_states_and_intervals() -> None:
    status = made.year("kept")
    group = {**status["promise"], "group": "law", "state": "undecided", "n_labels": 77}
    status["promise"]["groups"] = [group]
    row = printed(status).split("By group")[1].split("How many")[0]
    assert row.endswith("law Undecided 88% 18% 77 95% intervals 80 to 93% 15 to 21% ")


def test_with_groups_each_interval_stands_with_its_level() -> None:
    status = made.year("kept")
    for rate in ("coverage", "fpr"):
        status["promise"][rate]["confidence"] = 0.975
    part = made.rate(0.9, 0.5, 0.99) | {"confidence": 0.9875}
    group = {**status["promise"], "group": "law", "coverage": part, "fpr": part}
    status["promise"]["groups"] = [group]
    terminal = printed(status)
    assert "97.5% interval" in terminal and "98.7% intervals" in terminal
    assert "95% interval" not in terminal.split("Is the promise kept?")[1]
    assert "95% interval" in printed(made.year("kept")).split("Is the promise kept?")[1]


def test_what_is_wrong_with_the_log_is_named_and_counted() -> None:
    terminal = printed(made.year())
    assert "line 77: was changed after it was written" in terminal and "and 7 more" in terminal
    assert "The log is not as it was written" in terminal
    page = render_page(monitor.document(made.year()))
    assert "line 86: was changed" in page
    finding = {
        "code": "outcome",
        "file": "a.jsonl",
        "line": 3,
        "values": {"outcome": "pass", "score": 0.98765432, "rule": "flag"},
    }
    said = guardrail.sentence(finding, of_watch=True)
    assert said == "a.jsonl, line 3: says pass of the score 0.9877, and the guardrail says flag"


def test_texts_stand_on_the_page_only_where_the_log_has_them() -> None:
    page = render_page(monitor.document(made.year()))
    assert "Der Mars hat zwei Monde." in page
    assert "52403" in page and "look them up by their ids" in page
    assert "Monde" not in printed(made.year())


@pytest.mark.painted
def test_figures_need_neither_times_nor_labels() -> None:
    assert {"timeline", "traffic", "feature-language", "wealth", "rates", "prevalence"} <= set(
        figure_files(monitor.document(made.year()))
    )
    status = made.year()
    for item in status["timeline"]:
        item["from"] = item["to"] = None
    status["promise"]["course"]["time"] = [None] * 52
    for alarm in status["traffic"]["alarms"]:
        for place in (alarm, alarm["since"], alarm["since"]["lower"], alarm["since"]["upper"]):
            place["time"] = None
    document = monitor.document(status)
    assert ">answers<" in figure_files(document)["timeline"]
    assert "since answer 106,100 (105,800 to 106,272)" in document.lead[1].text
    # One period draws no line: words say what share of it was flagged.
    few = monitor.document(made.few())
    assert (
        set(figure_files(few)) == {"traffic"} and "of all answers were flagged." in few.lead[1].text
    )
    assert not figure_files(monitor.document(made.few(0)))


@pytest.mark.parametrize(
    ("state", "changes", "said"),
    [
        (
            "kept",
            {"prevalence.judge": made.JUDGE},
            "people alone would have to label 1,200 more answers",
        ),
        (
            "kept",
            {"prevalence.flags.reason": "contradiction"},
            "nothing follows: no mix of both classes",
        ),
        ("kept", {"prevalence.flags.notes": ["clustered"]}, "takes each of them as independent"),
        ("kept", {"prevalence.flags.notes": ["bounds_as_frozen"]}, "as they were froz"),
        (
            "kept",
            {"prevalence.flags.notes": ["compared_before"]},
            "chose the detector among others",
        ),
        ("kept", {"prevalence.flags.notes": ["others_tried"]}, "other detectors were also tried"),
        (
            "kept",
            {"promise.largest_share": 0.8},
            "Of one batch 80% of the logged answers were drawn",
        ),
        ("broken", {"promise.decided.shown": False}, "they were changed since"),
        (
            "broken",
            {"promise.n_disagreements": 2},
            "2; `calibrail label --settle` asks a further person",
        ),
        ("broken", {"promise.limits": {"coverage": None, "fpr": None}}, "name a limit"),
        (
            "undecided",
            {"promise.n_drawn": 300, "promise.n_labels": 0, "promise.n_pending": 300},
            "300 answers drawn have no label yet",
        ),
        (
            "undecided",
            {
                "promise.each": True,
                "promise.groups": [
                    {**made.year("undecided")["promise"], "group": name, "state": state}
                    for name, state in (("law", "undecided"), ("tax", "kept"))
                ],
            },
            "which is not shown for law)",
        ),
    ],
)
def test_what_is_found_and_nothing_else_is_said(
    state: str, changes: dict[str, Any], said: str
) -> None:
    status = made.year(state)
    assert said not in printed(status)
    for path, value in changes.items():
        *names, last = path.split(".")
        part = status
        for name in names:
            part = part[name]
        part[last] = value
    assert said in printed(status)


def test_half_a_batch_drawn_is_no_large_part_and_the_time_to_begin_is_that_of_the_traffic() -> None:
    status = made.year()
    assert "add --since 2026-09-23 to take only answers after the traffic changed" in printed(
        status
    )
    status["promise"]["largest_share"] = 0.5
    status["traffic"]["since"] = None
    assert "--since" not in printed(status) and "Of one batch" not in printed(status)


@pytest.mark.filterwarnings("error")
@pytest.mark.painted
def test_figures_take_times_that_are_equal_go_back_or_are_missing() -> None:
    same = "2026-01-01T00:00:00Z"
    equal, back, missing = made.year(), made.year(), made.year()
    for item in equal["timeline"]:
        item["from"] = item["to"] = same
    equal["promise"]["course"]["time"] = [same] * 52
    course = back["promise"]["course"]["time"]
    course[-1] = course[0]
    back["timeline"][-1] |= {name: back["timeline"][0][name] for name in ("from", "to")}
    for item in missing["timeline"][::2]:
        item["from"] = item["to"] = None
    for status in (equal, back, missing):
        assert {"timeline", "traffic", "wealth", "rates"} <= set(
            figure_files(monitor.document(status))
        )


def test_every_code_of_a_log_that_a_watch_reads_has_words() -> None:
    package = Path(decision_log.__file__).parent
    sources = [*package.glob("*.py"), Path(monitor_inputs.__file__)]
    found: dict[str, set[str]] = {"said": set(), "skipped": set()}
    for call in (item for path in sources for item in ast.walk(ast.parse(path.read_text("utf-8")))):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
            continue
        codes = {
            item.value
            for item in ast.walk(call.args[0])
            if isinstance(item, ast.Constant) and isinstance(item.value, str)
        }
        if call.func.attr in ("find", "find_once", "refuse"):
            found["said"] |= codes
        if call.func.attr in ("skip", "refuse"):
            found["skipped"] |= codes
    assert {"gap", "late", "outcome"} <= found["said"]
    said = {code.removeprefix("log.").removeprefix("read_") for code in catalogue()}
    assert found["said"] <= said
    assert {"duplicate", "threshold"} <= found["skipped"] <= {*catalogue()["log.skipped"]}


def test_a_value_that_was_always_the_same_and_fell_has_no_empty_share() -> None:
    bins: dict[str, Any] = {"edges": [5.0], "before": [100, 0], "after": [40, 0]}
    alarm = {"feature": "score", "before": {"mean": 5.0}, "after": {"mean": 4.0}, "histogram": bins}
    assert words.moved(alarm).endswith("went from 5 to 4")


#: Bytes of a page of a run.
HEAVIEST = 200_000
EVERY_FEATURE = [*catalogue()["monitor.features"]]


def heavy() -> dict[str, Any]:
    """Return a year in which everything that is watched moved again and again, with long texts."""
    status = made.year()
    kinds = {"shares": made.LANGUAGES, "mean": made.LENGTHS}
    rng, languages = np.random.default_rng(0), ("de", "en", "fr", "nl", "pl", "sv")
    for number, item in enumerate(status["timeline"]):
        item |= {"undefined": number % 7, "failed": number % 5}
        item["means"] |= {"chunks": 4.0 + rng.normal()}
        item["languages"] = {name: int(rng.integers(20, 90)) for name in languages}
    text = {
        "question": "Why is it so? " * 60,
        "contexts": ["It is as it is, and nobody knows why. " * 30] * 5,
        "response": "Because of it. " * 60,
    }
    first = status["traffic"]["alarms"][0]
    for number in range(60):
        feature, against = EVERY_FEATURE[number % 6], ("calibration", "stream")[number // 6 % 2]
        moved = kinds["shares" if feature == "language" else "mean"]
        if feature == "undefined":
            moved = {"before": {"share": 0.01}, "after": {"share": 0.2}, "histogram": {}}
        at = {"row": 2_400 * number, "time": made.moment(6.0 * number)}
        examples = [
            {"row": row, "chain": made.CHAIN, "seq": row, "id": f"a-{row}", "text": text}
            for row in range(10)
        ]
        since = {**at, "lower": at, "upper": at}
        alarm = {**first, **moved, **at, "feature": feature, "since": since}
        status["traffic"]["alarms"] += [alarm | {"against": against, "examples": examples}]
    status["traffic"] |= {"n_alarms": 62, "watched": EVERY_FEATURE}
    ends = [(item["from"], item["to"]) for item in status["timeline"][::14]]
    status["promise"]["windows"] = [
        {"draw": 1, "from": low, "to": high, "n": 9, "coverage": CAUGHT, "fpr": CAUGHT}
        for low, high in ends
    ]
    groups = [{**status["promise"], "group": f"customers {at}"} for at in range(12)]
    status["promise"]["groups"] = groups
    status["prevalence"]["judge"] = made.JUDGE
    return status


@pytest.mark.painted
def test_a_year_with_every_kind_of_alarm_weighs_no_more_than_a_page_may() -> None:
    status = heavy()
    document = monitor.document(status)
    page = render_page(document)
    assert len(page.encode()) <= HEAVIEST
    # What happened last is on the page, and what is left out is named.
    assert page.count("behind the alarm of") == words._MOST_ALARMS
    assert f"The latest {words._MOST_ALARMS} of 62 alarms." in page
    assert "10 answers behind the alarm of 2026-12-21 00:00 UTC (1 shown; status.json" in page
    few = render_page(monitor.document(made.year()))
    assert "2 answers behind the alarm of" in few and "shown; status.json" not in few
    assert "The latest" not in few


def test_a_long_course_is_drawn_in_stretches_and_no_extreme_or_gap_is_lost() -> None:
    """A line keeps the least and the largest value of a stretch, a band its outermost bounds."""
    n, rng = 512, np.random.default_rng(1)
    values: list[float | None] = rng.random(n).tolist()
    values[100:140] = [None] * 40
    bounds = [None if value is None else {"lower": value, "upper": value + 1} for value in values]
    with drawing(4.1, 2.3) as plot:
        at = figures.CoursePoints(plot, list(map(float, range(n))), False, "answers")
        at.line(values, "#010101", scale=1.0)
        at.band(bounds, "#010101")
        line, drawn = plot.axes.lines[0], plot.axes.collections[0].get_paths()
    x, y = (np.asarray(part, dtype=float) for part in line.get_data())
    assert len(x) <= 256 and list(x) == sorted(set(x))
    known = np.array([value for value in values if value is not None])
    assert (np.nanmin(y), np.nanmax(y)) == (known.min(), known.max())
    for place, value in zip(x, y, strict=True):
        assert values[int(place)] == value or (values[int(place)] is None and np.isnan(value))
    assert np.isnan(y[(x > 104) & (x < 136)]).all()
    assert sum(len(path.vertices) for path in drawn) <= 4 * 128
    corners = np.concatenate([path.vertices for path in drawn])
    assert corners[:, 1].min() == 100.0 * known.min()
    assert corners[:, 1].max() == 100.0 * (known.max() + 1.0)
    assert (corners[:, 0].min(), corners[:, 0].max()) == (0.0, n - 1.0)


CAUGHT: dict[str, Any] = {"estimate": 0.9, "lower": 0.8, "upper": 0.95}


@pytest.mark.painted
def test_a_timeline_shows_both_rates_window_by_window_with_what_happened_when() -> None:
    status = made.year()
    rate = CAUGHT
    none = {"estimate": None, "lower": 0.0, "upper": 1.0}
    ends = [(item["from"], item["to"]) for item in status["timeline"]]
    windows = [
        {"draw": 1, "from": low, "to": high, "n": 9, "coverage": caught, "fpr": rate}
        for (low, _), (_, high), caught in (
            (ends[0], ends[2], rate),
            (ends[3], ends[-1], {**rate, "estimate": 0.4, "lower": 0.2}),
            (ends[-1], ends[-1], none),
        )
    ]
    status["promise"]["windows"] = windows
    document = monitor.document(status)
    figure = figure_files(document)["timeline"]
    alarms = status["traffic"]["alarms"]
    for text in ("% caught", "% false alarms", "promise broken"):
        assert f">{text}<" in figure
    named = [words.word("monitor.features", alarm["feature"]) for alarm in alarms]
    assert all(f">{name}<" in figure for name in named)
    page = render_page(document)
    assert "by the labels of each window" in page and "1 languages" in page
    # On a phone there is room for numbers, which the caption explains.
    drawn = figures.timeline_svg(status, [(alarms[0], "languages", False)], narrow=True)
    assert ">1<" in drawn and ">languages<" not in drawn


def test_one_change_that_both_comparisons_found_is_shown_once() -> None:
    status = made.year()
    first, *others = status["traffic"]["alarms"]
    twin = {**first, "against": "calibration", "row": first["row"] - 3}
    alarms = [twin, {**first, "against": "stream"}, *({**a, "against": "stream"} for a in others)]
    status["traffic"] |= {"alarms": alarms, "n_alarms": 3, "calibration": None}
    text = render_markdown(monitor.document(status))
    assert text.count("Answers in de went from 0.2% to 15%") == 1
    assert "latest of 3 such changes" in text


def test_a_broken_promise_names_the_rates_of_the_latest_labels() -> None:
    status = made.year()
    latest = {"n": 100, "coverage": CAUGHT | {"estimate": 0.6}, "fpr": CAUGHT}
    status["promise"]["lately"] = {**status["promise"]["lately"], "latest": latest}
    said = monitor.document(status).lead[0].text
    # What was caught lately stands before a year's mean, in which the good months hide the fall.
    assert f"Of the latest {latest['n']} labels" in said and "Over all draws" not in said
    assert "Caught, lately" in render_markdown(monitor.document(status))
    # The first numbers are those of the labels that the verdict speaks of, and name the others.
    caught, alarms, *_ = monitor.document(status).tiles
    assert (caught.name, caught.value, caught.asked) == ("Caught, lately", "60%", ">= 90%")
    assert caught.interval == "80 to 95%; over all draws 88%"
    assert (alarms.name, alarms.value) == ("False alarms, lately", "90%")
    # Where the promise is kept, the verdict speaks of all draws, and so do they.
    kept = made.year("kept")
    kept["promise"]["lately"] = status["promise"]["lately"]
    whole = monitor.document(kept).tiles[0]
    assert (whole.name, whole.value, whole.interval) == ("Caught", "88%", "80 to 93%")
