"""How often did a promise fail in simulation, does chance explain it, and what is drawn?

Every score is a normal number, taken as it is, rounded, or binned. So the true rates of every
threshold are known exactly.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Final, Literal, TypeVar, get_args
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binom
from scipy.stats import t as student

from calibrail.conformal import clopper_pearson, rank
from calibrail.options import Guarantee, Promise

Kind = Literal["continuous", "discrete", "tied"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

#: Shares of the values 0, 1, 2 of a heavily tied score.
_TIED: Final = (0.05, 0.25, 0.7)
_CUTS: Final = ndtri(np.cumsum(_TIED)[:-1])

Floats = NDArray[np.float64]


def as_score(kind: Kind, normal: Floats) -> Floats:
    """Return scores of a kind: discrete ones are rounded to halves, tied ones take three values."""
    if kind == "discrete":
        return np.round(2.0 * normal) / 2.0
    if kind == "tied":
        return np.searchsorted(_CUTS, normal, side="right").astype(np.float64)
    return normal


def draw(
    rng: np.random.Generator, kind: Kind, shape: int | tuple[int, ...], loc: Floats | float = 0.0
) -> Floats:
    """Draw scores, normal around ``loc`` (one, or one each) with standard deviation 1."""
    return as_score(kind, rng.standard_normal(shape) + loc)


def below(kind: Kind, threshold: Floats | float, loc: float = 0.0) -> Floats:
    """Return P(score < threshold) for thresholds that are scores of this kind, exactly.

    >>> round(float(below("continuous", -1.2815515655)), 4), float(below("tied", 1.0).round(4))
    (0.1, 0.05)
    """
    return _reached(kind, np.asarray(threshold, dtype=np.float64), loc, beyond=False)


def up_to(kind: Kind, value: Floats | float, loc: float = 0.0) -> Floats:
    """Return P(score <= value) for values that are scores of this kind, exactly."""
    return _reached(kind, np.asarray(value, dtype=np.float64), loc, beyond=True)


def quantile(kind: Kind, share: float) -> float:
    """Return the highest score with ``below`` of at most ``share``, for ``loc`` 0."""
    z = float(ndtri(share))
    if kind == "discrete":
        return float(np.floor(2.0 * z + 0.5)) / 2.0
    return float(np.searchsorted(_CUTS, z, side="right")) if kind == "tied" else z


def _reached(kind: Kind, scores: Floats, loc: float, *, beyond: bool) -> Floats:
    """Return the probability of a normal number below the first (or beyond the last) of a score."""
    if kind == "discrete":
        scores = scores + (0.25 if beyond else -0.25)
    if kind == "tied":
        edges = np.concatenate([[-np.inf], _CUTS, [np.inf]])
        scores = edges[scores.astype(np.intp) + (1 if beyond else 0)]
    return np.asarray(ndtr(scores - loc), dtype=np.float64)


#: Error probability of ``pac``, and level of the bounds that a certificate rests on.
DELTA: Final = 0.1
CONFIDENCE: Final = 0.9
#: What rounding may add to an exact probability.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Observation:
    """How often something failed in simulation, beside what a sound method promises.

    Attributes
    ----------
    what : str
        What was simulated: the method, and what is counted as its failure.
    kind : {"continuous", "discrete", "tied"}
        Distribution of the scores.
    n : int
        Calibration or test examples of each class; clusters where examples come in clusters.
    alpha : float
        Tolerated miss rate; the tolerated error where the promise is about another one.
    runs : int
        Independent repetitions.
    failed : int
        Repetitions in which the promised event did not happen.
    promised : float
        Highest probability of a failure that the promise of a sound method allows.
    design : str
        What else distinguishes the setting.
    """

    what: str
    kind: Kind
    n: int
    alpha: float
    runs: int
    failed: int
    promised: float
    design: str = ""

    @property
    def rate(self) -> float:
        """Observed failure rate."""
        return self.failed / self.runs

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the exact interval of the true failure rate."""
        return clopper_pearson(self.failed, self.runs, confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Observation):
    """How often a promise failed in simulation, and how often it may.

    Attributes
    ----------
    probability : float
        Of a failure: exact where ``exact``, else the most that is possible.
    exact : bool
        Whether fewer failures than chance explains would be wrong too.
    """

    probability: float
    exact: bool

    def limits(self, error: float) -> tuple[int, int]:
        """Return the fewest and most failures that chance explains but for ``error``."""
        tail = error / 2 if self.exact else error
        least = int(binom.ppf(tail, self.runs, self.probability)) if self.exact else 0
        return least, int(binom.isf(tail, self.runs, self.probability))

    def holds(self, error: float) -> bool:
        """Return whether the count lies within ``limits``, and theory keeps the promise."""
        least, most = self.limits(error)
        return least <= self.failed <= most and self.probability <= self.promised + _ROUNDING


