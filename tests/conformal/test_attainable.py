from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrail.conformal import attainable_coverages, flags
from calibrail.errors import InputError

CHECK = settings(max_examples=30, deadline=None)

SCORES = hnp.arrays(
    np.float64, st.integers(1, 40), elements=st.sampled_from([-1.5, 0.0, 0.25, 1.0, 1e300])
)


@CHECK
@given(SCORES)
def test_each_coverage_is_the_share_that_its_threshold_flags(scores: np.ndarray[Any, Any]) -> None:
    thresholds, coverages = attainable_coverages(scores)
    assert thresholds.tolist() == sorted(set(scores.tolist()))
    for threshold, coverage in zip(thresholds, coverages, strict=True):
        assert coverage == np.count_nonzero(flags(scores, threshold)) / len(scores)
    assert coverages[0] == 1.0 and (np.diff(coverages) < 0).all() and coverages[-1] > 0.0


@CHECK
@given(SCORES, st.randoms())
def test_neither_order_nor_scale_matters(scores: np.ndarray[Any, Any], random: Any) -> None:
    shuffled = scores.tolist()
    random.shuffle(shuffled)
    expected = attainable_coverages(scores)[1].tolist()
    assert attainable_coverages(shuffled)[1].tolist() == expected
    assert attainable_coverages(np.arctan(scores))[1].tolist() == expected


def test_a_constant_score_reaches_full_coverage_alone() -> None:
    thresholds, coverages = attainable_coverages([7] * 5)
    assert thresholds.tolist() == [7.0] and coverages.tolist() == [1.0]


@pytest.mark.parametrize("scores", [[], [math.nan], [1.0, math.inf], [[1.0]], ["a"], None, 3.0])
def test_bad_input_is_named(scores: Any) -> None:
    with pytest.raises(InputError, match="scores must"):
        attainable_coverages(scores)
