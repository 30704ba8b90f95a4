"""How many labels does a promise need, and how likely is it that a certificate comes out?

Every probability here is that of a count: binomial at fixed true rates, and for a threshold still
to be calibrated its average over the Beta law of the true miss rate at the k-th of n scores.
Nothing is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import (
    betainc,
    betaincc,
    betaincinv,
    expit,
    log_expit,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
)

from calibrail.conformal import validation
from calibrail.conformal.bound import interval
from calibrail.conformal.rank import decimal, minimum_n, rank
from calibrail.errors import InputError

Promise = Literal["marginal", "pac"]
_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

#: More labelled answers than this are as good as never.
_MOST: Final = 10**7
#: A smaller share of the labelled answers is no plan.
_LEAST_SHARE: Final = 1e-6
#: The true miss rate is averaged between the quantiles that leave this much on either side.
_TAIL: Final = 1e-11
#: How many numbers of answers are computed in one go.
_CHUNK: Final = 128


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely each verdict is at one number of labelled answers.

    Attributes
    ----------
    n : int
        Labelled answers in all.
    n_calibration : int
        Hallucinated ones that the threshold comes from; 0 for a threshold that exists already.
    n_hallucinated, n_faithful : int
        Answers behind the bounds on coverage and on the FPR.
    certified, rejected, inconclusive : float
        Probabilities, adding up to 1. Where too few answers are left to calibrate there is no
        verdict at all, and ``inconclusive`` is 1.
    coverage_side, fpr_side : float
        Probability that the requirement on coverage, and that on the FPR, is met by the bounds.
    """

    n: int
    n_calibration: int
    n_hallucinated: int
    n_faithful: int
    certified: float
    rejected: float
    inconclusive: float
    coverage_side: float
    fpr_side: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What a promise needs, and what comes of it under the assumptions stated.

    Attributes
    ----------
    alpha, delta : float
        Tolerated miss rate, and error probability of ``pac``.
    minimum : mapping of str to int
        Fewest hallucinated calibration answers, for ``marginal`` and ``pac``.
    minimum_labels : mapping of str to int, or None
        Fewest labelled answers in all that leave so many to calibrate; None without a base rate.
    guarantee : {"marginal", "pac"} or None
        Promise of the threshold to be calibrated; None where fixed rates were assumed, for
        a threshold that exists.
    assumed : mapping of str to float
        ``coverage`` and ``fpr``, or ``separation`` and ``auroc``; empty without assumptions, and
        then every field below but ``base_rate`` and ``calibration_share`` is None or empty.
    base_rate : float or None
        Share of hallucinated answers among those labelled.
    calibration_share : float
        Share of either class that calibrates.
    min_coverage, max_fpr : float or None
        What the certificate requires.
    confidence, joint_confidence : float or None
        Level of each interval, and that of the certificate.
    power : float or None
        Wanted probability of ``certified``.
    at : Odds or None
        The fewest labelled answers from which on ``certified`` has that probability; None if no
        number is enough.
    reason : str or None
        Why no number is enough.
    points, curve : tuple of Odds
        Odds at the numbers asked for, and at many between the least and the greatest of them.
    """

    alpha: float
    delta: float
    minimum: Mapping[str, int]
    minimum_labels: Mapping[str, int] | None
    guarantee: Promise | None
    assumed: Mapping[str, float]
    base_rate: float | None
    calibration_share: float
    min_coverage: float | None = None
    max_fpr: float | None = None
    confidence: float | None = None
    joint_confidence: float | None = None
    power: float | None = None
    at: Odds | None = None
    reason: str | None = None
    points: tuple[Odds, ...] = ()
    curve: tuple[Odds, ...] = ()

    @property
    def n(self) -> int | None:
        """Labelled answers needed for the wanted probability."""
        return None if self.at is None else self.at.n

    @property
    def bottleneck(self) -> Literal["coverage", "fpr"] | None:
        """The requirement that is met less often, where enough (or most) answers are labelled."""
        seen = self.at or (self.points[-1] if self.points else None)
        if seen is None:
            return None
        return "coverage" if seen.coverage_side < seen.fpr_side else "fpr"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able, with the name of their schema."""
        fields = ("n", "certified", "rejected", "inconclusive")
        return {
            "schema": "calibrail.plan/1",
            **asdict(self),
            "n": self.n,
            "bottleneck": self.bottleneck,
            "points": [asdict(odds) for odds in self.points],
            "curve": {name: [getattr(odds, name) for odds in self.curve] for name in fields},
        }