@dataclass(frozen=True, slots=True)
class MeanCheck:
    """How large something was on average in simulation that a promise bounds on average.

    Where a run's own probability of a failure is known, the mean of these says far more than counts
    of failures.

    Attributes
    ----------
    what, kind, n, alpha, runs, promised, design
        As for ``Observation``; ``promised`` is the highest mean.
    rate, error : float
        Mean over the runs, and its standard error.
    """

    what: str
    kind: Kind
    n: int
    alpha: float
    runs: int
    rate: float
    error: float
    promised: float
    design: str = ""

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return Student's interval of the true mean, within [0, 1]."""
        half = self._half(1.0 - (1.0 - confidence) / 2.0)
        return max(0.0, self.rate - half), min(1.0, self.rate + half)

    def holds(self, error: float) -> bool:
        """Return whether the true mean may be as promised, but for ``error``.

        Rates that are rarely high and mostly low make this err less often, not more.
        """
        return self.rate - self._half(1.0 - error) <= self.promised + _ROUNDING

    def _half(self, level: float) -> float:
        return float(student.ppf(level, self.runs - 1)) * self.error


@dataclass(frozen=True, slots=True)
class Setting:
    """One cell of the grid, for one simulation.

    Attributes
    ----------
    kind, n, alpha, runs
        As for ``Check``.
    seed : int
        Same seed, same counts.
    """

    kind: Kind
    n: int
    alpha: float
    runs: int
    seed: int = 0

    def rng(self, name: str) -> np.random.Generator:
        """Return the random numbers of a simulation of that name in this setting."""
        key = [self.seed, crc32(f"{name}, {self.kind}".encode()), self.n, round(self.alpha * 1e9)]
        return np.random.default_rng(key)

    @property
    def miss_rate(self) -> float:
        """Probability k / (n + 1) of missing a fresh hallucination, for continuous scores."""
        return rank(self.n, self.alpha) / (self.n + 1)

    @property
    def pac_error(self) -> float:
        """Probability of a ``pac`` threshold that misses too much, for continuous scores."""
        k = rank(self.n, self.alpha, "pac", DELTA)
        return float(binom.cdf(k - 1, self.n, self.alpha))

    def check(
        self,
        what: str,
        failed: ArrayLike,
        promised: float,
        *,
        exact: float | None = None,
        design: str = "",
    ) -> Check:
        """Return the check of a promise whose failures, one per run, are ``failed``.

        ``exact`` is the probability of a failure with continuous scores; ties only lower it.
        """
        return Check(
            *astuple(self.observed(what, failed, promised, design=design)),
            probability=promised if exact is None else exact,
            exact=exact is not None and self.kind == "continuous",
        )

    def observed(
        self, what: str, failed: ArrayLike, promised: float, *, design: str = ""
    ) -> Observation:
        """Return how often it failed, where nothing is promised."""
        count = int(np.count_nonzero(np.asarray(failed, dtype=bool)))
        return Observation(what, self.kind, self.n, self.alpha, self.runs, count, promised, design)

    def mean(self, what: str, rates: ArrayLike, promised: float, *, design: str = "") -> MeanCheck:
        """Return the check of a promise about the mean of ``rates``, one per run."""
        values = np.asarray(rates, dtype=np.float64)
        error = float(np.std(values, ddof=1)) / len(values) ** 0.5
        mean, cell = float(values.mean()), (self.kind, self.n, self.alpha, len(values))
        return MeanCheck(what, *cell, mean, error, promised, design)

    def promise(self, guarantee: Guarantee = "marginal", **more: Any) -> Promise:
        """Return the promise of this setting's alpha."""
        return Promise(self.alpha, guarantee, DELTA, **more)

    def repeated(self, run: Callable[[], bool]) -> NDArray[np.bool_]:
        """Return whether each of the runs failed."""
        return np.array([run() for _ in range(self.runs)], dtype=bool)


def pooled(checks: Iterable[Check | MeanCheck]) -> tuple[Check | MeanCheck, ...]:
    """Return one check for all of the same promise in the same setting, in the order of the first.

    Their runs must be independent. A mean has the standard error of all its runs.
    """
    alike = dict[tuple[object, ...], list[Check | MeanCheck]]()
    for check in checks:
        key = (check.what, check.design, check.kind, check.n, check.alpha, check.promised)
        alike.setdefault(key, []).append(check)
    return tuple(_pooled(same) for same in alike.values())


def _pooled(same: Sequence[Check | MeanCheck]) -> Check | MeanCheck:
    first, runs = same[0], sum(check.runs for check in same)
    if isinstance(first, Check):
        failed = sum(check.failed for check in same if isinstance(check, Check))
        return replace(first, runs=runs, failed=failed)
    mean = sum(check.runs * check.rate for check in same) / runs
    squares = sum(
        check.runs * ((check.runs - 1) * check.error**2 + (check.rate - mean) ** 2)
        for check in same
        if isinstance(check, MeanCheck)
    )
    return replace(first, runs=runs, rate=mean, error=(squares / (runs - 1) / runs) ** 0.5)


_Any = TypeVar("_Any", Check, MeanCheck, "Check | MeanCheck")


def failures(checks: Sequence[_Any], error: float = 1e-3) -> tuple[_Any, ...]:
    """Return the checks outside their limits; true promises give any with at most ``error``.

    ``error`` is divided by the number of checks (Bonferroni), so it holds for all of them together.
    """
    return tuple(check for check in checks if not check.holds(error / max(1, len(checks))))
