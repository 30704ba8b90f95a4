from __future__ import annotations

import json
from dataclasses import replace

import pytest

from calibrail import Decision
from calibrail.errors import InputError
from calibrail.formatting import Scale

PLAIN = Decision("a", "flag", 0.7, 0.5, 0.1, "score 0.7 is at least the threshold 0.5")


@pytest.mark.parametrize(
    "decision",
    [
        PLAIN,
        Decision("é\n\ud800", "review", None, None, None, "undefined"),
        Decision("", "pass", 0.1, 0.5, 1.0, "low", {"sentences": [{"text": "x"}]}),
        Decision("", "pass", -0.9, -0.5, 1.0, "high", scale=Scale("dae", negated=True)),
        Decision("", "flag", 0.9, 0.5, 1.0, "high", scale=Scale("risk")),
        Decision("", "pass", None, 0.5, None, "undefined score (no context); policy: pass"),
        Decision("", "flag", None, -0.5, None, "undefined", scale=Scale("dae", negated=True)),
    ],
    ids=repr,
)
def test_a_decision_comes_back_from_its_line(decision: Decision) -> None:
    assert Decision.from_dict(json.loads(decision.line(evidence=True))) == decision
    # What made it does not tell two decisions apart; a line of before names none.
    made = replace(decision, guardrail="sha256:1")
    assert made == decision and "guardrail" not in decision.to_dict()
    assert Decision.from_dict(json.loads(made.line())).guardrail == "sha256:1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": "passed"}, "outcome must be one of pass, flag, review, error; got .*'passed'"),
        ({"id": 1}, "id, outcome and reason must be texts; got {'id': 1"),
        ({"score": "0.7"}, "score must be a finite number or null; got '0.7'"),
        ({"p_value": float("nan")}, "p_value must be a finite number"),
        ({"score": 10**400}, "score must be a finite number or null; got 1000"),
        ({"p_value": 0}, r"p_value must lie in \(0, 1\]; got .*: 0,"),
        ({"p_value": 7}, r"p_value must lie in \(0, 1\]; got .*: 7,"),
        ({"p_value": None}, "a score and a p_value, or neither; got .*0.7.*None"),
        (
            {**dict.fromkeys(("score", "threshold", "p_value")), "outcome": "pass"},
            "passes only below its threshold; got .*'score 0.7",
        ),
        ({"outcome": "pass"}, "passes only below its threshold; got .*0.7.*0.5"),
        ({"column": "x", "column_value": 1.0, "column_threshold": 0.5}, "its column 'x' shows"),
    ],
)
def test_what_is_no_decision_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Decision.from_dict(PLAIN.to_dict() | change)


def test_every_field_must_be_there() -> None:
    for name in PLAIN.to_dict():
        with pytest.raises(InputError, match=name):
            Decision.from_dict({k: v for k, v in PLAIN.to_dict().items() if k != name})
    with pytest.raises(InputError, match="must be an object"):
        Decision.from_dict("pass")
