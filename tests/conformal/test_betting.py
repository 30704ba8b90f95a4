"""Do bets on weighted answers win nothing on average where a claim is broken?"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.conformal import estimated_labels
from calibrail.conformal.sequential import betting
from calibrail.conformal.sequential.betting import (
    FRACTIONS,
    LIMITS,
    SPLIT,
    bet,
    largest_bets,
    mixture,
    reaches,
    required_steps,
    weighted_bets,
    zero_wealth,
)
from tests.conformal.test_eprocess import enumerated

DELTA = 0.1
FLOORS = (0.1, 0.2)


@given(st.floats(0.0, 1.0), st.floats(0.01, 1.0), st.floats(0.0, 1.0), st.booleans(), st.booleans())
def test_an_estimated_label_is_right_on_average_however_bad_the_guess(
    guess: float, q: float, rate: float, first: bool, second: bool
) -> None:
    yes, no, unlabelled = estimated_labels([True, False, None], [q] * 3, [guess] * 3)
    mean = q * (rate * yes + (1.0 - rate) * no) + (1.0 - q) * unlabelled
    assert mean == pytest.approx(rate, abs=1e-9)
    assert 1.0 - 1.0 / q - 1e-9 <= no <= yes <= 1.0 / q + 1e-9


def population(coverage: float, fpr: float, base_rate: float, seed: int) -> list[tuple[float, ...]]:
    """Return every outcome of an answer: probability, flagged, W; both rates exactly as asked."""
    rng, outcomes = np.random.default_rng(seed), []
    for hallucinated, flagged in product((True, False), (True, False)):
        rate = coverage if hallucinated else fpr
        mass = (base_rate if hallucinated else 1.0 - base_rate) * (rate if flagged else 1.0 - rate)
        for _ in range(3):
            guess = float(rng.random())
            q = float(rng.uniform(FLOORS[0 if flagged else 1], 1.0))
            for known in (hallucinated, None):
                chance = q if known is not None else 1.0 - q
                w = float(estimated_labels([known], [q], [guess])[0])
                outcomes.append((mass / 3.0 * chance, float(flagged), w))
    return outcomes


@pytest.mark.parametrize("base_rate", [0.02, 0.3])
@pytest.mark.parametrize("edges", [(0.9, 0.2), (0.5, 0.05)])
def test_on_the_limit_no_bet_wins_or_loses_on_average(
    base_rate: float, edges: tuple[float, float]
) -> None:
    outcomes = np.array(population(*edges, base_rate, seed=3))
    chance, flagged, w = outcomes.T
    units = np.stack([w, 1.0 - w, w * flagged, flagged - w * flagged], axis=1)
    factors = np.exp(required_steps(units, edges, FLOORS))
    assert factors.shape == (len(units), 4, len(FRACTIONS)) and (factors > 0.0).all()
    assert np.einsum("i,ijk->jk", chance, factors) == pytest.approx(1.0)
    worse = np.array(population(edges[0] - 0.05, edges[1] + 0.02, base_rate, seed=3))[:, 0]
    means = np.einsum("i,ijk->jk", worse, factors)
    assert (means[[0, 2]] < 1.0).all() and (means[[1, 3]] > 1.0).all()


def test_the_largest_bet_turns_the_worst_answer_to_nothing() -> None:
    limits = np.array([0.02, 0.3, 0.9])
    for floors in ((1.0, 1.0), FLOORS, (0.5, 0.05)):
        bets = largest_bets(limits, floors)
        ends = [
            (1.0 - limit) * w if flagged else -limit * w
            for limit, flagged in product(limits, (True, False))
            for q in (floors[0 if flagged else 1],)
            for w in (1.0 - 1.0 / q, 1.0 / q)
        ]
        worst = np.array(ends).reshape(len(limits), 4)
        assert 1.0 + bets[0] * worst.min(axis=1) == pytest.approx(0.0, abs=1e-12)
        assert 1.0 - bets[1] * worst.max(axis=1) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("limit", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("above", [True, False])
def test_on_plain_answers_it_errs_as_often_as_exact_enumeration_says(
    limit: float, above: bool
) -> None:
    n = 200
    trials, hits = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    stake = FRACTIONS * largest_bets(np.array(limit), (1.0, 1.0))[0 if above else 1]
    sign = 1.0 if above else -1.0
    won, lost = 1.0 + sign * (1.0 - limit) * stake, 1.0 - sign * limit * stake
    misses = np.maximum(trials - hits, 0)
    log = hits[..., None] * np.log(won) + misses[..., None] * np.log(lost)
    stops = np.log(np.exp(log) @ SPLIT) >= np.log(1.0 / DELTA)
    assert 0.1 * DELTA < enumerated(n, limit, stops) <= DELTA
    drawn = np.random.default_rng(5).random(n) < limit
    path = weighted_bets(drawn, np.ones(n), limit, (1.0, 1.0), above=above).from_start
    count = np.cumsum(drawn)
    expected = np.log(np.exp(log[np.arange(1, n + 1), count]) @ SPLIT)
    assert path == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=40))
@settings(deadline=None)
def test_order_does_not_matter(units: list[tuple[float, bool]]) -> None:
    hits = np.array([share for share, _ in units])
    forwards, backwards = (
        weighted_bets(column, np.ones(len(hits)), 0.7, (1.0, 1.0), above=True).from_start[-1]
        for column in (hits, hits[::-1])
    )
    assert forwards == pytest.approx(backwards, abs=1e-9)


def test_the_bets_at_all_limits_hold_those_at_the_requirement() -> None:
    rng = np.random.default_rng(1)
    w, flagged = rng.uniform(-1.0, 2.0, 600), rng.random(600) < 0.3
    units = np.stack([w, 1.0 - w, w * flagged, flagged - w * flagged], axis=1)
    edges = (0.87, 0.21)
    parts = list(bet(zero_wealth(), units, edges, FLOORS))
    wealth, state = np.concatenate([part for _, part in parts]), parts[-1][0]
    assert len(parts) == 3 and wealth.shape == (600, 4) and state.shape[2] == len(LIMITS) + 1
    log = np.cumsum(required_steps(units, edges, FLOORS), axis=0)
    assert wealth == pytest.approx(np.log(np.exp(log) @ SPLIT), abs=1e-9)
    for index, (rate, above) in enumerate([(0, True), (0, False), (1, False), (1, True)]):
        one = weighted_bets(units[:, 2 + rate], units[:, rate], edges[rate], FLOORS, above=above)
        assert wealth[:, index] == pytest.approx(one.from_start, abs=1e-9)


def test_what_is_reached_is_what_the_mixture_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, goal = np.random.default_rng(0), np.array([2.3, 3.0, 2.3, 3.0])
    wealth, mixed = rng.normal(0.0, 4.0, (500, 3, 4, len(SPLIT))), list[int]()

    def counted(log_wealth: Any) -> Any:
        mixed.append(len(log_wealth))
        return mixture(log_wealth)

    monkeypatch.setattr(betting, "mixture", counted)
    found = reaches(wealth, goal)
    assert (found == (mixture(wealth) >= goal)).all()
    assert 0 < sum(mixed) < 0.4 * found.size
    assert 0.1 < found.mean() < 0.9


def test_units_that_are_alike_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    units = np.array([[0.9, 0.1, 0.9, 0.1], [0.1, 0.9, 0.0, 0.0]])[np.arange(200) % 2]
    logs, log1p = list[int](), np.log1p

    def counted(values: Any) -> Any:
        logs.append(np.size(values))
        return log1p(values)

    monkeypatch.setattr(np, "log1p", counted)
    ((together, _),) = bet(zero_wealth(), units, (0.9, 0.2), FLOORS)
    assert sum(logs) == 2 * zero_wealth().size
    alone = zero_wealth()
    for unit in units:
        ((alone, _),) = bet(alone, unit[None], (0.9, 0.2), FLOORS)
    assert together.tobytes() == alone.tobytes()
