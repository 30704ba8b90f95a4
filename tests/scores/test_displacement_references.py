from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calibrail.data import Example
from calibrail.errors import InputError
from calibrail.models.embeddings import load_encoder
from calibrail.scores.base import Fittable, Score, learns, state_bytes, with_state
from calibrail.scores.embedding import Dgi, ExpectedResponseDeviation, Referring, TangentResidual
from tests.scores.fakes import FakeEncoder, plane, with_encoder

FAITHFUL = [
    Example(f"Where is {name}?", (f"{name} is at home.",), f"{name} stays at home.", label=0)
    for name in ("Ann", "Bob", "Cy", "Di", "Ed", "Flo", "Gil", "Hal", "Ida", "Jo", "Kim", "Lou")
]
QUERIES = [
    Example("Where is Max?", ("Max is at sea.",), "Max is at home."),
    Example("What do owls eat?", ("Owls eat mice.", "Mice eat corn."), "They eat corn."),
]
SCORES = (ExpectedResponseDeviation, TangentResidual, Dgi)
ARRAYS = {
    "expected_response_deviation": {"questions": (12, 384), "displacements": (12, 384)},
    "tangent_residual": {"questions": (12, 384), "displacements": (12, 384)},
    "dgi": {"mu": (384,)},
}


@pytest.fixture(params=SCORES, ids=lambda score: score.name)
def score(request: pytest.FixtureRequest) -> Referring:
    built: Referring = request.param()
    return built


class TestFit:
    def test_it_learns_into_a_copy(self, score: Referring) -> None:
        fitted = score.fit(FAITHFUL)
        assert isinstance(fitted, Fittable)
        assert isinstance(fitted, Score)
        assert (learns(score), learns(fitted)) == (True, False)
        assert fitted.params == score.params

    def test_before_that_it_cannot_score(self, score: Referring) -> None:
        with pytest.raises(
            InputError, match=f"{score.name} learns from faithful answers before it can score"
        ):
            score.score(QUERIES)
        with pytest.raises(InputError, match="before it can score"):
            score.state()

    def test_only_faithful_examples_that_are_whole_teach(self, score: Referring) -> None:
        lacking = [
            replace(FAITHFUL[0], label=1),
            replace(FAITHFUL[1], label=None),
            replace(FAITHFUL[2], question=" "),
            replace(FAITHFUL[3], response=""),
        ]
        fitted, same = score.fit([*lacking, *FAITHFUL]), score.fit(FAITHFUL)
        np.testing.assert_allclose(
            fitted.score(QUERIES).values, same.score(QUERIES).values, atol=1e-5
        )

    def test_a_context_is_needed_only_where_it_is_read(self) -> None:
        bare = [replace(example, contexts=()) for example in FAITHFUL]
        assert Dgi().fit(bare).fitted
        assert ExpectedResponseDeviation().fit(bare).fitted
        with pytest.raises(InputError, match="question, contexts and response; got 0 among 12"):
            TangentResidual().fit(bare)

    @pytest.mark.parametrize("built", [ExpectedResponseDeviation(), TangentResidual()])
    def test_too_few_neighbours_name_the_remedy(self, built: Referring) -> None:
        examples = [*FAITHFUL[:9], *(replace(example, label=1) for example in FAITHFUL)]
        with pytest.raises(InputError) as caught:
            built.fit(examples)
        message = str(caught.value)
        assert "at least 10 faithful answers (label 0)" in message
        assert "got 9 among 21" in message
        assert "fit_share=..." in message
        assert "smaller k than 10" in message


class TestState:
    def test_the_same_examples_give_the_same_bytes(self, score: Referring) -> None:
        score.forget()
        first = state_bytes(score.fit(FAITHFUL))
        score.forget()
        assert state_bytes(score.fit(FAITHFUL)) == first
        score.forget()
        assert state_bytes(score.fit(FAITHFUL[1:])) != first

    def test_what_comes_back_scores_the_same(self, score: Referring) -> None:
        fitted = score.fit(FAITHFUL)
        raw = state_bytes(fitted)
        again = with_state(score, raw)
        assert state_bytes(again) == raw
        assert learns(score)
        np.testing.assert_array_equal(again.score(QUERIES).values, fitted.score(QUERIES).values)


class TestNeighbours:
    def deviation(self, references: list[Example], query: Example, k: int) -> float:
        texts = {"q": 0, "near": 10, "far": 100, "0": 30, "1": 70, "2": 110, "3": 150}
        score = ExpectedResponseDeviation(k=k)
        with_encoder(score, FakeEncoder({text: plane(at) for text, at in texts.items()}))
        return float(score.fit(references).score([query]).values[0])

    def test_the_nearest_questions_count(self) -> None:
        far, near = Example("far", (), "0", label=0), Example("near", (), "1", label=0)
        move = np.subtract(plane(70), plane(10))
        expected = np.linalg.norm(np.subtract(plane(30), plane(0)) - move)
        for references in ([far, near], [near, far]):
            value = self.deviation(references, Example("q", (), "0"), 1)
            assert value == pytest.approx(expected, abs=1e-6)

    def test_among_equals_the_first_count(self) -> None:
        same = [Example("near", (), str(number), label=0) for number in (3, 1, 0, 2)]
        moves = np.subtract([plane(150), plane(70)], plane(10))
        expected = np.linalg.norm(np.subtract(plane(30), plane(0)) - moves.mean(axis=0))
        references = [Example("far", (), "0", label=0), *same]
        value = self.deviation(references, Example("q", (), "0"), 2)
        assert value == pytest.approx(expected, abs=1e-6)

    def test_equal_questions_tie_wherever_they_stand(self) -> None:
        # More rows than any block in which sums are taken.
        asked = ["Where is Ann?", "Where is Bob?"]
        score = ExpectedResponseDeviation(k=100)
        references = [
            Example(asked[index % 2], (), FAITHFUL[index // 50].response, label=0)
            for index in range(500)
        ]
        vectors = load_encoder().sentences
        first = [example for example in references if example.question == asked[1]][:100]
        moves = vectors([r.response for r in first]) - vectors([r.question for r in first])
        query = Example("Where is Bob?", (), "At sea.")
        move = vectors([query.response])[0] - vectors([query.question])[0]
        value = score.fit(references).score([query]).values[0]
        assert value == pytest.approx(np.linalg.norm(move - moves.mean(axis=0)), abs=1e-6)

    @pytest.mark.parametrize("k", [0, -1, 2.5, True, "10"])
    def test_k_is_a_whole_number(self, k: object) -> None:
        for score in (ExpectedResponseDeviation, TangentResidual):
            with pytest.raises(InputError, match="k must be"):
                score(k=k)
