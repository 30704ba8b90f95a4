"""Do the pages of a watch beside its peers say who was faster, and count what was seen?"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def modules(repository: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    names = ("watch_power", "watch_labels", "watch_sets", "watch_peers")
    return {name: importlib.import_module(name) for name in names}


def test_a_row_names_the_peers_that_were_faster(modules: dict[str, ModuleType]) -> None:
    power = modules["watch_power"]
    found = {
        "watch": np.array([100.0, 120.0, 140.0, np.nan]),
        "KS 100": np.array([50.0, 60.0, np.inf, 70.0]),
        "PSI 100": np.array([np.inf, np.inf, np.inf, 10.0]),
    }
    cells, faster = power.compared(found, ["watch", "KS 100", "KS 500", "PSI 100"])
    assert faster == ["KS 100"]
    assert cells == "120 (120 to 140) | **70 (60 to never)** |  | never (25% found)"
    assert power.summed_up({"a": ["KS 100"], "b": []})[0].endswith("in 1 of 2:")
    assert "No peer" in power.summed_up({"a": []})[0]


def test_a_change_is_found_and_counted_from_where_it_is(modules: dict[str, ModuleType]) -> None:
    power, sets = modules["watch_power"], modules["watch_sets"]
    change = sets.Change("a", "score", sets.scores(0.2), sets.scores(0.2, shift=2.0))
    rates = power.Rates(12, 200, (50,))
    rates.of["score"] = (1.0, {name: power.Level(0.5, 1.0, 1.0) for name in ("KS 50", "PSI 50")})
    found = power.drawn_anew(change, 500, rates)
    assert set(found) == {"watch", "KS 50", "PSI 50"}
    assert 0.0 < power.middle(found["watch"]) < 60.0
    assert 0.0 < power.middle(found["KS 50"]) <= 100.0


def test_labels_are_counted_from_the_change(modules: dict[str, ModuleType]) -> None:
    labels = modules["watch_labels"]
    missed = np.zeros((3, 120), bool)
    missed[:2, 40:] = True
    first = labels.broken(missed)
    assert (first[:2] > 40).all() and (first[:2] < 60).all() and np.isinf(first[2])
    assert labels.ranges(first, 40).endswith("to never)")
    boundary = modules["watch_peers"].RiskBoundary(0.05, 120, lambda v: 0.0)
    assert labels.noticed(boundary, missed)[:2].tolist() == [45.0, 45.0]
