"""What is said of a new threshold?"""

from __future__ import annotations

from typing import Any

import pytest

from calibrail.report.documents.recalibrate import document, reason
from calibrail.report.html import render_page


def bound(count: int, n: int, lower: float, upper: float) -> dict[str, Any]:
    return {
        "estimate": count / n,
        "lower": lower,
        "upper": upper,
        "count": count,
        "n": n,
        "method": "beta-mixture",
        "confidence": 0.95,
    }


def recalibration(**more: Any) -> dict[str, Any]:
    side = {"coverage": bound(90, 100, 0.8, 0.95), "fpr": bound(20, 200, 0.05, 0.2)}
    changed = {"coverage": bound(10, 100, 0.04, 0.2), "fpr": bound(5, 200, 0.01, 0.1)}
    promise = {"alpha": 0.1, "guarantee": "anytime", "delta": 0.05, "clustered": False}
    content = {
        "score": {"name": "novelty", "params": {}},
        "promise": promise,
        "before": {**promise, "guarantee": "marginal", "clustered": True},
        "labels": {
            "design": "active",
            "since": "2027-03-01",
            "from": 1.8e9,
            "to": 1.81e9,
            "n_drawn": 400,
            "n_earlier": 7,
            "n_repeated": 40,
            "n_hallucinated": 100,
            "n_faithful": 200,
            "n_waiting": 3,
            "n_unsure": 2,
            "n_disagreements": 1,
            "problems": ["labels.jsonl, line 3: of no answer drawn"],
        },
        "threshold": {"old": 0.5, "new": 0.4},
        "n_open_missed": 1,
        "verdict": "inconclusive",
        "reason": "fpr_open",
        "coverage": side["coverage"],
        "fpr": side["fpr"],
        "min_coverage": 0.9,
        "max_fpr": 0.15,
        "confidence": 0.925,
        "needed": 120,
        "level": 0.95,
        "comparison": {
            "old": side,
            "new": side,
            "changed": changed,
            "new_flags": "more",
            "answers": {
                "hallucinated": [{"id": "a<b", "score": 0.45, "flagged": True}],
                "faithful": [],
            },
        },
        "log": {"n": 1000, "old": 100, "new": 200, "skipped": {"no_decision": 2, "changed": 1}},
    }
    return {**content, **more}


@pytest.mark.parametrize(
    ("code", "verdict", "limit", "text"),
    [
        ("fpr_shown", "certified", 0.15, "With 92.5% confidence the new threshold catches"),
        ("fpr_refuted", "rejected", 0.15, "flags more than 15% of faithful answers"),
        ("fpr_open", "inconclusive", 0.15, "about 120 more faithful answers settle it"),
        ("no_limit", "inconclusive", None, "No limit on false alarms was set"),
        ("coverage_not_promised", "inconclusive", 0.15, "calibrate with a smaller alpha"),
    ],
)
def test_every_reason_is_a_sentence(
    code: str, verdict: str, limit: float | None, text: str
) -> None:
    content = recalibration(reason=code, verdict=verdict, max_fpr=limit)
    assert text in reason(content)
    assert text in render_page(document(content))


def test_the_page_says_what_it_rests_on_and_what_took_no_part() -> None:
    page = render_page(document(recalibration()))
    for text in (
        "drawn by a guess (active), logged from 2027-01-15 to 2027-05-11",
        "3 waiting (1 disputed), 2 unsure; 1 of them lies below",
        "7 audited answers logged before 2027-03-01",
        "labels.jsonl, line 3: of no answer drawn",
        "1 line of the log left out: changed after being written.",
        "10% were not passed (100); with the new threshold 20% would not be (200)",
        "counted each group of answers once",
        "40 audited answers repeat the question of an earlier one",
        "a&lt;b",
        "Nothing was replaced",
    ):
        assert text in page, text
    assert "left out: no decision" not in page


def test_the_same_threshold_is_said_to_change_nothing() -> None:
    content = recalibration(threshold={"old": 0.4, "new": 0.4}, log=None)
    content["comparison"] = {**content["comparison"], "new_flags": "same"}
    page = render_page(document(content))
    assert "Both thresholds decide alike about every audited answer." in page
    assert "The new threshold is the old one" in page and "in the log" not in page
