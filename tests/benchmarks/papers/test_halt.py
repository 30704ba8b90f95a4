from __future__ import annotations

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import state_bytes, with_state
from calibrail_papers.halt import Halt
from tests.scores.fakes import FakeNli


def halt(**params: object) -> Halt:
    score = Halt(**params)

    def first(premise: str, hypothesis: str) -> tuple[float, float]:
        return (0.9, 0.05) if hypothesis in premise else (0.1, 0.6)

    def second(premise: str, hypothesis: str) -> tuple[float, float]:
        return (0.5, 0.2) if len(hypothesis) % 2 else (0.45, 0.25)

    score.nli = (FakeNli(first), FakeNli(second))
    return score


def answers(n: int = 24) -> list[Example]:
    found = []
    for index in range(n):
        text = f"House {index} is tall."
        says = text if index % 2 == 0 else f"House {index} is wide."
        chunks = (f"{text} It has a door.", "Nothing else.")
        found.append(Example("q", chunks, says, label=index % 2, id=str(index)))
    return found


def test_it_learns_from_both_models() -> None:
    score = halt().fit(answers())
    values = score.score(answers(40)).values
    assert values[1::2].min() > values[0::2].max()


def test_what_it_reads_of_a_model_is_pooled_over_chunks_and_sentences() -> None:
    example = Example("q", ("Ada reads.", "Bob sings."), "Ada reads. Eve paints.", label=0)
    features, _, _ = halt()._features([example])
    # Lack of support 0.1 and 0.9; contradiction of the best opponent 0.6 (the other chunk) and 0.6.
    assert features[0, :4].tolist() == pytest.approx([0.5, 0.9, 0.6, 0.6])


def test_the_evidence_is_the_first_models() -> None:
    (evidence,) = halt().fit(answers()).score(answers(1)).evidence
    assert [item["verdict"] for item in evidence["items"]] == ["supported"]


def test_what_was_learnt_can_be_given_back() -> None:
    score = halt().fit(answers())
    again = with_state(halt(), state_bytes(score))
    assert again.score(answers()).values.tolist() == score.score(answers()).values.tolist()


def test_what_leaves_it_undefined() -> None:
    score = halt().fit(answers())
    result = score.score([Example("q", ("c",), ""), Example("q", ("c",), "..."), answers(1)[0]])
    assert result.reasons == {0: "the response is empty", 1: "the response holds no sentence"}
    assert np.isfinite(result.values[2])


def test_the_two_models_must_differ() -> None:
    with pytest.raises(InputError, match="two models"):
        Halt(model="a", second="a")


def test_it_cannot_score_before_it_has_learnt() -> None:
    with pytest.raises(InputError, match="learns from labelled answers"):
        halt().score(answers(2))
