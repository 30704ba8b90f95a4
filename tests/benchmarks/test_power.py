"""Does the comparison with MAPIE compute what it says?"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("mapie")


@pytest.fixture
def power(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("power")


def test_what_is_tuned_is_what_the_controller_does(power: ModuleType) -> None:
    setting = power.gaussian("Test", 2.0, 0.3)
    cell = power.Cell(setting, 2000, 0)
    power.tune(cell, 2)
    rng = np.random.default_rng(1)
    answers = []
    for _, _, plan in cell.tried:
        if len(plan.grid) <= 10:
            sample = setting.sample(rng, 2000)
            answers.append(power.mapie(cell, plan, sample)[0])
            assert (power.rate(plan, [sample], 0.3) == 1.0) == answers[-1]
    assert 0 < sum(answers) < len(answers)


@pytest.mark.parametrize("test", [0, 150])
def test_the_exact_power_is_the_simulated_one(power: ModuleType, test: int) -> None:
    setting = power.gaussian("Test", 2.0, 0.3)
    rng = np.random.default_rng(2)
    runs = 500
    certified = sum(
        power.class_split(setting, setting.sample(rng, 1000), test, False)[0] for _ in range(runs)
    )
    exact = power.exact_power(2.0, 0.3, 1000, test)
    # Six standard errors of the simulated share, at most half of 1 / sqrt(runs) each.
    assert abs(certified / runs - exact) < 3.0 / np.sqrt(runs)


def test_a_threshold_is_good_only_if_both_rates_are(power: ModuleType) -> None:
    pool = power.pool("Test", np.arange(20.0), np.repeat([0, 1], 10))
    # Hallucinated 10 to 19, faithful 0 to 9: 90 % coverage at 11, no false alarms from 10 on.
    assert pool.max_fpr == 0.05
    assert pool.good(np.array([9.0, 10.0, 11.0, 12.0])).tolist() == [False, True, True, False]
