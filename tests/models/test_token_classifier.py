"""Which tokens does a token classifier mark, whatever the length of what it reads?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrail.errors import InputError, ModelError
from calibrail.models import classifiers
from calibrail.models.batching import shared
from calibrail.models.classifiers import TokenClassifier, reading
from calibrail.models.windows import passes
from tests.installed import need
from tests.tiny_models import PADDING, make_token_classifier, make_token_matcher

need("transformers")

CONTEXT = "the old bridge is closed."
TRUE, FALSE = "the bridge is old.", "the museum is open."


@pytest.fixture(scope="module")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_token_matcher(tmp_path_factory.mktemp("models") / "matcher")


@pytest.fixture(scope="module")
def modernbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_token_classifier(tmp_path_factory.mktemp("models") / "modernbert")


def marked(
    model: TokenClassifier, answer: str, *contexts: str, question: str = "the city"
) -> list[str]:
    (found,) = model.probabilities([reading(question, contexts, answer)])
    pairs = zip(found.places, found.hallucinated, strict=True)
    return [answer[slice(*place)] for place, probability in pairs if probability >= 0.5]


def test_what_the_contexts_lack_is_marked(matcher: Path) -> None:
    model = shared(TokenClassifier, str(matcher))
    assert marked(model, TRUE, CONTEXT) == []
    assert marked(model, f"{TRUE} {FALSE}", CONTEXT) == ["museum", "open"]
    # The question is read, too, as is every passage.
    assert marked(model, FALSE, CONTEXT, question="the museum") == ["open"]
    assert marked(model, FALSE, CONTEXT, "open museum") == []


@pytest.mark.parametrize(
    ("name", "version", "around"),
    [("modernbert", "lettucedetect/1", "\n"), ("lettucedect-v2-x", "lettucedetect/2", "")],
)
def test_the_input_is_that_of_the_published_code(
    name: str, version: str, around: str, modernbert: Path, tmp_path: Path
) -> None:
    (tmp_path / name).symlink_to(modernbert, target_is_directory=True)
    model = shared(TokenClassifier, str(tmp_path / name))
    assert model.describe()["prompt"] == version
    prompt = (
        f"{around}Briefly answer the following question:\nthe {{city}}?\n"
        "Bear in mind that your response should be strictly based on the following 2 passages:\n"
        "passage 1: the river\npassage 2: snow\n"
        "In case the passages do not contain the necessary information to answer "
        'the question, please reply with: "Unable to answer based on given passages."\noutput:'
    )
    read = model.reading("the {city}?", ["the river", "snow"], TRUE)
    (tokens,) = model._read(model.head, [read])
    tokenizer = model.head.network.tokenizer
    expected = tokenizer(prompt + around, TRUE, truncation="only_first", max_length=512)
    assert tokens.ids == expected["input_ids"]
    (window,) = passes(tokens, model.length, None)
    assert window.ids == tokens.ids
    answer = tokenizer(TRUE, add_special_tokens=False)["input_ids"]
    assert window.ids[slice(*window.short)] == answer


@pytest.mark.parametrize("place", [0.0, 0.4, 1.0])
def test_support_may_stand_anywhere_in_a_long_context(matcher: Path, place: float) -> None:
    model = shared(TokenClassifier, str(matcher))
    words = [PADDING[i % len(PADDING)] for i in range(3_000)]
    words.insert(int(place * len(words)), CONTEXT)
    assert marked(model, TRUE, " ".join(words)) == []
    assert marked(model, FALSE, " ".join(words)) == ["museum", "open"]


def test_of_the_second_version_every_window_must_support_a_token(
    matcher: Path, tmp_path: Path
) -> None:
    (tmp_path / "lettucedect-v2-tiny").symlink_to(matcher, target_is_directory=True)
    words = " ".join([CONTEXT, *(PADDING[i % len(PADDING)] for i in range(3_000))])
    lowest, highest = (
        np.array(model.probabilities([model.reading("", [words], TRUE)])[0].hallucinated)
        for model in map(TokenClassifier, map(str, (matcher, tmp_path / "lettucedect-v2-tiny")))
    )
    assert lowest.max() < 0.5 < highest.max() and (lowest <= highest).all()


def test_no_word_of_a_long_answer_is_left_out(matcher: Path) -> None:
    model = shared(TokenClassifier, str(matcher))
    answer = f"{TRUE} " * 60 + "the tower rings."
    assert marked(model, answer, CONTEXT) == ["tower", "rings"]
    (found,) = model.probabilities([reading("", [CONTEXT], answer)])
    covered = [answer[slice(*place)] for place in found.places]
    assert "".join(covered) == answer.replace(" ", "")


def test_a_question_that_leaves_no_room_is_read_window_by_window(matcher: Path) -> None:
    model = shared(TokenClassifier, str(matcher))
    question = " ".join(PADDING * 100)
    assert marked(model, FALSE, CONTEXT, question=question) == ["museum", "open"]
    assert marked(model, FALSE, CONTEXT, question=f"{question} the open museum") == []


@pytest.mark.parametrize("kind", ["modernbert", "bert"])
def test_alone_and_in_a_batch_a_token_has_one_probability(kind: str, tmp_path: Path) -> None:
    model = TokenClassifier(str(make_token_classifier(tmp_path / kind, kind)))
    items = [
        reading("the city?", ["the river rhine. " * n], f"the snow. {TRUE} " * (1 + n % 3))
        for n in (1, 7, 40)
    ]
    together = [np.array(item.hallucinated) for item in model.probabilities(items)]
    for item, values in zip(items, together, strict=True):
        model.forget()
        (alone,) = model.probabilities([item])
        np.testing.assert_allclose(values, alone.hallucinated, atol=model.tolerance)
        assert np.ptp(values) > 100 * model.tolerance


def test_by_onnx_it_is_the_same(
    matcher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = make_token_classifier(tmp_path / "bert", "bert")
    items = [reading("the city?", [CONTEXT], text) for text in (TRUE, f"{FALSE} {TRUE}")]
    for place in (matcher, folder):
        by_torch, by_onnx = (
            TokenClassifier(str(place), backend=backend) for backend in ("torch", "onnx")
        )
        pairs = zip(by_torch.probabilities(items), by_onnx.probabilities(items), strict=True)
        for one, other in pairs:
            np.testing.assert_allclose(one.hallucinated, other.hallucinated, atol=1e-5)


class TestLabels:
    @pytest.mark.parametrize(
        ("labels", "chosen"),
        [
            (("hallucinated", "supported"), ["hallucinated"]),
            (("Faithful", "Not-Supported"), ["Not-Supported"]),
            (("supported", "contradicted", "unsupported"), ["contradicted", "unsupported"]),
        ],
    )
    def test_their_names_tell(
        self, labels: tuple[str, ...], chosen: list[str], tmp_path: Path
    ) -> None:
        folder = make_token_classifier(tmp_path / "m", "bert", labels)
        pinned = TokenClassifier(str(folder)).fingerprint()
        assert (pinned["labels"], pinned["hallucinated"]) == (list(labels), chosen)
        assert len(pinned["weights_sha256"]) == 64

    @pytest.mark.parametrize(
        "labels", [("LABEL_0", "LABEL_1"), ("supported", "other"), ("supported", "supports")]
    )
    def test_names_that_say_nothing_are_refused(
        self, labels: tuple[str, str], tmp_path: Path
    ) -> None:
        folder = str(make_token_classifier(tmp_path / "m", "bert", labels))
        with pytest.raises(ModelError, match=rf"do not say which .* label={labels[1]}"):
            TokenClassifier(folder).fingerprint()
        named = TokenClassifier(folder, label=labels[1])
        assert named.fingerprint()["hallucinated"] == [labels[1]]
        with pytest.raises(InputError, match=rf"label must be one of .*{labels[0]}"):
            TokenClassifier(folder, label="nonsense").fingerprint()

    def test_models_of_lettucedetect_have_theirs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = str(make_token_classifier(tmp_path / "m", "bert", ("LABEL_0", "LABEL_1")))
        monkeypatch.setattr(classifiers, "UNNAMED", (folder,))
        assert TokenClassifier(folder).fingerprint()["hallucinated"] == ["LABEL_1"]

    def test_swapped_outputs_are_noticed_when_it_is_opened(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # What the tiny model knows is words, not the world.
        test = ("the city", (CONTEXT,), (TRUE, " museum open snow"))
        monkeypatch.setattr(classifiers, "TOKENS_SELF_TEST", test)
        swapped = make_token_matcher(tmp_path / "swapped", wrong=0)
        with pytest.raises(ModelError, match="its outputs look swapped"):
            TokenClassifier(str(swapped)).probabilities([reading("", [CONTEXT], TRUE)])
        right = TokenClassifier(str(swapped), label="supported")
        assert right.probabilities([reading("", [CONTEXT], TRUE)])
