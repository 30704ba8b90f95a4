"""How many labels does a promise need, and how likely is it that a certificate comes out?"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from calibrail.conformal import validation
from calibrail.conformal.certificate import joint_confidence
from calibrail.conformal.power import MOST, Design, VerdictProbabilities, portion
from calibrail.conformal.rank import decimal, minimum_n
from calibrail.errors import InputError
from calibrail.settings import Promise, Requirement
from calibrail.settings.units import whole_answers
from calibrail.shown import Shown

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
    confidence, joint_confidence : float or None
        Level of each interval, and that of the certificate.
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
    joint_confidence: float | None = None
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
            raise InputError(
                "auroc, separation, and coverage with fpr exclude each other: give one assumption"
            )
        if self.auroc is not None:
            validation.share(self.auroc, "auroc")
        if self.separation is not None:
            distance = float(validation.vector([self.separation], "separation")[0])
            if not math.isfinite(distance):
                raise InputError(f"separation must be finite; got {self.separation!r}")
        if (self.coverage is None) != (self.fpr is None):
            missing = "coverage" if self.coverage is None else "fpr"
            raise InputError(f"{missing} must be given too: fixed true rates are a pair")
        for name in ("coverage", "fpr"):
            if getattr(self, name) is not None:
                validation.rate(getattr(self, name), name)

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
            return {"auroc": area, "separation": math.sqrt(2.0) * float(ndtri(area))}
        if self.separation is not None:
            distance = float(self.separation)
            return {"auroc": float(ndtr(distance / math.sqrt(2.0))), "separation": distance}
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
        What the certificate is about: ``max_fpr`` is needed with an assumption.
    assumption : Assumption, optional
        None: the least numbers of labels alone.
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
    >>> held_out = plan(Promise(0.05), Requirement(max_fpr=0.2), rates, base_rate=0.3)
    >>> held_out.n, held_out.bottleneck, round(held_out.at.certified, 3)
    (2312, 'coverage', 0.851)
    """
    whole_answers("plan", promise, requirement)
    alpha, delta, guarantee = promise.alpha, promise.delta, promise.guarantee
    if guarantee == "paper":
        raise InputError("guarantee must be marginal, pac or anytime; got 'paper'")
    kinds: list[CertifiableGuarantee] = ["marginal", "pac"]
    if guarantee not in kinds:
        kinds.append(guarantee)
    minimum: dict[str, int] = {kind: minimum_n(alpha, kind, delta) for kind in kinds}
    requirement, assumption = requirement or Requirement(), assumption or Assumption()
    rates, assumed = assumption.rates, assumption.to_dict()
    part = 0.5 if calibration_share is None else calibration_share
    # A threshold that exists already needs no calibration.
    if rates is None or part != 0:
        part = _share_of(part, "calibration_share")
    base = None if base_rate is None else _share_of(base_rate, "base_rate")
    labels = None
    if base is not None and part:
        labels = {kind: _labels(least, base, part) for kind, least in minimum.items()}
    limit = requirement.max_fpr
    least = Plan(alpha, delta, minimum, labels, None, assumed, base, part)
    if not assumed:
        if limit is not None:
            raise InputError("max_fpr needs an assumption to plan with: auroc, or coverage and fpr")
        return least
    if limit is None or base is None:
        missing = "max_fpr" if limit is None else "base_rate"
        raise InputError(f"{missing} must be given with assumed rates or an assumed detector")
    aim = float(1 - decimal(alpha))
    required = aim if requirement.min_coverage is None else float(requirement.min_coverage)
    level = float(requirement.confidence)
    share = 0.0 if rates and calibration_share is None else part
    separation = assumed.get("separation", 0.0)
    design = Design(
        promise, required, float(limit), level, base, share, rates, separation, withhold
    )
    joint = joint_confidence(delta, level) if design.constructed else level
    target = validation.share(power, "power")
    if target < 0.5:
        raise InputError(f"power must lie in [0.5, 1); got {power!r}")
    sizes = None if n is None else _checked_sizes(n)
    reason = design.impossible()
    smallest = None if reason else design.smallest(target)
    if reason is None and smallest is None:
        reason = (
            f"not even {MOST:,} labelled answers reach it: what is assumed lies too close to "
            "what is required"
        )
    sizes = sizes or _sizes(smallest)
    spaced = np.geomspace if sizes[-1] > 50 * sizes[0] else np.linspace
    steps = np.unique(np.rint(spaced(sizes[0], sizes[-1], 161)).astype(np.int64))
    return replace(
        least,
        guarantee=guarantee if rates is None else None,
        calibration_share=share,
        min_coverage=required,
        max_fpr=design.limit,
        confidence=level,
        joint_confidence=joint,
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
    rounded = [
        round(step, 1 - math.floor(math.log10(step))) if step > 10 else step for step in steps
    ]
    return sorted({smallest, *(max(1, round(step)) for step in rounded)})


def _checked_sizes(n: Sequence[int]) -> list[int]:
    """Return numbers of labelled answers in ascending order."""
    if not isinstance(n, Sequence | np.ndarray) or not len(n):
        raise InputError(f"n must be a sequence of numbers of labelled answers; got {n!r}")
    sizes = sorted({validation.whole(size, "n", least=1) for size in n})
    if sizes[-1] > MOST:
        raise InputError(f"n must be at most {MOST:,}; got {sizes[-1]:,}")
    return sizes


def _share_of(value: float, name: str) -> float:
    """Return a share of the answers, not too small for a whole number of them."""
    share = validation.share(value, name)
    if share < _LEAST_SHARE:
        raise InputError(f"{name} must be at least {_LEAST_SHARE:g}; got {value!r}")
    return share
