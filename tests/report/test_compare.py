"""Are the page, the pictures and the terminal of a comparison safe, complete and the same?"""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from reports import CODES, HOSTILE, LABELS, NOISE, VALUES, comparison
from rich.console import Console

from calibrail.formatting import percent
from calibrail.report import print_document, render_page
from calibrail.report.documents.compare import document, finding, ranking
from calibrail.report.figures import comparison as compare_figures
from calibrail.report.html import figure_files
from tests.measured import compare

COST = {
    "schema": "calibrail.cost/1",
    "scores": [
        {
            "score": "toy",
            "n": 400,
            "seconds": 2.0,
            "seconds_per_1000": 5.0,
            "forward_passes": 4,
            "shared_with": ["noise"],
            "calls": None,
        },
        {
            "score": "noise",
            "n": 400,
            "seconds": 0.4,
            "seconds_per_1000": 1.0,
            "forward_passes": 0,
            "shared_with": [],
            "calls": {"n_judged": 4, "usage": {"n_sent": 3, "n_cached": 1}},
        },
    ],
}


def won(**options: Any) -> dict[str, Any]:
    """A comparison with a winner."""
    columns = {"toy": VALUES + 2.0 * LABELS, "noise": NOISE}
    how = {"labels": LABELS, "codes": CODES, "alpha": 0.1, "baselines": {"length": -NOISE}}
    return compare(columns, **{**how, **options}).to_dict()


def attacked() -> dict[str, Any]:
    """A comparison in which every name that a file can choose is an attack."""
    return compare(
        {HOSTILE: VALUES, f"_{HOSTILE}": NOISE, f"{HOSTILE}never": np.full(400, np.nan)},
        labels=LABELS,
        codes=CODES,
        alpha=0.1,
        baselines={f"{HOSTILE}base": NOISE * LABELS, "\u202eflip\ud800": np.round(VALUES / 3)},
        data={"source": HOSTILE, HOSTILE: 1},
        reproduce={"command": HOSTILE},
    ).to_dict()


def safe(page: str) -> None:
    assert not re.search(r"https?:|//[a-z]|url\((?!#)|@import|<script|<link|<iframe|src=", page)
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'none'" in page
    assert not re.search(r"<[^>]*\bon[a-z]+=", page)
    assert not re.search(r"#0[a0][0a][a1]?0\d\b|#0[1-4]0[1-4]0[1-4]\b", page)


def page_of(value: dict[str, Any], cost: dict[str, Any] | None = None) -> str:
    return render_page(document(value, cost))


def shown(value: dict[str, Any], width: int = 80) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, no_color=True, force_terminal=False)
    print_document(document(value), console)
    text = stream.getvalue()
    assert max(len(line) for line in text.splitlines()) <= width
    return text


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.painted
def test_the_page_is_self_contained_complete_and_the_same() -> None:
    value = won(max_fpr=0.3)
    page = page_of(value, COST)
    safe(page)
    assert page == page_of(value, COST)
    assert page.index("toy wins") < page.index("<svg") < page.index("All scores on the same")
    for part in (
        "Who is ahead",
        "On answers that did not choose",
        "At the same share caught",
        "Other targets",
        "What the scores cost",
        "What the claims rest on",
        "prefers-color-scheme",
        "Against length",
        "5 s",
        "3 sent, 1 known",
        "AUROC 80%+",
    ):
        assert part in page, part
    assert page.count("<svg") == 6  # three figures, each for a wide and for a narrow screen
    assert "What the scores cost" not in page_of(value)


def test_why_the_table_begins_with_another_than_the_best_is_said_where_it_does() -> None:
    value = won(max_fpr=0.3)
    assert ranking(value) == ""
    value["detectors"] = value["detectors"][::-1]
    assert "The table is ordered by" in ranking(value)


def test_every_number_of_the_page_follows_from_the_json() -> None:
    value = won(max_fpr=0.3)
    copied = json.loads(json.dumps(value))
    assert page_of(copied, COST) == page_of(value, COST)


def test_a_missing_interval_at_high_coverage_has_its_reason() -> None:
    value = won()
    assert "it has no interval" not in words(page_of(value))
    reason = "it has no interval, since where most are caught it rests on few answers"
    value["detectors"][0]["partial_auroc"] |= {"lower": None, "upper": None, "reason": reason}
    assert f"perfect); {reason}. Overlap" in words(page_of(value))


