"""Does the page of intervals count what its intervals say?"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def benchmark_module(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("watch_intervals")


def test_counts_that_win_are_those_whose_interval_misses(benchmark_module: ModuleType) -> None:
    n = np.arange(1, 121)
    for rate in (0.5, 0.9, 0.99):
        counts = np.stack([n, n // 2, np.maximum(n - 30, 0), (0.9 * n).astype(int)])
        low, high = benchmark_module.ours(counts, np.broadcast_to(n, counts.shape))
        expected = (rate < low) | (rate > high)
        assert (benchmark_module.misses(benchmark_module.ours, counts, n, rate) == expected).all()
        assert expected.any() and not expected.all()


def test_the_asymptotic_interval_is_that_of_the_paper(benchmark_module: ModuleType) -> None:
    low, high = benchmark_module.asymptotic(np.array([900]), np.array([1000]))
    # By hand: rho^2 = (5.9915 + log(6.9915)) / 1000; half = 0.3 * sqrt(2 * 8.936 / 7936 * 4.0908).
    assert low[0] == pytest.approx(0.9 - 0.02879, abs=1e-4)
    assert high[0] == pytest.approx(0.9 + 0.02879, abs=1e-4)
    alike = benchmark_module.asymptotic(np.array([50]), np.array([50]))
    assert alike[0][0] == alike[1][0] == 1.0


def test_what_missed_ever_missed_more_often_than_now(benchmark_module: ModuleType) -> None:
    found = benchmark_module.measured(0.9, 60)
    assert len(found) == len(benchmark_module.WAYS) * len(benchmark_module.LOOKS)
    for (name, look), (ever, late, now, width) in found.items():
        assert 0.0 < width < 0.5
        if name.startswith("Clopper"):
            assert np.isnan([ever, late]).all()
        else:
            assert ever >= late >= now
        if look > min(benchmark_module.LOOKS) and not np.isnan(ever):
            assert ever >= found[name, min(benchmark_module.LOOKS)][0]
