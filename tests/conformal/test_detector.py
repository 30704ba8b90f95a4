"""Does an e-detector keep its rate of false alarms, and is it the recursion that is stated?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from calibrail.conformal.change_point import N_BETS, alarm_threshold, bets, shiryaev_roberts
from tests.conformal.alarms import first_alarms


def test_every_bet_is_fair_and_loses_at_most_nine_tenths() -> None:
    grid = np.linspace(0.0, 1.0, 2_001)
    factors = bets([grid])[0]
    assert factors.shape == (N_BETS, len(grid)) and factors.min() >= 0.1 - 1e-12
    for bet in range(N_BETS):
        steps = [1 / 200, 1 / 32, 31 / 32, 199 / 200]
        mean, _ = quad(lambda p, bet=bet: bets([[p]])[0, bet, 0], 0.0, 1.0, points=steps)
        assert mean == pytest.approx(1.0, abs=1e-9)
    assert bets([[np.nan]])[0, :, 0].tolist() == [1.0] * N_BETS


def test_the_detector_is_the_recursion_whatever_the_cuts() -> None:
    rng = np.random.default_rng(0)
    ranks = rng.random((3, 700))
    ranks[rng.random(ranks.shape) < 0.1] = np.nan
    won, expected = np.zeros((3, N_BETS)), np.zeros((3, 700))
    for row in range(700):
        missing = np.isnan(ranks[:, row])
        factor = bets(ranks[:, [row]])[:, :, 0]
        won = np.where(missing[:, None], won, (1.0 + won) * factor)
        expected[:, row] = won.mean(axis=1)
    detector, end = shiryaev_roberts(ranks, np.zeros((3, N_BETS)))
    np.testing.assert_allclose(detector, expected, rtol=1e-12)
    np.testing.assert_allclose(end, won, rtol=1e-12)
    # Up to a row, bit by bit, nothing depends on those after it.
    for stop in (1, 2, 255, 256, 257, 511):
        part, _ = shiryaev_roberts(ranks[:, :stop], np.zeros((3, N_BETS)))
        np.testing.assert_array_equal(part, detector[:, :stop])


def test_a_detector_that_has_won_beyond_all_numbers_stays_there() -> None:
    ranks = np.full((2, 600), 0.999)
    ranks[1] = 0.5
    with np.errstate(all="raise"):
        detector, _ = shiryaev_roberts(ranks, np.full((2, N_BETS), 1e12))
    assert not np.isnan(detector).any() and np.isinf(detector[0, -1])


def test_nothing_overflows_in_a_long_stream_that_does_not_change() -> None:
    won = np.zeros((4, N_BETS))
    rng = np.random.default_rng(3)
    for _ in range(40):
        # As a monitor does, an alarm begins anew.
        detector, won = shiryaev_roberts(rng.random((4, 500)), won)
        won[(detector >= 1e6).any(axis=1)] = 0.0
        assert np.isfinite(detector).all() and (detector > 0.0).all()


def test_false_alarms_are_as_rare_as_promised() -> None:
    arl, rows, streams = 200, 400, 4_000
    ranks = np.random.default_rng(5).random((streams, rows))
    threshold = alarm_threshold(arl)
    alarms = first_alarms(ranks, threshold)
    for t in (100, 200, 400):
        early = int(np.sum((alarms > 0) & (alarms <= t)))
        # At most t / (2 arl) of them: more than this has a probability of 1e-4.
        assert early <= stats.binom.ppf(1 - 1e-4, streams, t / (2 * arl))
    # Streams without an alarm count as many rows as they had: the mean is larger still.
    lengths = np.where(alarms > 0, alarms, rows)
    assert lengths.mean() > arl + 4 * lengths.std() / np.sqrt(streams)
    # The bound is not met by never raising one.
    assert np.mean(alarms > 0) > 0.1
