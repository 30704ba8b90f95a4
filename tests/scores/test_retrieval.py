from __future__ import annotations

import numpy as np
import pytest

from calibrail.data import Example
from calibrail.errors import InputError
from calibrail.scores.retrieval import Rad
from tests.scores.fakes import FakeEncoder, plane, with_encoder

ANGLES = {"r": 0.0, "near": 60.0, "far": 90.0, "q": 90.0}
ENCODER = FakeEncoder({text: plane(degrees) for text, degrees in ANGLES.items()})


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


def test_a_copy_of_a_chunk_diverges_by_nothing() -> None:
    assert with_encoder(Rad(), ENCODER).score([Example("", ("r",), "r")]).values[0] == 0.0


def test_an_unknown_weighting_is_refused() -> None:
    with pytest.raises(InputError, match="weighting must be max or question; got 'mean'"):
        Rad(weighting="mean")
