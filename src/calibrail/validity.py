"""Do the promises hold when the data are known?

A Monte-Carlo harness that anyone may run. Each simulation repeats one promise many times on scores
of a known distribution and counts how often it failed. With continuous scores the probability of a
failure is known exactly, and the count must lie within two-sided binomial limits around it. With
ties coverage may only grow, so the count must not lie above. The limits follow from the number of
runs and of checks, never from a chosen tolerance.

>>> checks = simulate(runs=200, sizes=(30,), alphas=(0.1,), seed=1)
>>> failures(checks)
()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import betabinom, binom

from calibrail.conformal import Guarantee, coverage_band, minimum_n, rank
from calibrail.conformal.bound import interval
from calibrail.errors import InputError

Kind = Literal["continuous", "discrete", "tied"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
SIZES: Final = (19, 30, 100, 600)
ALPHAS: Final = (0.01, 0.05, 0.1, 0.2)

#: Error probability of ``pac``, level of the bounds, and test examples per simulated band.
DELTA: Final = 0.1
CONFIDENCE: Final = 0.9
BATCH: Final = 100
#: The faithful scores lie this far below the hallucinated ones.
_SHIFT: Final = 1.0
#: Shares of the values 0, 1, 2 of a heavily tied score.
_TIED: Final = (0.05, 0.25, 0.7)

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Check:
    """How often a promise failed in simulation, and how often it may.

    Attributes
    ----------
    promise : str
        What was simulated.
    kind : {"continuous", "discrete", "tied"}
        Distribution of the scores.
    n : int
        Examples of each class.
    alpha : float
        Tolerated miss rate.
    runs : int
        Independent repetitions.
    failed : int
        Repetitions in which the promised event did not happen.
    probability : float
        Of a failure: exact where ``exact``, else the most that is allowed.
    exact : bool
        Whether fewer failures than chance explains would be wrong too.
    """

    promise: str
    kind: Kind
    n: int
    alpha: float
    runs: int
    failed: int
    probability: float
    exact: bool

    def limits(self, error: float) -> tuple[int, int]:
        """Return the fewest and most failures that chance explains but for ``error``."""
        tail = error / 2 if self.exact else error
        least = int(binom.ppf(tail, self.runs, self.probability)) if self.exact else 0
        return least, int(binom.isf(tail, self.runs, self.probability))

    def holds(self, error: float) -> bool:
        """Return whether the count lies within ``limits``."""
        least, most = self.limits(error)
        return least <= self.failed <= most


def simulate(
    runs: int = 10_000,
    *,
    sizes: Sequence[int] = SIZES,
    alphas: Sequence[float] = ALPHAS,
    kinds: Sequence[Kind] = KINDS,
    seed: int = 0,
) -> tuple[Check, ...]:
    """Simulate every promise in every setting that has enough examples for it.

    Parameters
    ----------
    runs : int
        Repetitions of each setting.
    sizes, alphas, kinds : sequences
        The settings: numbers of examples, tolerated miss rates, score distributions.
    seed : int
        Same seed, same counts.

    Returns
    -------
    tuple of Check
    """
    if runs < 1:
        raise InputError(f"runs must be at least 1; got {runs}")
    return tuple(_checks(runs, sizes, alphas, kinds, seed))


def failures(checks: Sequence[Check], error: float = 1e-3) -> tuple[Check, ...]:
    """Return the checks outside their limits; true promises give any with at most ``error``.

    ``error`` is divided by the number of checks (Bonferroni), so it holds for all of them together.
    """
    return tuple(check for check in checks if not check.holds(error / max(1, len(checks))))


def marginal_coverage(n: int, alpha: float, kind: Kind, runs: int, seed: int = 0) -> Check:
    """Miss one fresh hallucination per calibration: probability k / (n + 1), at most alpha."""
    rng, k = _rng(seed, 1, n, alpha, kind), rank(n, alpha)
    missed = _draw(rng, kind, runs) < _thresholds(rng, kind, runs, n, k)
    return _check("marginal coverage", kind, n, alpha, missed, k / (n + 1))


def training_conditional(n: int, alpha: float, kind: Kind, runs: int, seed: int = 0) -> Check:
    """Draw a ``pac`` threshold whose true miss rate exceeds alpha: at most ``DELTA``."""
    rng, k = _rng(seed, 2, n, alpha, kind), rank(n, alpha, "pac", DELTA)
    bad = _miss_rate(kind, _thresholds(rng, kind, runs, n, k)) > alpha
    return _check("pac coverage", kind, n, alpha, bad, float(binom.cdf(k - 1, n, alpha)))


def p_value_uniformity(n: int, alpha: float, kind: Kind, runs: int, seed: int = 0) -> Check:
    """Give a hallucination a p-value of at most alpha: probability at most alpha."""
    rng = _rng(seed, 3, n, alpha, kind)
    scores, fresh = _draw(rng, kind, (runs, n)), _draw(rng, kind, (runs, 1))
    p = (1.0 + np.count_nonzero(scores <= fresh, axis=1)) / (n + 1.0)
    return _check("p-value", kind, n, alpha, p <= alpha, rank(n, alpha) / (n + 1))


def band_coverage(n: int, alpha: float, kind: Kind, runs: int, seed: int = 0) -> Check:
    """Catch a number of ``BATCH`` fresh hallucinations outside the band (below it, with ties)."""
    rng, k = _rng(seed, 4, n, alpha, kind), rank(n, alpha)
    threshold = _thresholds(rng, kind, runs, n, k)[:, None]
    caught = np.count_nonzero(_draw(rng, kind, (runs, BATCH)) >= threshold, axis=1)
    lowest, highest = coverage_band((k, n), BATCH, CONFIDENCE)
    law = betabinom(BATCH, n + 1 - k, k)
    below = float(law.cdf(lowest - 1))
    if kind != "continuous":
        return _check("band", kind, n, alpha, caught < lowest, below)
    outside = (caught < lowest) | (caught > highest)
    return _check("band", kind, n, alpha, outside, below + float(law.sf(highest)))


def wrong_certificate(n: int, alpha: float, kind: Kind, runs: int, seed: int = 0) -> Check:
    """Certify a threshold whose coverage is only just too low: at most (1 - ``CONFIDENCE``) / 2."""
    certified, _ = _verdicts(_rng(seed, 5, n, alpha, kind), n, alpha, runs, true_fpr=0.0)
    return _check("wrong certificate", kind, n, alpha, certified, _tail(), exact=False)


def wrong_rejection(n: int, alpha: float, kind: Kind, runs: int, seed: int = 0) -> Check:
    """Reject a threshold that only just meets both requirements: at most 1 - ``CONFIDENCE``."""
    _, rejected = _verdicts(_rng(seed, 6, n, alpha, kind), n, alpha, runs, true_fpr=_MAX_FPR)
    return _check("wrong rejection", kind, n, alpha, rejected, 2 * _tail(), exact=False)


def wrong_joint_certificate(n: int, alpha: float, kind: Kind, runs: int, seed: int = 0) -> Check:
    """Certify a ``pac`` threshold that breaks a requirement: ``DELTA`` + (1 - ``CONFIDENCE``) / 2.

    The limit on the FPR is the true FPR of the threshold with a miss rate of exactly alpha, so that
    about half of all thresholds break it.
    """
    rng, k = _rng(seed, 7, n, alpha, kind), rank(n, alpha, "pac", DELTA)
    threshold = _thresholds(rng, kind, runs, n, k)
    limit = 1.0 - _miss_rate(kind, np.asarray(_quantile(kind, alpha)), _SHIFT)
    alarms = np.count_nonzero(_draw(rng, kind, (runs, n), _SHIFT) >= threshold[:, None], axis=1)
    certified = interval(alarms, n, CONFIDENCE)[1] <= limit
    broken = (_miss_rate(kind, threshold) > alpha) | (
        1.0 - _miss_rate(kind, threshold, _SHIFT) > limit
    )
    return _check(
        "wrong joint certificate", kind, n, alpha, certified & broken, DELTA + _tail(), exact=False
    )


#: Limit on the FPR in the simulated class-split certificates.
_MAX_FPR: Final = 0.2
_Simulation = Callable[[int, float, Kind, int, int], Check]
#: Each simulation with the guarantee whose minimum n it needs, and whether ties matter to it.
_SIMULATIONS: Final[tuple[tuple[_Simulation, Guarantee | None, bool], ...]] = (
    (marginal_coverage, "marginal", True),
    (training_conditional, "pac", True),
    (p_value_uniformity, None, True),
    (band_coverage, "marginal", True),
    (wrong_certificate, None, False),
    (wrong_rejection, None, False),
    (wrong_joint_certificate, "pac", True),
)


def _checks(
    runs: int, sizes: Sequence[int], alphas: Sequence[float], kinds: Sequence[Kind], seed: int
) -> Iterator[Check]:
    for simulation, guarantee, ties in _SIMULATIONS:
        for n in sizes:
            for alpha in alphas:
                if guarantee is None or n >= minimum_n(alpha, guarantee, DELTA):
                    for kind in kinds if ties else kinds[:1]:
                        yield simulation(n, alpha, kind, runs, seed)


def _check(
    promise: str,
    kind: Kind,
    n: int,
    alpha: float,
    failed: NDArray[np.bool_],
    probability: float,
    *,
    exact: bool = True,
) -> Check:
    count = int(np.count_nonzero(failed))
    exact = exact and kind == "continuous"
    return Check(promise, kind, n, alpha, len(failed), count, probability, exact)


def _rng(seed: int, promise: int, n: int, alpha: float, kind: Kind) -> np.random.Generator:
    return np.random.default_rng([seed, promise, n, round(alpha * 10**9), KINDS.index(kind)])


def _tail() -> float:
    return (1.0 - CONFIDENCE) / 2.0


def _draw(
    rng: np.random.Generator, kind: Kind, shape: int | tuple[int, ...], shift: float = 0.0
) -> _Floats:
    """Draw standard normal scores less ``shift``; discrete ones are rounded, tied ones binned."""
    scores = rng.standard_normal(shape) - shift
    if kind == "discrete":
        return np.round(2.0 * scores) / 2.0
    if kind == "tied":
        return np.searchsorted(_cuts(), scores, side="right").astype(np.float64)
    return scores


def _miss_rate(kind: Kind, threshold: _Floats, shift: float = 0.0) -> _Floats:
    """Return P(score < threshold), exactly."""
    if kind == "discrete":
        threshold = threshold - 0.25
    if kind == "tied":
        threshold = np.concatenate([[-np.inf], _cuts()])[threshold.astype(np.intp)]
    return np.asarray(ndtr(threshold + shift), dtype=np.float64)


def _quantile(kind: Kind, alpha: float) -> float:
    """Return the largest threshold with a miss rate of at most alpha."""
    z = float(ndtri(alpha))
    if kind == "discrete":
        return float(np.floor(2.0 * z + 0.5)) / 2.0
    return float(np.searchsorted(_cuts(), z, side="right")) if kind == "tied" else z


def _cuts() -> _Floats:
    return np.asarray(ndtri(np.cumsum(_TIED)[:-1]), dtype=np.float64)


def _thresholds(rng: np.random.Generator, kind: Kind, runs: int, n: int, k: int) -> _Floats:
    """Return the k-th smallest of n fresh calibration scores, shape (runs,)."""
    return np.partition(_draw(rng, kind, (runs, n)), k - 1, axis=1)[:, k - 1]


def _verdicts(
    rng: np.random.Generator, n: int, alpha: float, runs: int, true_fpr: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which class-split certificates at a coverage of 1 - alpha certify, and reject."""
    lower, upper = interval(np.arange(n + 1), n, CONFIDENCE)
    caught, alarms = rng.binomial(n, 1.0 - alpha, runs), rng.binomial(n, true_fpr, runs)
    certified = (lower[caught] >= 1.0 - alpha) & (upper[alarms] <= _MAX_FPR)
    return certified, (upper[caught] < 1.0 - alpha) | (lower[alarms] > _MAX_FPR)
