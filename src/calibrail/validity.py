"""Do the promises hold when they are tried thousands of times?

Every check simulates many calibrations from a known distribution, counts how often the promise was
kept, and compares with what was promised. The tolerance follows from the number of runs: a check
fails only where an honest procedure would fail with probability ``ERROR`` over the whole grid.

    >>> checks = run_grid(runs=200, seed=1)
    >>> all(check.ok for check in checks)
    True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, binom

from calibrail.conformal import (
    Guarantee,
    calibrate,
    certify_counts,
    coverage_band,
    flags,
    minimum_n,
    p_values,
    rank,
)
from calibrail.conformal.rank import rank as exact_rank

#: Probability that a correct implementation fails anywhere in a grid.
ERROR = 1e-4

SIZES = (19, 30, 100, 600)
ALPHAS = (0.01, 0.05, 0.1, 0.2)
DELTA = 0.1
TEST = 200

Rank = Callable[[int, float, Guarantee, float], int]
Draw = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]


def continuous(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw scores without ties."""
    return rng.normal(size=shape)


def discrete(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw scores with 20 distinct values."""
    return rng.integers(0, 20, size=shape).astype(np.float64)


def tied(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw scores of which two thirds are one and the same value, as from a yes/no judge."""
    return np.where(rng.random(shape) < 2 / 3, 1.0, 0.0)


SCORES: dict[str, Draw] = {"continuous": continuous, "discrete": discrete, "tied": tied}


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, tried many times.

    Attributes
    ----------
    promise : str
        What was promised.
    setting : str
        n, alpha and the kind of scores.
    observed : float
        Share of the trials that came out as counted.
    lowest, highest : float
        Where an honest procedure's share lies, given the number of trials.
    trials : int
        How many.
    """

    promise: str
    setting: str
    observed: float
    lowest: float
    highest: float
    trials: int

    @property
    def ok(self) -> bool:
        """Whether the observed share lies where it must."""
        return self.lowest <= self.observed <= self.highest


def run_grid(
    runs: int,
    seed: int = 0,
    *,
    sizes: Sequence[int] = SIZES,
    alphas: Sequence[float] = ALPHAS,
    rank_of: Rank = exact_rank,
) -> tuple[Check, ...]:
    """Try every promise over a grid of sample sizes, miss rates and kinds of scores.

    Parameters
    ----------
    runs : int
        Simulated calibrations a setting.
    seed : int
        The same seed gives the same checks.
    sizes, alphas : sequence
        The grid; settings in which no threshold keeps the promise are left out.
    rank_of : callable
        The rank rule under test, with the signature of ``rank``; another one shows what the
        harness notices.

    Returns
    -------
    tuple of Check
    """
    settings = [(name, n, alpha) for name in SCORES for n in sizes for alpha in alphas]
    # Five kinds of checks a setting at most: Bonferroni over all of them, both tails.
    error = ERROR / (5 * len(settings))
    rng = np.random.default_rng(seed)
    checks: list[Check] = []
    for name, n, alpha in settings:
        draw = SCORES[name]
        if n >= minimum_n(alpha, "marginal"):
            checks.extend(_marginal(rng, name, draw, n, alpha, runs, error, rank_of))
        if n >= minimum_n(alpha, "pac", DELTA):
            checks.append(_pac(rng, name, draw, n, alpha, runs, error, rank_of))
    checks.extend(_certificates(rng, runs, error))
    return tuple(checks)


def _thresholds(
    scores: NDArray[np.float64], n: int, alpha: float, guarantee: Guarantee, rank_of: Rank
) -> NDArray[np.float64]:
    """Return the threshold of every run; the first few come from ``calibrate`` itself."""
    k = rank_of(n, alpha, guarantee, DELTA)
    chosen = np.sort(scores, axis=1)[:, max(k, 1) - 1]
    if rank_of is exact_rank:
        for row in range(min(20, len(scores))):
            chosen[row] = calibrate(scores[row], alpha, guarantee, DELTA).threshold
    return chosen


def _marginal(
    rng: np.random.Generator,
    name: str,
    draw: Draw,
    n: int,
    alpha: float,
    runs: int,
    error: float,
    rank_of: Rank,
) -> Iterator[Check]:
    """One fresh hallucination a run: missed with probability at most alpha, p-values valid."""
    scores = draw(rng, (runs, n))
    fresh = draw(rng, (runs,))
    chosen = _thresholds(scores, n, alpha, "marginal", rank_of)
    caught = int(flags(fresh - chosen, 0.0).sum())
    setting = f"{name}, n = {n}, alpha = {alpha:g}"
    # Without ties the coverage is exactly 1 - k / (n + 1); with ties it can only be higher.
    exact = 1.0 - rank(n, alpha) / (n + 1)
    low, high = _range(runs, exact, error)
    yield Check(
        "marginal coverage", setting, caught / runs, low, high if name == "continuous" else 1.0,
        runs,
    )  # fmt: skip
    small = (np.sum(scores <= fresh[:, None], axis=1) + 1.0) / (n + 1.0) <= alpha
    few = min(20, runs)
    for row in range(few):
        small[row] = p_values(np.sort(scores[row]), fresh[row : row + 1])[0] <= alpha
    yield Check(
        "p-value at most alpha", setting, float(small.mean()), 0.0, _range(runs, alpha, error)[1],
        runs,
    )  # fmt: skip
    if name == "continuous" and rank_of is exact_rank:
        test = draw(rng, (runs, TEST))
        counts = np.sum(test >= chosen[:, None], axis=1)
        lowest, highest = coverage_band((rank(n, alpha), n), TEST, 0.9)
        outside = float(np.mean((counts < lowest) | (counts > highest)))
        yield Check("coverage outside its 90 % band", setting, outside, 0.0,
                    _range(runs, 0.1, error)[1], runs)  # fmt: skip


def _pac(
    rng: np.random.Generator,
    name: str,
    draw: Draw,
    n: int,
    alpha: float,
    runs: int,
    error: float,
    rank_of: Rank,
) -> Check:
    """Count how often the threshold's true miss rate exceeds alpha: at most a share delta."""
    chosen = _thresholds(draw(rng, (runs, n)), n, alpha, "pac", rank_of)
    misses = _miss_rate(name, chosen)
    exceeded = float(np.mean(misses > alpha * (1 + 1e-12)))
    # Without ties the true miss rate is Beta(k, n + 1 - k), so that the share is known exactly.
    k = rank(n, alpha, "pac", DELTA)
    exact = float(beta.sf(alpha, k, n + 1 - k))
    low, high = _range(runs, exact, error)
    setting = f"{name}, n = {n}, alpha = {alpha:g}"
    if name != "continuous":
        return Check("pac exceeded", setting, exceeded, 0.0, _range(runs, DELTA, error)[1], runs)
    return Check("pac exceeded", setting, exceeded, low, high, runs)


def _miss_rate(name: str, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(score < threshold) under the distribution that the scores were drawn from."""
    if name == "continuous":
        from scipy.special import ndtr

        return np.asarray(ndtr(thresholds), dtype=np.float64)
    if name == "discrete":
        return np.clip(thresholds / 20.0, 0.0, 1.0)
    return np.where(thresholds > 0.0, 1 / 3, 0.0)


def _certificates(rng: np.random.Generator, runs: int, error: float) -> Iterator[Check]:
    """On the boundary of what is required, a verdict that is wrong comes at most delta often."""
    for n, coverage, fpr, confidence in (
        (100, 0.9, 0.2, 0.9),
        (600, 0.95, 0.3, 0.95),
        (300, 0.8, 0.05, 0.8),
    ):
        trials = min(runs, 4000)
        certified = rejected = 0
        for caught, alarms in zip(
            rng.binomial(n, coverage, trials).tolist(), rng.binomial(n, fpr, trials).tolist(),
            strict=True,
        ):  # fmt: skip
            # The true rates meet both requirements exactly: "rejected" is wrong. A coverage that
            # is required a hair above the true one makes "certified" wrong.
            met = certify_counts(caught, n, alarms, n, coverage, fpr, confidence)
            missed = certify_counts(caught, n, alarms, n, coverage + 1e-9, 1.0, confidence)
            rejected += met.verdict == "rejected"
            certified += missed.verdict == "certified"
        setting = f"n = {n}, coverage {coverage:g}, FPR {fpr:g}"
        limit = _range(trials, 1.0 - confidence, error)[1]
        yield Check("wrongly rejected", setting, rejected / trials, 0.0, limit, trials)
        yield Check("wrongly certified", setting, certified / trials, 0.0, limit, trials)


def _range(trials: int, share: float, error: float) -> tuple[float, float]:
    """Return where a binomial share lies but for probability ``error`` on each side."""
    if share <= 0.0 or share >= 1.0:
        return share, share
    low, high = (binom.ppf(level, trials, share) for level in (error, 1.0 - error))
    return float(low) / trials, float(high) / trials
