"""Does the table of selections compute what it says?"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binom


@pytest.fixture
def selection(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("selection")


def test_what_is_released_is_counted_by_class(selection: ModuleType) -> None:
    labels = np.array([True, True, False, False, False])
    assert selection.counted(np.array([1, 0, 1, 1, 0], dtype=bool), labels) == (1 / 3, 2 / 3)
    assert selection.counted(np.zeros(5, dtype=bool), labels) == (0.0, 0.0)


def test_a_limit_is_beyond_what_zeros_and_ones_reach_by_chance(selection: ModuleType) -> None:
    assert selection.improbable(0.1, 0.1, 50) == 1.0
    for k in range(6, 50):
        assert selection.improbable(k / 50, 0.1, 50) >= binom.sf(k - 1, 50, 0.1)
    assert selection.improbable(0.5, 0.1, 50) < 1e-8


def test_the_estimates_release_more_by_arrays_and_through_files(selection: ModuleType) -> None:
    cell = selection.simulated("continuous", 100, 200, 0.1, 2.0, 20)
    files = selection.through_files(400, 200, 0.1, 0.05, 2)
    for found in ({method: cell[method, 0.05] for method in selection.METHODS}, files):
        assert found["bh"].power < min(found["storey"].power, found["both-classes"].power)
        assert all(0.0 <= item.rate < 0.2 for item in found.values())
