"""Does the threshold keep its promise although few answers above it were labelled?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.validity import failures, thresholds
from benchmarks.validity.check import Check, Setting
from calibrail.conformal import ceiling_rank

Run = Callable[[Setting], Iterator[Check]]
RUNS: list[Run] = [thresholds.ceiling_marginal, thresholds.ceiling_pac]
SETTINGS = [Setting("continuous", n, alpha, 2000, seed=3) for n in (20, 30) for alpha in (0.1, 0.2)]


@pytest.mark.parametrize("run", RUNS)
def test_promises_hold_at_their_exact_probability(run: Run) -> None:
    checks = [check for at in SETTINGS for check in run(at)]
    assert len(checks) == 2 * len(SETTINGS)
    assert all(check.exact for check in checks)
    assert failures(checks, 1e-4) == ()


@pytest.mark.parametrize("run", RUNS)
def test_a_rank_that_is_too_high_is_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def higher(*args: Any) -> int:
        return ceiling_rank(*args) + 1

    monkeypatch.setattr(thresholds, "ceiling_rank", higher)
    assert failures([check for at in SETTINGS for check in run(at)], 1e-4)
