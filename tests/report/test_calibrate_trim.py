"""Does a report about removing sentences say what is freed and kept, and nothing of answers?"""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from calibrail import calibrate, certify
from calibrail.pipelines.card import card as card_of
from calibrail.pipelines.run import Run
from calibrail.report import Document, print_document, render_markdown, render_page
from calibrail.report.documents import certify as certificate
from calibrail.report.documents import guardrail, measures
from calibrail.report.documents.calibrate import document
from calibrail.report.documents.card import document as card_document
from calibrail.report.html import figure_files
from calibrail.report.markdown import render_junit
from calibrail.serialization import plain
from tests.sentence_answers import marked_rows

pytestmark = pytest.mark.usefixtures("as_command_line")

SPEC = "column:column=scores,higher=hallucinated"


@pytest.fixture(scope="module")
def run() -> Run:
    return calibrate(marked_rows(), [SPEC, "novelty"], alpha=0.2, unit="sentence", min_kept=0.3)


@pytest.fixture(scope="module")
def content(run: Run) -> dict[str, Any]:
    return run.report.to_dict()


def printed(said: Document | dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=80, no_color=True)
    print_document(document(said) if isinstance(said, dict) else said, console)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def test_the_headline_is_plain_words_about_answers_and_sentences(content: dict[str, Any]) -> None:
    said, test = document(content), content["test"]
    assert said.headline == content["verdict"].capitalize()
    freed, emptied = (f"{100 * test[key]['estimate']:.1f}" for key in ("freed", "emptied"))
    assert said.summary.startswith(f"In {freed.removesuffix('.0')}% of hallucinated answers every")
    assert f"{emptied.removesuffix('.0')}% of answers are emptied" in said.summary
    # On a small screen the end is all that is seen.
    assert f"{content['verdict'].upper()}: Fully cleaned" in printed(said)[-300:]
    assert [tile.name for tile in said.tiles] == [
        "Fully cleaned",
        "Supported kept",
        "Nothing left",
        "AUROC by sentence",
    ]
    # A tile shows one bound: the one that decides.
    assert said.tiles[1].asked == ">= 30%"
    assert said.tiles[1].value.startswith("at least ")
    assert said.tiles[1].interval.startswith("measured ")


@pytest.mark.painted
def test_every_medium_speaks_of_sentences(content: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    page = render_page(document(content, (rng.normal(size=50) + 1.0, rng.normal(size=99))))
    for text in (page, render_markdown(document(content)), printed(content)):
        for word in ("remove nothing", "remove everything", "withhold answers whole"):
            assert word in text
        for wrong in ("Flag an answer", "False alarms", "Caught", "Cohen", "Welch", "Overlap"):
            assert wrong not in text
    assert "what is supported is kept from an AUROC by sentence of about" in page
    for word in (
        "unsupported (n = 50)",
        "removed from",
        "whole answers withheld",
        "While the answer is being written",
        "a rule that removes every sentence keeps it",
    ):
        assert word in page


def test_a_mean_of_shares_is_no_count_of_answers(content: dict[str, Any]) -> None:
    kept = content["test"]["kept_supported"]
    assert f"mean over {kept['n']:,} answers" in printed(content)
    assert f"{kept['count']:,}" not in printed(content)


def test_a_wrong_verdict_names_the_remedy(content: dict[str, Any]) -> None:
    bare = copy.deepcopy(content)
    del bare["requirement"]["min_kept"]
    bare["verdict"] = "inconclusive"
    assert "--min-kept 0.7" in document(bare).next_step
    rejected = {**content, "verdict": "rejected"}
    assert "--alpha" in document(rejected).next_step
    certified = {**content, "verdict": "certified"}
    assert "calibrail export RUN" in document(certified).next_step


@pytest.mark.painted
def test_figures_are_drawn_without_a_test_answer_of_a_class(content: dict[str, Any]) -> None:
    files = figure_files(document(content, (np.ones(3), np.zeros(3))))
    assert set(files) >= {"distributions", "freed-and-kept"}
    assert "hallucinated answers fully cleaned" in files["freed-and-kept"]
    empty = copy.deepcopy(content)
    nothing = {"estimate": None, "lower": 0.0, "upper": 1.0, "count": 0, "n": 0}
    empty["test"] |= {"freed": nothing, "kept_supported": nothing}
    assert "freed-and-kept" not in figure_files(document(empty))
    assert document(empty).summary.startswith("No answer that counts is hallucinated; ")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("reversed_direction", "supported sentences look more suspicious"),
        ("flags_everything", "takes sentences from"),
        (
            "undefined_scores",
            "Some calibration sentences have no score; such sentences are removed",
        ),
        ("not_shown_to_beat_baseline", "keep more of what is supported"),
    ],
)
def test_warnings_have_words_of_their_own(content: dict[str, Any], code: str, words: str) -> None:
    from calibrail.report.documents.calibrate_sections import message

    assert words in message(code, content, {})


def test_a_certificate_a_card_and_a_guardrail_say_the_same_measures(run: Run) -> None:
    frozen = run.freeze()
    result = certify(frozen, marked_rows(seed=1), min_kept=0.3)
    said = certificate.document(result.to_dict())
    assert said.summary.startswith("In ") and result.to_dict()["reason"] in said.summary
    for text in (printed(said), render_markdown(said), render_page(said)):
        for word in ("Fully cleaned", "Supported sentences", "Faithful answers"):
            assert word in text
        assert "Caught" not in text and "False alarms" not in text
    assert "of their good sentences on average" in render_junit(said)
    nothing = certificate.document({**result.to_dict(), "min_kept": None, "verdict": "rejected"})
    assert "--min-kept" in nothing.next_step
    tiles = [tile.name for tile in guardrail.guardrail_document(frozen.config.model_dump()).tiles]
    assert tiles == [
        "Fully cleaned",
        "Supported kept",
        "Faithful answers altered",
        "Nothing left",
        "AUROC by sentence",
    ]
    whole = card_of(frozen)
    text = printed(whole.document())
    assert "Supported sentences" in text and "the price: " in text
    # What was certified is not denied below.
    headline = {**whole.content["guardrail"]["headline"], "verdict": "certified"}
    for kept, denied in ((0.3, False), (None, True)):
        asked = {**whole.content["guardrail"]["requirement"], "min_kept": kept}
        about = {**whole.content["guardrail"], "headline": headline, "requirement": asked}
        text = printed(card_document({**whole.content, "guardrail": about}))
        assert ("Nothing about how much is left: " in text) is denied
        assert ("Nothing about how much is left beyond the verdict above" in text) is not denied
    # A share of few answers is said with its counts.
    few = {"estimate": 4 / 6, "lower": 0.3, "upper": 0.9, "count": 4, "n": 6, "method": "wilson"}
    lines = measures.trim_rates({**headline, "fpr": few}, {"max_fpr": None})
    assert [tile.value for tile in measures.tiles(lines) if tile.name.startswith("Faithful")] == [
        "66.7% (4 of 6)"
    ]


def test_sentences_of_answers_stand_on_the_page_alone(run: Run) -> None:
    assert run.examples is not None
    text = printed(document(run.report.to_dict(), None, plain(run.examples)))
    assert "removed, though supported" not in text and "What it removes, judged" not in text