def plan(
    alpha: float,
    *,
    delta: float = 0.1,
    guarantee: Promise = "pac",
    coverage: float | None = None,
    fpr: float | None = None,
    auroc: float | None = None,
    separation: float | None = None,
    max_fpr: float | None = None,
    min_coverage: float | None = None,
    confidence: float = 0.95,
    base_rate: float | None = None,
    calibration_share: float | None = None,
    power: float = 0.8,
    n: Sequence[int] | None = None,
    withhold: bool = False,
) -> Plan:
    """Return the labels that a promise needs, and the odds of each verdict under assumptions.

    Assume either the true rates of a threshold that exists, ``coverage`` and ``fpr``: all labelled
    answers then are held out and decided about by ``certify_counts``. Or assume a detector,
    ``auroc`` or ``separation``: the threshold is still to be calibrated on a part of the labelled
    answers, and both its true rates are as random as that part. A ``pac`` threshold then is
    decided about by ``joint_certificate``, with every faithful answer in the bound on the FPR; any
    other (``marginal``, or more required than 1 - alpha) by ``certify_counts`` on the rest.

    Parameters
    ----------
    alpha : float
        Tolerated miss rate, in (0, 1).
    delta : float
        Error probability of ``pac``, in (0, 1).
    guarantee : {"marginal", "pac"}
        Promise of a threshold that is to be calibrated.
    coverage, fpr : float, optional
        Assumed true rates, in [0, 1].
    auroc : float, optional
        Assumed detector, in (0, 1): scores of both classes are Gaussian with the same variance.
    separation : float, optional
        The same detector by the distance of the two means in standard deviations;
        AUROC = Phi(separation / sqrt(2)).
    max_fpr : float, optional
        Highest acceptable FPR; needed with assumptions.
    min_coverage : float, optional
        Required coverage; 1 - alpha when left out.
    confidence : float
        Two-sided level of each interval, in (0, 1).
    base_rate : float, optional
        Share of hallucinated answers among the labelled ones, in (0, 1); needed with assumptions.
        Their number is taken as the nearest whole one, not as random.
    calibration_share : float, optional
        Share of either class that calibrates; one half when left out, and none where the
        threshold exists.
    power : float
        Wanted probability of ``certified``, in [0.5, 1).
    n : sequence of int, optional
        Numbers of labelled answers for ``points``; around ``Plan.n`` when left out.
    withhold : bool
        Whether a ``pac`` certificate is withheld where the test part caught fewer than
        ``coverage_band`` expects, as ``calibrail calibrate`` does.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        If an argument is outside its domain, or one that the others call for is missing.

    Notes
    -----
    A count is whole, so the probability of ``certified`` is a saw in n: it climbs, and drops
    wherever a bound starts to ask for one more count. ``Plan.n`` is the smallest n from which on
    it stays at ``power`` or above. Let every cut-off be one count stricter and the rank be one off
    to either side; the probability then lies below the deepest notch of the saw nearby. Where it
    reaches ``power`` (and keeps it at 80 sizes up to 10^7) no later notch can fall below; from
    there the search goes back, n by n, to the last one that does.

    Examples
    --------
    >>> plan(0.05).minimum
    {'marginal': 19, 'pac': 45}
    >>> held_out = plan(0.05, coverage=0.97, fpr=0.1, max_fpr=0.2, base_rate=0.3)
    >>> held_out.n, held_out.bottleneck, round(held_out.at.certified, 3)
    (2835, 'coverage', 0.841)
    """
    minimum = {promise: minimum_n(alpha, promise, delta) for promise in get_args(Promise)}
    if guarantee not in get_args(Promise):
        raise InputError(f"guarantee must be marginal or pac; got {guarantee!r}")
    alpha, delta = validation.share(alpha, "alpha"), validation.share(delta, "delta")
    assumed = _assumed(coverage, fpr, auroc, separation)
    rates = (assumed["coverage"], assumed["fpr"]) if "coverage" in assumed else None
    part = 0.5 if calibration_share is None else calibration_share
    # A threshold that exists already needs no calibration.
    if rates is None or part != 0:
        part = _share_of(part, "calibration_share")
    base = None if base_rate is None else _share_of(base_rate, "base_rate")
    labels = None
    if base is not None and part:
        labels = {promise: _labels(least, base, part) for promise, least in minimum.items()}
    if not assumed:
        if max_fpr is not None:
            raise InputError("max_fpr needs an assumption to plan with: auroc, or coverage and fpr")
        return Plan(alpha, delta, minimum, labels, None, assumed, base, part)
    if max_fpr is None or base is None:
        missing = "max_fpr" if max_fpr is None else "base_rate"
        raise InputError(f"{missing} must be given with assumed rates or an assumed detector")
    aim = float(1 - decimal(alpha))
    required = aim if min_coverage is None else validation.rate(min_coverage, "min_coverage")
    level = validation.share(confidence, "confidence")
    constructed = rates is None and guarantee == "pac" and required <= aim + 1e-12
    joint = float(1 - decimal(delta) - (1 - decimal(level)) / 2) if constructed else level
    if joint <= 0.0:
        raise InputError(
            f"confidence must leave room for delta = {delta:g}: 1 - delta - (1 - confidence) / 2 "
            f"must be above 0; got {confidence!r}"
        )
    design = _Design(
        alpha=alpha, delta=delta, guarantee=guarantee, required=required,
        limit=validation.rate(max_fpr, "max_fpr"), confidence=level, base_rate=base,
        share=0.0 if rates and calibration_share is None else part, rates=rates,
        separation=assumed.get("separation", 0.0), constructed=constructed, withhold=withhold,
    )  # fmt: skip
    wanted = validation.share(power, "power")
    if wanted < 0.5:
        raise InputError(f"power must lie in [0.5, 1); got {power!r}")
    asked = None if n is None else _asked(n)
    reason = design.hopeless()
    found = None if reason else design.smallest(wanted)
    if reason is None and found is None:
        reason = (
            f"not even {_MOST:,} labelled answers reach it: what is assumed lies too close to "
            "what is required"
        )
    sizes = asked or _sizes(found)
    steps = np.unique(np.rint(np.linspace(sizes[0], sizes[-1], 161)).astype(np.int64))
    if sizes[-1] > 50 * sizes[0]:
        steps = np.unique(np.rint(np.geomspace(sizes[0], sizes[-1], 161)).astype(np.int64))
    return Plan(
        alpha, delta, minimum, labels, guarantee if rates is None else None, assumed, base,
        design.share, design.required, design.limit, level, joint, wanted,
        None if found is None else design.odds([found])[0], reason,
        design.odds(sizes), design.odds(steps.tolist()),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Design:
    """Everything that decides how likely a verdict is, but for the number of answers."""

    alpha: float
    delta: float
    guarantee: Promise
    required: float
    limit: float
    confidence: float
    base_rate: float
    share: float
    rates: tuple[float, float] | None
    separation: float
    constructed: bool
    withhold: bool

    def odds(self, sizes: Sequence[int]) -> tuple[Odds, ...]:
        """Return the odds at each number of labelled answers."""
        n = np.asarray(sizes, np.int64)
        parts = self._counts(n)
        table = self._verdicts(n, self._ranks(n))
        columns = zip(*(part.tolist() for part in (n, *parts)), *table.T.tolist(), strict=True)
        return tuple(
            Odds(
                size, used, m, faithful, certified, rejected,
                max(0.0, 1.0 - certified - rejected), covers, spares,
            )
            for size, used, m, faithful, certified, rejected, covers, spares in columns
        )  # fmt: skip

    def hopeless(self) -> str | None:
        """Return why no number of answers gives a certificate, or None if enough of them do."""
        coverage, fpr = self.rates or (
            float(1 - decimal(self.alpha)), float(_roc(np.array(self.alpha), self.separation))
        )  # fmt: skip
        who = "the assumed" if self.rates else "with growing calibration the threshold's"
        if not self.constructed and self.required > 0.0 and coverage <= self.required + 1e-12:
            return f"{who} coverage, {coverage:.4g}, is not above the required {self.required:.4g}"
        if self.limit <= fpr and self.limit < 1.0:
            return f"{who} FPR, {fpr:.4g}, is not below the allowed {self.limit:.4g}"
        return None

    def smallest(self, power: float) -> int | None:
        """Return the smallest n from which on ``certified`` has at least this probability."""
        grid = np.unique(np.rint(np.geomspace(1, _MOST, 80)).astype(np.int64))
        ranks = self._ranks(grid)
        lowest = np.minimum(*(self._verdicts(grid, ranks + off, 1)[:, 0] for off in (-1, 1)))
        failing = np.flatnonzero(lowest < power)
        if len(failing) and failing[-1] == len(grid) - 1:
            return None
        # All is well from here on; whole blocks are cleared backwards as long as that is easy.
        high, width = int(grid[failing[-1] + 1]) if len(failing) else 1, 64
        while high > 1:
            low = max(1, high - width)
            if self._surely(low, high, power):
                high, width = low, 2 * width
            elif width > 64:
                width //= 2
            else:
                n = np.arange(low, high)
                below = np.flatnonzero(self._verdicts(n, self._ranks(n), 0)[:, 0] < power)
                if len(below):
                    return int(n[below[-1]]) + 1
                high = low
        return 1

    def _surely(self, low: int, high: int, power: float) -> bool:
        """Return whether ``certified`` clearly has this probability at each n from low to high."""
        n = np.array([low, high])
        first, last = self._ranks(n).tolist()
        # The rank is a line rounded down: where it turns, one off to either side bounds it.
        offsets = (0,) if first == last else (-1, 1)
        n, k = np.repeat(n, len(offsets)), np.array([i + j for i in (first, last) for j in offsets])
        if np.all(self._verdicts(n, k, 1)[:, 0] >= power):
            return True
        return bool(np.all(self._verdicts(n, k, 0, (low, high))[:, 0] >= power))

    def _ranks(self, n: _Ints) -> _Ints:
        """Return the rank of the threshold at each n; 0 where there is none."""
        if self.rates:
            return np.zeros_like(n)
        sizes, places = np.unique(self._counts(n)[0], return_inverse=True)
        ranks = [rank(int(size), self.alpha, self.guarantee, self.delta) for size in sizes]
        return np.array(ranks, np.int64)[places]

    def _counts(self, n: _Ints) -> tuple[_Ints, _Ints, _Ints]:
        """Return the calibration, the hallucinated test and the faithful answers among n."""
        hallucinated = _part(n, self.base_rate)
        faithful = n - hallucinated
        calibration = _part(hallucinated, self.share)
        rest = faithful if self.constructed else faithful - _part(faithful, self.share)
        known = np.zeros_like(calibration) if self.rates else calibration
        return known, hallucinated - calibration, rest

    def _verdicts(
        self,
        n: _Ints,
        k: _Ints,
        stricter: int | None = None,
        block: tuple[int, int] | None = None,
    ) -> _Floats:
        """Return certified, rejected and the two sides at rank k, shape (len(n), 4).

        With ``stricter`` only the first column is computed, each cut-off so many counts stricter.
        With a block of sizes it bounds that of each size in it: the strictest cut-offs among them
        decide about the samples that meet them the least.
        """
        if len(n) > _CHUNK:
            parts = [(n[i : i + _CHUNK], k[i : i + _CHUNK]) for i in range(0, len(n), _CHUNK)]
            return np.concatenate([self._verdicts(*part, stricter, block) for part in parts])
        calibration, m, faithful = self._counts(n)
        # Neighbours in n mostly share their hallucinated answers: everything about these once.
        same = np.stack([calibration + m, k])
        _, first, row = np.unique(same, axis=1, return_index=True, return_inverse=True)
        m = m[first]
        most, least = m, faithful
        if block is not None:
            _, (fewer, more), (spared, judged) = self._counts(np.array(block))
            m, most = np.full_like(m, fewer), np.full_like(m, more)
            least, faithful = np.full_like(faithful, spared), np.full_like(faithful, judged)
        weight, miss, fpr = self._true_rates(calibration[first], m, faithful[first], k[first])
        kept = _least(most, self.required, self.confidence, 1)
        proven = kept if self.constructed else _least(most, self.required, self.confidence, 0)
        if self.constructed and self.withhold:
            proven = np.maximum(kept, self._lowest(most, weight, miss))
        covers = weight * _reaches(proven + (stricter or 0), m, 1.0 - miss)
        within = _least(least, self.limit, self.confidence, 1, beyond=True)
        fpr = fpr[row]
        spares = _reaches(within - (stricter or 0), faithful, fpr, below=True)
        result = np.zeros((len(n), 4))
        result[:, 0] = np.einsum("ij,ij->i", covers[row], spares)
        if stricter is None:
            above = _least(faithful, self.limit, self.confidence, 0, beyond=True)
            stays = (weight * _reaches(kept, m, 1.0 - miss))[row]
            stays *= _reaches(above, faithful, fpr, below=True)
            calibrated = weight.sum(axis=1)[row] > 0.0
            result[:, 1] = np.where(calibrated, 1.0 - stays.sum(axis=1), 0.0)
            result[:, 2] = covers.sum(axis=1)[row]
            result[:, 3] = np.sum(weight[row] * spares, axis=1)
        return np.clip(result, 0.0, 1.0)

    def _true_rates(
        self, calibration: _Ints, m: _Ints, faithful: _Ints, k: _Ints
    ) -> tuple[_Floats, _Floats, _Floats]:
        """Return weights, miss rates and FPRs, shape (len, nodes); no weight without a threshold.

        The miss rate at rank k of n is Beta(k, n + 1 - k). The trapezoidal rule runs over its
        logit, where the density is smooth, however close to 0 the rate, and vanishes at both ends:
        there the rule converges as fast as any.
        """
        if self.rates:
            shape = (len(calibration), 1)
            return (
                np.ones(shape),
                np.full(shape, 1.0 - self.rates[0]),
                np.full(shape, self.rates[1]),
            )
        usable = (k >= 1) & (k <= calibration)
        a, b = np.where(usable, k, 1.0), np.where(usable, calibration + 1.0 - k, 1.0)
        low, high = logit(betaincinv(a, b, _TAIL)), -logit(betaincinv(b, a, _TAIL))
        turns = (high - low) * np.sqrt(
            self.alpha * (1.0 - self.alpha) * m + self._steepness() ** 2 * faithful
        )
        nodes = 48 + math.ceil(1.6 * min(1000.0, float(np.max(turns, where=usable, initial=0.0))))
        x = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, nodes)
        density = a[:, None] * log_expit(x) + b[:, None] * log_expit(-x)
        weight = np.exp(density - density.max(axis=1, keepdims=True))
        weight = np.where(usable[:, None], weight / weight.sum(axis=1, keepdims=True), 0.0)
        miss = expit(x)
        return weight, miss, _roc(miss, self.separation)

    def _steepness(self) -> float:
        """Return how fast the FPR falls per logit of the miss rate, where it meets its limit.

        In standard errors of a single answer: what a sample adds to the sharpness of a verdict.
        """
        if not 0.0 < self.limit < 1.0:
            return 0.0
        z = float(ndtri(1.0 - self.limit))
        at = min(30.0, max(-30.0, z - self.separation))
        slope = math.exp((at * at - z * z) / 2.0 + float(log_ndtr(at)) + float(log_ndtr(-at)))
        return slope / math.sqrt(self.limit * (1.0 - self.limit))

    def _lowest(self, m: _Ints, weight: _Floats, miss: _Floats) -> _Ints:
        """Return the lowest count caught that ``coverage_band`` calls plausible."""
        tail = (1.0 - self.confidence) / 2.0

        def plausible(count: _Ints) -> NDArray[np.bool_]:
            below = np.sum(weight * _reaches(count + 1, m, 1.0 - miss, below=True), axis=1)
            enough: NDArray[np.bool_] = (count >= m) | (below >= tail)
            return enough

        mean = np.sum(weight * miss, axis=1, keepdims=True)
        spread = m * np.sum(weight * miss * (1.0 - miss), axis=1)
        spread = np.sqrt(spread + m**2 * np.sum(weight * (miss - mean) ** 2, axis=1))
        middle = m * (1.0 - mean[:, 0]) + float(ndtri(tail)) * spread
        low = np.clip(np.floor(middle - spread / 8.0).astype(np.int64) - 1, -1, m)
        high = np.clip(np.ceil(middle + spread / 8.0).astype(np.int64) + 1, 0, m)
        low, high = np.where(plausible(low), -1, low), np.where(plausible(high), high, m)
        while np.any(high - low > 1):
            middle = (low + high) // 2
            found = plausible(middle)
            high, low = np.where(found, middle, high), np.where(found, low, middle)
        return high