def test_without_a_winner_the_page_says_so_and_what_to_do() -> None:
    value = comparison(max_fpr=0.2, baselines={"length": VALUES + 0.1 * NOISE})
    page = page_of(value)
    safe(page)
    assert "<strong>No winner</strong>" in page
    assert "<li>never: " in page
    assert "On answers that did not choose" not in page
    made = document(value)
    assert made.next_step.startswith(("Label more answers", "Check whether"))
    # What leads is short: whom the best one is ahead of stands beside the tests that show it.
    (detector,) = [item["name"] for item in value["detectors"] if item["name"] in made.summary]
    assert f"{detector} flags" in made.summary
    assert f"No winner: False alarms of {detector} " in shown(value).split("\nNext: ")[1]
    assert len(made.summary.split()) < 55 and "corrected for all pairs" not in made.summary


@pytest.mark.painted
def test_a_baseline_that_cannot_be_calibrated_takes_no_line_of_the_figure() -> None:
    # Names and numbers are in few answers: the share that such a baseline flags is none.
    value = comparison(baselines={"length": NOISE, "entities": np.full(400, np.nan)})
    assert [item["fpr"] is None for item in value["baselines"]] == [False, True]
    assert "False alarms and ranking" in words(page_of(value))
    assert "length" in shown(value)


@pytest.mark.painted
def test_nothing_to_compare_makes_a_page() -> None:
    value = comparison(alpha=0.001)
    assert value["detectors"] == []
    page = page_of(value)
    safe(page)
    assert "<svg" not in page
    assert "99.9% cannot be promised with n = 100" in page
    assert "No detector could be calibrated" in words(shown(value))
    one = compare({"toy": VALUES}, labels=LABELS, codes=CODES, alpha=0.1).to_dict()
    safe(page_of(one))
    assert "nothing to compare it with" in words(shown(one))


def test_hostile_names_are_text() -> None:
    value = attacked()
    page = page_of(
        value, {"scores": [{**COST["scores"][0], "score": HOSTILE, "shared_with": [HOSTILE]}]}
    )
    safe(page)
    assert page.count("&lt;script&gt;") >= 20
    assert "\u202e" not in page
    assert "\x1b" not in page
    page.encode("utf-8", "replace")
    text = shown(value)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]" in text


@pytest.mark.painted
def test_pictures_stand_alone() -> None:
    for value in (won(), attacked()):
        pictures = figure_files(document(value))
        assert list(pictures) == ["forest", "coverage", "alpha_sweep"]
        assert pictures == figure_files(document(value))
        for picture in pictures.values():
            root = ElementTree.fromstring(picture.encode("utf-8", "replace"))
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            assert "var(--" not in picture
            assert not re.search(r"\b(nan|inf)\b", picture, re.IGNORECASE)


@pytest.mark.painted
def test_a_name_with_a_leading_underscore_is_in_the_legend() -> None:
    columns = {"_hidden": VALUES, "seen": NOISE}
    value = compare(columns, labels=LABELS, codes=CODES, alpha=0.1).to_dict()
    assert "_hidden" in figure_files(document(value))["alpha_sweep"]


def test_the_terminal_tells_the_same() -> None:
    value = won(max_fpr=0.3)
    text = words(shown(value))
    assert text.startswith(words(finding(value, ranked=False)))
    for part in (
        "Against toy, at the same share caught",
        "Against length, at the same share caught",
        "Baselines",
        "Next: ",
    ):
        assert part in text, part


def test_the_terminal_names_what_could_not_be_calibrated() -> None:
    value = comparison(max_fpr=0.2, baselines={"length": NOISE})
    text = words(shown(value))
    assert "never: " in text
    table = text[text.index("Fewest false alarms first") :]
    assert table.index(" toy ") < table.index(" noise ") < table.index(" never ")


def test_the_terminal_shows_where_a_judge_can_stand() -> None:
    judge = (VALUES > 1.5).astype(float)
    columns = {"toy": VALUES, "judge": judge}
    value = compare(columns, labels=LABELS, codes=CODES, alpha=0.1).to_dict()
    assert "the most that judge catches short of flagging everything" in words(shown(value))
    assert "judge can catch, for so many false alarms" in page_of(value)


