"""Are the detectors of the plug-in scores like any other, found by their entry points?"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from calibrail.errors import InputError
from calibrail.models.loading import DEFAULT_MODEL
from calibrail.scores import build, key_of, parse_spec
from calibrail.scores.base import LocalScore
from calibrail.scores.registry import BUILT_IN, ENTRY_POINTS, ScoreSpec, available, spell
from calibrail.testing import check_score
from calibrail_papers.attention import AttentionModel
from calibrail_papers.halt import Halt
from calibrail_papers.redeep import Redeep
from tests.tiny_models import make_classifier, make_decoder

SCORES = {"halt": Halt, "redeep": Redeep}


def test_its_entry_points_are_its_scores() -> None:
    found = {entry.name: entry.load() for entry in entry_points(group=ENTRY_POINTS)}
    assert found.items() >= SCORES.items()
    assert not set(SCORES) & set(BUILT_IN)
    assert set(SCORES) <= set(available())


@pytest.mark.parametrize("name", SCORES)
def test_a_default_is_not_said_and_anything_else_is(name: str) -> None:
    plain, onboard = build(parse_spec(name)), build(parse_spec(f"{name}:device=cpu"))
    assert type(plain) is SCORES[name] and isinstance(plain, LocalScore)
    assert not {"backend", "device"} & set(plain.params)
    assert "device" not in key_of(plain)
    assert onboard.params == {**plain.params, "device": "cpu"}
    assert key_of(onboard).endswith("device=cpu")
    assert build(parse_spec(spell(onboard))).params == onboard.params


def test_a_preset_of_its_own_builds() -> None:
    built = build(ScoreSpec("halt", {"preset": "paper", "window": 128}))
    assert built.params["window"] == 128 and "preset" not in built.params
    for key, value in Halt.presets["paper"].items():
        assert built.params[key] == value
    assert len(str(built.params["revision"])) == 40
    with pytest.raises(InputError, match="halt has no preset 'best'; its presets: paper"):
        build(parse_spec("halt:preset=best"))
    with pytest.raises(InputError, match="redeep has no preset 'paper'; its presets: none"):
        build(parse_spec("redeep:preset=paper"))


def test_attention_needs_torch() -> None:
    with pytest.raises(InputError, match="backend must be torch where attention is looked at"):
        build(parse_spec("redeep:backend=onnx"))


def test_all_models_of_halt_are_computed_alike() -> None:
    pytest.importorskip("onnxruntime")
    score = build(parse_spec("halt:backend=onnx"))
    assert isinstance(score, LocalScore)
    assert {model.backend for model in score.models} == {"onnx"}


@pytest.mark.parametrize(
    "spec", ["redeep:model={decoder},layers=1", "halt:model={bart},second={deberta}"]
)
def test_they_conform(spec: str, tmp_path: Path) -> None:
    models = {
        "bart": make_classifier(tmp_path / "bart", "bart", max_length=500),
        "deberta": make_classifier(tmp_path / "deberta", "deberta-v2", max_length=500),
        "decoder": make_decoder(tmp_path / "decoder", max_length=500),
    }
    check_score(build(parse_spec(spec.format(**models))), polarity=False, huge=2_000)


def test_a_fingerprint_loads_no_torch() -> None:
    code = (
        "import sys\n"
        f"sys.path[:] = {sys.path!r}\n"
        f"from {AttentionModel.__module__} import AttentionModel\n"
        f"AttentionModel({DEFAULT_MODEL!r}).fingerprint()\n"
        "sys.exit(', '.join({'torch', 'transformers', 'tokenizers'} & set(sys.modules)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