def _least(n: _Ints, rate: float, confidence: float, end: int, *, beyond: bool = False) -> _Ints:
    """Return the least count of n whose lower (0) or upper (1) end reaches, or exceeds, a rate.

    n + 1 where no count does. An end reaches a rate where the binomial tail at that rate passes
    the error of the end, which is cheaper to compute; where the two are all but equal, the
    interval itself decides, as it does for the certificate.
    """
    tail = (1.0 - confidence) / 2.0

    def reaches(count: _Ints) -> NDArray[np.bool_]:
        mass = _reaches(count + end, n, np.array(rate), below=bool(end))
        result: NDArray[np.bool_] = (mass >= tail) if end else (mass <= tail)
        close = np.abs(mass - tail) <= 1e-9 * tail
        close |= (count == 0) | (count == n)
        ends = interval(count[close], n[close], confidence)[end]
        result[close] = ends > rate if beyond else ends >= rate
        result &= count >= 0
        result |= count > n
        return result

    # The normal quantile with its correction for skewness comes within a count or two.
    z = float(ndtri(tail if end else 1.0 - tail))
    guess = n * rate + z * np.sqrt(n * rate * (1.0 - rate)) + (z * z - 1.0) * (1.0 - 2.0 * rate) / 6
    count: _Ints = np.clip(np.rint(guess), 0, n + 1).astype(np.int64)
    while np.any(short := ~reaches(count)):
        count = count + short
    while np.any(spare := reaches(count - 1)):
        count = count - spare
    return count


