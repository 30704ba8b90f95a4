from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from calibrail.errors import InputError, ModelError
from calibrail.models.loading import DEFAULT_MODEL
from calibrail_papers import attention as attention_module
from calibrail_papers.attention import AttentionModel
from tests.installed import need
from tests.tiny_models import PADDING, make_classifier, make_decoder, make_matcher

need("transformers")

DOCUMENTS = ("the river rhine flows from the alps.", "the old tower", "snow in the city")
RESPONSE = "the rhine flows north in snow"
ITEMS = [
    (DOCUMENTS, RESPONSE),
    (("sea",), "the bell rings"),
    (("snow", "", "a ship sails"), "sea"),
    (("\x00\ud800 [SEP] </s>", "\u4e2d\u6587"), "\u0440\u0435\u043a\u0430 [SEP] sea \ud800"),
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_classifier(tmp_path_factory.mktemp("attention") / "bert", seed=3)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_decoder(tmp_path_factory.mktemp("attention") / "gpt2")


def by_hand(
    folder: Path, documents: tuple[str, ...], response: str, layers: int
) -> dict[str, list]:
    """Shares from the definition, one response token after the other."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    text = "\n".join([*documents, response])
    encoded = tokenizer(text, return_offsets_mapping=True)
    offsets = encoded["offset_mapping"]
    begins = [sum(len(d) + 1 for d in documents[:k]) for k in range(len(documents) + 1)]
    ends = [b + len(d) for b, d in zip(begins, (*documents, response), strict=True)]
    members = [
        [i for i, (a, b) in enumerate(offsets) if a < end and b > begin]
        for begin, end in zip(begins, ends, strict=True)
    ]
    with torch.inference_mode():
        output = model(torch.tensor([encoded["input_ids"]]), output_attentions=True)
    heads = torch.cat([layer[0] for layer in output.attentions[-layers:]]).double().numpy()
    tokens, spans, parts = [], [], []
    for i in members[-1]:
        on = [[head[i, inside].sum() for inside in members] for head in heads]
        parts.append(np.mean([[x / sum(row) for x in row[:-1]] for row in on], axis=0))
        tokens.append(sum(parts[-1]))
        spans.append((offsets[i][0] - begins[-1], offsets[i][1] - begins[-1]))
    return {"tokens": tokens, "spans": spans, "documents": list(np.mean(parts, axis=0))}


class TestShares:
    @pytest.mark.parametrize("layers", [1, 2])
    @pytest.mark.parametrize("kind", ["encoder", "decoder"])
    def test_they_are_those_of_the_definition(
        self, request: pytest.FixtureRequest, kind: str, layers: int
    ) -> None:
        folder = request.getfixturevalue(kind)
        (found,) = AttentionModel(str(folder), layers=layers).shares([(DOCUMENTS, RESPONSE)])
        expected = by_hand(folder, DOCUMENTS, RESPONSE, layers)
        np.testing.assert_allclose(found.documents, expected["documents"], atol=1e-6)
        np.testing.assert_allclose([t.share for t in found.tokens], expected["tokens"], atol=1e-6)
        assert found.share == pytest.approx(np.mean(expected["tokens"]), abs=1e-6)
        assert [(t.start, t.end) for t in found.tokens] == expected["spans"]
        assert 0.0 < found.share < 1.0

    def test_the_documents_add_up(self, encoder: Path) -> None:
        for item, found in zip(
            ITEMS, AttentionModel(str(encoder), layers=2).shares(ITEMS), strict=True
        ):
            assert len(found.documents) == len(item[0])
            assert sum(found.documents) == pytest.approx(found.share, abs=1e-12)
            assert np.mean([t.share for t in found.tokens]) == pytest.approx(found.share)

    def test_tokens_name_the_words_of_the_response(self, encoder: Path) -> None:
        (found,) = AttentionModel(str(encoder), layers=1).shares([(DOCUMENTS, RESPONSE)])
        assert [RESPONSE[t.start : t.end] for t in found.tokens] == RESPONSE.split()

    def test_in_a_causal_model_the_token_itself_is_response(self, decoder: Path) -> None:
        # The tiny decoder looks at all that it sees about alike: of n document tokens and the k
        # response tokens up to and including itself, n / (n + k).
        import transformers

        n = len(transformers.AutoTokenizer.from_pretrained(decoder)("sea")["input_ids"])
        (found,) = AttentionModel(str(decoder), layers=2).shares([(("sea",), "snow")])
        assert len(found.tokens) > 1
        for k, token in enumerate(found.tokens, start=1):
            assert token.share == pytest.approx(n / (n + k), abs=0.02)

    def test_a_model_that_looks_at_the_same_word_finds_it(self, tmp_path: Path) -> None:
        # Its first layer looks at the same word of the first segment, here all of the text.
        model = AttentionModel(str(make_matcher(tmp_path / "matcher")), layers=2)
        found = model.shares([(("the ship sails", "snow"), "ship bell")])[0]
        grounded, alone = found.tokens
        assert grounded.share > alone.share
        assert found.documents[0] > found.documents[1]

    def test_no_response_has_no_share(self, encoder: Path) -> None:
        (found,) = AttentionModel(str(encoder), layers=1).shares([(DOCUMENTS, "")])
        assert math.isnan(found.share)
        assert found.tokens == ()

    @pytest.mark.parametrize("documents", [(), ("",), ("", " ")])
    def test_empty_documents_get_no_attention(
        self, encoder: Path, documents: tuple[str, ...]
    ) -> None:
        (found,) = AttentionModel(str(encoder), layers=1).shares([(documents, "the sea")])
        assert found.share == 0.0
        assert found.documents == (0.0,) * len(documents)


class TestLongTexts:
    def test_the_best_window_counts(self, encoder: Path) -> None:
        long = " ".join(PADDING * 40)
        model = AttentionModel(str(encoder), layers=2)
        (found,) = model.shares([((long, "the river", long), RESPONSE)])
        windows = attention_module.passes(
            attention_module.read(
                model.head.tokenizer,
                ["\n".join([long, "the river", long])],
                [RESPONSE],
                "{long}\n{short}",
            )[0],
            96,
            None,
        )
        assert len(windows) > 5
        each = [
            by_hand(encoder, (f"{long}\nthe river\n{long}"[w.start : w.end],), RESPONSE, 2)
            for w in windows
        ]
        assert found.share == pytest.approx(
            max(float(np.mean(window["tokens"])) for window in each), abs=1e-5
        )

    def test_a_long_response_is_read_in_parts(self, encoder: Path) -> None:
        response = " ".join(["the ship sails north and the bell rings"] * 20)
        model = AttentionModel(str(encoder), layers=2)
        (found,) = model.shares([((" ".join(PADDING * 20), "snow"), response)])
        assert [response[t.start : t.end] for t in found.tokens] == response.split()
        assert np.mean([t.share for t in found.tokens]) == pytest.approx(found.share)
        assert sum(found.documents) == pytest.approx(found.share)

    def test_a_response_that_fits_is_not_parted(self, encoder: Path) -> None:
        # 94 tokens have room: more than half of them for the response, and yet one pass does.
        response = " ".join(["the ship sails north"] * 20)
        model = AttentionModel(str(encoder), layers=2)
        (found,) = model.shares([(("snow in the city",), response)])
        expected = by_hand(encoder, ("snow in the city",), response, 2)
        assert found.share == pytest.approx(np.mean(expected["tokens"]), abs=1e-6)

    def test_batches_are_bounded_by_their_attention(
        self, encoder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        items = [((f"the sea {word}",), RESPONSE) for word in ("snow", "bell", "ship")]
        together = AttentionModel(str(encoder), layers=2)
        expected = together.shares(items)
        assert together.n_passes == 1
        monkeypatch.setattr(attention_module, "BATCH_BYTES", 1)
        alone = AttentionModel(str(encoder), layers=2)
        for found, other in zip(alone.shares(items), expected, strict=True):
            assert found.share == pytest.approx(other.share, abs=1e-6)
        assert alone.n_passes == 3


class TestOnce:
    def test_each_distinct_item_runs_once(self, encoder: Path) -> None:
        model = AttentionModel(str(encoder), layers=2)
        model.prepare([*ITEMS, ITEMS[0]])
        passes = model.n_passes
        assert (model.n_responses, passes) == (len(ITEMS), 2)
        first = model.shares(ITEMS)
        assert (model.n_responses, model.n_passes) == (len(ITEMS), passes)
        model.forget()
        assert model.shares(ITEMS)[0].share == first[0].share
        assert model.n_responses == 2 * len(ITEMS)

    def test_other_documents_are_another_item(self, encoder: Path) -> None:
        model = AttentionModel(str(encoder), layers=2)
        one, two = model.shares([(("snow\nsea",), RESPONSE), (("snow", "sea"), RESPONSE)])
        assert len(one.documents) == 1
        assert len(two.documents) == 2
        # The break between two documents is nobody's; a BERT does not even see it.
        assert one.share == pytest.approx(two.share, abs=1e-6)

    def test_a_batch_of_one_equals_a_batch_of_many(self, encoder: Path) -> None:
        model = AttentionModel(str(encoder), layers=2)
        together = model.shares(ITEMS)
        for item, expected in zip(ITEMS, together, strict=True):
            model.forget()
            assert model.shares([item])[0].share == pytest.approx(expected.share, abs=1e-6)

    def test_more_than_is_kept_is_computed_again(
        self, encoder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(AttentionModel, "budget", 5)
        model = AttentionModel(str(encoder), layers=2)
        assert len(model.shares(ITEMS)) == len(ITEMS)
        assert model.n_responses > len(ITEMS)


class TestSpecification:
    def test_the_embedded_encoder_tells_what_is_grounded(self) -> None:
        model = AttentionModel(DEFAULT_MODEL)
        found = model.fingerprint()
        assert json.loads(json.dumps(found)) == found
        assert (found["model"], found["layers"], found["max_length"]) == (DEFAULT_MODEL, 4, 512)
        (grounded, other) = model.shares(
            [
                (("The museum is closed on Mondays.",), "The museum is closed on Mondays."),
                (("The museum is closed on Mondays.",), "Bananas ripen after the harvest."),
            ]
        )
        assert grounded.share > other.share

    @pytest.mark.parametrize("layers", [0, True, "2", 1.5])
    def test_layers_must_be_a_number(self, layers: object) -> None:
        with pytest.raises(InputError, match="layers must be at least 1"):
            AttentionModel("m", layers=layers)  # type: ignore[arg-type]

    def test_more_layers_than_there_are_is_refused(self, encoder: Path) -> None:
        with pytest.raises(InputError, match="layers must be at most the 2"):
            AttentionModel(str(encoder), layers=3).shares(ITEMS)

    def test_an_encoder_with_a_decoder_is_refused(self, tmp_path: Path) -> None:
        folder = make_classifier(tmp_path / "bart", "bart")
        with pytest.raises(ModelError, match="has an encoder and a decoder"):
            AttentionModel(str(folder), layers=1).shares(ITEMS)

    def test_the_precision_is_the_stated_one(self, encoder: Path) -> None:
        low = AttentionModel(str(encoder), dtype="bfloat16", layers=2).shares(ITEMS[:1])[0]
        high = AttentionModel(str(encoder), layers=2).shares(ITEMS[:1])[0]
        assert 1e-7 < abs(low.share - high.share) < 0.05
