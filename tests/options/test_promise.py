"""Do settings refuse what contradicts itself, and come back from their JSON?"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from calibrail.errors import InputError
from calibrail.options import Promise, Requirement, SplitOptions


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"alpha": 1.3}, r"alpha must lie in \(0, 1\); got 1.3"),
        ({"alpha": True}, "alpha must be a number; got True"),
        (
            {"guarantee": "sure"},
            "guarantee must be one of marginal, pac, anytime, paper, fixed; got 'sure'",
        ),
        ({"undefined": "drop"}, "undefined must be one of flag, review, pass; got 'drop'"),
        ({"min_n": 5}, "min_n is for the thresholds of groups; name their column with by"),
        ({"by": "x", "min_n": 0}, "min_n must be at least 1; got 0"),
        ({"clustered": True, "guarantee": "paper"}, "clustered needs the guarantee marginal"),
        ({"clustered": True, "guarantee": "anytime"}, "use the guarantee pac, give one answer of"),
        ({"beta": 0.0}, r"beta must lie in \(0, 1\)"),
    ],
)
def test_a_promise_refuses(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Promise(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_fpr": 1.5}, r"max_false_alarms must lie in \[0, 1\]; got 1.5 \(1.5% is 0.015\)"),
        ({"confidence": 1.0}, r"confidence must lie in \(0, 1\)"),
        ({"risks": ["recall>=0.9"], "max_fpr": 0.1}, "with risks, ask for all limits as risks"),
    ],
)
def test_a_requirement_refuses(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Requirement(**fields)


def test_risks_leave_no_room_for_groups() -> None:
    wanted = Requirement(risks=("precision>=0.9",))
    wanted.check(Promise())
    for promise in (Promise(by="x"), Promise(beta=0.1)):
        with pytest.raises(InputError, match="risks choose one threshold"):
            wanted.check(promise)


def test_independence_is_assumed_or_groups_count_once() -> None:
    wanted = Requirement(assume_independent=True)
    wanted.check(Promise())
    with pytest.raises(InputError, match="leave out one"):
        wanted.check(Promise(clustered=True))


def test_what_is_required_follows_the_promise() -> None:
    promise = Promise(alpha=0.2)
    assert Requirement().coverage(promise) == pytest.approx(0.8)
    assert Requirement(min_coverage=0.5).coverage(promise) == 0.5


def test_settings_come_back_from_their_json() -> None:
    promise = Promise(alpha=0.1, guarantee="pac", by="topic", min_n=30)
    assert Promise.from_dict(promise.to_dict()) == promise
    wanted = Requirement(risks=("precision>=0.9", "recall>=0.8"))
    assert Requirement.from_dict(wanted.to_dict()) == wanted


def test_shares_of_a_split() -> None:
    half = {"calibration_share": 0.5, "fit_share": 0.0}
    assert SplitOptions().shares(learning=False) == half
    learnt = {"calibration_share": 0.35, "fit_share": 0.3}
    assert SplitOptions().shares(learning=True) == pytest.approx(learnt)
    assert SplitOptions(column="part").shares(learning=True) == half
    given = {"calibration_share": 0.2, "fit_share": 0.1}
    assert SplitOptions(**given).shares(True) == given


def test_settings_load_no_numpy() -> None:
    code = "import sys, calibrail.options; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_risks_are_a_list() -> None:
    with pytest.raises(InputError, match=r"risks must be a list, e.g. .*; got 'recall>=0.8'"):
        Requirement(risks="recall>=0.8")  # type: ignore[arg-type]