@pytest.mark.parametrize("limit", [None, 0.01, 0.9])
def test_headline_body_and_next_step(limit: float | None) -> None:
    value = won(max_fpr=limit, min_coverage=0.5)
    assert document(value).headline.startswith("toy wins")
    assert document(value).summary.startswith("On the half of the test set that had no part in")
    expected = {None: "Say how many", 0.01: "Freeze it (", 0.9: "Freeze it, with"}[limit]
    assert document(value).next_step.startswith(expected)
    # As many answers as settle it, where any number does; a rejected one is settled.
    assert ("the same rates, the verdict will be certified" in document(value).next_step) is (
        limit == 0.01
    )
    beaten = {**value["winner"]["certificate"], "verdict": "rejected"}
    if limit is not None:
        rejected = {**value, "winner": {**value["winner"], "certificate": beaten}}
        assert document(rejected).next_step.startswith("Do not use it for your requirement")
    # Without a requirement a winner is neither certified nor in doubt.
    assert document(value).verdict == (
        "" if limit is None else value["winner"]["certificate"]["verdict"]
    )


def test_a_winner_certified_on_a_condition_is_shown_as_no_full_one() -> None:
    value = won(max_fpr=0.9, min_coverage=0.5)
    doubt = {"code": "others_tried", "message": "", "values": {"n": 1}}
    detectors = [{**item, "warnings": [doubt]} for item in value["detectors"]]
    made = document({**value, "detectors": detectors})
    assert (made.verdict, made.headline) == ("conditional", "toy wins, if fixed beforehand")
    assert "it is certified there, if fixed beforehand: " in made.summary
    assert "on new labelled answers alone" in made.next_step
    page = render_page(made)
    assert ">certified, if fixed beforehand<" in page and ">certified<" not in page


def test_a_winner_that_misses_the_requirement_is_the_best_and_more_labels_are_no_way() -> None:
    value = won(max_fpr=0.9, min_coverage=0.5)
    certificate = value["winner"]["certificate"]
    missed = {
        **{"verdict": "inconclusive", "reason_code": "limits_unsettled", "min_coverage": 0.99},
        **{"reason": "Open.", "coverage_at_least": 0.6},
        "coverage": {**certificate["coverage"], "estimate": 0.9, "count": 45, "n": 50},
        "needed": {"hallucinated": 10, "faithful": 0},
    }
    value["winner"]["certificate"] = {**certificate, **missed}
    made = document(value)
    assert made.headline == "toy is the best, but not certified"
    assert made.verdict == "inconclusive" and "and at these rates does not" in made.summary
    assert made.subject.startswith("2 detectors and 1 baseline at ")
    assert [tile.name for tile in made.tiles][:2] == ["Caught by toy", "False alarms of toy"]
    assert [tile.asked for tile in made.tiles][:2] == [">= 99%", "<= 90%"]
    assert made.next_step.startswith("On new answers set its threshold to catch more")
    assert "would show that it fails" in made.next_step and "certify it (" not in made.next_step
    # What is measured by the other half says so where it is drawn.
    page = words(page_of(value))
    assert "The figures above and those below differ" in page
    assert "False alarms and ranking, on the half that chooses" in page


def test_where_labels_are_too_few_for_all_the_number_is_told_and_no_empty_table() -> None:
    columns = {"toy": VALUES + 2.0 * LABELS, "noise": NOISE}
    value = compare(columns, labels=LABELS, codes=CODES, alpha=0.001).to_dict()
    (wanted, _) = value["uncalibrated"]
    made, page = document(value), words(page_of(value))
    assert made.headline == "No winner yet: too few labels"
    least = f"takes at least {wanted['minimum_n']:,} hallucinated answers in the calibration set"
    assert f"{least}, which has {wanted['n']:,}" in made.summary
    assert f"Label about {wanted['to_label']:,} more hallucinated answers" in made.next_step
    assert "All scores on the same split" not in page and "Without a threshold" not in page
    assert "flagging everything" not in page
    # Where something else is in the way, that is said.
    never = np.full(400, np.nan)
    value = compare({"toy": never}, labels=LABELS, codes=CODES, alpha=0.1).to_dict()
    assert document(value).headline == "No winner"
    assert "Without a threshold" in page_of(value)


