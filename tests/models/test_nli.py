from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from calibrail.errors import InputError, ModelError
from calibrail.models import classifiers
from calibrail.models.classifiers import EntailmentModel, label_order
from tests import tiny_models
from tests.installed import need

need("transformers")

PAIRS = [
    ("the river rhine flows from the alps. snow in the city", "the rhine flows, not open!"),
    ("snow", "the bell of the old tower rings at noon"),
    ("the museum\n\nis closed monday", "sea"),
    ("the old tower", "bridge in 1999"),
]
#: Of the hand-set matcher: entailed, contradicted, left open.
MATCHER_TEST = (
    ("the museum is closed monday", "the museum is closed"),
    ("the museum is closed monday", "the museum is not closed"),
    ("the museum is closed monday", "the bell rings"),
)


@pytest.fixture(scope="module")
def hhem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.make_hhem(tmp_path_factory.mktemp("hhem") / "hhem")


@pytest.fixture(scope="module")
def minicheck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.make_minicheck(tmp_path_factory.mktemp("minicheck") / "minicheck")


@pytest.fixture(scope="module")
def trained(repository: Path) -> Path:
    """A small trained model; tests that need it skip where it is absent."""
    models = os.environ.get("CALIBRAIL_MODELS", repository / ".." / "shared" / "models")
    folder = Path(models).resolve() / "nli-minilm"
    if not folder.is_dir():
        pytest.skip(f"no trained model at {folder}; set CALIBRAIL_MODELS")
    return folder


