"""Are the ranges of real sets those that `agree` prints?"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calibrail.data.example import Example


@pytest.fixture
def benchmark_module(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("intervals")


def test_a_range_is_counted_as_agree_prints_it(benchmark_module: ModuleType) -> None:
    rng = np.random.default_rng(4)
    human = rng.integers(0, 2, 200)
    judge = np.where(rng.random(200) < 0.85, human, 1 - human)
    printed = benchmark_module.Printed(
        [
            Example(
                id=f"a{i}",
                group=f"g{i // 3}" if i < 90 else None,
                columns={"human": str(human[i]), "judge": str(judge[i])},
            )
            for i in range(200)
        ]
    )
    drawn = np.isin(np.arange(200), rng.choice(200, 60, replace=False))
    found = printed(drawn)
    assert found == printed.by_agree(drawn)
    low, high = found["prediction_powered"]
    assert 0.0 < low < human.mean() < high < 1.0
    # People who label what the judge calls hallucinated draw no random sample: no range of it.
    picked = (judge == 1) & (np.cumsum(judge) <= 60)
    assert printed(picked)["prediction_powered"] is None
    assert printed(picked) == printed.by_agree(picked)
