"""Does a decision read well, whatever its evidence holds?"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from calibrail.data.example import Example
from calibrail.formatting import Scale
from calibrail.report import print_document, render_page
from calibrail.report.documents.examples import explained
from calibrail.report.documents.guardrail import document

SENTENCE = {
    "text": "It was painted red.",
    "start": 0,
    "end": 19,
    "support": 0.03,
    "contradiction": 0.91,
    "verdict": "contradicted",
    "chunk": 1,
    "chunk_start": 40,
    "chunk_end": 61,
    "quote": "It is painted white.",
}


def shown(evidence: Any, width: int = 80, **changes: Any) -> str:
    decision = {
        "id": "a",
        "outcome": "flag",
        "score": 0.9,
        "threshold": 0.5,
        "p_value": 0.25,
        "reason": "score 0.9 reaches the threshold 0.5",
        "evidence": evidence,
        **changes,
    }
    stream = io.StringIO()
    console = Console(file=stream, width=width, no_color=True, force_terminal=False)
    print_document(document(decision, "sec"), console)
    text = stream.getvalue()
    assert max(len(line) for line in text.splitlines()) <= width
    return text


def test_it_says_which_sentence_which_chunk_and_why() -> None:
    text = " ".join(shown({"kind": "sentences", "items": [SENTENCE]}).split())
    for said in (
        "FLAG sec",
        "Score 0.9 reaches the threshold 0.5.",
        "About 25 in 100 hallucinated answers look as harmless as this one",
        'contradicted "It was painted red." (support 0.03, contradiction 0.91)',
        'chunk 2, characters 40 to 61: "It is painted white."',
    ):
        assert said in text


def test_a_combination_shows_its_members_with_theirs() -> None:
    items = [
        {"score": "novelty", "value": 0.5},
        {"score": "numbers", "value": None, "reason": "the response holds no number"},
        {"score": "sec", "value": 0.2, "evidence": {"kind": "sentences", "items": [SENTENCE]}},
    ]
    text = shown({"kind": "scores", "items": items})
    assert "novelty  0.5" in text
    assert "numbers  undefined: the response holds no number" in text
    assert "contradicted" in text


@pytest.mark.parametrize("evidence", [None, {}])
def test_a_detector_that_shows_nothing_says_so(evidence: Any) -> None:
    text = shown(evidence, p_value=None, reason="undefined score (there is no context)")
    assert "The detector says nothing about parts of the answer." in text
    assert "in 100" not in text


@pytest.mark.parametrize("width", [20, 40, 80])
def test_text_cannot_steer_the_terminal(width: int) -> None:
    hostile = {
        **SENTENCE,
        "text": "\x1b[31mred\x07 \u202e[bold]x[/bold]\n" * 9,
        "quote": "\x1b]0;t",
    }
    text = shown({"kind": "claims", "items": [hostile]}, width=width)
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    if width == 80:
        assert "[bold]x[/bold]" in text


@pytest.mark.parametrize(
    ("outcome", "step"),
    [
        ("pass", "Use the answer."),
        ("flag", "Withhold the answer"),
        ("review", "Have a person read"),
        ("error", "Remove the cause"),
    ],
)
def test_a_decision_ends_in_what_to_do_now(outcome: str, step: str) -> None:
    text = shown(None, outcome=outcome)
    assert text.split("\n\n")[-1].startswith(f"Next: {step}")
    trimmed = {"outcome": outcome, "removed": [], "text": "It was built."}
    assert ("Show what is left" in shown(None, **trimmed)) == (outcome in ("pass", "flag"))


@pytest.mark.painted
def test_a_page_shows_the_answer_its_sources_and_where_its_score_lies() -> None:
    decision: dict[str, Any] = {
        "outcome": "flag",
        "score": -0.4,
        "threshold": -0.5,
        "p_value": 0.25,
        "reason": "low",
        "evidence": {"kind": "sentences", "items": [SENTENCE]},
    }
    answer = Example("Which <colour>?", ("a", "b" * 90), SENTENCE["text"])
    scale = Scale("support", negated=True)
    page = render_page(explained(decision, "support", answer, (np.linspace(-0.9, -0.1, 30), scale)))
    assert "Which &lt;colour&gt;?" in page and "<mark>It was painted red.</mark>" in page
    assert "Chunk 2" in page and 'data-figure="strip"' in page and "this answer" in page
    assert "30 hallucinated answers that set the threshold" in page
    bare = render_page(explained(decision, "support"))
    assert 'data-figure="strip"' not in bare and "<mark>" not in bare
