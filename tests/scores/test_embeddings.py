from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.data import Example, read
from calibrail.errors import InputError
from calibrail.scores import build, parse_spec
from calibrail.scores.base import Fittable
from calibrail.scores.embedding import LocalSgi, Rad, Sgi
from tests.scores.fakes import FakeEncoder, plane, with_encoder

EXAMPLE = Example("q", ("c1", "c2"), "r")


def sgi(vectors: dict[str, float], **options: str) -> float:
    encoder = FakeEncoder({text: plane(degrees) for text, degrees in vectors.items()})
    return float(with_encoder(Sgi(**options), encoder).score([EXAMPLE]).values[0])


def test_it_is_the_negated_ratio_of_two_angles() -> None:
    # 60 degrees to the question, 20 to the context.
    assert sgi({"r": 0, "q": 60, "c1\nc2": -20}) == pytest.approx(-3.0, abs=1e-6)


def test_the_closest_chunk_may_stand_for_the_context() -> None:
    value = sgi({"r": 0, "q": 60, "c1": 90, "c2": 30}, context="closest")
    assert value == pytest.approx(-2.0, abs=1e-6)


def test_an_answer_that_is_its_context_is_finite() -> None:
    # The denominator is the 1e-8 that the definition adds, and nothing of rounding.
    rng = np.random.default_rng(0)
    vector = tuple(rng.normal(size=384))
    encoder = FakeEncoder({"q": tuple(rng.normal(size=384)), "r": vector, "c1\nc2": vector})
    value = with_encoder(Sgi(), encoder).score([EXAMPLE]).values[0]
    vectors = encoder.sentences(["r", "q"])
    assert value == pytest.approx(-np.arccos(vectors[0] @ vectors[1]) / 1e-8, rel=1e-9)


@given(st.floats(1, 179), st.floats(1, 179), st.floats(-90, 90))
def test_the_triangle_inequality_bounds_it(question: float, context: float, tilt: float) -> None:
    def on_sphere(degrees: float, tilt: float) -> tuple[float, float, float]:
        across, up = plane(degrees)
        return across, up * plane(tilt)[0], up * plane(tilt)[1]

    vectors = {
        "r": (1.0, 0.0, 0.0),
        "q": on_sphere(question, 0),
        "c1\nc2": on_sphere(context, tilt),
    }
    encoder = FakeEncoder(vectors)
    ratio = -with_encoder(Sgi(), encoder).score([EXAMPLE]).values[0]
    between = np.arccos(np.clip(np.dot(vectors["q"], vectors["c1\nc2"]), -1, 1))
    reach = between / np.radians(context)
    assert abs(reach - 1) - 1e-6 <= ratio <= reach + 1 + 1e-6


@pytest.mark.parametrize(
    ("example", "reason"),
    [
        (Example("q", ("c",), " "), "the response is empty"),
        (Example("q", (), "r"), "there is no context"),
        (Example("q", ("", " "), "r"), "there is no context"),
        (Example("", ("c",), "r"), "the question is empty"),
    ],
)
def test_what_is_missing_is_said(example: Example, reason: str) -> None:
    result = Sgi().score([example])
    assert np.isnan(result.values[0])
    assert result.reasons == {0: reason}


def test_the_angles_are_its_evidence() -> None:
    encoder = FakeEncoder({"r": plane(0), "q": plane(60), "c1\nc2": plane(-20)})
    examples = [Example("", ("c1",), "r"), EXAMPLE]
    evidence = with_encoder(Sgi(), encoder).score(examples).evidence
    assert evidence is not None
    assert evidence[0] == {}
    assert evidence[1]["kind"] == "angles"
    (item,) = evidence[1]["items"]
    assert item == pytest.approx({"to_question": np.pi / 3, "to_context": np.pi / 9}, abs=1e-9)


def test_a_context_that_differs_in_nothing_the_encoder_sees_is_the_response() -> None:
    # Two batches give one text vectors 1e-6 apart, which the ratio would make any number of.
    noisy = sgi({"r": 0, "q": 60, "c1\nc2": np.degrees(1e-6)})
    assert noisy == pytest.approx(-np.pi / 3 / 1e-8, rel=1e-9)
    near = sgi({"r": 0, "q": 60, "c1\nc2": np.degrees(1e-2)})
    assert near == pytest.approx(-np.pi / 3 / 1e-2, rel=1e-5)