def _reaches(count: _Ints, n: _Ints, p: _Floats, *, below: bool = False) -> _Floats:
    """Return P(Binomial(n, p) >= count), or < count, for each row of p."""
    if p.ndim == 2:
        count, n = count[:, None], n[:, None]
    inside = (count >= 1) & (count <= n)
    a, b = np.where(inside, count, 1), np.where(inside, n - count + 1, 1)
    tail = betaincc(a, b, p) if below else betainc(a, b, p)
    return np.where(inside, tail, np.where((count < 1) != below, 1.0, 0.0))


def _roc(miss: _Floats, separation: float) -> _Floats:
    """Return the FPR at a miss rate, for two Gaussians of variance 1."""
    result: _Floats = ndtr(-(ndtri(miss) + separation))
    return result


def _part(n: _Ints, share: float) -> _Ints:
    """Return the nearest whole number to a share of n, halves up, as a split by class does."""
    nearest: _Ints = np.floor(n * share + 0.5 + 1e-9).astype(np.int64)
    return nearest


def _labels(least: int, base_rate: float, share: float) -> int:
    """Return the fewest answers of which at least so many are hallucinated and calibrate."""
    # Two roundings to the nearest cost at most half a count each, the second before its share.
    low, high = 0, math.ceil((least + 2) / (base_rate * share)) + 2
    while high - low > 1:
        middle = (low + high) // 2
        if _part(_part(np.array(middle), base_rate), share) >= least:
            high = middle
        else:
            low = middle
    return high


