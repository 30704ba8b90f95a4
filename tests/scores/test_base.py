from __future__ import annotations

import numpy as np
import pytest

from calibrail.scores import Scores


def test_values_must_be_float64_and_flat() -> None:
    with pytest.raises(TypeError, match="float32"):
        Scores(np.zeros(3, dtype=np.float32))
    with pytest.raises(TypeError, match=r"\(3, 1\)"):
        Scores(np.zeros((3, 1)))


def test_infinity_is_no_value() -> None:
    with pytest.raises(ValueError, match="infinite"):
        Scores(np.array([np.inf]))


@pytest.mark.parametrize("reasons", [{}, {0: "why"}, {0: "why", 1: "why"}])
def test_nan_and_reasons_go_together(reasons: dict[int, str]) -> None:
    with pytest.raises(ValueError, match="every NaN needs a reason"):
        Scores(np.array([1.0, np.nan]), reasons)
    assert Scores(np.array([1.0, np.nan]), {1: "why"}).reasons == {1: "why"}