LOCAL = Example("q", ("c1", "c2"), "- Ann came.\n- Bob left.")
ANGLES = {"q": 0, "c1\nc2": 90, "c1": 120, "c2": 20, "Ann came.": 30, "Bob left.": 80}
PLANE = FakeEncoder({text: plane(degrees) for text, degrees in ANGLES.items()})


class TestLocal:
    def test_it_is_the_negated_mean_over_sentences(self) -> None:
        values = with_encoder(LocalSgi(), PLANE).score([LOCAL]).values
        np.testing.assert_allclose(values, [-(30 / 60 + 80 / 10) / 2], rtol=1e-6)

    def test_each_sentence_is_evidence_with_its_place(self) -> None:
        result = with_encoder(LocalSgi(), PLANE).score([Example("q", (), "r"), LOCAL])
        assert result.evidence is not None
        assert result.evidence[0] == {}
        assert result.evidence[1]["kind"] == "sentences"
        items = result.evidence[1]["items"]
        assert [item["text"] for item in items] == ["Ann came.", "Bob left."]
        assert [LOCAL.response[i["start"] : i["end"]] for i in items] == ["Ann came.", "Bob left."]
        assert [item["support"] for item in items] == pytest.approx([0.5, 8.0], rel=1e-6)

    def test_without_a_sentence_it_is_undefined(self) -> None:
        examples = [Example("q", ("c1", "c2"), "?!"), LOCAL, Example("q", ("c1",), "")]
        result = with_encoder(LocalSgi(), PLANE).score(examples)
        assert result.reasons == {
            0: "the response holds no sentence",
            2: "the response is empty",
        }
        assert np.isnan(result.values).tolist() == [True, False, True]


RETRIEVAL_ANGLES = {"r": 0.0, "near": 60.0, "far": 90.0, "q": 90.0}
ENCODER = FakeEncoder({text: plane(degrees) for text, degrees in RETRIEVAL_ANGLES.items()})


def test_the_nearest_chunk_counts() -> None:
    examples = [Example("", ("far", "near"), "r"), Example("", ("far",), "r")]
    values = with_encoder(Rad(), ENCODER).score(examples).values
    np.testing.assert_allclose(values, [0.5, 1.0], atol=1e-12)


def test_the_question_may_weigh_the_chunks() -> None:
    score = with_encoder(Rad(weighting="question"), ENCODER)
    values = score.score([Example("q", ("far", "near"), "r")]).values
    relevance = np.exp(np.array([1.0, np.cos(np.radians(30))]) / 0.1)
    mixed = relevance @ [0.0, 0.5] / relevance.sum()
    np.testing.assert_allclose(values, [1 - (0.5 + mixed) / 2], atol=1e-12)


def test_the_question_is_required_only_where_it_weighs() -> None:
    assert Rad().requires == ("contexts", "response")
    assert Rad(weighting="question").requires == ("question", "contexts", "response")
    result = Rad(weighting="question").score([Example("", ("c",), "r")])
    assert result.reasons == {0: "the question is empty"}


def test_the_nearest_chunk_is_its_evidence() -> None:
    examples = [Example("", (), "r"), Example("", ("far", " ", "near"), "r")]
    evidence = with_encoder(Rad(), ENCODER).score(examples).evidence
    assert evidence is not None
    assert evidence[0] == {}
    assert evidence[1]["kind"] == "sentences"
    (item,) = evidence[1]["items"]
    assert item.pop("support") == pytest.approx(0.5)
    assert item == {
        "text": "r",
        "start": 0,
        "end": 1,
        "chunk": 2,
        "chunk_start": 0,
        "chunk_end": 4,
        "quote": "near",
    }


def test_of_the_nearest_chunk_the_sentence_is_quoted() -> None:
    chunks = ("Bread takes patience. So does cheese.", "It rained. The canal was dug in 1788.")
    evidence = Rad().score([Example("", chunks, "Workers dug the canal in 1788.")]).evidence
    assert evidence is not None
    (item,) = evidence[0]["items"]
    assert (item["chunk"], item["quote"]) == (1, "The canal was dug in 1788.")
    assert chunks[1][item["chunk_start"] : item["chunk_end"]] == item["quote"]
    assert "verdict" not in item


RESPONSE = "Ann came. Bob left."
CHUNKS = ("?!", "Cy sat. Di ran.", "Ed ate.")
SENTENCES = {"Ann came.": 0, "Bob left.": 100, "Cy sat.": 60, "Di ran.": -10, "Ed ate.": 140}
BY_SENTENCE = FakeEncoder({text: plane(degrees) for text, degrees in SENTENCES.items()})


