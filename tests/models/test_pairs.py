from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calibrail.errors import InputError, ModelError
from calibrail.models.classifiers import EntailmentModel
from tests import tiny_models
from tests.installed import need

need("transformers")

FACT = "the museum in the old city is closed monday at noon."
CLAIM = "the museum is closed monday"
PAIRS = [
    (FACT, CLAIM),
    ("the river rhine flows from the alps", "the river flows from snow"),
    ("snow", "the bell not rings"),
    (" ".join(["the train leaves at noon."] * 60), "the train not leaves the city"),
    ("", "sea"),
    ("sea", ""),
    ("\x00\x07\ud800 snow [SEP] </s>", "\u0440\u0435\u043a\u0430 \u4e2d\u6587 \ud83d\ude00"),
]


def padding(words: int, seed: int = 0) -> str:
    return " ".join(random.Random(seed).choices(tiny_models.PADDING, k=words))


@pytest.fixture(scope="module")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.make_matcher(tmp_path_factory.mktemp("pairs") / "matcher")


@pytest.fixture
def model(matcher: Path) -> EntailmentModel:
    return EntailmentModel(str(matcher))


class TestWindows:
    @pytest.mark.parametrize("place", [0.0, 0.13, 0.77, 1.0])
    def test_support_is_found_anywhere_in_20000_words(
        self, model: EntailmentModel, place: float
    ) -> None:
        before = padding(int(20_000 * place))
        premise = f"{before} {FACT} {padding(20_000 - int(20_000 * place), 1)}"
        (found,) = model.judge([(premise, CLAIM)])
        assert found.entailment > 0.95
        assert found.n_windows > 200
        where = premise.index(FACT)
        assert found.start <= where
        assert found.end >= where + len(FACT) - 1
        assert found.end - found.start < 800

    def test_unrelated_padding_neither_hides_nor_creates_support(
        self, model: EntailmentModel
    ) -> None:
        pad = padding(5_000)
        assert len(pad) > 25_000
        contradicted = "the museum is not closed"
        claims = [CLAIM, "the ship sails north", contradicted]
        alone = model.judge([(FACT, claim) for claim in claims])
        padded = model.judge([(f"{pad}\n{FACT}\n{pad}", claim) for claim in claims])
        nothing = model.judge([(f"{pad}\n{pad}", claim) for claim in claims])
        for short, long in zip(alone, padded, strict=True):
            assert abs(short.entailment - long.entailment) < 0.01
        assert padded[2].contradiction == pytest.approx(alone[2].contradiction, abs=0.01)
        assert alone[2].contradiction > 0.95
        assert max(judgement.entailment for judgement in nothing) < 0.01

    def test_the_hypothesis_is_never_cut_while_the_premise_can_be(
        self, model: EntailmentModel
    ) -> None:
        # Its last word decides, and hardly more than half of the tokens are left for the premise.
        claim = " ".join(["the museum is closed monday at noon"] * 6)
        assert model.judge([(padding(500), claim + " not")])[0].contradiction > 0.95
        (found,) = model.judge([(f"{padding(500)} {FACT} {padding(500)}", claim)])
        assert found.entailment > 0.95
        assert model.n_truncated == 0

    def test_a_hypothesis_beyond_half_of_the_model_is_cut_and_counted(
        self, model: EntailmentModel
    ) -> None:
        claim = " ".join(["the museum is closed monday at noon"] * 30)
        (found,) = model.judge([(f"{FACT} {padding(500)}", claim + " not")])
        assert found.entailment > 0.95
        assert model.n_truncated == 1

    def test_the_best_window_is_kept_for_each_class_by_itself(self, model: EntailmentModel) -> None:
        # Beside the fact, "not" is refuted; beside "not", the fact is missing.
        premise = f"{FACT} {padding(400)} not {padding(400)}"
        (found,) = model.judge([(premise, "the museum is not closed")])
        assert found.contradiction > 0.95
        assert premise[found.contradiction_start :].startswith(FACT)


