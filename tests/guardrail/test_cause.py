"""Is what a program reads of a decision its code, and do the words follow from it?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from calibrail.errors import InputError
from calibrail.guardrail.decision import (
    Cause,
    DeadlineError,
    Decision,
    Unfinished,
    cause_in_old_reason,
    parse_cause,
    reason_of_cause,
)

CAUSES = [
    (Cause("score_undefined"), "no number", "undefined score (no number); policy: flag"),
    (Cause("score_undefined"), None, "undefined score; policy: flag"),
    (
        Cause("detector_failed", "KeyError"),
        "'x'",
        "the detector failed: KeyError: 'x'; policy: flag",
    ),
    (Cause("detector_failed", "KeyError"), None, "the detector failed: KeyError; policy: flag"),
    (Cause("calibrail_failed", "ValueError"), "", "calibrail failed: ValueError: ; policy: flag"),
    (Cause("answer_unfinished"), "cut", "the answer did not end: cut; policy: flag"),
    (Cause("answer_unfinished"), None, "the answer did not end; policy: flag"),
    (Cause("row_unusable", row=3), "id: twice", "row 3 cannot be used: id: twice"),
    (
        Cause("detector_failed", "TimeoutError", timeout=True),
        "no decision within 2 s (timeout)",
        "the detector failed: TimeoutError: no decision within 2 s (timeout); policy: flag",
    ),
    (
        Cause("seen_before"),
        None,
        "not judged: the guardrail's threshold was set on this answer (seen_before)",
    ),
]


@pytest.mark.parametrize(("cause", "detail", "reason"), CAUSES)
def test_words_follow_from_the_cause_and_old_lines_lead_back(
    cause: Cause, detail: str | None, reason: str
) -> None:
    assert reason_of_cause(cause, "flag", detail) == reason
    assert cause_in_old_reason(reason) == cause
    assert Cause.from_dict(json.loads(json.dumps(cause.to_dict()))) == cause


def test_reworded_the_cause_still_decides() -> None:
    decision = Decision(
        *("a", "review", None, 0.5, None, "Quelque chose a mal tourné"),
        cause=Cause("detector_failed", "OSError"),
    )
    assert Decision.from_dict(json.loads(decision.line())) == decision
    assert decision.failed and not decision.unfinished
    assert decision.without_texts().reason == "the detector failed: OSError; policy: review"
    assert "cause" not in Decision("a", "flag", 0.7, 0.5, 0.1, "high").to_dict()


def test_what_was_raised_is_named_and_not_quoted() -> None:
    assert Cause.of_error(DeadlineError("late")) == Cause("detector_failed", "TimeoutError", True)
    assert Cause.of_error(TimeoutError("(timeout)")) == Cause("detector_failed", "TimeoutError")
    assert Cause.of_error(Unfinished("secret"), "calibrail_failed") == Cause("answer_unfinished")


@pytest.mark.parametrize(
    "cause",
    [
        "detector_failed",
        {},
        {"code": "unheard"},
        {"code": ["score_undefined"]},
        {"code": "score"},
        {"code": "row_unusable", "row": True},
        {"code": "detector_failed", "error": 3},
        {"code": "detector_failed", "timeout": "yes"},
    ],
)
def test_what_is_no_cause_is_refused(cause: Any) -> None:
    with pytest.raises(InputError, match="cause"):
        parse_cause({"score": None, "reason": "undefined score", "cause": cause})
