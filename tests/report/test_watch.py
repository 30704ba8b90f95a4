"""Does a watch say its three answers first, each with what it rests on, and what to do now?"""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from calibrail.report import print_document, render_page
from calibrail.report.documents import watch, watch_log
from calibrail.report.documents import watch_words as words
from calibrail.report.render_markdown import render_markdown
from calibrail.report.svg import figure_files
from tests.report import watch_status as made


def printed(status: dict[str, Any], **details: Any) -> str:
    """Return what a terminal shows, on one line."""
    text = io.StringIO()
    print_document(watch.document(status, **details), Console(file=text, width=80))
    return " ".join(text.getvalue().split())


def test_the_three_answers_come_first() -> None:
    lead = watch.document(made.year()).lead
    assert [item.title for item in lead] == ["Traffic", "Promise", "Hallucinations"]
    traffic, promise, hallucinations = (item.text for item in lead)
    assert "since 2026-09-23 (2026-09-22 to 2026-09-23)" in traffic
    assert "from 301 to 360 characters (above 340: from 2% to 66.7% of answers)" in traffic
    assert "last of 2 changes" in traffic and "does not say that the promise is broken" in traffic
    assert promise.startswith(
        "Broken (too little is caught), shown by answers up to 2026-11-12: 88%"
    )
    assert "80 to 93%; promised: at least 90%" in promise
    assert hallucinations.startswith("4.5 to 9.8% of answers are hallucinated, from labels")
    assert "labelled answers drawn by lot" in hallucinations
    terminal = printed(made.year())
    places = [terminal.index(item.text[:40]) for item in lead]
    assert places == sorted(places) and terminal.index("Changes of the traffic") > places[-1]


def test_a_language_that_came_is_named_rather_than_the_one_that_gave_way() -> None:
    alarm = made.year()["traffic"]["alarms"][0]
    assert words.moved(alarm) == "answers in de went from 0.2% to 15%"


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


@pytest.mark.parametrize(
    ("status", "headline", "said"),
    [
        (made.few(0), "No labels yet", "of which 0 are here"),
        (made.few(), "No labels yet", "of which 10 are here"),
        (made.few(5000), "No labels yet", "no change seen in 4,000 answers"),
        (made.year("kept"), "Kept so far, traffic has changed", "since number 700 (2026-05-21)"),
        (made.year("undecided"), "Undecided, traffic has changed", "show neither that it is kept"),
        (made.year(), "Broken, traffic has changed", "won 90-fold with draw 1,600 (2026-11-12)"),
    ],
)
def test_every_state_is_said_on_every_medium(
    status: dict[str, Any], headline: str, said: str
) -> None:
    document = watch.document(status)
    assert document.headline == headline
    assert said.casefold() in printed(status).casefold()
    page, text = render_page(document), render_markdown(document)
    for item in document.lead:
        assert item.text[:30] in page and item.text[:15] in text


def test_the_next_step_follows_from_the_state() -> None:
    names: dict[str, Any] = {"guardrail": "g b.json", "logs": ["log"]}
    assert "audit-sample 'g b.json' log -o audit --per-day 20" in printed(made.few(), **names)
    waiting = printed(made.year("kept"), **names, labels="people")
    assert waiting.endswith("calibrail label -o people")
    broken = printed(made.year(), **names, labels="people")
    assert "calibrail recalibrate 'g b.json' log --labels people -o new.json" in broken


def test_a_break_that_changed_labels_do_not_show_any_more_stays_one() -> None:
    status = made.year()
    status["promise"]["decided"]["shown"] = False
    assert "they were changed since" in printed(status)
    status = made.few()
    status["promise"] |= {"state": "broken", "decided": made.year()["promise"]["decided"]}
    assert "Broken (too little is caught), shown by answers up to 2026-11-12." in printed(status)


def test_a_guardrail_that_promises_nothing_says_so() -> None:
    status = made.few()
    status["promise"]["limits"] = {"coverage": None, "fpr": None}
    assert "name a limit" in printed(status)


def test_groups_have_their_own_states_and_intervals() -> None:
    status = made.year("kept")
    group = {**status["promise"], "group": "law", "state": "undecided", "n_labels": 77}
    status["promise"]["groups"] = [group]
    row = printed(status).split("By group")[1].split("How many")[0]
    assert row.endswith("law Undecided 88% 18% 77 80 to 93% 15 to 21% ")


def test_what_is_wrong_with_the_log_is_named_and_counted() -> None:
    terminal = printed(made.year())
    assert "line 77: was changed after it was written" in terminal and "and 7 more" in terminal
    assert "the log is not as it was written" in terminal
    page = render_page(watch.document(made.year()))
    assert "line 86: was changed" in page
    finding = {
        "code": "outcome",
        "file": "a.jsonl",
        "line": 3,
        "values": {"outcome": "pass", "score": 0.98765432, "rule": "flag"},
    }
    said = watch_log.sentence(finding)
    assert said == "a.jsonl, line 3: says pass of the score 0.9877, and the guardrail says flag"


def test_texts_stand_on_the_page_only_where_the_log_has_them() -> None:
    page = render_page(watch.document(made.year()))
    assert "Der Mars hat zwei Monde." in page
    assert "52403" in page and "look them up by their ids" in page
    assert "Monde" not in printed(made.year())


def test_figures_need_neither_times_nor_labels() -> None:
    assert {"flags", "traffic", "feature-language", "wealth", "rates", "prevalence"} <= set(
        figure_files(watch.document(made.year()))
    )
    status = made.year()
    for item in status["timeline"]:
        item["from"] = item["to"] = None
    status["promise"]["course"]["time"] = [None] * 52
    for alarm in status["traffic"]["alarms"]:
        for place in (alarm, alarm["since"], alarm["since"]["lower"], alarm["since"]["upper"]):
            place["time"] = None
    document = watch.document(status)
    assert ">answers<" in figure_files(document)["flags"]
    assert "since answer 106,100 (105,800 to 106,272)" in document.lead[0].text
    assert set(figure_files(watch.document(made.few()))) == {"flags", "traffic"}
    assert not figure_files(watch.document(made.few(0)))


def test_a_judge_says_what_it_saved_and_a_way_that_tells_nothing_why() -> None:
    status = made.year("kept")
    status["prevalence"]["judge"] = made.rate(0.07, 0.05, 0.09) | {"reason": None, "saved": 1200}
    assert "people alone would have to label 1,200 more answers" in printed(status)
    status["prevalence"]["flags"] |= {"lower": 0.0, "upper": 1.0, "reason": "contradiction"}
    assert "nothing follows: no mix of both classes" in printed(status)