class TestOnce:
    def test_each_distinct_pair_runs_once(self, matcher: Path) -> None:
        model = EntailmentModel(str(matcher))
        model.prepare([(FACT, CLAIM), ("sea", CLAIM), (FACT, CLAIM)])
        assert (model.n_pairs, model.n_passes) == (2, 2)
        model.prepare([(FACT, CLAIM)])
        model.judge([(FACT, CLAIM), ("sea", CLAIM)])
        assert (model.n_pairs, model.n_passes) == (2, 2)
        model.judge([(CLAIM, FACT)])
        assert model.n_pairs == 3

    def test_a_settled_pair_has_the_value_that_it_has_alone(self, tmp_path: Path) -> None:
        folder = str(tiny_models.make_classifier(tmp_path / "bart", "bart"))
        together, alone = EntailmentModel(folder), EntailmentModel(folder)
        together.prepare(PAIRS)
        before = together.n_passes
        together.settle(PAIRS[:3])
        assert together.n_passes == before + 3
        for pair in PAIRS[:3]:
            assert together.judge([pair]) == alone.judge([pair])

    def test_more_pairs_than_are_kept_are_judged_all_the_same(
        self, model: EntailmentModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = model.judge(PAIRS)
        monkeypatch.setattr(EntailmentModel, "budget", 2)
        small = EntailmentModel(model.model)
        found = small.judge(PAIRS)
        np.testing.assert_allclose(
            [judgement.entailment for judgement in found],
            [judgement.entailment for judgement in expected],
            atol=small.tolerance,
        )
        assert small.n_pairs > len(PAIRS)


class TestBatches:
    @pytest.mark.parametrize("kind", tiny_models.CLASSIFIERS)
    def test_a_batch_of_one_equals_a_batch_of_many(
        self, tmp_path_factory: pytest.TempPathFactory, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Whatever their lengths, so that the shorter ones are padded.
        monkeypatch.setattr("calibrail.models.batching._SIMILAR", 0.0)
        folder = tiny_models.make_classifier(tmp_path_factory.mktemp("batch") / kind, kind)
        model = EntailmentModel(str(folder))
        together = model.judge(PAIRS)
        assert model.n_passes == 1
        assert len({round(judgement.entailment, 6) for judgement in together}) == len(PAIRS)
        for pair, expected in zip(PAIRS, together, strict=True):
            model.forget()
            (found,) = model.judge([pair])
            assert found == pytest.approx(expected, abs=model.tolerance)


class TestFingerprint:
    def test_it_pins_the_model_and_is_json(self, matcher: Path) -> None:
        found = EntailmentModel(str(matcher), window=50).fingerprint()
        assert json.loads(json.dumps(found)) == found
        assert found["labels"] == ["contradiction", "neutral", "entailment"]
        assert (found["max_length"], found["window"]) == (tiny_models.LENGTH, 50)
        assert {"weights_sha256", "settings_sha256", "head", "windowing"} <= set(found)

    @pytest.mark.parametrize("other", [{"dtype": "bfloat16"}, {"window": 40}])
    def test_another_specification_is_another_one(
        self, matcher: Path, other: dict[str, str | int]
    ) -> None:
        assert (
            EntailmentModel(str(matcher), **other).fingerprint()  # type: ignore[arg-type]
            != EntailmentModel(str(matcher)).fingerprint()
        )

    def test_it_loads_no_torch(self, matcher: Path) -> None:
        code = (
            "import sys\n"
            "from calibrail.models.classifiers import EntailmentModel\n"
            "from calibrail.scores.grounding import Reranker\n"
            f"EntailmentModel({str(matcher)!r}).fingerprint()\n"
            "sys.exit(', '.join({'torch', 'transformers', 'tokenizers'} & set(sys.modules)) or 0)"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


class TestSpecification:
    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (
                {"dtype": "int4"},
                "dtype must be one of float32, bfloat16, float16 with backend=torch; got 'int4'",
            ),
            ({"window": 0}, "window must be at least 1"),
            ({"window": True}, "window must be a whole number"),
            ({"window": "9"}, "window must be a whole number"),
            ({"model": 5}, "model must be a string"),
            ({"revision": 5}, "revision must be a string"),
        ],
    )
    def test_what_is_wrong_is_said(self, wrong: dict[str, object], message: str) -> None:
        with pytest.raises(InputError, match=message):
            EntailmentModel(**{"model": "x", **wrong})  # type: ignore[arg-type]

    def test_a_window_beyond_the_position_table_is_refused(self, matcher: Path) -> None:
        with pytest.raises(InputError, match="window must be below the 96 tokens"):
            EntailmentModel(str(matcher), window=96).fingerprint()

    def test_relative_positions_allow_a_larger_window(self, tmp_path: Path) -> None:
        folder = tiny_models.make_classifier(tmp_path / "deberta", "deberta-v2")
        large = EntailmentModel(str(folder), window=500)
        assert large.fingerprint()["max_length"] > 500
        (found,) = large.judge([(padding(400), CLAIM)])
        assert found.n_windows == 1

    def test_a_roberta_keeps_two_positions_for_padding(self, tmp_path: Path) -> None:
        folder = tiny_models.make_classifier(tmp_path / "roberta", "roberta")
        tiny_models.change_config(folder / ".", tie_word_embeddings=False)
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        del settings["model_max_length"]
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        model = EntailmentModel(str(folder))
        assert model.fingerprint()["max_length"] == tiny_models.LENGTH
        (found,) = model.judge([(padding(500), CLAIM)])
        assert found.n_windows > 1

    def test_values_that_are_no_numbers_are_an_error(
        self, model: EntailmentModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model.judge([(FACT, CLAIM)])
        monkeypatch.setattr(
            model.head, "values", lambda windows: np.full((len(windows), 2), np.nan), raising=True
        )
        with pytest.raises(ModelError, match=r'no numbers in float32; use dtype="float32"'):
            model.judge([("sea", "snow")])
