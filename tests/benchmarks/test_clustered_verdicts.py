"""Both ways to judge groups of answers keep their promise where it is just not true."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binom

RUNS = 1000


@pytest.fixture
def verdicts(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("clustered_verdicts")


@pytest.mark.parametrize("rate", [0.75, 0.9])
def test_a_share_that_is_just_not_reached_is_rarely_proven(
    verdicts: ModuleType, rate: float
) -> None:
    rng = np.random.default_rng(int(100 * rate))
    rates = rng.beta(rate, 1.0 - rate, (RUNS, 120))
    caught = rng.binomial(8, rates)
    one = (rng.random((RUNS, 120)) < caught / 8).sum(axis=1)
    allowed = binom.ppf(1 - 1e-4, RUNS, verdicts.ERROR)

    assert np.sum(verdicts.exact(one, 120) > rate) <= allowed
    for spread in verdicts.SPREADS:
        assert np.sum(verdicts.proven(caught / 8, rate, spread)) <= allowed


def test_the_bound_of_a_bet_is_the_last_share_that_is_proven(verdicts: ModuleType) -> None:
    means = np.repeat([1.0, 0.5], [90, 10])
    low = verdicts.by_betting(means, 0.3)

    assert verdicts.proven(means, low - 0.002, 0.3)
    assert not verdicts.proven(means, low, 0.3)
