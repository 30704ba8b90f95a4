"""Sample size and probability of each verdict.

Counts are binomial at fixed true rates; for a threshold still to be calibrated, the probabilities
are averaged over the Beta distribution of the true miss rate at the k-th of n scores. Nothing is
simulated.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from scipy import special

from calibrail.conformal import argument_checks
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.bounds import interval, proof_level
from calibrail.conformal.certificate import proof_beside
from calibrail.conformal.threshold import decimal, minimum_n, rank
from calibrail.errors import InputError, error_text
from calibrail.formatting import Shown
from calibrail.options import Requirement
from calibrail.options.fields import cli_or_python
from calibrail.options.guarantee import Promise, whole_answers

#: More labelled answers than this are as good as never.
MOST: Final = 10**7
#: The true miss rate is averaged between the quantiles that leave this much on either side.
_TAIL: Final = 1e-11
#: After so many numbers of answers looked at one by one, the search is content with what it has.
_PATIENCE: Final = 20_000
#: How many numbers of answers are computed in one go.
_CHUNK: Final = 128


@dataclass(frozen=True, slots=True)
class VerdictProbabilities:
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
class Design:
    """Everything that decides how likely a verdict is, but for the number of answers."""

    promise: Promise
    required: float
    limit: float
    confidence: float
    base_rate: float
    share: float
    rates: tuple[float, float] | None
    separation: float
    withhold: bool

    @property
    def constructed(self) -> bool:
        """Whether the coverage that is required is proven by the threshold's construction."""
        calibrated = self.rates is None and self.promise.of_this_threshold
        return calibrated and self.required <= float(1 - decimal(self.promise.alpha)) + 1e-12

    @property
    def proof(self) -> float:
        """Two-sided level of the intervals whose ends certify."""
        if self.constructed:
            return proof_beside(self.promise.delta, self.confidence)
        return proof_level(self.confidence)

    def probabilities(self, sizes: Sequence[int]) -> tuple[VerdictProbabilities, ...]:
        """Return how likely each verdict is at each number of labelled answers."""
        n = np.asarray(sizes, np.int64)
        certified, rejected, *sides = self._verdicts(n, self._ranks(n)).T
        inconclusive = np.maximum(0.0, 1.0 - certified - rejected)
        columns = (n, *self._counts(n), certified, rejected, inconclusive, *sides)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return tuple(VerdictProbabilities(*row) for row in rows)

    def impossible(self) -> str | None:
        """Return why no number of answers gives a certificate, or None if enough of them do."""
        alpha = self.promise.alpha
        coverage, fpr = self.rates or (
            float(1 - decimal(alpha)),
            float(_roc(np.array(alpha), self.separation)),
        )
        who, caught = error_text("assumed_threshold"), 100.0 * coverage
        if not self.rates:
            who = error_text("assumed_detector", caught=caught)
        if not self.constructed and self.required > 0.0 and coverage <= self.required + 1e-12:
            return error_text("catches_less", who=who, caught=caught, least=100.0 * self.required)
        if self.limit <= fpr and self.limit < 1.0:
            return error_text("flags_more", who=who, alarms=100.0 * fpr, most=100.0 * self.limit)
        return None

    def smallest(self, power: float) -> int | None:
        """Return the smallest n from which on ``certified`` has at least this probability."""
        grid = np.unique(np.rint(np.geomspace(1, MOST, 80)).astype(np.int64))
        ranks = self._ranks(grid)
        above = np.minimum(ranks + 1, np.maximum(1, self._counts(grid)[0]))
        lowest = np.minimum(*(self._verdicts(grid, k, 1)[:, 0] for k in (ranks - 1, above)))
        failing = np.flatnonzero(lowest < power)
        if len(failing) and failing[-1] == len(grid) - 1:
            return None
        # All is well from here on; whole blocks are cleared backwards as long as that is easy.
        high, width = int(grid[failing[-1] + 1]) if len(failing) else 1, 64
        looked_at = 0
        while high > 1 and looked_at < _PATIENCE:
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
                high, looked_at = low, looked_at + len(n)
        return high

    def _surely(self, low: int, high: int, power: float) -> bool:
        """Return whether ``certified`` clearly has this probability at each n from low to high."""
        n = np.array([low, high])
        k = self._ranks(n)
        if self.rates is None and not k.all():
            return False
        if k[0] != k[1]:
            # The rank is a line rounded down: where it turns, one off to either side bounds it.
            n, k = np.repeat(n, 2), np.repeat(k, 2) + np.array([-1, 1, -1, 1])
            k = np.clip(k, 1, self._counts(n)[0])
        return bool(np.all(self._verdicts(n, k, 1, (low, high))[:, 0] >= power))

    def _ranks(self, n: Ints) -> Ints:
        """Return the rank of the threshold at each n; 0 where there is none."""
        if self.rates:
            return np.zeros_like(n)
        sizes, places = np.unique(self._counts(n)[0], return_inverse=True)
        promise = self.promise.alpha, self.promise.guarantee, self.promise.delta
        return np.array([rank(int(size), *promise) for size in sizes], np.int64)[places]

    def _counts(self, n: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the calibration, the hallucinated test and the faithful answers among n."""
        hallucinated = portion(n, self.base_rate)
        faithful = n - hallucinated
        calibration = portion(hallucinated, self.share)
        rest = faithful if self.constructed else faithful - portion(faithful, self.share)
        known = np.zeros_like(calibration) if self.rates else calibration
        return known, hallucinated - calibration, rest

    def _verdicts(
        self, n: Ints, k: Ints, stricter: int | None = None, block: tuple[int, int] | None = None
    ) -> Floats:
        """Return certified, rejected and the two sides at rank k, shape (len(n), 4).

        With ``stricter`` only the first column is computed, each cut-off so many counts stricter.
        With a block of sizes it bounds that of each size in it, by what is larger for either side:
        the stricter cut-offs, or the strictest of the block for its smallest chance to meet them.
        """
        if len(n) > _CHUNK:
            parts = [(n[i : i + _CHUNK], k[i : i + _CHUNK]) for i in range(0, len(n), _CHUNK)]
            return np.concatenate([self._verdicts(*part, stricter, block) for part in parts])
        calibration, m, faithful = self._counts(n)
        # Neighbours in n mostly share their hallucinated answers: everything about these once.
        same = np.stack([calibration + m, k])
        _, first, row = np.unique(same, axis=1, return_index=True, return_inverse=True)
        m = m[first]
        weight, miss, fpr = self._true_rates(calibration[first], m, faithful[first], k[first])
        kept, proven = self._cut_offs(m, weight, miss)
        within = _least(faithful, self.limit, self.proof, 1, beyond=True)
        covers = _reaches(proven + (stricter or 0) * (m > 0), m, 1.0 - miss)
        fpr = fpr[row]
        spares = _reaches(within - (stricter or 0), faithful, fpr, below=True)
        if block is not None:
            _, (fewer, more), (spared, judged) = self._counts(np.array(block))
            _, strictest = self._cut_offs(np.full_like(m, more), weight, miss)
            covers = np.maximum(covers, _reaches(strictest, np.full_like(m, fewer), 1.0 - miss))
            allowed = _least(np.full_like(n, spared), self.limit, self.proof, 1, beyond=True)
            spares = np.maximum(spares, _reaches(allowed, np.full_like(n, judged), fpr, below=True))
        covers *= weight
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

    def _cut_offs(self, m: Ints, weight: Floats, miss: Floats) -> tuple[Ints, Ints]:
        """Return the least counts caught of m that are not rejected, and that are certified."""
        kept = _least(m, self.required, self.confidence, 1)
        if not self.constructed:
            return kept, _least(m, self.required, self.proof, 0)
        if not self.withhold:
            return kept, kept
        return kept, np.maximum(kept, self._lowest(m, weight, miss))

    def _true_rates(
        self, calibration: Ints, m: Ints, faithful: Ints, k: Ints
    ) -> tuple[Floats, Floats, Floats]:
        """Return weights, miss rates and FPRs, shape (len, nodes); no weight without a threshold.

        The miss rate at rank k of n is Beta(k, n + 1 - k). The trapezoidal rule runs over its
        logit, where the density is smooth, however close to 0 the rate, and vanishes at both ends:
        there the rule converges as fast as any.
        """
        if self.rates:
            shape = (len(calibration), 1)
            coverage, fpr = self.rates
            return np.ones(shape), np.full(shape, 1.0 - coverage), np.full(shape, fpr)
        usable = (k >= 1) & (k <= calibration)
        a, b = np.where(usable, k, 1.0), np.where(usable, calibration + 1.0 - k, 1.0)
        edges = special.betaincinv(a, b, _TAIL), special.betaincinv(b, a, _TAIL)
        low, high = special.logit(edges[0]), -special.logit(edges[1])
        alpha = self.promise.alpha
        spread = np.sqrt(alpha * (1.0 - alpha) * m + self._steepness() ** 2 * faithful)
        turns = (high - low) * spread
        nodes = 48 + math.ceil(1.6 * min(1000.0, float(np.max(turns, where=usable, initial=0.0))))
        x = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, nodes)
        density = a[:, None] * special.log_expit(x) + b[:, None] * special.log_expit(-x)
        weight = np.exp(density - density.max(axis=1, keepdims=True))
        weight = np.where(usable[:, None], weight / weight.sum(axis=1, keepdims=True), 0.0)
        miss = special.expit(x)
        return weight, miss, _roc(miss, self.separation)

    def _steepness(self) -> float:
        """Return how fast the FPR falls per logit of the miss rate, where it meets its limit.

        In standard errors of a single answer: what a sample adds to the sharpness of a verdict.
        """
        if not 0.0 < self.limit < 1.0:
            return 0.0
        z = float(special.ndtri(1.0 - self.limit))
        at = min(30.0, max(-30.0, z - self.separation))
        log_ratio = (at * at - z * z) / 2.0 + special.log_ndtr(at) + special.log_ndtr(-at)
        return math.exp(log_ratio) / math.sqrt(self.limit * (1.0 - self.limit))

    def _lowest(self, m: Ints, weight: Floats, miss: Floats) -> Ints:
        """Return the lowest count caught that ``coverage_band`` calls plausible."""
        tail = (1.0 - self.confidence) / 2.0

        def plausible(count: Ints) -> Bools:
            below = np.sum(weight * _reaches(count + 1, m, 1.0 - miss, below=True), axis=1)
            return np.asarray((count >= m) | (below >= tail))

        mean = np.sum(weight * miss, axis=1, keepdims=True)
        spread = m * np.sum(weight * miss * (1.0 - miss), axis=1)
        spread = np.sqrt(spread + m**2 * np.sum(weight * (miss - mean) ** 2, axis=1))
        middle = m * (1.0 - mean[:, 0]) + float(special.ndtri(tail)) * spread
        low = np.clip(np.floor(middle - spread / 8.0).astype(np.int64) - 1, -1, m)
        high = np.clip(np.ceil(middle + spread / 8.0).astype(np.int64) + 1, 0, m)
        low, high = np.where(plausible(low), -1, low), np.where(plausible(high), high, m)
        while np.any(high - low > 1):
            middle = (low + high) // 2
            enough = plausible(middle)
            high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        return high


def _least(n: Ints, rate: float, confidence: float, end: int, *, beyond: bool = False) -> Ints:
    """Return the least count of n whose lower (0) or upper (1) end reaches, or exceeds, a rate.

    n + 1 where no count does. An end reaches a rate where the binomial tail at that rate passes
    the error of the end, which is cheaper to compute; where the two are all but equal, the
    interval itself decides, as it does for the certificate.
    """
    tail = (1.0 - confidence) / 2.0

    def reaches(count: Ints) -> Bools:
        mass = _reaches(count + end, n, np.array(rate), below=bool(end))
        result: Bools = (mass >= tail) if end else (mass <= tail)
        close = np.abs(mass - tail) <= 1e-9 * tail
        close |= (count == 0) | (count == n)
        ends = interval(count[close], n[close], confidence)[end]
        result[close] = ends > rate if beyond else ends >= rate
        result &= count >= 0
        result |= count > n
        return result

    # The normal quantile with its correction for skewness comes within a count or two.
    z = float(special.ndtri(tail if end else 1.0 - tail))
    guess = n * rate + z * np.sqrt(n * rate * (1.0 - rate)) + (z * z - 1.0) * (1.0 - 2.0 * rate) / 6
    count: Ints = np.clip(np.rint(guess), 0, n + 1).astype(np.int64)
    while np.any(short := ~reaches(count)):
        count = count + short
    while np.any(spare := reaches(count - 1)):
        count = count - spare
    return count


def _reaches(count: Ints, n: Ints, p: Floats, *, below: bool = False) -> Floats:
    """Return P(Binomial(n, p) >= count), or < count, for each row of p."""
    if p.ndim == 2:
        count, n = count[:, None], n[:, None]
    inside = (count >= 1) & (count <= n)
    a, b = np.where(inside, count, 1), np.where(inside, n - count + 1, 1)
    tail = special.betaincc(a, b, p) if below else special.betainc(a, b, p)
    return np.where(inside, tail, np.where((count < 1) != below, 1.0, 0.0))


def _roc(miss: Floats, separation: float) -> Floats:
    """Return the FPR at a miss rate, for two Gaussians of variance 1."""
    return np.asarray(special.ndtr(-(special.ndtri(miss) + separation)))


def portion(n: Ints, share: float) -> Ints:
    """Return the nearest whole number to a share of n, halves up, as a split by class does."""
    return np.asarray(np.floor(n * share + 0.5 + 1e-9), dtype=np.int64)


CertifiableGuarantee = Literal["marginal", "pac", "anytime"]
#: A smaller share of the labelled answers is no plan.
_LEAST_SHARE: Final = 1e-6


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Shown):
    """What a promise needs, and what comes of it under the assumptions stated.

    Attributes
    ----------
    alpha, delta : float
        Tolerated miss rate, and error probability of ``pac`` and ``anytime``.
    minimum : mapping of str to int
        Fewest hallucinated calibration answers, for ``marginal`` and ``pac``, and for ``anytime``
        where that is asked for.
    minimum_labels : mapping of str to int, or None
        Fewest labelled answers in all that leave so many to calibrate; None without a base rate.
    guarantee : {"marginal", "pac", "anytime"} or None
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
    confidence : float or None
        That of the certificate.
    power : float or None
        Wanted probability of ``certified``.
    at : VerdictProbabilities or None
        The fewest labelled answers from which on ``certified`` has that probability; None if no
        number is enough.
    reason : str or None
        Why no number is enough.
    points, curve : tuple of VerdictProbabilities
        At the numbers asked for, and at many between the least and the greatest of them.
    """

    shown_as = "plan"

    alpha: float
    delta: float
    minimum: Mapping[str, int]
    minimum_labels: Mapping[str, int] | None
    guarantee: CertifiableGuarantee | None
    assumed: Mapping[str, float]
    base_rate: float | None
    calibration_share: float
    min_coverage: float | None = None
    max_fpr: float | None = None
    confidence: float | None = None
    power: float | None = None
    at: VerdictProbabilities | None = None
    reason: str | None = None
    points: tuple[VerdictProbabilities, ...] = ()
    curve: tuple[VerdictProbabilities, ...] = ()

    @property
    def n(self) -> int | None:
        """Labelled answers needed for the wanted probability."""
        return None if self.at is None else self.at.n

    @property
    def bottleneck(self) -> Literal["coverage", "fpr"] | None:
        """The requirement that is met less often, where enough (or most) answers are labelled."""
        decisive = self.at or (self.points[-1] if self.points else None)
        if decisive is None:
            return None
        return "coverage" if decisive.coverage_side < decisive.fpr_side else "fpr"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able, with the name of their schema."""
        fields = ("n", "certified", "rejected", "inconclusive")
        return {
            "schema": "calibrail.plan/1",
            **asdict(self),
            "n": self.n,
            "bottleneck": self.bottleneck,
            "curve": {name: [getattr(point, name) for point in self.curve] for name in fields},
        }


@dataclass(frozen=True, slots=True)
class Assumption:
    """What a plan takes for granted: a threshold that exists, a detector, or nothing.

    Attributes
    ----------
    coverage, fpr : float, optional
        True rates of a threshold, in [0, 1].
    auroc : float, optional
        A detector, in (0, 1): scores of both classes are Gaussian with the same variance.
    separation : float, optional
        The same detector by the distance of the two means in standard deviations;
        AUROC = Phi(separation / sqrt(2)).

    Raises
    ------
    InputError
        If more than one assumption is made, or a rate is missing or outside its domain.
    """

    coverage: float | None = None
    fpr: float | None = None
    auroc: float | None = None
    separation: float | None = None

    def __post_init__(self) -> None:
        rates = self.coverage is not None or self.fpr is not None
        if sum((rates, self.auroc is not None, self.separation is not None)) > 1:
            raise InputError.on("assumptions_exclude_each_other")
        if self.auroc is not None:
            argument_checks.share(self.auroc, "auroc")
        if self.separation is not None:
            distance = float(argument_checks.vector([self.separation], "separation")[0])
            if not math.isfinite(distance):
                raise InputError(f"separation must be finite; got {self.separation!r}")
        if (self.coverage is None) != (self.fpr is None):
            missing = "coverage" if self.coverage is None else "fpr"
            raise InputError(f"{missing} must be given too: fixed true rates are a pair")
        for name in ("coverage", "fpr"):
            if getattr(self, name) is not None:
                argument_checks.rate(getattr(self, name), name)

    @property
    def rates(self) -> tuple[float, float] | None:
        """Coverage and FPR of a threshold that exists."""
        if self.coverage is None or self.fpr is None:
            return None
        return float(self.coverage), float(self.fpr)

    def to_dict(self) -> dict[str, float]:
        """Return both rates, or both names of a detector; empty without an assumption."""
        if self.rates is not None:
            return dict(zip(("coverage", "fpr"), self.rates, strict=True))
        if self.auroc is not None:
            area = float(self.auroc)
            return {"auroc": area, "separation": math.sqrt(2.0) * float(special.ndtri(area))}
        if self.separation is not None:
            distance = float(self.separation)
            return {"auroc": float(special.ndtr(distance / math.sqrt(2.0))), "separation": distance}
        return {}


def plan(
    promise: Promise,
    requirement: Requirement | None = None,
    assumption: Assumption | None = None,
    *,
    base_rate: float | None = None,
    calibration_share: float | None = None,
    power: float = 0.8,
    n: Sequence[int] | None = None,
    withhold: bool = True,
) -> Plan:
    """Return the labels that a promise needs, and how likely each verdict is under assumptions.

    Assume either the true rates of a threshold that exists, ``coverage`` and ``fpr``: all labelled
    answers then are held out and decided about by ``certify_counts``. Or assume a detector,
    ``auroc`` or ``separation``: the threshold is still to be calibrated on a part of the labelled
    answers, and both its true rates are as random as that part. A ``pac`` or ``anytime`` threshold
    then is decided about by ``joint_certificate``, with every faithful answer in the bound on the
    FPR; any other (``marginal``, or more required than 1 - alpha) by ``certify_counts`` on the
    rest.

    Parameters
    ----------
    promise : Promise
        ``alpha``, and the ``guarantee`` (no ``paper``) of a threshold that is to be calibrated.
    requirement : Requirement, optional
        What the certificate is about: ``max_fpr`` is needed with an assumption. Planned is the
        first look, of as many as are declared; undeclared, one at a threshold that exists is
        judged with three quarters of the error, as ``calibrail certify`` does.
    assumption : Assumption, optional
        None: the least numbers of labels alone.
    base_rate : float, optional
        Share of hallucinated answers among the labelled ones, in (0, 1); needed with assumptions.
        Their number is taken as the nearest whole one, not as random.
    calibration_share : float, optional
        Share of either class that calibrates. When left out: all where ``pac`` proves the coverage,
        none where the threshold exists, else one half.
    power : float
        Wanted probability of ``certified``, in [0.5, 1).
    n : sequence of int, optional
        Numbers of labelled answers for ``points``; around ``Plan.n`` when left out.
    withhold : bool
        Whether a certificate by construction is withheld where the test part caught fewer than
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
    there the search goes back, past blocks of sizes in which none can, to the last n that does.
    It gives up after looking at 20,000 sizes one by one, which only promises far from any use
    need; what it returns then is enough, and not known to be the smallest.

    Examples
    --------
    >>> plan(Promise(0.05)).minimum
    {'marginal': 19, 'pac': 45}
    >>> rates = Assumption(coverage=0.97, fpr=0.1)
    >>> held_out = plan(Promise(0.05), Requirement(max_false_alarms=0.2), rates, base_rate=0.3)
    >>> held_out.n, held_out.bottleneck, round(held_out.at.certified, 3)
    (2522, 'coverage', 0.846)
    """
    whole_answers("plan", promise, requirement)
    requirement, assumption = requirement or Requirement(), assumption or Assumption()
    rates, assumed = assumption.rates, assumption.to_dict()
    promise = promise.settled(None if rates else requirement)
    requirement = requirement if rates else requirement.beside(promise)
    alpha, delta, guarantee = promise.alpha, promise.delta, promise.guarantee
    if guarantee == "paper" or guarantee == "fixed":
        raise InputError(f"guarantee must be marginal, pac or anytime; got {guarantee!r}")
    kinds: list[CertifiableGuarantee] = ["marginal", "pac"]
    if guarantee not in kinds:
        kinds.append(guarantee)
    minimum: dict[str, int] = {kind: minimum_n(alpha, kind, delta) for kind in kinds}
    aim = float(1 - decimal(alpha))
    required = aim if requirement.min_coverage is None else float(requirement.min_coverage)
    proven = guarantee == "pac" and rates is None and required <= aim + 1e-12
    part = (1.0 if proven else 0.5) if calibration_share is None else calibration_share
    # A threshold that exists already needs no calibration, and one that is proven no test.
    if part != 1 if proven else rates is None or part != 0:
        part = _share_of(part, "calibration_share")
    base = None if base_rate is None else _share_of(base_rate, "base_rate")
    labels = None
    if base is not None and part:
        shares = {str(kind): part if part < 1.0 else 0.5 for kind in kinds}
        shares["pac"] = 1.0 if calibration_share is None else part
        labels = {kind: _labels(least, base, shares[kind]) for kind, least in minimum.items()}
    limit = requirement.max_fpr
    least = Plan(alpha, delta, minimum, labels, None, assumed, base, part)
    spelled = cli_or_python("--max-false-alarms", "max_false_alarms")
    if not assumed:
        if limit is not None:
            raise InputError.on("plan_assumes", name=spelled)
        return least
    if limit is None or base is None:
        missing = spelled if limit is None else cli_or_python("--base-rate", "base_rate")
        raise InputError(f"{missing} must be given with assumed rates or an assumed detector")
    level = requirement.at_first_look(spends=rates is not None).confidence
    if rates is None:
        # A look has its part of either error.
        first = (1.0 - level) / (1.0 - float(requirement.confidence))
        promise = replace(promise, delta=round(delta * first, 12))
    share = 0.0 if rates and calibration_share is None else part
    separation = assumed.get("separation", 0.0)
    design = Design(
        promise, required, float(limit), level, base, share, rates, separation, withhold
    )
    target = argument_checks.share(power, "power")
    if target < 0.5:
        raise InputError(f"power must lie in [0.5, 1); got {power!r}")
    sizes = None if n is None else _checked_sizes(n)
    reason = design.impossible()
    smallest = None if reason else design.smallest(target)
    if reason is None and smallest is None:
        reason = error_text("never_reached", most=MOST)
    sizes = sizes or _sizes(smallest)
    spaced = np.geomspace if sizes[-1] > 50 * sizes[0] else np.linspace
    steps = np.unique(np.rint(spaced(sizes[0], sizes[-1], 161)).astype(np.int64))
    return replace(
        least,
        guarantee=guarantee if rates is None else None,
        calibration_share=share,
        min_coverage=required,
        max_fpr=design.limit,
        confidence=float(requirement.confidence),
        power=target,
        at=None if smallest is None else design.probabilities([smallest])[0],
        reason=reason,
        points=design.probabilities(sizes),
        curve=design.probabilities(steps.tolist()),
    )


def _labels(least: int, base_rate: float, share: float) -> int:
    """Return the fewest answers of which at least so many are hallucinated and calibrate."""
    # Two roundings to the nearest cost at most half a count each, the second before its share.
    most = math.ceil((least + 2) / (base_rate * share)) + 2

    def calibrating(n: int) -> int:
        return int(portion(portion(np.array(n), base_rate), share))

    return bisect_left(range(most), least, lo=1, key=calibrating)


def _sizes(smallest: int | None) -> list[int]:
    """Return sizes worth showing: around the smallest that do, or over the whole range."""
    if smallest is None:
        return [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]
    steps = [smallest * share for share in (0.125, 0.25, 0.5, 0.75, 1.5, 2.0)]
    rounded = [round(it, 1 - math.floor(math.log10(it))) if it > 10 else it for it in steps]
    return sorted({smallest, *(max(1, round(step)) for step in rounded)})


def _checked_sizes(n: Sequence[int]) -> list[int]:
    """Return numbers of labelled answers in ascending order."""
    if not isinstance(n, Sequence | np.ndarray) or not len(n):
        raise InputError(f"n must be a sequence of numbers of labelled answers; got {n!r}")
    sizes = sorted({argument_checks.whole(size, "n", least=1) for size in n})
    if sizes[-1] > MOST:
        raise InputError(f"n must be at most {MOST:,}; got {sizes[-1]:,}")
    return sizes


def _share_of(value: float, name: str) -> float:
    """Return a share of the answers, not too small for a whole number of them."""
    share = argument_checks.share(value, name)
    if share < _LEAST_SHARE:
        raise InputError(f"{name} must be at least {_LEAST_SHARE:g}; got {value!r}")
    return share
