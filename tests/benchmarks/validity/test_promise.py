"""Is a promise that is kept said to be broken as rarely as a watch states?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from benchmarks.validity import failures, monitoring
from benchmarks.validity.check import Check, Setting
from calibrail.labelling.log_sampling import LabelledSample
from calibrail.monitoring import promise
from calibrail.monitoring.promise import LabelledBets
from calibrail.options import Drawing, Requirement

Run = Callable[[Setting], Iterator[Check]]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "DRAWS", 300)


@pytest.mark.parametrize(
    "run", [monitoring.promise_uniform, monitoring.promise_active, monitoring.promise_late]
)
def test_a_promise_that_is_kept_is_rarely_said_to_be_broken(run: Run) -> None:
    runs = 40 if run is monitoring.promise_late else 200
    checks = list(run(Setting("continuous", 100, 0.1, runs, seed=4)))
    assert failures(checks, 1e-4) == ()
    assert len({check.design for check in checks}) == 2


@pytest.mark.parametrize("run", [monitoring.promise_uniform, monitoring.promise_active])
def test_a_goal_that_is_too_low_is_noticed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LabelledBets, "goal", property(lambda watched: np.log(1.5)))
    assert failures(list(run(Setting("continuous", 100, 0.1, 100, seed=4))), 1e-4)


def test_labels_that_are_late_and_left_out_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def labels_that_are_there(audited: LabelledSample, claim: promise.Claim) -> np.ndarray:
        return np.where(promise.is_unresolved(audited), np.nan, audited.label)

    monkeypatch.setattr(promise, "hardest_labels", labels_that_are_there)
    assert failures(
        list(monitoring.promise_late(Setting("continuous", 100, 0.1, 40, seed=4))), 1e-4
    )


@pytest.mark.parametrize("drawing", [Drawing(), Drawing("active")])
def test_rates_lie_on_their_limits(drawing: Drawing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "DRAWS", 40_000)
    limits = Requirement(0.2, 0.9, 0.95)
    audited = monitoring.audit(np.random.default_rng(0), limits, drawing, 0.3)
    weight = audited.handed_out / audited.probability
    for label, rate in ((1.0, 0.9), (0.0, 0.2)):
        mass = weight * (audited.label == label)
        assert float((mass * audited.flagged).sum() / mass.sum()) == pytest.approx(rate, abs=0.02)
    assert audited.handed_out.mean() == pytest.approx(audited.probability.mean(), abs=0.01)
