"""Is a bet with restarts what its parts are worth, and is it too high rarely enough?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom

from calibrail.conformal.sequential.betting import (
    Bets,
    counted_bets,
    detector,
    evidence,
    largest_start,
    log_wealth,
    restart_shares,
    weighted_bets,
)
from calibrail.conformal.sequential.sequential_test import SequentialTest
from calibrail.options import Drawing, Requirement

REQUIRED = Requirement(max_fpr=0.2, min_coverage=0.9, confidence=0.95)


def answers(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    hallucinated = rng.random(n) < 0.3
    return rng.random(n) < np.where(hallucinated, 0.85, 0.2), hallucinated.astype(float)


def coverage_broken(flagged: np.ndarray, labels: np.ndarray) -> Bets:
    return counted_bets(np.where(labels == 1.0, flagged, np.nan), 0.9, above=False)


def test_the_bet_from_the_start_is_that_of_the_sequential_test() -> None:
    flagged, labels = answers(500)
    test = SequentialTest(REQUIRED).update(flagged, labels)
    fpr = counted_bets(np.where(labels == 0.0, flagged, np.nan), 0.2, above=True)
    assert test.highest[1] == pytest.approx(coverage_broken(flagged, labels).from_start.max())
    assert test.highest[3] == pytest.approx(max(0.0, fpr.from_start.max()))


def test_weighted_bets_are_those_of_the_sequential_test() -> None:
    flagged, labels = answers(400, 1)
    drawing, rng = Drawing("active"), np.random.default_rng(2)
    guess, q = rng.random(400), rng.uniform(0.3, 1.0, 400)
    labels[rng.random(400) >= q] = np.nan
    test = SequentialTest(REQUIRED, drawing).update(flagged, labels, q, guess)
    mass = np.where(np.isnan(labels), guess, guess + (np.nan_to_num(labels) - guess) / q)
    for place, weight, limit, above in ((1, mass, 0.9, False), (3, 1.0 - mass, 0.2, True)):
        bets = weighted_bets(weight * flagged, weight, limit, drawing.floors, above=above)
        assert max(0.0, bets.from_start.max()) == pytest.approx(test.highest[place])


def test_one_batch_pays_for_restarts_that_never_come() -> None:
    bets = coverage_broken(*answers(300))
    restarted = np.logaddexp(
        np.log(0.5) + detector(bets, np.eye(300)[0]), np.log(0.5)
    )  # Half on the only batch, half never laid.
    expected = np.logaddexp(bets.from_start, restarted) + np.log(0.5)
    assert evidence(bets, np.array([0])) == pytest.approx(expected)
    assert evidence(coverage_broken(*answers(0)), np.zeros(0, np.int64)).shape == (0,)


def test_restarts_are_the_mixture_over_all_rates_of_each_start() -> None:
    flagged, labels = answers(600, 3)
    starts = np.array([0, 130, 131, 400])
    bets = coverage_broken(flagged, labels)
    shares = restart_shares(4)
    for last in (0, 129, 131, 450, 599):
        worth = []
        for start, share in zip(starts, shares, strict=True):
            of_class = (labels[start : last + 1] == 1.0) if start <= last else np.zeros(0, bool)
            n, hits = of_class.sum(), (flagged[start : last + 1] & of_class).sum()
            worth.append(np.log(share) + float(log_wealth(int(hits), int(n), 0.9, above=False)))
        worth.append(np.log(1.0 - shares.sum()))
        expected = np.logaddexp(bets.from_start[last], logsumexp(worth)) + np.log(0.5)
        assert evidence(bets, starts)[last] == pytest.approx(expected, abs=0.01)


def test_the_detector_follows_its_recursion() -> None:
    flagged, labels = answers(80, 4)
    bets = coverage_broken(flagged, labels)
    laid = (labels == 1.0).astype(float)
    worth, path = np.zeros(len(bets.split)), []
    for change, stake in zip(bets.changes, laid, strict=True):
        worth = (worth + stake) * np.exp(change)
        path.append(worth @ bets.split)
    assert np.exp(detector(bets, laid)) == pytest.approx(np.array(path))


def test_the_start_that_won_most_is_where_the_rate_fell() -> None:
    rng = np.random.default_rng(5)
    outcome = (rng.random(400) < np.where(np.arange(400) < 250, 0.95, 0.6)).astype(float)
    bets = counted_bets(outcome, 0.9, above=False)
    assert 235 <= largest_start(bets, np.ones(400), 399) <= 265
    assert largest_start(bets, np.eye(400)[7], 399) == 7


@pytest.mark.parametrize("design", ["uniform", "active"])
def test_rates_on_the_limit_are_rarely_seen_as_broken(design: str) -> None:
    runs, n, delta, rng = 400, 250, 0.1, np.random.default_rng(6)
    starts, ever, sums = np.arange(0, n, 10), 0, []
    for _ in range(runs):
        hallucinated = (rng.random(n) < 0.5).astype(float)
        flagged = rng.random(n) < np.where(hallucinated == 1.0, 0.9, 0.2)
        if design == "uniform":
            bets = coverage_broken(flagged, hallucinated)
            laid = hallucinated
        else:
            guess = np.clip(0.3 + 0.4 * hallucinated + rng.normal(0, 0.2, n), 0.0, 1.0)
            q = np.clip(2.0 * np.sqrt(guess * (1 - guess)), 0.2, 1.0)
            mass = guess + (rng.random(n) < q) / q * (hallucinated - guess)
            bets = weighted_bets(mass * flagged, mass, 0.9, (0.1, 0.2), above=False)
            laid = np.ones(n)
        ever += bool((evidence(bets, starts) >= np.log(1.0 / delta)).any())
        sums.append(np.exp(detector(bets, laid)[:100]) - np.cumsum(laid)[:100])
    assert ever <= binom.isf(1e-4, runs, delta)
    # R less what was laid has mean 0: its rows are far from independent, each alone is near it.
    late = np.array(sums)[:, [4, 20]]
    assert np.all(np.abs(late.mean(axis=0)) <= 5.0 * late.std(axis=0) / np.sqrt(runs))


@pytest.mark.parametrize("after", [0, 300])
def test_a_break_is_found_and_dated(after: int) -> None:
    rng, n = np.random.default_rng(7), after + 250
    starts = np.arange(0, n, 20)
    rows = []
    for _ in range(40):
        rate = np.where(np.arange(n) < after, 0.95, 0.75)
        bets = counted_bets((rng.random(n) < rate).astype(float), 0.9, above=False)
        won = evidence(bets, starts) >= np.log(40.0)
        rows.append(int(np.argmax(won)) if won.any() else n)
    assert np.mean(np.array(rows) < n) >= 0.9
    assert np.median(rows) < after + 150