def plain(folder: Path, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """Probabilities as transformers gives them without any of our code, one pair at a time."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32
    ).eval()
    rows = []
    with torch.inference_mode():
        for premise, hypothesis in pairs:
            logits = model(**tokenizer(premise, hypothesis, return_tensors="pt")).logits[0]
            rows.append(torch.softmax(logits.double(), -1).numpy())
    return np.array(rows)


class TestClassifiers:
    @pytest.mark.parametrize("kind", tiny_models.CLASSIFIERS)
    def test_probabilities_are_those_of_the_bare_model(self, tmp_path: Path, kind: str) -> None:
        folder = tiny_models.make_classifier(tmp_path / kind, kind)
        expected = plain(folder, PAIRS)
        found = EntailmentModel(str(folder)).judge(PAIRS)
        np.testing.assert_allclose([j.entailment for j in found], expected[:, 2], atol=1e-6)
        np.testing.assert_allclose([j.contradiction for j in found], expected[:, 0], atol=1e-6)
        assert np.ptp(expected[:, 2]) > 1e-3
        assert [(j.start, j.end, j.n_windows) for j in found] == [(0, len(p), 1) for p, _ in PAIRS]

    @pytest.mark.parametrize("kind", tiny_models.CLASSIFIERS)
    def test_the_order_of_the_labels_changes_nothing(self, tmp_path: Path, kind: str) -> None:
        results = []
        for order in itertools.permutations(range(3)):
            folder = tiny_models.make_classifier(
                tmp_path / "".join(map(str, order)), kind, order=order
            )
            model = EntailmentModel(str(folder))
            assert model.fingerprint()["labels"] == [tiny_models.LABELS[place] for place in order]
            results.append([(j.entailment, j.contradiction) for j in model.judge(PAIRS)])
        assert len(results) == 6
        for result in results[1:]:
            np.testing.assert_allclose(result, results[0], atol=1e-7)

    @pytest.mark.parametrize(
        "labels", [("entailment", "not_entailment"), ("Hallucinated", "Consistent")]
    )
    def test_two_classes_know_no_contradiction(
        self, tmp_path: Path, labels: tuple[str, str]
    ) -> None:
        folder = tiny_models.make_classifier(tmp_path / "two", labels=labels)
        (found,) = EntailmentModel(str(folder)).judge(PAIRS[:1])
        expected = plain(folder, PAIRS[:1])[0]
        column = 0 if labels[0] == "entailment" else 1
        assert found.entailment == pytest.approx(expected[column], abs=1e-6)
        assert found.contradiction is None
        assert (found.contradiction_start, found.contradiction_end) == (0, 0)


class TestLabels:
    @pytest.mark.parametrize(
        ("names", "expected"),
        [
            (("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), tiny_models.LABELS),
            (("entailment", "neutral", "contradiction"), tiny_models.LABELS[::-1]),
            (("refutes", "not enough info", "supports"), tiny_models.LABELS),
            (("not-entailment", "entailment"), ("not_entailment", "entailment")),
            (("entailed", "contradicted"), ("entailment", "contradiction")),
        ],
    )
    def test_they_are_told_by_meaning(
        self, names: tuple[str, ...], expected: tuple[str, ...]
    ) -> None:
        assert label_order({str(i): name for i, name in enumerate(names)}, "m") == expected

    @pytest.mark.parametrize(
        "names",
        [
            {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
            {"0": "LABEL_0", "1": "LABEL_1"},
            {"0": "entailment"},
            {"0": "entailment", "1": "neutral"},
            {"0": "entailment", "1": "entails", "2": "neutral"},
            {"0": "entailment", "1": "neutral", "2": "contradiction", "3": "other"},
            {"1": "entailment", "2": "neutral", "3": "contradiction"},
            {"0": "positive", "1": "negative"},
            {"0": None, "1": 3},
            {},
            None,
            ["entailment"],
        ],
    )
    def test_others_are_refused_with_what_was_found(self, names: object) -> None:
        shown = ", ".join(f"{k}: {v}" for k, v in names.items()) if isinstance(names, dict) else ""
        with pytest.raises(ModelError) as refused:
            label_order(names, "some/model")
        assert f"its labels ({shown or 'none'}) do not say" in str(refused.value)
        assert "write it into id2label in config.json" in str(refused.value)


class TestSelfTest:
    @pytest.mark.parametrize("order", list(itertools.permutations(tiny_models.LABELS)))
    def test_swapped_labels_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...]
    ) -> None:
        monkeypatch.setattr(classifiers, "PAIRS_SELF_TEST", MATCHER_TEST)
        folder = tiny_models.make_matcher(tmp_path / "matcher")
        tiny_models.change_config(folder, id2label=dict(enumerate(order)))
        model = EntailmentModel(str(folder))
        if order == tiny_models.LABELS:
            assert model.judge(MATCHER_TEST)[0].entailment > 0.95
            return
        with pytest.raises(ModelError, match=r"labels look swapped.*the museum is.*id2l"):
            model.judge(MATCHER_TEST)

    def test_weights_that_give_no_numbers_are_refused(self, tmp_path: Path) -> None:
        from safetensors.torch import load_file, save_file

        folder = tiny_models.make_classifier(tmp_path / "bert")
        weights = load_file(folder / "model.safetensors")
        weights["classifier.bias"][0] = float("nan")
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(ModelError, match="gives no probabilities on a test of three pairs"):
            EntailmentModel(str(folder)).judge(PAIRS)


class TestHhem:
    def test_scores_are_those_of_the_published_recipe(self, hhem: Path) -> None:
        import torch
        import transformers
        from safetensors.torch import load_file

        config = json.loads((hhem / "config.json").read_text())
        figures = {k: config[k] for k in ("d_model", "d_kv", "d_ff", "num_layers", "num_heads")}
        model = transformers.T5ForTokenClassification(
            transformers.T5Config(
                **figures,
                vocab_size=config["vocab_size"],
                feed_forward_proj="gated-gelu",
                num_labels=2,
            )
        ).eval()
        weights = load_file(hhem / "model.safetensors")
        assert all(name.startswith("t5.") for name in weights)
        stripped = {name.removeprefix("t5."): tensor for name, tensor in weights.items()}
        stripped["transformer.encoder.embed_tokens.weight"] = stripped["transformer.shared.weight"]
        model.load_state_dict(stripped)
        tokenizer = transformers.T5Tokenizer.from_pretrained(hhem)
        found = EntailmentModel(str(hhem)).judge(PAIRS)
        scores = []
        for (premise, hypothesis), judgement in zip(PAIRS, found, strict=True):
            prompt = (
                "<pad> Determine if the hypothesis is true given the premise?\n\n"
                f"Premise: {premise}\n\nHypothesis: {hypothesis}"
            )
            with torch.inference_mode():
                logits = model(**tokenizer(prompt, return_tensors="pt")).logits
            expected = torch.softmax(logits[0, 0].double(), -1)[1].item()
            assert judgement.entailment == pytest.approx(expected, abs=1e-6)
            assert judgement.contradiction is None
            scores.append(expected)
        assert np.ptp(scores) > 1e-4

    def test_its_own_prompt_counts(self, hhem: Path, tmp_path: Path) -> None:
        copy = Path(shutil.copytree(hhem, tmp_path / "copy"))
        tiny_models.change_config(copy, prompt="sea {text1} snow {text2}")
        assert (
            EntailmentModel(str(copy)).judge(PAIRS)[0].entailment
            != EntailmentModel(str(hhem)).judge(PAIRS)[0].entailment
        )

    @pytest.mark.parametrize("change", ["t5.classifier.bias", "another"])
    def test_weights_must_fit_exactly(self, hhem: Path, tmp_path: Path, change: str) -> None:
        import torch
        from safetensors.torch import load_file, save_file

        copy = Path(shutil.copytree(hhem, tmp_path / "copy"))
        weights = load_file(copy / "model.safetensors")
        if change in weights:
            del weights[change]
        else:
            weights[change] = torch.zeros(2)
        save_file(weights, copy / "model.safetensors")
        with pytest.raises(ModelError, match="its weights are not those of T5ForTokenClassific"):
            EntailmentModel(str(copy)).judge(PAIRS)

    def test_the_tokenizer_of_the_foundation_serves(self, hhem: Path, tmp_path: Path) -> None:
        copy = Path(shutil.copytree(hhem, tmp_path / "copy"))
        foundation = tmp_path / "foundation"
        tiny_models.make_tokenizer("t5", 512).save_pretrained(foundation)
        for file in copy.glob("tokenizer*"):
            file.unlink()
        tiny_models.change_config(copy, foundation=str(foundation))
        found = EntailmentModel(str(copy))
        assert found.judge(PAIRS) == EntailmentModel(str(hhem)).judge(PAIRS)
        pinned = found.fingerprint()["tokenizer_sha256"]
        assert "tokenizer_sha256" not in EntailmentModel(str(hhem)).fingerprint()
        (foundation / "tokenizer.json").write_bytes(
            (foundation / "tokenizer.json").read_bytes() + b" "
        )
        with pytest.raises(ModelError, match="tokenizer_sha256"):
            found.fingerprint()
        assert EntailmentModel(str(copy)).fingerprint()["tokenizer_sha256"] != pinned
        tiny_models.change_config(copy, foundation=str(tmp_path))
        with pytest.raises(ModelError, match=r"holds no tokenizer\.json"):
            EntailmentModel(str(copy)).judge(PAIRS)


class TestMiniCheck:
    def test_scores_are_those_of_one_decoder_step(self, minicheck: Path) -> None:
        import torch
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(minicheck)
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            minicheck, dtype=torch.float32
        ).eval()
        zero, one = (tokenizer(answer)["input_ids"][0] for answer in "01")
        assert tokenizer.convert_ids_to_tokens([zero, one]) == ["\u2581", "\u25811"]
        found = EntailmentModel(str(minicheck)).judge(PAIRS)
        scores = []
        for (document, claim), judgement in zip(PAIRS, found, strict=True):
            text = "predict: " + tokenizer.eos_token.join([document, claim])
            with torch.inference_mode():
                logits = model(
                    **tokenizer(text, return_tensors="pt"),
                    decoder_input_ids=torch.zeros(1, 1).long(),
                ).logits[0, 0]
            expected = torch.softmax(logits[[zero, one]].double(), -1)[1].item()
            assert judgement.entailment == pytest.approx(expected, abs=1e-6)
            assert judgement.contradiction is None
            scores.append(expected)
        assert np.ptp(scores) > 1e-4

    def test_another_t5_is_none(self, tmp_path: Path) -> None:
        folder = tiny_models.make_minicheck(tmp_path / "t5", answers=False)
        assert EntailmentModel(str(folder)).fingerprint()["head"] == "minicheck"
        with pytest.raises(ModelError, match="does not answer 0 or 1 to MiniCheck's prompt"):
            EntailmentModel(str(folder)).judge(PAIRS)


CHECKERS = {
    "minicheck": "{document}{eos}{claim}",
    "factcg": (
        "{document}\n\nChoose your answer: based on the paragraph above can we conclude that "
        '"{claim}"?\n\nOPTIONS:\n- Yes\n- No\nI think the answer is '
    ),
}


class TestCheckers:
    @pytest.mark.parametrize(
        ("kind", "checker"),
        [("roberta", "minicheck"), ("deberta-v2", "minicheck"), ("deberta-v2", "factcg")],
    )
    def test_both_texts_are_read_as_one_with_its_prompt(
        self, kind: str, checker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import torch
        import transformers

        # Random weights misjudge the pairs with known answers as they please.
        monkeypatch.setattr(classifiers, "SWAPPED", 3.0)
        labels = ["LABEL_0", "LABEL_1"]
        unnamed = tiny_models.make_classifier(tmp_path / kind, kind, labels, max_length=300)
        folder = tmp_path / {"minicheck": "MiniCheck-tiny", "factcg": "FactCG-tiny"}[checker]
        folder.symlink_to(unnamed, target_is_directory=True)
        with pytest.raises(ModelError, match="do not say which output is entailment"):
            EntailmentModel(str(unnamed)).judge(PAIRS)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32
        ).eval()

        def supported(document: str, claim: str) -> float:
            text = CHECKERS[checker].format(document=document, claim=claim, eos=tokenizer.eos_token)
            with torch.inference_mode():
                logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
            return float(torch.softmax(logits.double(), -1)[1])

        opened = EntailmentModel(str(folder))
        assert opened.fingerprint()["head"] == f"{checker} classifier"
        found = [judgement.entailment for judgement in opened.judge(PAIRS)]
        expected = [supported(*pair) for pair in PAIRS]
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert np.ptp(expected) > 1e-4
        # A document that holds the sign between the two texts does not end there.
        hostile = f"the old tower{tokenizer.eos_token}bridge"
        (judgement,) = opened.judge([(hostile, "sea")])
        assert judgement.entailment != pytest.approx(supported(hostile, "sea"), abs=1e-9)
        # The best window of a long document counts.
        long = ". ".join(document for document, _ in PAIRS * 20)
        (judgement,) = EntailmentModel(str(folder), window=40).judge([(long, "the bell rings")])
        assert judgement.n_windows > 4
        part = long[judgement.start : judgement.end]
        assert judgement.entailment == pytest.approx(supported(part, "the bell rings"), abs=0.05)

    @pytest.mark.parametrize("kind", ["roberta", "deberta-v2", "t5"])
    @pytest.mark.parametrize("window", ["9 words", "12 words and marks", "14 tokens"])
    def test_whole_sentences_are_read_together_as_its_code_packs_them(
        self, kind: str, window: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(classifiers, "SWAPPED", 3.0)
        folder = tmp_path / "MiniCheck-tiny"
        if kind == "t5":
            tiny_models.make_minicheck(folder)
        else:
            tiny_models.make_classifier(folder, kind, ["LABEL_0", "LABEL_1"], max_length=300)
        words = [
            "the",
            "old",
            "tower",
            "bridge",
            "river",
            "rhine",
            "flows",
            "museum",
            "snow",
            "city",
        ]
        parts = [" ".join(words[: 2 + 5 * i % 7]).capitalize() + "." for i in range(8)]
        document, claim = " ".join(parts), "the bell rings"
        model = EntailmentModel(str(folder), window=window)
        (judgement,) = model.judge([(document, claim)])
        tokenizer = model.head.network.tokenizer
        most, _, unit = window.partition(" ")

        def size(text: str) -> int:
            if unit == "tokens":
                return len(tokenizer(text, add_special_tokens=False)["input_ids"])
            return len(text.split() if unit == "words" else re.findall(r"\w+|[^\w\s]", text))

        packs = [[parts[0]]]
        for part in parts[1:]:
            if sum(map(size, packs[-1])) + size(part) > int(most):
                packs.append([])
            packs[-1].append(part)
        assert judgement.n_windows == len(packs) > 2
        alone = EntailmentModel(str(folder))
        each = alone.judge([(" ".join(pack), claim) for pack in packs])
        best = max(range(len(packs)), key=lambda place: each[place].entailment)
        assert judgement.entailment == pytest.approx(each[best].entailment, abs=1e-6)
        assert document[judgement.start : judgement.end].strip() == " ".join(packs[best])
        fingerprint = model.fingerprint()
        assert fingerprint["window"] == window and fingerprint != alone.fingerprint()

    @pytest.mark.parametrize("window", ["500", "0 words", "5 lines"])
    def test_another_window_is_refused(self, window: str, tmp_path: Path) -> None:
        with pytest.raises(InputError, match='a whole number of tokens, or "500 words"'):
            EntailmentModel(str(tmp_path), window=window)


def published(
    model: str, pairs: Sequence[tuple[str, str]], checker: str | None = None
) -> list[float]:
    """Judge pairs by a published model; skip where its weights are not on this machine."""
    try:
        judgements = EntailmentModel(model).judge(pairs)
    except ModelError as error:
        pytest.skip(str(error))
    return [judgement.entailment for judgement in judgements]


class TestPublishedExamples:
    """What model cards print, where the weights are on this machine."""

    @pytest.fixture(autouse=True)
    def offline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    def test_minicheck(self) -> None:
        document = "A group of students gather in the school library to study for their upcoming "
        document += "final exams."
        claims = ["The students are preparing for an examination.", "The students are on vacation."]
        pairs = [(document, claim) for claim in claims]
        found = published("lytang/MiniCheck-Flan-T5-Large", pairs)
        assert found == pytest.approx([0.9805923700, 0.0071213078], abs=1e-4)

    def test_hhem(self) -> None:
        pairs = [
            ("The capital of France is Berlin.", "The capital of France is Paris."),
            ("I am in California", "I am in United States."),
            ("I am in United States", "I am in California."),
            ("Mark Wahlberg was a fan of Manny.", "Manny was a fan of Mark Wahlberg."),
        ]
        found = published("vectara/hallucination_evaluation_model", pairs)
        assert found == pytest.approx([0.0111, 0.6474, 0.1290, 0.0543], abs=1e-3)


class TestLoading:
    def test_pickled_weights_are_never_loaded(self, tmp_path: Path) -> None:
        import torch
        from safetensors.torch import load_file

        folder = tiny_models.make_classifier(tmp_path / "bert")
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        with pytest.raises(ModelError, match="Pickled weights are never loaded; convert"):
            EntailmentModel(str(folder)).judge(PAIRS)

    def test_an_absent_classifier_is_not_made_up(self, tmp_path: Path) -> None:
        from safetensors.torch import load_file, save_file

        folder = tiny_models.make_classifier(tmp_path / "bert")
        weights = load_file(folder / "model.safetensors")
        del weights["classifier.weight"]
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(ModelError, match=r"not those of Bert.*classifier\.weight"):
            EntailmentModel(str(folder)).judge(PAIRS)

    @pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
    def test_broken_files_are_an_error_of_ours(self, tmp_path: Path, file: str) -> None:
        folder = tiny_models.make_classifier(tmp_path / "bert")
        (folder / file).write_bytes(b"nothing")
        with pytest.raises(ModelError):
            EntailmentModel(str(folder)).judge(PAIRS)

    def test_code_that_a_folder_names_is_not_run(self, tmp_path: Path) -> None:
        folder = tiny_models.make_classifier(tmp_path / "bert")
        trap = tmp_path / "was_run"
        (folder / "evil.py").write_text(f"open({str(trap)!r}, 'w').close()\nclass Evil: pass\n")
        tiny_models.change_config(
            folder,
            model_type="evil",
            auto_map={
                "AutoConfig": "evil.Evil",
                "AutoModelForSequenceClassification": "evil.Evil",
            },
        )
        with pytest.raises(ModelError, match="cannot be loaded as an entailment model"):
            EntailmentModel(str(folder)).judge(PAIRS)
        assert not trap.exists()


ENTAILED = [
    ("A man is playing a guitar on a stage.", "A man is playing an instrument."),
    ("Three children are swimming in a lake.", "Children are in the water."),
    ("A woman is reading a book on a train.", "A woman is reading."),
    ("The Rhine rises in the Swiss Alps and flows to the North Sea.", "The Rhine is a river."),
    ("The bridge opened in 1932 after eight years of work.", "The bridge opened in 1932."),
    ("Marie Curie won two Nobel Prizes.", "Marie Curie won a Nobel Prize."),
]
NOT = [
    ("A man is playing a guitar on a stage.", "Nobody is playing an instrument."),
    ("Three children are swimming in a lake.", "The children are sitting in a classroom."),
    ("A woman is reading a book on a train.", "A woman is sleeping at home."),
    ("The Rhine rises in the Swiss Alps and flows to the North Sea.", "The cat ate my lunch."),
    ("The bridge opened in 1932 after eight years of work.", "The bridge was never built."),
    ("Marie Curie won two Nobel Prizes.", "Marie Curie was a football player."),
]


class TestRealModel:
    def test_it_tells_what_follows(self, trained: Path) -> None:
        model = EntailmentModel(str(trained))
        entailed = [judgement.entailment for judgement in model.judge(ENTAILED)]
        others = [judgement.entailment for judgement in model.judge(NOT)]
        above = np.mean([[a > b for b in others] for a in entailed])
        assert above > 0.9
