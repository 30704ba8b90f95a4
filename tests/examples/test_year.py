"""Does the simulated year find what happened in it, about when it happened?"""

from __future__ import annotations

import importlib.util
import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from calibrail.guardrail.decision_log.verify import verify_log


@pytest.fixture(scope="module")
def year(repository: Path) -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("year", repository / "examples/year.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up the module that they are made in.
    sys.modules["year"] = module
    spec.loader.exec_module(module)
    return module


def test_what_happens_is_found_and_no_sooner(
    year: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ten weeks in place of a year: a language on day 21, a model on day 35.
    monkeypatch.setattr(year, "GERMAN", 21)
    monkeypatch.setattr(year, "MODEL", 35)
    status: dict[str, Any] = year.simulate(tmp_path, per_day=120, labels_per_day=30.0, n_days=70)

    found = {alarm["feature"]: alarm for alarm in status["traffic"]["alarms"]}
    assert set(found) == {"language", "response_length"}
    for feature, day in (("language", 21), ("response_length", 35)):
        begun = year.BEGIN + timedelta(days=day)
        seen = datetime.fromisoformat(found[feature]["time"])
        since = datetime.fromisoformat(found[feature]["since"]["time"])
        assert begun <= seen < begun + timedelta(days=3)
        assert abs(since - begun) < timedelta(days=1)

    assert status["promise"]["state"] == "broken"
    decided = status["promise"]["decided"]
    assert decided["rate"] == "coverage"
    assert datetime.fromisoformat(decided["time"]) >= year.BEGIN + timedelta(days=35)
    assert verify_log(tmp_path / "log").verdict == "whole"
    assert (tmp_path / "watch" / "watch.html").stat().st_size > 10_000
