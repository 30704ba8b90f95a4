"""Is a false alarm as rare as a watch states, and would one be noticed that is not?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.validity import failures, monitoring
from benchmarks.validity.check import Check, Kind, Setting
from calibrail.conformal.change_point import stream_ranks

Run = Callable[[Setting], Iterator[Check]]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "ROWS", 1000)


@pytest.mark.parametrize("kind", ["continuous", "discrete", "tied"])
@pytest.mark.parametrize("run", [monitoring.one_feature, monitoring.several_features])
def test_false_alarms_are_as_rare_as_stated(run: Run, kind: Kind) -> None:
    runs = 400 if run is monitoring.one_feature else 200
    checks = list(run(Setting(kind, 60, 0.1, runs, seed=2)))
    assert failures(checks, 1e-4) == ()
    assert [check.promised for check in checks] == [0.1, 0.1, 0.9]
    assert sum(check.failed for check in checks[:2]) > 0


def test_a_threshold_that_is_too_low_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "alarm_threshold", lambda arl, n: arl / 3.0)
    failed = failures(list(monitoring.one_feature(Setting("discrete", 60, 0.1, 400, seed=2))), 1e-4)
    assert {check.what.split(",")[1][:12] for check in failed} == {" false alarm", " mean run le"}


def test_ranks_among_a_reference_that_does_not_grow_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def frozen(rows: Any, uniforms: Any, counts: Any) -> tuple[Any, Any]:
        one_by_one = [
            stream_ranks(rows[:, [at]], uniforms[:, [at]], counts)[0] for at in range(rows.shape[1])
        ]
        return np.concatenate(one_by_one, axis=1), counts

    monkeypatch.setattr(monitoring, "stream_ranks", frozen)
    checks = list(monitoring.one_feature(Setting("continuous", 60, 0.1, 100, seed=2)))
    assert any("1,000 rows" in check.what for check in failures(checks, 1e-4))


def test_clustered_traffic_breaks_the_promise_and_is_said_to() -> None:
    seen = list(monitoring.clustered(Setting("continuous", 60, 0.1, 60, seed=2)))
    rates = {item.design.split("question ")[1][:5]: item.rate for item in seen[1::2]}
    assert rates["in a "] > rates["withi"] > 0.1


def test_a_change_is_found_soon_after_it() -> None:
    rng = np.random.default_rng(0)
    reference, stream = rng.standard_normal((20, 400)), rng.standard_normal((20, 3000))
    stream[:, 2000:] += 1.0
    first = monitoring.follow(reference, stream, (1e6, 1e12))
    assert ((first[:, 0] > 2000) & (first[:, 0] < 2100)).all()
    assert (first[:, 1] > first[:, 0]).all()
    codes = rng.choice(3, size=(20, 2000), p=[0.8, 0.15, 0.05]).astype(float)
    codes[:, 1000:][rng.random((20, 1000)) < 0.2] = 3.0
    found = monitoring.follow(codes[:, :400], codes[:, 400:], (1e6,), feature="language")
    assert ((found > 600) & (found < 750)).all()
