from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from calibrail.conformal import bounds
from calibrail.conformal.bounds import further_values, mean_at_least, mean_bound
from calibrail.errors import InputError

SHARES = st.lists(st.floats(0.0, 1.0), max_size=40)


def lower_by_search(values: list[float], tail: float) -> float:
    """Return the lower end as the docstring defines it: value by value, limit by limit."""

    def refuted(limit: float) -> bool:
        wealth, total, squares, seen = 1.0, 0.5, 0.25, 1
        for value in values:
            bet = math.sqrt(2.0 * math.log(1.0 / tail) / (len(values) * squares / seen))
            wealth *= 1.0 + min(bet, 0.75 / limit) * (value - limit)
            if wealth >= 1.0 / tail:
                return True
            seen += 1
            total += value
            squares += (value - total / seen) ** 2
        return False

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return min(low, sum(values) / len(values))


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=25), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_ends_are_those_of_the_definition(values: list[float], confidence: float) -> None:
    bound, tail = mean_bound(values, confidence), (1.0 - confidence) / 2.0
    assert bound.lower == pytest.approx(lower_by_search(values, tail), abs=1e-7)
    mirrored = lower_by_search([1.0 - value for value in values], tail)
    assert bound.upper == pytest.approx(1.0 - mirrored, abs=1e-7)
    assert mean_at_least(values, 1.0 - tail) == pytest.approx(bound.lower, abs=1e-9)


@given(SHARES)
def test_an_interval_holds_its_mean_and_no_nan_escapes(values: list[float]) -> None:
    bound, wider = mean_bound(values, 0.9), mean_bound(values, 0.99)
    assert bound.n == len(values)
    assert bound.count == pytest.approx(sum(values))
    assert 0.0 <= bound.lower <= bound.upper <= 1.0
    if not values:
        assert (bound.estimate, bound.lower, bound.upper) == (None, 0.0, 1.0)
        return
    assert bound.estimate is not None
    assert bound.lower <= bound.estimate <= bound.upper
    assert wider.lower <= bound.lower + 1e-9 and wider.upper >= bound.upper - 1e-9


DRAWS = {
    "a coin": lambda rng, size: (rng.random(size) < 0.9) * 1.0,
    "nearly always all": lambda rng, size: (rng.random(size) < 0.98) * 1.0,
    "all or nothing, mostly": lambda rng, size: rng.beta(0.1, 0.1, size),
    "thirds": lambda rng, size: rng.integers(0, 4, size) / 3.0,
}
MEANS = {"a coin": 0.9, "nearly always all": 0.98, "all or nothing, mostly": 0.5, "thirds": 0.5}


@pytest.mark.parametrize("n", [1, 4, 25])
@pytest.mark.parametrize("name", DRAWS)
def test_each_end_errs_no_more_often_than_it_may(name: str, n: int) -> None:
    rng, runs, confidence = np.random.default_rng(n), 400, 0.8
    bounds = [mean_bound(row, confidence) for row in DRAWS[name](rng, (runs, n))]
    too_high = sum(bound.lower > MEANS[name] for bound in bounds)
    too_low = sum(bound.upper < MEANS[name] for bound in bounds)
    # With a true error of exactly 0.1 more than this happen once in 10,000 runs of this test.
    most = binom.ppf(1.0 - 1e-4, runs, (1.0 - confidence) / 2.0)
    assert max(too_high, too_low) <= most


def test_early_luck_does_not_put_the_interval_beside_its_mean() -> None:
    bound = mean_bound([1.0] * 60 + [0.0] * 60, 0.95)
    assert bound.lower <= 0.5 <= bound.upper


def test_further_values_settle_it_and_one_doubling_less_does_not() -> None:
    seen = [1.0, 0.5, 0.75, 1.0] * 6
    more = further_values(seen, 0.75, 0.05, 0.025)
    assert more
    assert mean_at_least(np.resize(seen, len(seen) + more), 0.95) >= 0.75
    assert mean_at_least(np.resize(seen, len(seen) + more // 2), 0.95) < 0.75
    below = further_values(seen, 0.9, 0.05, 0.025)
    assert below
    assert mean_bound(np.resize(seen, len(seen) + below), 0.95).upper < 0.9
    assert further_values(seen * 20, 0.5, 0.05, 0.025) == 0
    assert further_values(seen, 0.8125, 0.05, 0.025) is None
    assert further_values([], 0.5, 0.05, 0.025) is None
    assert further_values([0.0, 1.0] * 9, 0.499, 0.05, 0.025) is None


@pytest.mark.parametrize("values", [[1.5], [-0.1], [float("nan")], ["much"], [[0.5]]])
def test_values_that_are_no_shares_are_refused(values: list[object]) -> None:
    with pytest.raises(InputError, match="values must"):
        mean_bound(values, 0.95)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [2, 30, 400])
@pytest.mark.parametrize("shape", [(0.1, 0.1), (2.0, 0.1), (0.1, 2.0), (3.0, 3.0)])
def test_secants_spare_bisection_steps_and_change_no_digit(
    n: int, shape: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, won = list[float](), bounds._won

    def counted(shares: bounds.Floats, bets: bounds.Floats, limit: float) -> float:
        tried.append(limit)
        return won(shares, bets, limit)

    monkeypatch.setattr(bounds, "_won", counted)
    for values in np.random.default_rng(n).beta(*shape, (10, n)):
        tried.clear()
        end = bounds._lower(values.tobytes(), 0.05)
        assert len(tried) < 45
        bets, low, high = bounds._bets(values, 0.05), 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2.0
            wins = won(values, bets, middle) >= -math.log(0.05)
            low, high = (middle, high) if wins else (low, middle)
        assert end == low
