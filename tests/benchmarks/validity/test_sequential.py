"""Is a verdict that is looked for after every label wrong no more often than promised?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from benchmarks.validity import failures, sequential
from benchmarks.validity.check import Check, Setting
from calibrail.conformal.sequential import forecast, sequential_test
from calibrail.options import Drawing

Run = Callable[[Setting], Iterator[Check]]
RUNS: list[Run] = [sequential.uniform, sequential.active, sequential.groups]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequential, "BASE_RATES", (0.1, 0.5))
    monkeypatch.setattr(sequential, "_LEAST_UNITS", 100)


@pytest.mark.parametrize("run", RUNS)
def test_a_verdict_is_rarely_wrong_ever_and_at_the_end(run: Run) -> None:
    checks = list(run(Setting("continuous", 40, 0.1, 400, seed=3)))
    assert failures(checks, 1e-4) == ()
    ever = [check.failed for check in checks if check.what.endswith("ever")]
    at_end = [check.failed for check in checks if check.what.endswith("end")]
    assert all(first >= last for first, last in zip(ever, at_end, strict=True))
    assert sum(ever) > sum(at_end)


@pytest.mark.parametrize("run", RUNS)
def test_a_goal_that_is_too_low_is_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "goals", lambda confidence: (np.log(2.0), np.log(2.0)))
    assert failures(list(run(Setting("continuous", 40, 0.1, 400, seed=3))), 1e-4)


@pytest.mark.parametrize("judge", sorted(sequential.JUDGES))
def test_no_judge_makes_a_verdict_wrong(judge: str) -> None:
    at = Setting("continuous", 40, 0.1, 200, seed=3)
    checks = list(sequential._wrong(at, Drawing("active"), judge, judge=judge))
    assert len(checks) == 6 and failures(checks, 1e-4) == ()


def test_a_goal_that_is_too_low_is_noticed_with_a_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "goals", lambda confidence: (np.log(1.5), np.log(1.5)))
    at = Setting("continuous", 40, 0.1, 200, seed=3)
    checks = sequential._wrong(at, Drawing("active"), "perfect", judge="perfect")
    assert failures(list(checks), 1e-4)


def test_judges_err_as_they_are_said_to() -> None:
    for judge, right in sequential.JUDGES.items():
        draw = sequential._with_judge(forecast.gaussian(0.8, 0.3, 0.5), judge)
        unit = draw(np.random.default_rng(0), 400, sequential._TURNS_AFTER)
        agrees = (unit.guess % 2 == 1) == unit.hallucinated
        for flagged in (False, True):
            for label, share in zip((True, False), right[2 * flagged :], strict=False):
                part = (unit.flagged == flagged) & (unit.hallucinated == label)
                assert np.mean(agrees[part]) == pytest.approx(share, abs=0.02)
    assert judge == "turns"
    later = draw(np.random.default_rng(1), 400, 10)
    assert not ((later.guess % 2 == 1) == later.hallucinated).any()


def test_disagreements_first_rarely_give_a_wrong_verdict_and_a_low_goal_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = Setting("continuous", 20, 0.1, 40, seed=3)
    assert failures(list(sequential.disagreements(at)), 1e-4) == ()
    monkeypatch.setattr(sequential_test, "goals", lambda confidence: (0.01, 0.01))
    assert failures(list(sequential.disagreements(at)), 1e-4)


def test_answers_of_a_group_are_alike_and_keep_the_rates() -> None:
    draw = sequential.grouped(forecast.gaussian(0.9, 0.2, 0.5))
    unit = draw(np.random.default_rng(0), 200, 400)
    for label, rate in ((True, 0.9), (False, 0.2)):
        mass = unit.weight * (unit.hallucinated == label)
        share = float((mass * unit.flagged).sum() / mass.sum())
        assert share == pytest.approx(rate, abs=0.02)
    assert unit.weight.sum(axis=2) == pytest.approx(1.0)
    pairs = unit.hallucinated[:, :, 0] == unit.hallucinated[:, :, 1]
    assert np.mean(pairs) == pytest.approx(0.6 + 0.4 * 0.5, abs=0.02)
