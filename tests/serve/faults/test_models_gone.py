from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from calibrail import Example, calibrate
from calibrail.guardrail import Guardrail
from tests.serve.faults.kept import decides_as_ever, nothing_is_invented
from tests.serve.load import Load
from tests.serve.process import Service, until
from tests.tiny_models import WORDS, make_matcher

Bodies = Iterator[dict[str, Any]]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_matcher(tmp_path / "matcher")


@pytest.fixture
def on_a_model(model: Path, tmp_path: Path) -> Path:
    rows = [
        Example(
            "", (" ".join(WORDS[n % 20 : n % 20 + 5]),), " ".join(WORDS[m : m + 3]), label=n % 2
        )
        for n in range(120)
        for m in [n % 20 if n % 2 == 0 else (n + 7) % 28]
    ]
    path = tmp_path / "nli.json"
    calibrate(rows, f"nli:model={model}", alpha=0.3, assume_independent=True).freeze().save(path)
    return path


def test_a_model_whose_files_are_gone(
    on_a_model: Path, model: Path, bodies: Bodies, tmp_path: Path
) -> None:
    guardrail, log, away = Guardrail.load(on_a_model), tmp_path / "log", tmp_path / "away"
    model.rename(away)
    with Service(on_a_model, "--log", log, ready=False) as service:
        assert service.end() != 0
        assert str(model) in service.stderr and "Traceback" not in service.stderr
        assert "serving on" not in service.stderr
    away.rename(model)
    with Service(on_a_model, "--log", log) as service:
        before = Load(service.port, islice(bodies, 20), connections=4).run()
        model.rename(away)
        # What was loaded decides on, and a reload that finds no model changes nothing.
        without = Load(service.port, islice(bodies, 20), connections=4).run()
        refused = 'calibrail_reloads_total{guardrail="nli",result="refused"}'
        service.process.send_signal(signal.SIGHUP)
        until(lambda: service.metric(refused) >= 1, "refused", lambda: service.stderr)
        after = Load(service.port, islice(bodies, 20), connections=4).run()
        away.rename(model)
        service.process.send_signal(signal.SIGHUP)
        swapped = 'calibrail_reloads_total{guardrail="nli",result="swapped"}'
        until(lambda: service.metric(swapped) >= 1, "loaded again", lambda: service.stderr)
        decides_as_ever(service, guardrail, {**next(bodies), "id": "afterwards"})
        assert service.terminate() == 0
    assert nothing_is_invented([*before, *without, *after], guardrail, log) == (60, 0)