def test_a_lead_that_is_not_confirmed_is_said_to_be_open() -> None:
    value = won(max_fpr=0.9, min_coverage=0.5)
    value["winner"]["confirmed"] = False
    assert document(value).headline == "toy wins, not confirmed"
    assert document(value).next_step.startswith("Label more answers before you rely on the lead")
    assert 'class="verdict neutral"' in page_of(value)


def test_a_detector_that_leads_the_table_alone_is_told_from_the_best_one() -> None:
    """The table shows own thresholds on the test part; the choice is made at one coverage."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=400) + LABELS
    columns = {f"d{k}": values + 0.8 * rng.normal(size=400) for k in range(4)}
    content = compare(columns, labels=LABELS, codes=CODES, alpha=0.2).to_dict()
    first = content["detectors"][0]
    chosen = next(d for d in content["detectors"] if d["name"] == content["winner"]["candidate"])
    assert (first["name"], chosen["name"], content["winner"]["name"]) == ("d3", "d1", None)
    text = finding(content)
    assert text.startswith("No winner: d1 raises the fewest false alarms at the same share caught")
    assert "not shown to beat d3, d0 and" in text
    rates = [percent(item["test"]["fpr"]["estimate"]) for item in (first, chosen)]
    caught = [percent(item["test"]["coverage"]["estimate"]) for item in (first, chosen)]
    assert (
        f"where d3 comes first: {rates[0]} ({caught[0]} caught) against {rates[1]} ({caught[1]} "
        "caught) of d1." in text
    )
    assert text.count("there the data does not separate the two") == 1
    # The tests that choose agree with what is said.
    assert first["name"] in content["winner"]["not_separated"]
    content["detectors"].insert(0, content["detectors"].pop(content["detectors"].index(chosen)))
    assert "The table is ordered" not in finding(content)


def test_many_detectors_are_told_apart_by_more_than_colour() -> None:
    looks = [(*compare_figures.look(i), str(compare_figures.line_style(i, "a"))) for i in range(12)]
    assert len({(colour, mark) for colour, mark, _ in looks}) == 12
    assert len({line for _, _, line in looks}) == 12


def test_a_comparison_of_many_detectors_fits_a_screen() -> None:
    assert "p corrected for all pairs" in words(shown(won()))
    rng = np.random.default_rng(3)
    columns = {
        f"detector_of_the_name_{i}": VALUES + rng.normal(0.0, 0.3 + i / 5, len(VALUES))
        for i in range(12)
    }
    many = compare(columns, labels=LABELS, codes=CODES, alpha=0.1, max_fpr=0.5).to_dict()
    text = shown(many)
    assert "p corrected for all pairs" not in words(text)
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 80
    # Each stands in the one table, in one line, with its test.
    assert {line.split("  ")[0] for line in text.splitlines()} >= columns.keys()
    assert "p: more than detector_of_the_name_" in words(text)
    page = page_of(many)
    assert "Against detector_" in page and "name_11" in page.replace("<wbr>", "")


def test_what_is_said_of_all_detectors_is_said_once() -> None:
    value = won()
    for item in value["detectors"]:
        item["warnings"] = [{"code": "clustered", "message": "the same"}]
    value["detectors"][0]["warnings"].append({"code": "undefined_scores", "message": "3 of 9"})
    name = value["detectors"][0]["name"]
    text = words(shown(value))
    assert "all detectors: each group counts once" in text
    assert f"{name}: some scores are undefined" in text
    assert page_of(value).count("the same</li>") == 1


def test_the_page_names_its_data_and_how_many_answers() -> None:
    value = won()
    value["data"] = {**value["data"], "source": "answers.csv", "n_examples": 1}
    assert re.search(r"<h1>.*answers.csv</bdi></b>, 1 answer</h1>", page_of(value))


def test_a_winner_taken_back_is_told_with_what_took_it_back() -> None:
    content = won(max_fpr=0.3)
    tests = content["paired"]["confirming"]
    content["winner"] |= {"name": None, "confirmed": None, "certificate": None}
    content["winner"]["contradicted_by"] = [tests[0]["name"]]
    text = finding(content)
    assert text.startswith(
        "No winner: the data that chooses separates toy from all others, but on the half of the "
        f"test set that had no part in the choice {tests[0]['name']} flagged fewer faithful "
        "answers, beyond chance."
    )
    page = page_of(content)
    assert "<strong>No winner</strong>" in page
