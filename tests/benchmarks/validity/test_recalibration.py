"""Do simulated recalibrations keep their promise, and is a broken one noticed?"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.validity import failures, sequential
from benchmarks.validity.check import Setting
from calibrail.conformal import calibrate_threshold

ERROR = 1e-4


@pytest.mark.parametrize(
    ("run", "runs"), [(sequential.recalibrated_uniform, 300), (sequential.recalibrated_active, 15)]
)
def test_no_look_makes_a_threshold_that_misses_too_much(run: Any, runs: int) -> None:
    assert failures(list(run(Setting("continuous", 300, 0.1, runs, seed=5))), ERROR) == ()


def test_labels_that_are_late_and_forgotten_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(answers: Any, promise: Any, grid: Any) -> Any:
        return calibrate_threshold(answers.score[answers.label == 1.0], promise)

    monkeypatch.setattr(sequential, "calibrate_audited", forgetful)
    at = Setting("continuous", 300, 0.1, 300, seed=5)
    assert failures(list(sequential.recalibrated_uniform(at)), ERROR)
