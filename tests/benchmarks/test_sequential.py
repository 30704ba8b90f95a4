"""Does the page of labels until a verdict say what its streams did?"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calibrail.conformal.learnt_guess import learnt_guess
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


def test_what_is_learnt_on_the_way_is_what_the_core_learns(benchmark_module: ModuleType) -> None:
    rng = np.random.default_rng(0)
    score = rng.integers(0, 9, 60) / 10.0
    truth = rng.random(60) < score
    draw = benchmark_module.pool(score > 0.5, truth, np.arange(60.0))
    learner, going = benchmark_module.Learnt(score, 3), np.array([0, 2])
    unit = draw(rng, 2, 40)
    assert (learner.guess(going, unit) == 0.5).all()
    labelled = rng.random((2, 40, 1)) < 0.5
    learner.told(going, unit, labelled)
    later = draw(rng, 2, 5)
    guess = learner.guess(going, later)
    rows, taken = unit.guess.astype(int), labelled[:, :, 0]
    for stream in (0, 1):
        seen = rows[stream, :, 0]
        known = seen[taken[stream]]
        new = score[later.guess[stream, :, 0].astype(int)]
        expected = learnt_guess(score[known], truth[known], score[seen], new)
        assert guess[stream, :, 0] == pytest.approx(expected, rel=1e-9)
