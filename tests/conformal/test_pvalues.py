from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrail.conformal import p_values

finite = st.floats(allow_nan=False, allow_infinity=False)
arrays = hnp.arrays(np.float64, st.integers(1, 50), elements=finite)


@given(arrays, arrays)
def test_a_p_value_counts_the_calibration_scores_at_most_as_large(
    scores: np.ndarray, values: np.ndarray
) -> None:
    ordered = np.sort(scores)
    expected = [(1 + np.count_nonzero(scores <= value)) / (len(scores) + 1) for value in values]
    assert np.array_equal(p_values(ordered, values), expected)
