from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from calibrail.conformal import clopper_pearson, exact_bound
from calibrail.conformal.bound import interval
from calibrail.errors import InputError

CHECK = settings(max_examples=30, deadline=None)

COUNTS = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
LEVELS = st.floats(0.01, 0.999)


@CHECK
@given(COUNTS, LEVELS)
def test_the_interval_is_that_of_scipys_exact_test(counts: tuple[int, int], level: float) -> None:
    count, n = counts
    expected = binomtest(count, n).proportion_ci(level, method="exact")
    assert clopper_pearson(count, n, level) == pytest.approx(tuple(expected), abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 7, 20])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_each_side_errs_no_more_than_its_half_for_every_true_share(n: int, level: float) -> None:
    ends = np.array([clopper_pearson(count, n, level) for count in range(n + 1)])
    for share in np.linspace(0.0, 1.0, 501):
        mass = binom.pmf(np.arange(n + 1), n, share)
        assert mass[ends[:, 0] > share].sum() <= (1 - level) / 2 + 1e-12
        assert mass[ends[:, 1] < share].sum() <= (1 - level) / 2 + 1e-12


@CHECK
@given(COUNTS, LEVELS)
def test_misses_mirror_hits(counts: tuple[int, int], level: float) -> None:
    count, n = counts
    lower, upper = clopper_pearson(count, n, level)
    mirrored = clopper_pearson(n - count, n, level)
    assert (1.0 - upper, 1.0 - lower) == pytest.approx(mirrored, abs=1e-12)


@CHECK
@given(COUNTS, LEVELS, LEVELS)
def test_more_confidence_is_a_wider_interval(
    counts: tuple[int, int], one: float, other: float
) -> None:
    narrow, wide = (clopper_pearson(*counts, level) for level in sorted((one, other)))
    assert wide[0] <= narrow[0] + 1e-12 and narrow[1] <= wide[1] + 1e-12


@CHECK
@given(st.integers(1, 300), LEVELS)
def test_both_ends_rise_with_the_count(n: int, level: float) -> None:
    lower, upper = interval(np.arange(n + 1), n, level)
    assert (np.diff(lower) > 0).all() and (np.diff(upper) > 0).all()


@CHECK
@given(st.lists(COUNTS, min_size=1, max_size=20), LEVELS)
def test_arrays_get_the_same_ends_one_by_one(counts: list[tuple[int, int]], level: float) -> None:
    count, n = np.array(counts).T
    lower, upper = interval(count, n, level)
    assert list(zip(lower, upper, strict=True)) == [
        clopper_pearson(*pair, level) for pair in counts
    ]


def test_no_trials_say_nothing() -> None:
    assert clopper_pearson(0, 0, 0.9) == (0.0, 1.0)
    lower, upper = interval(np.zeros(2), np.zeros(2), 0.9)
    assert lower.tolist() == [0.0, 0.0] and upper.tolist() == [1.0, 1.0]
    assert exact_bound(0, 0, 0.9).estimate is None


def test_the_largest_counts_and_extreme_levels_stay_finite_and_ordered() -> None:
    for count in (0, 1, 10**12 // 2, 10**12 - 1, 10**12):
        for level in (1e-300, 0.5, 1 - 1e-16):
            lower, upper = clopper_pearson(count, 10**12, level)
            assert 0.0 <= lower <= upper <= 1.0


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8])
def test_a_bound_is_json_whatever_kind_of_integer_counted(kind: Any) -> None:
    found = json.loads(json.dumps(exact_bound(kind(3), kind(9), 0.9).to_dict()))
    lower, upper = clopper_pearson(3, 9, 0.9)
    assert found == {
        "estimate": 3 / 9,
        "lower": lower,
        "upper": upper,
        "count": 3,
        "n": 9,
        "method": "clopper-pearson",
        "confidence": 0.9,
    }


@pytest.mark.parametrize("call", [clopper_pearson, exact_bound])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 5, 0.9), "count must be at least 0; got -1"),
        ((6, 5, 0.9), "count must be at most n = 5; got 6"),
        ((1.0, 5, 0.9), "count must be a whole number"),
        ((True, 5, 0.9), "count must be a whole number"),
        ((1, "5", 0.9), "n must be a whole number"),
        ((1, 10**13, 0.9), "n must be at most"),
        ((1, 5, 0.0), r"confidence must lie in \(0, 1\)"),
        ((1, 5, math.nan), r"confidence must lie in \(0, 1\)"),
        ((1, 5, "0.9"), "confidence must be a number"),
    ],
)
def test_bad_input_is_named(call: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(*arguments)
