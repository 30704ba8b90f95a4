from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from calibrail.data import Example
from calibrail.errors import InputError
from calibrail.models.embeddings import load_encoder
from calibrail.scores.base import Embedding, Score
from calibrail.scores.embedding import (
    Dgi,
    DisplacementConsistency,
    DisplacementMagnitude,
    ExpectedResponseDeviation,
    Referring,
    TangentResidual,
)
from calibrail.text.sentences import sentences
from tests.scores.fakes import FakeEncoder, plane, with_encoder

PLACES = ("canal", "tunnel", "orchard", "library", "harbour", "mill", "bridge", "abbey")
FAITHFUL = [
    Example(
        question=f"When was the {place} {verb}?",
        contexts=(f"The {place} was {verb} in {year}.", f"Many people visit the {place}."),
        response=f"The {place} was {verb} in {year}. It is {age}.",
        label=0,
    )
    for place, verb, year, age in zip(
        PLACES * 2,
        ["opened"] * 8 + ["restored"] * 8,
        range(1701, 1861, 10),
        ["well known", "very old"] * 8,
        strict=True,
    )
]
QUERIES = [
    Example("When was the castle opened?", ("It opened in 1702.",), "In 1702. So they say."),
    Example("Who baked the bread?", ("Ann baked it.", "It was good."), "Bob did. It was burnt."),
    Example("When did the mill close?", ("The mill closed in 1950.",), "It never closed. It runs."),
]

Vectors = NDArray[np.float64]


def vectors(texts: list[str]) -> Vectors:
    return load_encoder().sentences(texts)


def questions(examples: list[Example]) -> Vectors:
    return vectors([example.question for example in examples])


def responses(examples: list[Example]) -> Vectors:
    return vectors([example.response for example in examples])


def contexts(examples: list[Example]) -> Vectors:
    return vectors(["\n".join(example.contexts) for example in examples])


def neighbours(k: int) -> list[list[int]]:
    similar = questions(QUERIES) @ questions(FAITHFUL).T
    return [sorted(range(len(FAITHFUL)), key=lambda i: -row[i])[:k] for row in similar]


def magnitude() -> list[float]:
    return [float(np.linalg.norm(v)) for v in responses(QUERIES) - contexts(QUERIES)]


def consistency() -> list[float]:
    found = []
    for example, context in zip(QUERIES, contexts(QUERIES), strict=True):
        parts = vectors([part.text for part in sentences(example.response)])
        assert len(parts) == 2
        a, b = parts - context
        found.append(float(-(a @ b) / np.linalg.norm(a) / np.linalg.norm(b)))
    return found


def deviation(k: int = 10) -> list[float]:
    moves = responses(FAITHFUL) - questions(FAITHFUL)
    mean = np.array([moves[near].mean(axis=0) for near in neighbours(k)])
    expected = questions(QUERIES) + mean
    return [float(np.linalg.norm(v)) for v in responses(QUERIES) - expected]


def residual(k: int = 10, components: int = 5) -> list[float]:
    moves = responses(FAITHFUL) - contexts(FAITHFUL)
    found = []
    for v, near in zip(responses(QUERIES) - contexts(QUERIES), neighbours(k), strict=True):
        # The leading eigenvectors of the uncentred second moments.
        _, axes = np.linalg.eigh(moves[near].T @ moves[near])
        basis = axes[:, -components:]
        found.append(float(np.linalg.norm(v - basis @ basis.T @ v)))
    return found


def direction() -> list[float]:
    moves = responses(FAITHFUL) - questions(FAITHFUL)
    mu = np.mean([v / np.linalg.norm(v) for v in moves], axis=0)
    return [
        float(-(v @ mu) / np.linalg.norm(v) / np.linalg.norm(mu))
        for v in responses(QUERIES) - questions(QUERIES)
    ]


ALL = (
    DisplacementMagnitude,
    DisplacementConsistency,
    ExpectedResponseDeviation,
    TangentResidual,
    Dgi,
)


@pytest.fixture(params=ALL, ids=lambda score: score.name)
def score(request: pytest.FixtureRequest) -> Embedding:
    built: Embedding = request.param()
    return built.fit(FAITHFUL) if isinstance(built, Referring) else built


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (DisplacementMagnitude, magnitude),
        (DisplacementConsistency, consistency),
        (lambda: ExpectedResponseDeviation().fit(FAITHFUL), deviation),
        (lambda: ExpectedResponseDeviation(k=3).fit(FAITHFUL), lambda: deviation(3)),
        (lambda: TangentResidual().fit(FAITHFUL), residual),
        (lambda: TangentResidual(k=7, components=2).fit(FAITHFUL), lambda: residual(7, 2)),
        (lambda: Dgi().fit(FAITHFUL), direction),
    ],
)
def test_the_definition(build: Callable[[], Score], expected: Callable[[], list[float]]) -> None:
    values = build().score(QUERIES).values
    assert len(set(values)) == len(QUERIES)
    np.testing.assert_allclose(values, expected(), atol=1e-6)


