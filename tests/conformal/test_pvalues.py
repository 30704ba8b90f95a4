from __future__ import annotations

import math

import numpy as np
import pytest
from crepes.base import p_values_batch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrail.conformal import p_values
from calibrail.conformal.threshold import count_at_most
from calibrail.errors import InputError

finite = st.floats(allow_nan=False, allow_infinity=False)
arrays = hnp.arrays(np.float64, st.integers(1, 50), elements=finite)


@given(arrays, arrays)
def test_a_p_value_counts_the_calibration_scores_at_most_as_large(
    scores: np.ndarray, values: np.ndarray
) -> None:
    ordered = np.sort(scores)
    expected = [(1 + np.count_nonzero(scores <= value)) / (len(scores) + 1) for value in values]
    assert np.array_equal(p_values(ordered, values), expected)


def test_agreement_with_crepes_where_nothing_is_tied() -> None:
    """crepes calls an example strange when its score is LARGE; a harmless look is a small score
    here, so both arrays are negated. Without ties the two then agree to the last bit."""
    rng = np.random.default_rng(0)
    scores, values = np.sort(rng.normal(size=99)), rng.normal(size=50)
    expected = p_values_batch(-scores, -values, smoothing=False)
    assert p_values(scores, values) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", [10, 5_000, 1_100_000])
def test_many_values_are_looked_up_like_few(n: int) -> None:
    rng = np.random.default_rng(1)
    scores = np.sort(np.round(rng.normal(size=6_000), 2))
    values = rng.choice(
        np.concatenate([scores, -scores, [0.0, -0.0, 1e308, -1e308, 5e-324, -5e-324]]), n
    )
    found = count_at_most(scores, values)
    assert np.array_equal(found, np.searchsorted(scores, values, side="right"))


@pytest.mark.parametrize(
    ("scores", "values", "message"),
    [
        (
            [1.0, math.nan],
            [1.0],
            "calibration_scores must not hold NaN: an undefined score has no p-value and follows "
            "the policy for undefined scores$",
        ),
        ([2.0, 1.0], [1.0], "calibration_scores must be sorted ascending"),
        ([1.0, 2.0], [math.nan], "values must not hold NaN"),
        ([[1.0]], [1.0], r"calibration_scores must have shape \(n,\)"),
        ([1.0], ["a"], "values must hold numbers"),
    ],
)
def test_bad_input_is_named(scores: object, values: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        p_values(scores, values)  # type: ignore[arg-type]