class TestSentences:
    def score(self) -> Rad:
        score = Rad(level="sentence")
        with_encoder(score, BY_SENTENCE)
        return score

    def test_the_least_supported_sentence_decides(self) -> None:
        values = self.score().score([Example("", CHUNKS, RESPONSE)]).values
        np.testing.assert_allclose(values, [1 - np.cos(np.radians(40))], atol=1e-12)

    def test_each_sentence_has_its_nearest_as_evidence(self) -> None:
        evidence = self.score().score([Example("", CHUNKS, RESPONSE)]).evidence
        assert evidence is not None
        items = evidence[0]["items"]
        assert [(item["text"], item["chunk"], item["quote"]) for item in items] == [
            ("Ann came.", 1, "Di ran."),
            # 40 degrees to the sentences of both chunks: the first counts.
            ("Bob left.", 1, "Cy sat."),
        ]
        for item in items:
            assert RESPONSE[item["start"] : item["end"]] == item["text"]
            assert CHUNKS[item["chunk"]][item["chunk_start"] : item["chunk_end"]] == item["quote"]
            assert "verdict" not in item
        assert [item["support"] for item in items] == pytest.approx(
            np.cos(np.radians([10, 40])).tolist()
        )

    def test_what_holds_no_sentence_is_undefined(self) -> None:
        examples = [
            Example("", CHUNKS, "?!"),
            Example("", ("...",), RESPONSE),
            Example("", (), "r"),
        ]
        result = self.score().score(examples)
        assert result.reasons == {
            0: "the response holds no sentence",
            1: "the contexts hold no sentence",
            2: "there is no context",
        }

    def test_a_response_of_many_sentences_is_compared_in_parts(self) -> None:
        numbers = np.random.default_rng(0).normal(size=(700, 8))
        names = [f"Ann saw {index} birds." for index in range(700)]
        encoder = FakeEncoder(dict(zip(names, numbers.tolist(), strict=True)))
        score = with_encoder(Rad(level="sentence"), encoder)
        example = Example("", (" ".join(names[600:]),), " ".join(names[:600]))
        unit = encoder.sentences(names)
        expected = 1 - (unit[:600] @ unit[600:].T).max(axis=1).min()
        assert score.score([example]).values[0] == pytest.approx(expected, abs=1e-12)

    def test_the_question_weighs_whole_chunks_only(self) -> None:
        with pytest.raises(InputError, match="needs level=response"):
            Rad(weighting="question", level="sentence")


@pytest.fixture(scope="module")
def answers() -> list[Example]:
    return list(read("example:facts"))[:40]


@pytest.mark.parametrize(
    "name",
    [
        *("sgi", "local_sgi", "rad", "tfg", "displacement_magnitude", "displacement_consistency"),
        *("dgi", "expected_response_deviation", "tangent_residual"),
    ],
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_moves_with_its_batch_by_no_more_than_its_tolerance(
    dtype: str, name: str, answers: list[Example]
) -> None:
    score: Any = build(parse_spec(f"{name}:dtype={dtype}"))
    if isinstance(score, Fittable):
        score = score.fit(answers[12:])
    score.forget()
    together = score.score(answers[:9]).values
    alone = []
    for answer in answers[:9]:
        score.forget()
        alone.append(score.score([answer]).values[0])
    moved = float(np.nanmax(np.abs(together - np.array(alone))))
    assert moved <= score.tolerance
    # What is a share of words stays the same, since those near the line are computed alone.
    assert moved == 0.0 if name == "tfg" else moved > 1e-6


def test_half_precision_moves_no_word_across_the_line(answers: list[Example]) -> None:
    score: Any = build(parse_spec("tfg:dtype=bfloat16"))
    (answer, *_), encoder = answers, score.encoder
    words = encoder.words(answer.response)
    best = (words @ np.concatenate([encoder.words(text) for text in answer.contexts]).T).max(axis=1)
    # As near to a word as can be: by what texts run beside it, it would lie on either side.
    score.gamma = float(best.min())
    values = set()
    for n in (1, 2, 8, 40):
        score.forget()
        values.add(score.score(answers[:n]).values[0])
    assert len(values) == 1


def test_one_of_few_neighbours_weighs_more_in_half_precision() -> None:
    half, few, full = (
        build(parse_spec(f"expected_response_deviation:{options}")).tolerance
        for options in ("dtype=bfloat16", "dtype=bfloat16,k=2", "k=2")
    )
    assert full == 1e-6 < half == 0.05 < few == 0.25
