"""Are ranks of a stream uniform and independent, exactly, and the same however it is cut?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from calibrail.conformal.change_point import stream_ranks


def one_by_one(bins: np.ndarray, uniforms: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the ranks by the definition, one value after the other."""
    held, ranks = counts.copy(), np.full(bins.shape, np.nan)
    for stream, row in np.ndindex(bins.shape):
        if (own := bins[stream, row]) >= 0:
            less, equal = held[stream, :own].sum(), held[stream, own]
            ranks[stream, row] = (less + uniforms[stream, row] * (equal + 1)) / (
                held[stream].sum() + 1
            )
            held[stream, own] += 1
    return ranks


@given(
    n=st.integers(0, 90), n_bins=st.integers(1, 5), cut=st.integers(0, 90), seed=st.integers(0, 99)
)
@settings(max_examples=40, deadline=None)
def test_ranks_are_those_of_the_definition_however_a_stream_is_cut(
    n: int, n_bins: int, cut: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    bins = rng.integers(-1, n_bins, (3, n))
    uniforms, counts = rng.random((3, n)), rng.integers(0, 4, (3, n_bins))
    ranks, after = stream_ranks(bins, uniforms, counts)
    np.testing.assert_array_equal(ranks, one_by_one(bins, uniforms, counts))
    first, between = stream_ranks(bins[:, :cut], uniforms[:, :cut], counts)
    second, end = stream_ranks(bins[:, cut:], uniforms[:, cut:], between)
    np.testing.assert_array_equal(np.concatenate([first, second], axis=1), ranks)
    np.testing.assert_array_equal(end, after)
    np.testing.assert_array_equal(
        after, counts + np.array([np.bincount(row[row >= 0], minlength=n_bins) for row in bins])
    )


#: Values whose distribution over bins differs as much as it can: even, tied, and hardly ever.
SHARES = ([0.25] * 4, [0.97, 0.03], [1.0], [0.001, 0.6, 0.0, 0.399])


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("counted", [0, 5])
def test_ranks_are_uniform_and_tell_nothing_of_the_next(shares: list[float], counted: int) -> None:
    rng = np.random.default_rng(7)
    streams, rows = 4_000, 12
    bins = rng.choice(len(shares), (streams, counted + rows), p=shares)
    bins[rng.random(bins.shape) < 0.2] = -1
    before = np.array(
        [np.bincount(row[row >= 0], minlength=len(shares)) for row in bins[:, :counted]]
    ).reshape(streams, len(shares))
    ranks, _ = stream_ranks(bins[:, counted:], rng.random((streams, rows)), before)
    level = 1e-4
    for row in range(rows):
        known = ranks[~np.isnan(ranks[:, row]), row]
        assert stats.kstest(known, "uniform").pvalue > level / rows
    for first, second in [(0, 1), (3, 4), (0, rows - 1)]:
        both = ranks[~np.isnan(ranks[:, [first, second]]).any(axis=1)][:, [first, second]]
        cells = np.histogram2d(*both.T, bins=5, range=[[0, 1], [0, 1]])[0]
        # Fixed margins are part of the hypothesis: 25 cells of the same share.
        assert stats.chisquare(cells.ravel()).pvalue > level / 3


def test_ranks_among_a_reference_that_does_not_grow_would_not_be_independent() -> None:
    rng = np.random.default_rng(1)
    streams, rows, counted = 4_000, 30, 9
    bins = rng.integers(0, 10, (streams, counted + rows))
    before = np.array([np.bincount(row, minlength=10) for row in bins[:, :counted]])
    frozen = np.stack(
        [
            stream_ranks(bins[:, [counted + row]], rng.random((streams, 1)), before)[0][:, 0]
            for row in range(rows)
        ],
        axis=1,
    )
    growing, _ = stream_ranks(bins[:, counted:], rng.random((streams, rows)), before)
    # The mean of independent ranks has the variance 1 / (12 rows), here of 4,000 streams; four
    # standard errors of a variance of nearly normal means.
    margin = 4.0 * np.sqrt(2.0 / streams)
    assert growing.mean(axis=1).var() * 12 * rows == pytest.approx(1.0, abs=margin)
    assert frozen.mean(axis=1).var() * 12 * rows > 2.0
