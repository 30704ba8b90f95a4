from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrail.conformal.threshold import RankTable, count_at_most, search

AWKWARD = [0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308, math.inf, -math.inf, 1.0, 0.5]
numbers = st.one_of(st.sampled_from(AWKWARD), st.floats(allow_nan=False), st.floats(-1.0, 2.0))

#: Scores as detectors give them: spread, rounded, single precision, crowded, far apart, all equal.
SPREADS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "rounded": lambda rng, n: np.round(rng.normal(size=n), 2),
    "some tied": lambda rng, n: np.round(rng.normal(size=n), 5),
    "single": lambda rng, n: rng.random(n).astype(np.float32).astype(np.float64),
    "crowded": lambda rng, n: rng.beta(0.1, 0.1, n),
    "partly crowded": lambda rng, n: np.where(rng.random(n) < 0.04, 1e-9, 1.0) * rng.random(n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n) ** 3,
    "huge": lambda rng, n: rng.uniform(-1.0, 1.0, n) * 1.7e308,
    "tiny": lambda rng, n: rng.integers(-9000, 9000, n) * 5e-324,
    "two": lambda rng, n: rng.choice([0.0, 1.0], n),
}


def naive(scores: np.ndarray, values: np.ndarray) -> list[int]:
    return [int(np.count_nonzero(scores <= value)) for value in values]


@settings(deadline=None, max_examples=150)
@given(
    hnp.arrays(np.float64, st.integers(0, 60), elements=numbers),
    hnp.arrays(np.float64, st.integers(0, 60), elements=numbers),
    st.sampled_from([0, 600, 3000]),
)
def test_the_table_counts_as_comparing_does(
    scores: np.ndarray, values: np.ndarray, filled: int
) -> None:
    """Evenly spread scores between the awkward ones make a table; alone they are searched."""
    scores = np.sort(np.concatenate([scores, np.linspace(0.0, 1.0, filled)]))
    with np.errstate(over="ignore"):
        near = np.concatenate(
            [np.nextafter(scores, math.inf)[:50], np.nextafter(scores, 0.0)[-50:]]
        )
    values = np.concatenate([values, scores[:50], near])
    assert RankTable(scores).count(values).tolist() == naive(scores, values)


@pytest.mark.parametrize("spread", SPREADS)
def test_the_count_is_exact_however_scores_are_spread(spread: str) -> None:
    rng = np.random.default_rng(0)
    scores = np.sort(SPREADS[spread](rng, 20_000))
    at = rng.choice(scores, 8_000)
    values = np.concatenate(
        [SPREADS[spread](rng, 20_000), at, np.nextafter(at, math.inf), np.nextafter(at, -math.inf)]
    )
    values = rng.permutation(np.concatenate([values, AWKWARD]))
    expected = np.searchsorted(scores, values, side="right")
    assert np.array_equal(RankTable(scores).count(values), expected)
    assert np.array_equal(count_at_most(scores, values), expected)
    assert np.array_equal(search(scores, values), expected)


def test_arrays_need_not_be_contiguous_nor_writable() -> None:
    rng = np.random.default_rng(1)
    scores = np.sort(rng.normal(size=24_000))[::3]
    values = np.asfortranarray(rng.normal(size=(9_000, 2)))[::-1, 1]
    scores.flags.writeable = values.flags.writeable = False
    counted = count_at_most(scores, values)
    assert counted.dtype == np.int64
    assert np.array_equal(counted, np.searchsorted(scores, values, side="right"))


def test_nothing_counts_to_nothing() -> None:
    some, none = np.arange(5000.0), np.empty(0)
    assert RankTable(none).count(none).tolist() == []
    assert RankTable(none).count(some).tolist() == [0] * 5000
    assert RankTable(some).count(none).tolist() == []
