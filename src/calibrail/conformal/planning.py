"""How many labels does a promise need, and how likely is it that a certificate comes out?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
from scipy.special import ndtr, ndtri

from calibrail.conformal import validation
from calibrail.conformal.power import MOST, Design, Odds, Promise, portion
from calibrail.conformal.rank import decimal, minimum_n
from calibrail.errors import InputError

#: A smaller share of the labelled answers is no plan.
_LEAST_SHARE: Final = 1e-6


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
    there the search goes back, past blocks of sizes in which none can, to the last n that does.
    It gives up after looking at 20,000 sizes one by one, which only promises far from any use
    need; what it returns then is enough, and not known to be the smallest.

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
    design = Design(
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
            f"not even {MOST:,} labelled answers reach it: what is assumed lies too close to "
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


def _labels(least: int, base_rate: float, share: float) -> int:
    """Return the fewest answers of which at least so many are hallucinated and calibrate."""
    # Two roundings to the nearest cost at most half a count each, the second before its share.
    low, high = 0, math.ceil((least + 2) / (base_rate * share)) + 2
    while high - low > 1:
        middle = (low + high) // 2
        if portion(portion(np.array(middle), base_rate), share) >= least:
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
    if sizes[-1] > MOST:
        raise InputError(f"n must be at most {MOST:,}; got {sizes[-1]:,}")
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
