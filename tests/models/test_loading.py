from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calibrail.errors import ModelError
from calibrail.models import loading
from calibrail.models.classifiers import PairHead
from calibrail.models.loading import Architecture, LocalModel, locate, locate_tokenizer
from calibrail.models.networks import Network, padded
from calibrail.models.windows import Window
from tests.installed import need
from tests.tiny_models import change_config, make_classifier, make_hhem, make_tokenizer

need("transformers")

CLASSIFIER = Architecture("AutoModelForSequenceClassification", "a test")


def window(*ids: int) -> Window:
    return Window(list(ids), [1] * len(ids), (0, 0), (0, 0), 0, 0, 0, 0)


@pytest.mark.parametrize(("kind", "has_types"), [("bert", True), ("roberta", False)])
def test_batches_are_padded_on_the_right(tmp_path: Path, kind: str, has_types: bool) -> None:
    folder = make_classifier(tmp_path / kind, kind)
    architecture = Architecture("AutoModelForSequenceClassification", "a test")
    network = LocalModel(str(folder)).open_network(architecture)
    inputs = padded([window(7, 8, 9), window(5)], network.tokenizer)
    padding = network.tokenizer.pad_token_id
    assert inputs["input_ids"].tolist() == [[7, 8, 9], [5, padding, padding]]
    assert inputs["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert ("token_type_ids" in inputs) == has_types
    if has_types:
        assert inputs["token_type_ids"].tolist() == [[1, 1, 1], [1, 0, 0]]


def scramble(folder: Path) -> None:
    """Overwrite weights where they lie, with others of the same size."""
    (weights,) = folder.glob("*.safetensors")
    raw = weights.read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    with weights.open("r+b") as file:
        file.seek(begin)
        file.write(bytes(byte ^ 1 for byte in raw[begin:]))


def values(network: Network) -> list[float]:
    return [float(part) for part in network.first([window(7, 8, 9)], PairHead.forward).flatten()]


def test_files_that_change_between_the_look_and_the_opening_are_refused(tmp_path: Path) -> None:
    folder = make_classifier(tmp_path / "bert")
    model = LocalModel(str(folder))
    before = model.fingerprint()
    scramble(folder)
    with pytest.raises(ModelError, match=r"were changed while.*weights_sha256.*start it again"):
        model.open_network(CLASSIFIER)
    scramble(folder)
    assert model.fingerprint() == before
    assert model.open_network(CLASSIFIER).model == str(folder)


def test_files_that_change_while_they_are_opened_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_classifier(tmp_path / "bert")
    taken = loading.take_into_memory

    def slow(module: object) -> None:
        taken(module)
        scramble(folder)

    monkeypatch.setattr(loading, "take_into_memory", slow)
    with pytest.raises(ModelError, match="were changed while"):
        LocalModel(str(folder)).open_network(CLASSIFIER)


def test_time_of_opening_is_that_of_loading_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, taken = [0.0], loading.take_into_memory
    monkeypatch.setattr(loading.time, "perf_counter", lambda: now[0])

    def slow(module: object) -> None:
        taken(module)
        now[0] += 8.0

    monkeypatch.setattr(loading, "take_into_memory", slow)
    model = LocalModel(str(make_classifier(tmp_path / "bert")))
    now[0] += 1.0
    model.fingerprint()
    assert model.seconds_opening == 0.0
    network = model.open_network(CLASSIFIER)
    now[0] += 2.0
    values(network)
    assert model.seconds_opening == 8.0
    # What is opened in order to be exported is a part of it; what fails took its time, too.
    with (
        pytest.raises(ModelError, match="cannot be loaded as a test: not so"),
        model.loading("a test", "transformers"),
    ):
        model.open_network(CLASSIFIER)
        now[0] += 4.0
        raise ValueError("not so")
    assert model.seconds_opening == 8.0 + 8.0 + 4.0
    model.open_network(CLASSIFIER)
    assert model.seconds_opening == 28.0


def test_an_open_model_does_not_follow_its_file(tmp_path: Path) -> None:
    folder = make_classifier(tmp_path / "bert")
    model = LocalModel(str(folder))
    network = model.open_network(CLASSIFIER)
    before = values(network)
    scramble(folder)
    assert values(network) == before
    # The files are not what is in memory, and nobody is told that they were.
    with pytest.raises(ModelError, match="start it again"):
        model.fingerprint()
    assert values(LocalModel(str(folder)).open_network(CLASSIFIER)) != before


def test_files_are_hashed_once_as_long_as_they_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opened = make_classifier(tmp_path / "bert"), list[str]()
    real = Path.open

    def noted(self: Path, *given: Any, **options: Any) -> Any:
        opened.append(self.name)
        return real(self, *given, **options)

    monkeypatch.setattr(Path, "open", noted)
    model = LocalModel(str(folder))
    model.fingerprint()
    LocalModel(str(folder)).fingerprint()
    model.verified()
    assert opened.count("model.safetensors") == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 96),
        ({"max_position_embeddings": 50}, 50),
        ({"max_position_embeddings": 50, "model_type": "roberta", "pad_token_id": 1}, 48),
        ({"max_position_embeddings": 50, "model_type": "mpnet", "pad_token_id": None}, 48),
        ({"max_position_embeddings": None, "n_positions": 40}, 40),
        ({"max_position_embeddings": None}, 96),
    ],
)
def test_positions_are_the_least_that_is_stated(
    tmp_path: Path, changes: dict[str, object], expected: int
) -> None:
    folder = make_classifier(tmp_path / "bert")
    change_config(folder, **changes)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 7}')
    assert locate(str(folder)).positions() == expected


def test_without_any_limit_512_are_read(tmp_path: Path) -> None:
    folder = make_hhem(tmp_path / "hhem")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**settings, "model_max_length": 10**30})
    )
    assert locate(str(folder)).positions() == 512
    assert locate(str(folder)).is_relative()


def test_a_tokenizer_is_found_without_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--someone--words"
    make_tokenizer("t5").save_pretrained(repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    assert locate_tokenizer("someone/words").folder.name == commit
    with pytest.raises(ModelError, match=r"lacks config\.json"):
        locate("someone/words")
    with pytest.raises(ModelError, match="the tokenizer of the model 'someone/other' is not on"):
        locate_tokenizer("someone/other")