def test_what_is_missing_is_said(score: Embedding) -> None:
    assert isinstance(score, Score)
    gone = [
        replace(QUERIES[0], response=" "),
        replace(QUERIES[0], contexts=(" ",)),
        replace(QUERIES[0], question=""),
    ]
    result = score.score([*gone, QUERIES[0]])
    fields = ("response", "contexts", "question")
    assert set(result.reasons) == {i for i, field in enumerate(fields) if field in score.requires}
    assert len(score.score([]).values) == 0


class TestConsistency:
    def score(self, **degrees: float) -> DisplacementConsistency:
        texts = {"Ann came.": 0.0, "Bob left.": 0.0, "Cy sat.": 0.0, "c": 180.0}
        texts.update(zip(texts, degrees.values(), strict=False))
        score = DisplacementConsistency()
        with_encoder(score, FakeEncoder({text: plane(at) for text, at in texts.items()}))
        return score

    def test_one_sentence_has_nothing_to_agree_with(self) -> None:
        result = self.score().score([Example("", ("c",), "Ann came."), Example("", ("c",), "?!")])
        why = "the response holds fewer than 2 sentences"
        assert result.reasons == {0: why, 1: why}
        assert result.evidence == ({}, {})

    @pytest.mark.parametrize("degrees", [180.0, 180.001])
    def test_a_sentence_at_the_place_of_the_context_has_no_direction(self, degrees: float) -> None:
        score = self.score(first=0.0, second=degrees)
        result = score.score([Example("", ("c",), "Ann came. Bob left.")])
        assert "no direction" in result.reasons[0]

    def test_each_sentence_is_compared_with_the_one_before(self) -> None:
        response = "Ann came. Bob left. Cy sat."
        score = self.score(first=0.0, second=90.0, third=0.0)
        result = score.score([Example("", ("c",), response)])
        assert result.evidence is not None
        assert result.evidence[0]["kind"] == "sentences"
        items = result.evidence[0]["items"]
        assert [item["text"] for item in items] == ["Bob left.", "Cy sat."]
        assert [response[i["start"] : i["end"]] for i in items] == ["Bob left.", "Cy sat."]
        # From 180 degrees, those at 0 and at 90 lie 45 degrees apart.
        assert [item["support"] for item in items] == pytest.approx([np.sqrt(0.5)] * 2)
        assert result.values[0] == pytest.approx(-np.sqrt(0.5))


class TestTangent:
    def test_directions_that_the_references_lack_are_not_made_up(self) -> None:
        # One reference ten times over spans one direction, whatever its number of components.
        same = [FAITHFUL[0]] * 10
        move = (responses(same) - contexts(same))[0]
        move /= np.linalg.norm(move)
        expected = [
            np.linalg.norm(v - move * (move @ v)) for v in responses(QUERIES) - contexts(QUERIES)
        ]
        values = TangentResidual(components=5).fit(same).score(QUERIES).values
        np.testing.assert_allclose(values, expected, atol=1e-6)


class TestDgi:
    def test_it_is_the_negated_cosine_with_the_mean_direction(self) -> None:
        # The displacement from 0 to x degrees points to 90 + x / 2.
        angles = {"q": 0.0, "a": 60.0, "b": 120.0, "r": 40.0}
        encoder = FakeEncoder({text: plane(degrees) for text, degrees in angles.items()})
        dgi = Dgi()
        with_encoder(dgi, encoder)
        fitted = dgi.fit([Example("q", (), "a", label=0), Example("q", (), "b", label=0)])
        np.testing.assert_allclose(fitted.state()["mu"], plane(90 + 45), atol=1e-12)
        value = fitted.score([Example("q", (), "r")]).values[0]
        assert value == pytest.approx(-np.cos(np.radians(135 - 110)))

    def test_a_response_that_is_the_question_has_no_direction(self) -> None:
        result = Dgi().fit(FAITHFUL).score([Example("What is it?", (), "What is it? ")])
        assert "no direction" in result.reasons[0]

    def test_references_without_any_common_direction_are_refused(self) -> None:
        echo = [Example("What is it?", (), "What is it?", label=0)] * 3
        with pytest.raises(InputError, match="no direction in common"):
            Dgi().fit(echo)