def _sizes(found: int | None) -> list[int]:
    """Return sizes worth showing: around the one found, or over the whole range."""
    if found is None:
        return [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]
    steps = [found * share for share in (0.125, 0.25, 0.5, 0.75, 1.5, 2.0)]
    rounded = [
        round(step, 1 - math.floor(math.log10(step))) if step > 10 else step for step in steps
    ]
    return sorted({found, *(max(1, round(step)) for step in rounded)})


def _asked(n: Sequence[int]) -> list[int]:
    """Return the numbers of answers asked for, in ascending order."""
    if not isinstance(n, Sequence | np.ndarray) or not len(n):
        raise InputError(f"n must be a sequence of numbers of labelled answers; got {n!r}")
    sizes = sorted({validation.whole(size, "n", least=1) for size in n})
    if sizes[-1] > _MOST:
        raise InputError(f"n must be at most {_MOST:,}; got {sizes[-1]:,}")
    return sizes


def _share_of(value: float, name: str) -> float:
    """Return a share of the answers, not too small for a whole number of them."""
    share = validation.share(value, name)
    if share < _LEAST_SHARE:
        raise InputError(f"{name} must be at least {_LEAST_SHARE:g}; got {value!r}")
    return share


def _assumed(
    coverage: float | None, fpr: float | None, auroc: float | None, separation: float | None
) -> dict[str, float]:
    """Return the assumption made, checked to be a single whole one; empty if there is none."""
    ways = [coverage is not None or fpr is not None, auroc is not None, separation is not None]
    if sum(ways) > 1:
        raise InputError(
            "auroc, separation, and coverage with fpr exclude each other: give one assumption"
        )
    if auroc is not None:
        area = validation.share(auroc, "auroc")
        return {"auroc": area, "separation": math.sqrt(2.0) * float(ndtri(area))}
    if separation is not None:
        distance = float(validation.vector([separation], "separation")[0])
        if not math.isfinite(distance):
            raise InputError(f"separation must be finite; got {separation!r}")
        return {"auroc": float(ndtr(distance / math.sqrt(2.0))), "separation": distance}
    if coverage is None and fpr is None:
        return {}
    if coverage is None or fpr is None:
        missing = "coverage" if coverage is None else "fpr"
        raise InputError(f"{missing} must be given too: fixed true rates are a pair")
    return {
        "coverage": validation.rate(coverage, "coverage"), "fpr": validation.rate(fpr, "fpr")
    }  # fmt: skip
