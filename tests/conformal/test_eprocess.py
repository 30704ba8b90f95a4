"""Does a bet on one rate win what it should, and ever win too much with the promised chance?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import xlog1py, xlogy

from calibrail.conformal import confidence_sequence, log_wealth
from calibrail.conformal.argument_checks import Bools, Floats

DELTA = 0.1


def enumerated(n: int, rate: float, stops: Bools) -> float:
    """Return P(a count ever stands where it stops) for answers up to n, exactly.

    ``stops`` has the shape (n + 1, n + 1): trials, successes.
    """
    mass, stopped = np.ones(1), 0.0
    for trial in range(1, n + 1):
        mass = np.append(mass * (1.0 - rate), 0.0) + np.append(0.0, mass * rate)
        at = stops[trial, : trial + 1]
        stopped += float(mass[at].sum())
        mass[at] = 0.0
    return stopped


def every_count(n: int) -> tuple[Floats, Floats]:
    trials, hits = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    return np.minimum(hits, trials), trials


@pytest.mark.parametrize("limit", [0.02, 0.1, 0.5, 0.9, 0.95])
@pytest.mark.parametrize("above", [True, False])
def test_wealth_ever_reaches_its_goal_with_at_most_the_promised_probability(
    limit: float, above: bool
) -> None:
    """Exact enumeration: on the limit close below delta, inside the null further below."""
    n = 400
    stops = log_wealth(*every_count(n), limit, above=above) >= np.log(1.0 / DELTA)
    on_limit = enumerated(n, limit, stops)
    assert 0.2 * DELTA < on_limit <= DELTA
    inside = limit * 0.9 if above else 1.0 - (1.0 - limit) * 0.9
    assert enumerated(n, inside, stops) < on_limit
    beyond = 1.0 - (1.0 - limit) * 0.3 if above else limit * 0.3
    assert enumerated(n, beyond, stops) > 2.0 * DELTA


@given(st.integers(0, 500), st.integers(0, 500), st.floats(0.01, 0.99), st.booleans())
@settings(deadline=None)
def test_the_next_answer_leaves_the_wealth_as_it_is_on_average(
    hits: int, misses: int, limit: float, above: bool
) -> None:
    n = hits + misses
    now, won, lost = log_wealth([hits, hits + 1, hits], [n, n + 1, n + 1], limit, above=above)
    assert limit * np.exp(won - now) + (1.0 - limit) * np.exp(lost - now) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "hits, n, limit", [(0, 0, 0.3), (3, 5, 0.5), (95, 100, 0.9), (40, 100, 0.9), (2, 300, 0.02)]
)
@pytest.mark.parametrize("above", [True, False])
def test_wealth_is_the_mean_over_rates_beyond_the_limit(
    hits: int, n: int, limit: float, above: bool
) -> None:
    low, high = (limit, 1.0) if above else (0.0, limit)

    def ratio(rate: float) -> float:
        log = xlogy(hits, rate / limit) + xlog1py(n - hits, -rate)
        return float(np.exp(log - xlog1py(n - hits, -limit)))

    mean = quad(ratio, low, high, points=[(low + high) / 2], epsabs=0.0, limit=200)[0]
    expected = np.log(mean / (high - low))
    assert log_wealth(hits, n, limit, above=above) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    "hits, n, limit",
    [(0, 300, 0.9), (60, 400, 0.95), (300, 300, 0.9), (299, 300, 0.02), (5, 600, 0.02)],
)
@pytest.mark.parametrize("above", [True, False])
def test_far_from_the_limit_it_agrees_with_arithmetic_of_many_digits(
    hits: int, n: int, limit: float, above: bool
) -> None:
    mp = pytest.importorskip("mpmath").mp
    with mp.workdps(700):
        edge, misses = mp.mpf(limit), n - hits
        low, high = (edge, 1) if above else (0, edge)
        whole = mp.betainc(hits + 1, misses + 1, low, high)
        log = mp.log(whole / (high - low)) - hits * mp.log(edge) - misses * mp.log(1 - edge)
        expected = float(log)
    assert log_wealth(hits, n, limit, above=above) == pytest.approx(expected, rel=1e-10)


def test_a_hundred_million_answers_give_a_finite_wealth_that_grows_as_theory_says() -> None:
    n, limit = 10**8, 0.9
    hits = np.array([10**7, 9 * 10**7 - 10**5, 9 * 10**7, 9 * 10**7 + 10**5, n])
    for above in (True, False):
        wealth = log_wealth(hits, n, limit, above=above)
        assert np.isfinite(wealth).all()
        assert (np.diff(wealth) > 0.0 if above else np.diff(wealth) < 0.0).all()
    rate = hits[3] / n
    divergence = rate * np.log(rate / limit) + (1.0 - rate) * np.log((1.0 - rate) / (1.0 - limit))
    spread = np.sqrt(2.0 * np.pi * rate * (1.0 - rate) / n) / (1.0 - limit)
    expected = n * divergence + np.log(spread)
    assert log_wealth(hits[3], n, limit) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_intervals_of_all_times_hold_together(rate: float) -> None:
    n = 60
    lower, upper = confidence_sequence(*every_count(n), 1.0 - DELTA)
    assert 0.01 * DELTA < enumerated(n, rate, (lower > rate) | (upper < rate)) <= DELTA


def test_an_interval_ends_where_the_bet_reaches_its_goal() -> None:
    hits, n = np.array([0, 3, 50, 95, 100]), np.array([10, 7, 100, 100, 100])
    lower, upper = confidence_sequence(hits, n, 0.9)
    assert ((lower <= hits / n) & (hits / n <= upper)).all()
    assert lower[0] == 0.0 and upper[4] == 1.0
    for index in (1, 2, 3):
        low = log_wealth(hits[index], n[index], float(lower[index]))
        high = log_wealth(hits[index], n[index], float(upper[index]), above=False)
        assert [low, high] == pytest.approx([np.log(20.0)] * 2)
    ends = confidence_sequence(0, 0, 0.9)
    assert [float(end) for end in ends] == [0.0, 1.0]
