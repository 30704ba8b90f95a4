from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from calibrail.errors import InputError, ModelError
from calibrail.models.embeddings import LocalEncoder, load_encoder
from calibrail.models.loading import DEFAULT_MODEL
from calibrail.text.words import content_words

LONG = " ".join(f"the river rhine flows from snow {index}" for index in range(9))
TEXTS = ("the river flows", "Rhine", LONG, "snow in the alps.", "")


def fresh(
    model: str = DEFAULT_MODEL,
    revision: str | None = None,
    prompt: str = "",
    dtype: str = "float32",
) -> LocalEncoder:
    """An encoder that no other test shares."""
    return LocalEncoder(model, revision, prompt, dtype)


@pytest.fixture(scope="module")
def encoder(tiny: Path) -> LocalEncoder:
    return fresh(str(tiny))


def bare(folder: Path, texts: tuple[str, ...], prompt: str = "") -> np.ndarray:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder))
    vectors = model.encode([prompt + text for text in texts]).astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class TestSentences:
    def test_they_are_those_of_sentence_transformers(
        self, encoder: LocalEncoder, tiny: Path
    ) -> None:
        vectors = encoder.sentences(TEXTS)
        assert vectors.dtype == np.float64
        np.testing.assert_allclose(vectors, bare(tiny, TEXTS), atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-12)

    def test_a_prompt_goes_before_every_text(self, tiny: Path) -> None:
        found = fresh(str(tiny), prompt="sea: ").sentences(TEXTS)
        np.testing.assert_allclose(found, bare(tiny, TEXTS, "sea: "), atol=1e-6)
        assert not np.allclose(found, fresh(str(tiny)).sentences(TEXTS), atol=1e-3)

    def test_another_precision_is_another_vector(self, tiny: Path, encoder: LocalEncoder) -> None:
        low = fresh(str(tiny), dtype="bfloat16").sentences(TEXTS[:1])
        distance = np.linalg.norm(low - encoder.sentences(TEXTS[:1]))
        assert 1e-6 < distance < 0.1


class TestOnce:
    def test_each_distinct_text_runs_once(self, tiny: Path) -> None:
        encoder = fresh(str(tiny))
        encoder.prepare(["a", "b", "a"], ["b", "c", "b"])
        assert encoder.n_embedded == 3
        assert encoder.n_passes == 1
        encoder.sentences(["a", "b", "c", "a"])
        encoder.words("b")
        encoder.prepare(["c"], ["c"])
        assert (encoder.n_embedded, encoder.n_passes) == (3, 1)

    def test_a_batch_changes_rounding_only(self, tiny: Path) -> None:
        together = fresh(str(tiny)).sentences(TEXTS)
        alone = np.vstack([fresh(str(tiny)).sentences([text]) for text in TEXTS])
        np.testing.assert_allclose(together, alone, atol=1e-6)

    def test_truncated_texts_are_counted_and_known(self, tiny: Path) -> None:
        encoder = fresh(str(tiny))
        encoder.prepare(["river", LONG], [LONG + " sea"])
        assert encoder.n_truncated == 2
        assert len(encoder.cut(["river", LONG, LONG + " sea", "never seen"])) == 2


class TestWords:
    def test_one_unit_vector_a_content_word(self, encoder: LocalEncoder) -> None:
        vectors = encoder.words("The river Rhine flows, from the Alps!")
        assert vectors.shape == (4, 16)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)

    def test_a_word_is_the_mean_of_its_subwords(self, encoder: LocalEncoder, tiny: Path) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(tiny))
        text = "the snow abc"
        tokens = model.tokenizer.tokenize(text)
        assert tokens == ["the", "snow", "a", "##b", "##c"]
        with torch.inference_mode():
            features = dict(model.tokenizer(text, return_tensors="pt"))
            states = model(features)["token_embeddings"][0].numpy()
        expected = np.vstack([states[2], states[3:6].mean(axis=0)])
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(encoder.words(text), expected, atol=1e-5)

    def test_a_prompt_has_no_words_of_its_own(self, tiny: Path) -> None:
        assert fresh(str(tiny), prompt="sea snow ").words("river").shape == (1, 16)

    def test_windows_cover_a_text_beyond_the_maximum_length(self, encoder: LocalEncoder) -> None:
        vectors = encoder.words(LONG)
        assert len(vectors) == len(content_words(LONG)) == 45
        assert (np.linalg.norm(vectors, axis=1) > 0.99).all()

    def test_the_first_window_serves_sentence_and_words(self, tiny: Path) -> None:
        encoder = fresh(str(tiny))
        encoder.prepare([LONG], [LONG])
        np.testing.assert_allclose(encoder.sentences([LONG]), bare(tiny, (LONG,)), atol=1e-6)
        assert encoder.n_embedded == 1


class TestFingerprint:
    def test_it_pins_the_model_and_is_json(self, tiny: Path) -> None:
        found = fresh(str(tiny), prompt="p: ").fingerprint()
        assert json.loads(json.dumps(found)) == found
        assert found["max_length"] == 16
        assert found["prompt"] == "p: "
        assert found["dtype"] == "float32"

    def test_its_length_is_the_one_in_use(self, tiny: Path) -> None:
        encoder = fresh(str(tiny))
        assert encoder.transformer.max_seq_length == encoder.fingerprint()["max_length"]


class TestLoading:
    def test_one_encoder_a_specification(self, tiny: Path) -> None:
        assert load_encoder("all-MiniLM-L6-v2") is load_encoder(DEFAULT_MODEL)
        assert load_encoder(str(tiny)) is load_encoder(model=str(tiny), dtype="float32")
        assert load_encoder(str(tiny)) is not load_encoder(str(tiny), prompt="a")

    @pytest.mark.parametrize("wrong", [{"prompt": 5}, {"model": 3}, {"revision": 1234567}])
    def test_what_must_be_a_string_is_said(self, wrong: dict[str, int]) -> None:
        with pytest.raises(InputError, match="must be a string"):
            load_encoder(**wrong)  # type: ignore[arg-type]


def test_an_open_encoder_does_not_follow_its_file(tiny: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny, tmp_path / "copy"))
    encoder = fresh(str(folder))
    before = encoder.sentences(["the river flows"])
    weights = folder / "model.safetensors"
    raw = weights.read_bytes()
    with weights.open("r+b") as file:
        file.seek(8 + int.from_bytes(raw[:8], "little"))
        file.write(bytes(byte ^ 1 for byte in raw[file.tell() :]))
    encoder.forget()
    np.testing.assert_array_equal(encoder.sentences(["the river flows"]), before)
    with pytest.raises(ModelError, match="start it again"):
        encoder.fingerprint()
