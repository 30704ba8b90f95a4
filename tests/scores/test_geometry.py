from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.data import Example
from calibrail.errors import InputError
from calibrail.scores.geometry import Sgi
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


def test_staying_with_the_question_scores_higher() -> None:
    lazy = sgi({"r": 10, "q": 0, "c1\nc2": 90})
    grounded = sgi({"r": 80, "q": 0, "c1\nc2": 90})
    assert lazy > grounded


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


def test_blank_chunks_are_no_part_of_the_joined_context() -> None:
    (demand,) = Sgi().demands([Example("q", ("c1", " ", "c2"), "r")])
    assert set(demand.parts[0]) == {"q", "r", "c1\nc2"}


def test_an_unknown_context_is_refused() -> None:
    with pytest.raises(InputError, match="context must be joined or closest; got 'all'"):
        Sgi(context="all")
