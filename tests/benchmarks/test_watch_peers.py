"""Are the peers of the watch what their packages compute?"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import ks_2samp


@pytest.fixture
def peers(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("watch_peers")


@pytest.mark.parametrize("decimals", [0, 1, 9])
def test_ks_is_that_of_scipy(peers: ModuleType, decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    reference = rng.normal(size=(3, 90)).round(decimals)
    windows = rng.normal(0.3, 1.2, size=(3, 4, 40)).round(decimals)
    found = peers.kolmogorov_smirnov(reference, windows)
    for stream in range(3):
        for window in range(4):
            expected = ks_2samp(reference[stream], windows[stream, window]).statistic
            assert found[stream, window] == pytest.approx(expected, abs=1e-12)


def test_stability_index_by_hand(peers: ModuleType) -> None:
    reference = np.repeat([0.0, 1.0], [60, 40])[None]
    window = np.repeat([0.0, 1.0, 2.0], [5, 4, 1])[None, None]
    expected = 0.1 * np.log(0.6 / 0.5) + (1e-4 - 0.1) * np.log(1e-4 / 0.1)
    assert peers.population_stability(reference, window)[0, 0] == pytest.approx(expected)
    # More than twenty values: equal widths from the least to the largest of both.
    base, rows = np.linspace(0.0, 1.0, 100), np.linspace(0.0, 1.6, 28)
    bins = np.histogram_bin_edges(np.append(base, rows), bins="sturges")
    shares = [np.histogram(part, bins)[0] / len(part) for part in (base, rows)]
    first, second = (np.where(part > 0, part, 1e-4) for part in shares)
    expected = float(((first - second) * np.log(first / second)).sum())
    found = peers.population_stability(base[None], rows[None, None])[0, 0]
    assert found == pytest.approx(expected)


def test_a_threshold_gives_the_wanted_run_length(peers: ModuleType) -> None:
    rng = np.random.default_rng(0)
    statistic = rng.random((400, 200))
    level = peers.threshold_for(statistic, 10, 1000.0)
    reached = peers.rows_per_alarm(peers.first_above(statistic, level, 10), 2000)
    # One window in a hundred.
    assert level == pytest.approx(0.99, abs=0.003)
    assert 950.0 <= reached <= 1050.0
    assert peers.rows_per_alarm(np.array([50.0, np.inf]), 100) == 150.0
    assert peers.rows_per_alarm(np.array([np.inf]), 100) == np.inf


def test_the_boundary_is_that_of_mapie(peers: ModuleType) -> None:
    monitoring = pytest.importorskip("mapie.exchangeability_testing")
    rng = np.random.default_rng(3)
    missed = rng.random((2, 150)) < 0.3
    found = peers.RiskBoundary.of_mapie(0.05, 150).lower(missed.astype(np.float64))
    for stream in range(2):
        monitor = monitoring.RiskMonitoring("recall", test_level=0.05, threshold=0.1, warn=False)
        monitor.update(np.ones(150, int), (~missed[stream]).astype(int))
        expected = monitor.online_risk_lower_bound_sequence_history
        assert found[stream] == pytest.approx(expected, abs=2e-4)
