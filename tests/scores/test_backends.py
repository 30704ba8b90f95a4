"""A library and its precision are parameters of every score that runs models on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calibrail import calibrate
from calibrail.errors import InputError
from calibrail.guardrail import Guardrail
from calibrail.guardrail.file import content_digest, render
from calibrail.models import hardware
from calibrail.models.loading import LocalModel
from calibrail.scores import build, key_of, parse_spec
from calibrail.scores.base import LocalScore
from calibrail.scores.registry import BUILT_IN, spell
from tests.answers import rows, write
from tests.command_line import calibrail
from tests.installed import need

need("onnxruntime")

LOCAL = (
    *("sgi", "rad", "tfg", "local_sgi", "nli", "sec", "selfcheck", "claims", "provenance"),
    *(
        "reranker",
        "tokens",
        "crg",
        "displacement_magnitude",
        "tangent_residual",
        "dgi",
    ),
)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "graphs"))


@pytest.mark.parametrize("name", LOCAL)
def test_a_default_is_not_said_and_anything_else_is(name: str) -> None:
    plain, onboard = build(parse_spec(name)), build(parse_spec(f"{name}:device=cpu"))
    assert isinstance(plain, LocalScore)
    assert not {"backend", "device"} & set(plain.params)
    assert "device" not in key_of(plain)
    assert onboard.params == {**plain.params, "device": "cpu"}
    assert key_of(onboard).endswith("device=cpu")
    assert build(parse_spec(spell(onboard))).params == onboard.params


def test_every_score_whose_models_run_here_takes_them() -> None:
    needs_more = {"custom", "column", "judge", "decision", "hybrid", "worst_sentence"}
    needs_more |= {"anyguardrail"}
    by_name = set(BUILT_IN) - {"ensemble", "fused", *needs_more}
    scores = {name: build(parse_spec(name)) for name in by_name}
    local = {
        name
        for name, score in scores.items()
        if any(isinstance(model, LocalModel) for model in getattr(score, "models", ()))
    }
    assert local == {name for name, score in scores.items() if isinstance(score, LocalScore)}
    assert set(LOCAL) <= local


def test_a_frozen_guardrail_decides_as_it_was_certified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, path = write(tmp_path / "data.jsonl", rows(60)), tmp_path / "guardrail.json"
    by_torch = calibrate(str(data), "rad", alpha=0.2)
    run = calibrate(str(data), "rad:backend=onnx", alpha=0.2)
    assert abs(run.report.threshold - by_torch.report.threshold) < 1e-6
    run.freeze().save(path)
    loaded = Guardrail.load(path, probe=True)
    assert loaded.probed is not None
    assert loaded.probed.state == "agree"
    decided = tmp_path / "decisions.jsonl"
    assert calibrail("check", path, data, "-o", decided).returncode == 0
    lines = [json.loads(line) for line in decided.read_text().splitlines()]
    expected = np.array([line["score"] for line in lines])
    found = np.array([loaded.check(**_asked(row)).score for row in rows(60)])
    assert np.abs(found - expected).max() < 1e-6
    assert {line["outcome"] for line in lines} == {"pass", "flag"}
    monkeypatch.setattr(hardware, "find_spec", lambda name: None)
    refused = calibrail("check", path, data, "-o", decided)
    assert refused.returncode == 1
    assert 'pip install "calibrail[models,onnx]"' in " ".join(refused.stderr.split())


def test_what_was_frozen_in_int8_is_refused_with_a_remedy(tmp_path: Path) -> None:
    data, path = write(tmp_path / "data.jsonl", rows(60)), tmp_path / "guardrail.json"
    calibrate(str(data), "rad:backend=onnx", alpha=0.2).freeze().save(path)
    content = json.loads(path.read_bytes())
    content["score"]["params"]["dtype"] = "int8"
    path.write_bytes(render({**content, "digest": content_digest(content)}))
    with pytest.raises(InputError, match=r"int8 is no longer offered.* export a new guardrail"):
        Guardrail.load(path)


def _asked(row: dict[str, object]) -> dict[str, object]:
    return {name: row[name] for name in ("question", "contexts", "response")}
