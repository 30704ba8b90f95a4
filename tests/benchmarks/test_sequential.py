"""Does the page of labels until a verdict say what its streams did?"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calibrail.settings import Drawing, Requirement


@pytest.fixture
def benchmark_module(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("sequential")


def test_a_row_says_what_is_saved(benchmark_module: ModuleType) -> None:
    ways = [([120.0, np.inf, 120.0], 0.75), ([50.0, 80.0, 200.0], 1.0)]
    cells = [cell.strip() for cell in benchmark_module.row("a", 100, ways).strip("|").split("|")]
    assert cells == ["a", "100", "120", "-", "50", "80", "200", "-20%", "+50%", "75% / 100%"]


def test_a_pool_is_drawn_from_as_it_is(benchmark_module: ModuleType) -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(400) < 0.4
    flagged = rng.random(400) < np.where(truth, 1.0, 0.05)
    draw = benchmark_module.pool(flagged, truth, np.where(truth, 0.9, 0.1))
    unit = draw(rng, 50, 200)
    assert unit.hallucinated.mean() == pytest.approx(truth.mean(), abs=0.03)
    assert (unit.flagged | ~unit.hallucinated).all()
    asked = Requirement(0.3, 0.8)
    by_guess, share = benchmark_module.quantiles(draw, asked, Drawing("active"), 200, 60)
    assert share == 1.0 and by_guess[0] <= by_guess[1] and by_guess[0] < by_guess[2]
