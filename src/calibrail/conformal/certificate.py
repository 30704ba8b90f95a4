"""Certificates on held-out answers: one threshold, groups, removed sentences, wrong labels.

A policy that removes everything frees every answer. So "certified" needs three things shown: that
enough answers are freed, that enough of what is supported is kept, and, where it was asked, that
few answers without a fault are touched.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincc, betainccinv

from calibrail.conformal import argument_checks, bounds
from calibrail.conformal.argument_checks import Floats, Ints
from calibrail.conformal.bounds import Bound, ClassCounts, MeanBound, Region
from calibrail.conformal.threshold import Calibration, decimal, first_where, rank
from calibrail.errors import InputError
from calibrail.options.guarantee import Requirement
from calibrail.serialization import Record


@dataclass(frozen=True, slots=True)
class FlipTolerance(Record):
    """How many wrong labels a certificate survives, wherever they are.

    Attributes
    ----------
    flips : int
        Any so many of the labels may be flipped and it still holds; one more may break it.
    n : int
        Labelled examples that the certificate rests on.
    share : float
        ``flips / n``.
    weakest : {"coverage", "fpr"}
        The requirement that one more flip would break.
    """

    flips: int
    n: int
    share: float
    weakest: str


def flip_tolerance(counts: ClassCounts, requirement: Requirement) -> FlipTolerance | None:
    """Return the most labels that an adversary may flip without a ``certified`` becoming wrong.

    Worst case, not average: the flips are those that hurt most. For coverage these are passed
    answers labelled faithful that were hallucinated, and caught ones labelled hallucinated that
    were not; for the FPR the mirror images. Every way to divide the flips between the two kinds is
    tried.

    Parameters
    ----------
    counts : ClassCounts
        By the labels given, as for ``certify_counts``.
    requirement : Requirement
        With ``min_coverage`` and ``max_fpr``.

    Returns
    -------
    FlipTolerance or None
        None if the counts are not certified as they are.

    Examples
    --------
    >>> flip_tolerance(ClassCounts(290, 300, 20, 400), Requirement(0.1, 0.9))
    FlipTolerance(flips=10, n=700, share=0.014285714285714285, weakest='fpr')
    """
    required = argument_checks.rate(requirement.min_coverage, "min_coverage")
    level = bounds.proof_level(requirement.confidence)
    missed, passed = counts.n_hallucinated - counts.caught, counts.n_faithful - counts.false_alarms

    def coverage_holds(flips: int) -> bool:
        # Misses come from passed "faithful" answers; the other flips take caught ones away.
        hits, misses = _worst(counts.caught, missed, passed, flips, required)
        lower, _ = bounds.interval(hits, hits + misses, level)
        return len(hits) > 0 and bool(lower.min() >= required)

    return _weaker(coverage_holds, counts, requirement, level)


def joint_flip_tolerance(
    calibration: Calibration, counts: ClassCounts, requirement: Requirement
) -> FlipTolerance | None:
    """Return ``flip_tolerance`` for ``joint_certificate``: coverage rests on calibration labels.

    Such a threshold is the highest that its promise allows, so usually a single passed answer
    that was hallucinated after all would have lowered it, and no flip is tolerated. The test part
    may take the verdict back, too: where it refutes the coverage, or has caught fewer than
    ``coverage_band`` calls plausible.
    """
    promise, n, level = calibration.promise, calibration.n, requirement.confidence
    kept = promise.alpha, promise.guarantee, promise.delta
    below = calibration.missed
    caught, passed = n - below, counts.n_faithful - counts.false_alarms
    required = float(1 - decimal(calibration.alpha))
    if requirement.min_coverage is not None:
        required = requirement.min_coverage
    if not counts.n_hallucinated:
        # Without a test part more may be required than is promised: the rank proves that, too.
        kept = min(promise.alpha, float(1 - decimal(required))), promise.guarantee, promise.delta

    @cache
    def fewest(n_calibration: int, n_test: int) -> int:
        """Return how many of the test part must be caught for the verdict to stand."""
        if not (at := rank(n_calibration, *kept)):
            return n_test + 1
        lowest = bounds.coverage_band((at, n_calibration), n_test, level)[0] if n_test else 0
        upper = bounds.interval(np.arange(lowest, n_test + 1), n_test, level)[1]
        return lowest + int(np.searchsorted(upper, required))

    def coverage_holds(flips: int) -> bool:
        for added in range(max(0, flips - caught), min(flips, passed) + 1):
            if below + added >= rank(n + 2 * added - flips, *kept):
                return False
        if not counts.n_hallucinated:
            return True
        # Flips of the calibration part move the band, those of the test part what was caught.
        for n_now in range(max(below + 1, n - flips), n + flips + 1):
            left = flips - abs(n_now - n)
            for more in (max(0, left - counts.caught), min(left, passed)):
                found = counts.caught - (left - more)
                if found < fewest(n_now, counts.n_hallucinated + 2 * more - left):
                    return False
        return True

    labelled = ClassCounts(caught, n, counts.false_alarms, counts.n_faithful)
    return _weaker(coverage_holds, labelled, requirement, proof_beside(promise.delta, level))


def _worst(hits: int, misses: int, spare: int, flips: int, required: float) -> tuple[Ints, Ints]:
    """Return the hits and misses after every division of the flips that may be the worst.

    A flip adds one of ``spare`` misses or takes one hit away. While the bound and the share of hits
    both lie above one half, adding is worse: with one more of each the binomial tail beyond the
    hits grows if the bound exceeds (misses + 1) / (n + 1), and the bound falls. So where less than
    one half would not do anyway, only the most additions need a look.
    """
    least, most = max(0, flips - hits), min(flips, spare)
    if required >= 0.5 and 2 * misses + 1 < hits + misses - flips:
        least = max(least, most)
    added = np.arange(least, most + 1)
    return hits - (flips - added), misses + added


def _weaker(
    coverage_holds: Callable[[int], bool],
    counts: ClassCounts,
    requirement: Requirement,
    level: float,
) -> FlipTolerance | None:
    limit, alarms = argument_checks.rate(requirement.max_fpr, "max_fpr"), counts.false_alarms
    total = counts.n_hallucinated + counts.n_faithful

    def fpr_holds(flips: int) -> bool:
        passed = counts.n_faithful - alarms
        hits, misses = _worst(passed, alarms, counts.caught, flips, 1.0 - limit)
        # The upper end alone of `bounds.interval`: of many answers both take twice as long.
        upper = betainccinv(misses + 1.0, np.maximum(hits, 1.0), (1.0 - level) / 2.0)
        return len(hits) > 0 and bool(np.where(hits > 0, upper, 1.0).max() <= limit)

    if not (total and coverage_holds(0) and fpr_holds(0)):
        return None
    by_coverage, by_fpr = _last(coverage_holds, total), _last(fpr_holds, total)
    flips = min(by_coverage, by_fpr)
    weakest = "coverage" if by_coverage <= by_fpr else "fpr"
    return FlipTolerance(flips, total, flips / total, weakest)


def _last(holds: Callable[[int], bool], most: int) -> int:
    """Return the last number of flips that ``holds``; true at 0, and never again once false."""
    return first_where(lambda flips: not holds(flips), most + 1, 1) - 1


Verdict = Literal["certified", "rejected", "inconclusive"]
#: The method of a bound that follows from the rank of a threshold, without a test.
PROVEN: Final = "rank"


@dataclass(frozen=True, slots=True)
class Certificate(Record):
    """A verdict with the bounds that it rests on.

    Attributes
    ----------
    verdict : {"certified", "rejected", "inconclusive"}
        What the data shows about both requirements.
    reason : str
        Why: a code and its parameters, of which commands make words.
    coverage, fpr : Bound
        Exact intervals on independent samples, each at its own level: the ends that reject.
    coverage_at_least, fpr_at_most : float
        The ends that ``certified`` rests on. Each errs with at most 1 - ``confidence`` by itself,
        which is enough for a claim that is made only where both requirements are shown.
    min_coverage : float
        Required coverage.
    max_fpr : float or None
        Highest acceptable FPR; without one nothing can be certified.
    confidence : float
        A wrong "certified" has at most probability 1 - confidence. A wrong "rejected" has at most
        twice the one-sided error of an interval.
    needed : mapping
        For ``hallucinated`` and ``faithful``: how many more would settle that side at the rate
        seen. 0 = settled; None = no number would, or none can be told: nothing was seen of that
        class, or no limit on false alarms was set.
    flips : FlipTolerance or None
        How many wrong labels a ``certified`` survives; None for other verdicts.
    reason_code : str
        What ``reason`` says: of `REASON_CODES`, ``no_limit``, or why a verdict was taken back.
    region : Region or None
        Intervals of both rates that hold together: what is shown to readers. None of a certificate
        that an earlier version made.
    """

    verdict: Verdict
    reason: str
    coverage: Bound
    fpr: Bound
    coverage_at_least: float
    fpr_at_most: float
    min_coverage: float
    max_fpr: float | None
    confidence: float
    needed: Mapping[str, int | None]
    flips: FlipTolerance | None = None
    reason_code: str = ""
    region: Region | None = None


def certify_counts(counts: ClassCounts, requirement: Requirement) -> Certificate:
    """Decide from counts on two independent samples, at a threshold fixed before both.

    ``rejected`` rests on two-sided Clopper-Pearson intervals at ``confidence`` = 1 - delta: each
    end errs with probability delta / 2, and either of two can reject. ``certified`` needs both of
    its ends, so each may err with delta (``proof_level``).

    Parameters
    ----------
    counts : ClassCounts
        On examples that the threshold never saw.
    requirement : Requirement
        With a ``min_coverage``; without a ``max_fpr`` nothing is certified.

    Returns
    -------
    Certificate
        ``certified`` if coverage is bounded from below by ``min_coverage`` and the FPR from above
        by ``max_fpr``; ``rejected`` if either is bounded away from its requirement.

    Examples
    --------
    >>> required = Requirement(min_caught=0.9, max_false_alarms=0.1)
    >>> certify_counts(ClassCounts(290, 300, 20, 400), required).verdict
    'certified'
    >>> certify_counts(ClassCounts(290, 300, 200, 400), required).verdict
    'rejected'
    >>> open_one = certify_counts(ClassCounts(28, 30, 2, 40), required)
    >>> open_one.verdict, dict(open_one.needed)
    ('inconclusive', {'hallucinated': 209, 'faithful': 76})
    """
    certificate = _certified(counts, requirement)
    if certificate.verdict != "certified":
        return certificate
    return replace(certificate, flips=flip_tolerance(counts, requirement))


def _certified(counts: ClassCounts, requirement: Requirement) -> Certificate:
    """Return the certificate without its tolerance, which takes long."""
    level = checked_limits(requirement)[2]
    return _decide(counts, requirement, level, bounds.proof_level(level), _region(counts, level))


def joint_certificate(
    calibration: Calibration, counts: ClassCounts, requirement: Requirement
) -> Certificate:
    """Decide about a threshold whose coverage of 1 - alpha is proven: a ``pac`` or ``anytime`` one.

    Examples that count are independent, and limits were fixed before any was seen. Only the FPR
    needs a bound; any faithful examples may serve that the threshold never saw. The verdict and its
    ``region`` have the ``confidence`` that was asked for: the construction errs with delta, the FPR
    bound with what 1 - ``confidence`` leaves beside it. The coverage observed can still reject.
    Without hallucinated test examples it is the one proven (``proven_coverage``).

    Parameters
    ----------
    calibration : Calibration
        With ``guarantee="pac"`` or ``"anytime"``.
    counts : ClassCounts
        On hallucinated test examples, or none, and on faithful examples that had no part in the
        threshold.
    requirement : Requirement
        ``confidence`` is that of the certificate where 1 - ``confidence`` is more than delta, and
        otherwise that of the interval of the FPR. ``min_coverage`` is at most the
        1 - alpha that is proven; that when left out. Without test examples it may be more, and is
        shown where so few calibration scores lie below the threshold that its rank allows it.

    Raises
    ------
    InputError
        If the guarantee is neither, the threshold flags everything for lack of examples, or
        delta and 1 - ``confidence`` leave no joint confidence.
    """
    if calibration.delta is None or calibration.flag_all:
        got = "one that flags everything" if calibration.flag_all else calibration.guarantee
        raise InputError.on("nothing_proven", got=got)
    if requirement.min_coverage is None:
        requirement = replace(requirement, min_coverage=float(1 - decimal(calibration.alpha)))
    certificate = _by_rank(calibration, counts, requirement)
    # Flips among the answers of one group count once; no tolerance is worked out for that.
    if certificate.verdict != "certified" or hasattr(calibration, "clusters"):
        return certificate
    return replace(certificate, flips=joint_flip_tolerance(calibration, counts, requirement))


def _by_rank(
    calibration: Calibration,
    counts: ClassCounts,
    requirement: Requirement,
    proof: float | None = None,
) -> Certificate:
    """Return a joint certificate without its tolerance.

    ``proof`` is the two-sided level of the interval of the FPR whose end certifies.
    """
    assert calibration.delta is not None
    proven = float(1 - decimal(calibration.alpha))
    required, _, level = checked_limits(requirement)
    coverage = None if counts.n_hallucinated else _between(calibration, level)
    if required > proven + 1e-12 and coverage is None:
        raise InputError.on("more_than_proven", proven=proven, asked=requirement)
    proof = _proof_for(requirement, calibration.delta) if proof is None else proof
    if required > proven + 1e-12:
        # The rank's bound proves a limit that was fixed beforehand, however scores are tied.
        shown = 1.0 - calibration.least_alpha(calibration.missed) >= required
        proven = required if shown else 1.0 - calibration.least_alpha(calibration.rank - 1)
    region = _region(counts, level, calibration, proof=proof)
    return _decide(counts, requirement, region.confidence, proof, region, proven, coverage)


def certify_all(proven: Bound, counts: ClassCounts, requirement: Requirement) -> Certificate:
    """Decide about all answers, of which several thresholds are proven to catch a share together.

    Parameters
    ----------
    proven : Bound
        What they catch, with its confidence.
    counts : ClassCounts
        Of faithful answers that are independent of the thresholds.
    requirement : Requirement
        As for ``joint_certificate``.
    """
    proof = _proof_for(requirement, float(1 - decimal(proven.confidence)))
    joint = round(proven.confidence - (1.0 - proof) / 2.0, 12)
    region = Region(proven, counts.bounds(bounds.part_level(proof))[1], joint)
    return _decide(counts, requirement, joint, proof, region, proven.lower, proven)


def proven_coverage(calibration: Calibration) -> Bound:
    """Return what a ``pac`` or ``anytime`` threshold is proven to catch, without any estimate."""
    lower = 1.0 if calibration.flag_all else float(1 - decimal(calibration.alpha))
    return Bound(None, lower, 1.0, 0, 0, PROVEN, float(1 - decimal(calibration.delta or 0.0)))


def _between(calibration: Calibration, confidence: float) -> Bound:
    """Return ``proven_coverage`` with an upper end that may refute a limit fixed beforehand.

    How many calibration scores lie below a threshold, and what it misses, only grow with it: so
    many below refute a limit as they would for a threshold that they did not set.
    """
    bound, caught = proven_coverage(calibration), calibration.n - calibration.missed
    if calibration.counted != "examples":
        return bound
    upper = float(bounds.interval(caught, calibration.n, confidence)[1])
    return replace(bound, upper=max(bound.lower, upper))


def _region(
    counts: ClassCounts,
    confidence: float,
    calibration: Calibration | None = None,
    kept: Floats | None = None,
    *,
    proof: float | None = None,
) -> Region:
    """Return intervals of the shares that hold together with ``confidence``, by equal parts.

    With the coverage that a construction proves, from below and with its own error; the others
    share what ``proof`` leaves to one end of theirs. Where the rank does not hang on the scores, it
    proves what it was chosen for, and a little more.
    """
    mean = None
    if calibration is None or calibration.delta is None or proof is None:
        part = bounds.part_level(confidence, 2 if kept is None else 3)
        coverage, fpr = counts.bounds(part)
    else:
        error = (1.0 - proof) / 2.0
        part = bounds.part_level(1.0 - error, 1 if kept is None else 2)
        coverage, fpr = counts.bounds(part)
        proven = proven_coverage(calibration)
        if getattr(calibration, "by_lot", calibration.counted == "examples"):
            lower = max(proven.lower, 1.0 - calibration.least_alpha(calibration.rank - 1))
            proven = replace(proven, lower=lower)
        coverage = replace(coverage, lower=proven.lower, upper=1.0, confidence=proven.confidence)
        coverage = coverage if counts.n_hallucinated else proven
        confidence = round(float(1 - decimal(calibration.delta)) - error, 12)
    if kept is not None:
        mean = bounds.mean_bound(kept, part)
    return Region(coverage, fpr, confidence, mean)


def proof_beside(delta: float, confidence: float) -> float:
    """Return the two-sided level of an interval whose end certifies beside a ``pac`` threshold.

    Both err together with 1 - ``confidence``, of which the threshold takes delta. Where that is all
    of it, the interval has the ``confidence`` itself, and both together have less.

    Raises
    ------
    InputError
        If they have none.

    Examples
    --------
    >>> proof_beside(0.025, 0.95), proof_beside(0.01, 0.95), proof_beside(0.1, 0.95)
    (0.95, 0.92, 0.95)
    """
    error = 1 - decimal(confidence) - decimal(delta)
    if error <= 0:
        error = (1 - decimal(confidence)) / 2
    if decimal(delta) + error >= 1:
        raise InputError.on("confidence_without_room", delta=delta, confidence=confidence)
    return float(1 - 2 * error)


def _proof_for(requirement: Requirement, delta: float) -> float:
    """Return what `proof_beside` does; without a limit nothing is certified beside delta."""
    if (requirement.max_fpr, requirement.min_kept) == (None, None):
        return float(requirement.confidence)
    return proof_beside(delta, requirement.confidence)


def checked_limits(requirement: Requirement) -> tuple[float, float | None, float]:
    """Return the required coverage, the limit on the FPR and the confidence, each in its domain."""
    limit = requirement.max_fpr
    limit = limit if limit is None else argument_checks.rate(limit, "max_fpr")
    required = argument_checks.rate(requirement.min_coverage, "min_coverage")
    return required, limit, argument_checks.share(requirement.confidence, "confidence")


def _decide(
    counts: ClassCounts,
    requirement: Requirement,
    confidence: float,
    proof: float,
    region: Region,
    promised: float | None = None,
    proven: Bound | None = None,
) -> Certificate:
    """Decide by the bounds of counts, and by the coverage that is ``promised`` by a construction.

    ``proof`` is the two-sided level of the interval whose ends may certify; ``proven`` stands for
    the bound of what no count shows.
    """
    required, limit, level = checked_limits(requirement)
    coverage, fpr = counts.bounds(level)
    coverage = proven or coverage
    at_least = float(bounds.interval(counts.caught, counts.n_hallucinated, proof)[0])
    at_most = float(bounds.interval(counts.false_alarms, counts.n_faithful, proof)[1])
    if promised is not None:
        # What a construction proves counts; the observed bound would cost an error of its own.
        at_least = promised
    sides = [
        _Side("coverage", region.coverage, coverage.upper, at_least, required),
        _Side("fpr", region.fpr, fpr.lower, at_most, limit, good=-1),
    ]
    verdict, code, reason = _concluded(sides, (level, confidence, region.confidence))
    needed: dict[str, int | None] = {"hallucinated": 0, "faithful": 0}
    if verdict == "inconclusive":
        if not sides[0].kept:
            needed["hallucinated"] = bounds.further(coverage, required, proof, good_above=True)
        if limit is None:
            needed["faithful"] = None
        elif not sides[1].kept:
            needed["faithful"] = bounds.further(fpr, limit, proof, good_above=False)
    shown = coverage, fpr, at_least, at_most, required, limit, confidence, needed
    return Certificate(verdict, reason, *shown, reason_code=code, region=region)


#: What the bounds show of all limits that were set, by verdict.
REASON_CODES: Final[Mapping[Verdict, str]] = {
    "certified": "limits_kept",
    "rejected": "limit_missed",
    "inconclusive": "limits_unsettled",
}


class _Side(NamedTuple):
    """A share with its limit, the end that may refute it and the end that may prove it.

    ``bound`` holds together with those of the other sides. Good are values above the limit (1), or
    below it (-1).
    """

    name: str
    bound: Bound | MeanBound
    refuting: float
    proving: float
    limit: float | None
    good: Literal[1, -1] = 1

    @property
    def broken(self) -> bool:
        """Whether the limit is shown to be missed."""
        return self.limit is not None and self.good * self.refuting < self.good * self.limit

    @property
    def kept(self) -> bool:
        """Whether the limit is shown to be kept."""
        return self.limit is not None and self.good * self.proving >= self.good * self.limit


def _concluded(
    sides: Sequence[_Side], confidences: tuple[float, float, float]
) -> tuple[Verdict, str, str]:
    """Return the verdict about several shares, the code of its reason, and this with parameters.

    ``confidences`` are those of a rejection, of a certificate and of all sides' bounds together.
    """
    verdict: Verdict = "inconclusive"
    refuting, proving, together = confidences
    code, shown = "limits_unsettled", list[tuple[object, ...]]()
    if broken := [side for side in sides if side.broken]:
        verdict, code = "rejected", "limit_missed"
        shown = [(refuting,), *((side.name, side.limit, side.refuting) for side in broken)]
    elif all(side.kept for side in sides):
        verdict, code, shown = "certified", "limits_kept", [(proving, together)]
        shown += [(side.name, side.limit, side.proving) for side in sides]
    elif without := [side for side in sides if side.limit is None]:
        code, shown = "no_limit", [(side.name,) for side in without]
    else:
        ends = ((side, side.bound.lower, side.bound.upper) for side in sides if not side.kept)
        shown = [(together,), *((side.name, side.limit, *of_side) for side, *of_side in ends)]
    return verdict, code, ":".join([code, *(",".join(map(str, values)) for values in shown)])


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """One group's certificate, corrected for the number of groups.

    Attributes
    ----------
    certificate : Certificate
        With bounds at the level of the step that decides about the group, its ``confidence``: all
        groups' verdicts of a kind hold together, bounds of later steps each by itself.
    p_undercovered : float
        Holm-adjusted p-value of "coverage reaches the requirement": small = broken in this group.
    """

    certificate: Certificate
    p_undercovered: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return {**self.certificate.to_dict(), "p_undercovered": self.p_undercovered}


def certify_groups(
    counts: Mapping[str, ClassCounts],
    requirement: Requirement,
    thresholds: Mapping[str, Calibration] | None = None,
) -> dict[str, GroupVerdict]:
    """Decide about every group so that none is certified wrongly but for 1 - confidence.

    Nor is any rejected wrongly, but for as much again; however groups depend. Each of G is decided
    by ``certify_counts`` at an error of (1 - confidence) / G; each one certified eases the step of
    certifying the others, each one rejected that of rejecting (Holm). The adjusted p-values are a
    family of their own.

    Parameters
    ----------
    counts : mapping of str to ClassCounts
        At least one group; a group without examples of a class stays inconclusive.
    requirement : Requirement
        As for ``certify_counts``; ``confidence`` is that of all "certified" together, and of all
        "rejected" together.
    thresholds : mapping of str to Calibration, optional
        Where no test part was kept: what decides in the groups whose rank proves what they catch.
        In the others, and against a limit, what set a threshold counts as for one that it did not
        set, since how many lie below only grows with it; such limits are fixed beforehand. All
        "certified" together err with the sum of the thresholds' deltas and what 1 - ``confidence``
        leaves beside them, which is divided among the groups.

    Returns
    -------
    dict of str to GroupVerdict
        In the order given.

    Examples
    --------
    >>> verdicts = certify_groups(
    ...     {"easy": ClassCounts(300, 300, 5, 300), "hard": ClassCounts(200, 300, 5, 300)},
    ...     Requirement(min_caught=0.9, max_false_alarms=0.1),
    ... )
    >>> [(name, item.certificate.verdict) for name, item in verdicts.items()]
    [('easy', 'certified'), ('hard', 'rejected')]
    >>> verdicts["hard"].p_undercovered < 0.001 < verdicts["easy"].p_undercovered
    True
    """
    if not counts:
        raise InputError("counts must hold at least one group")
    level = checked_limits(requirement)[2]
    spent = sum(decimal(item.delta or 0.0) for item in (thresholds or {}).values())
    left = (1.0 - _proof_for(requirement, float(spent))) / 2.0 / (1.0 - level)

    def decided(name: str, confidence: float) -> Certificate:
        asked = replace(requirement, confidence=confidence)
        if thresholds is None:
            return _certified(counts[name], asked)
        # A step errs with its part of what the thresholds leave.
        error = left * (1.0 - confidence)
        if name in thresholds:
            alarms = replace(counts[name], caught=0, n_hallucinated=0)
            return _by_rank(thresholds[name], alarms, asked, 1.0 - 2.0 * error)
        return _certified(counts[name], replace(asked, confidence=1.0 - error))

    made = _stepwise(list(counts), level, decided)
    first = replace(requirement, confidence=1.0 - (1.0 - level) / len(counts))
    for name, item in made.items():
        # What hangs on the verdicts of others hangs on their labels, too: it has no tolerance.
        shown = item.verdict, item.confidence
        if thresholds is None and shown == ("certified", first.confidence):
            made[name] = replace(item, flips=flip_tolerance(counts[name], first))
    p = undercovered(tuple(counts.values()), requirement)
    return {name: GroupVerdict(made[name], item) for name, item in zip(counts, p, strict=True)}


def _stepwise(
    names: Sequence[str], confidence: float, decided: Callable[[str, float], Certificate]
) -> dict[str, Certificate]:
    """Return each group's certificate, at the confidence of the step that decides about it.

    Two families, each by Holm with the whole error, as a verdict about one threshold has an error
    of its own for either: the groups that are bad may not be certified, the others not rejected.
    """
    error, made, open_ones = 1.0 - confidence, dict[str, Certificate](), dict[str, Certificate]()
    steps = dict[str, float]()
    for verdict in ("rejected", "certified"):
        left = len(names)
        while left:
            steps[verdict] = step = 1.0 - error / left
            open_ones = {name: decided(name, step) for name in names if name not in made}
            settled = {name: item for name, item in open_ones.items() if item.verdict == verdict}
            made |= settled
            if not settled:
                break
            left -= len(settled)
    for name, item in open_ones.items():
        # Bounds that would reject, but do not at the step of rejecting, are not shown.
        again = item.verdict == "rejected"
        made.setdefault(name, decided(name, steps["rejected"]) if again else item)
    return {name: made[name] for name in names}


def undercovered(counts: Sequence[ClassCounts], requirement: Requirement) -> list[float]:
    """Return each group's p-value of "coverage reaches what is required", adjusted by `holm`."""
    required = checked_limits(requirement)[0]
    # P(Binomial(n, required) <= caught)
    p = [
        1.0 if item.caught == n else float(betaincc(item.caught + 1, n - item.caught, required))
        for item in counts
        for n in [item.n_hallucinated]
    ]
    return [float(item) for item in holm(p)]


def holm(p_values: ArrayLike) -> Floats:
    """Return p-values adjusted for their number: Holm's (1979) step-down procedure.

    Rejecting those at most delta makes no error at all but with probability delta, however the
    tests depend on each other. The same as ``statsmodels.stats.multitest.multipletests``, its
    oracle in the tests. Importing that takes 1.1 seconds of processor time, this whole package 0.1.

    Parameters
    ----------
    p_values : array-like of float, shape (m,)
        In [0, 1], no NaN.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = argument_checks.defined(p_values, "p_values")
    if len(p) and not 0.0 <= p.min() <= p.max() <= 1.0:
        raise InputError("p_values must lie in [0, 1]")
    order, result = np.argsort(p, kind="stable"), np.empty(len(p))
    result[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return result


_NOTHING_SEEN: Final = MeanBound(None, 0.0, 1.0, 0.0, 0, "betting", 0.95)


@dataclass(frozen=True, slots=True)
class TrimCertificate(Certificate):
    """A verdict about removing sentences.

    ``coverage`` is the share of hallucinated answers that are freed of all unsupported sentences,
    ``fpr`` that of faithful answers of which a sentence is removed.

    Attributes
    ----------
    kept : MeanBound
        Over answers that hold a supported sentence: the share of these that is released.
    kept_at_least : float
        The end that ``certified`` rests on; it errs with at most 1 - ``confidence`` by itself.
    min_kept : float or None
        What it has to reach; without one nothing can be certified.
    needed : mapping
        As of a certificate; under ``answers``, about how many more that hold a supported sentence
        would settle what is kept, if they are like those seen.
    """

    kept: MeanBound = _NOTHING_SEEN
    kept_at_least: float = 0.0
    min_kept: float | None = None


def certify_trimming(
    counts: ClassCounts,
    kept: ArrayLike,
    requirement: Requirement,
    calibration: Calibration | None = None,
) -> TrimCertificate:
    """Decide from independent answers that the threshold never saw.

    Every end that may reject errs with an equal part of what two ends of a two-sided interval may
    together; every end that certifies may take the whole error, since all have to hold
    (intersection-union test, Berger 1982).

    Parameters
    ----------
    counts : ClassCounts
        Hallucinated answers and how many are freed (``caught``), faithful ones and how many are
        touched (``false_alarms``).
    kept : array-like of float, shape (m,)
        The share of supported sentences released, of each independent answer that holds one, in an
        order that has nothing to do with it.
    requirement : Requirement
        With a ``min_coverage``: of the answers freed. Without a ``min_kept`` nothing is certified;
        ``max_fpr`` is decided about only where it is given.
    calibration : Calibration, optional
        A ``pac`` or ``anytime`` threshold, whose coverage of 1 - alpha is proven by construction:
        at least what is required. All that is certified has the confidence together, as of a joint
        certificate.

    Examples
    --------
    >>> required = Requirement(min_caught=0.8, min_kept=0.5)
    >>> counts = ClassCounts(95, 100, 60, 100)
    >>> certify_trimming(counts, [1.0, 0.5, 0.75, 1.0] * 50, required).verdict
    'certified'
    >>> certify_trimming(ClassCounts(100, 100, 100, 100), [0.0] * 200, required).verdict
    'rejected'
    >>> open_one = certify_trimming(ClassCounts(17, 20, 3, 20), [1.0, 0.5] * 10, required)
    >>> open_one.verdict, dict(open_one.needed)
    ('inconclusive', {'hallucinated': 173, 'faithful': 0, 'answers': 0})
    """
    required, limit, level = checked_limits(requirement)
    if (least := requirement.min_kept) is not None:
        least = argument_checks.rate(least, "kept")
    proof = bounds.proof_level(level)
    if calibration is not None and calibration.delta is not None:
        # Beside the construction each of the others may take all that is left.
        proof = _proof_for(requirement, calibration.delta)
    sure = 1.0 - (1.0 - proof) / 2.0
    shares: Floats = argument_checks.vector(kept, "kept")
    region = _region(counts, level, calibration, shares, proof=proof)
    assert region.kept is not None
    coverage, fpr = counts.bounds(level)
    measured = bounds.mean_bound(shares, level)
    at_least = float(bounds.interval(counts.caught, counts.n_hallucinated, proof)[0])
    at_most = float(bounds.interval(counts.false_alarms, counts.n_faithful, proof)[1])
    kept_at_least = bounds.mean_at_least(shares, sure)
    if calibration is not None:
        at_least = float(1 - decimal(calibration.alpha))
    # With three requirements each of them may err with a third of the error, not with a half.
    refuting = level if limit is None else 1.0 - 2.0 * (1.0 - level) / 3.0
    freed = float(bounds.interval(counts.caught, counts.n_hallucinated, refuting)[1])
    touched = float(bounds.interval(counts.false_alarms, counts.n_faithful, refuting)[0])
    most_kept = bounds.mean_bound(shares, refuting).upper
    frees = _Side("freed", region.coverage, freed, at_least, required)
    keeps = _Side("kept", region.kept, most_kept, kept_at_least, least)
    spares = _Side("touched", region.fpr, touched, at_most, limit, good=-1)
    sides = [frees, keeps] if limit is None else [frees, keeps, spares]
    level = region.confidence
    verdict, code, reason = _concluded(sides, (level, level, level))
    needed: dict[str, int | None] = {"hallucinated": 0, "faithful": 0, "answers": 0}
    if verdict == "inconclusive":
        if not frees.kept:
            needed["hallucinated"] = bounds.further(coverage, required, proof, good_above=True)
        if limit is not None and not spares.kept:
            needed["faithful"] = bounds.further(fpr, limit, proof, good_above=False)
        if least is None:
            needed["answers"] = None
        elif not keeps.kept:
            below = (1.0 - refuting) / 2.0
            needed["answers"] = bounds.further_values(shares, least, 1.0 - sure, below)
    shown = coverage, fpr, at_least, at_most, required, limit, level, needed
    kept_shown = measured, kept_at_least, least
    return TrimCertificate(verdict, reason, *shown, None, code, region, *kept_shown)


def certify_group_trimming(
    groups: Mapping[str, tuple[ClassCounts, Floats]], requirement: Requirement
) -> dict[str, GroupVerdict]:
    """Decide about every group as `certify_groups` does, with the counts and shares of each."""

    def decided(name: str, confidence: float) -> Certificate:
        return certify_trimming(*groups[name], replace(requirement, confidence=confidence))

    made = _stepwise(list(groups), requirement.confidence, decided)
    p = undercovered([counts for counts, _ in groups.values()], requirement)
    return {name: GroupVerdict(made[name], item) for name, item in zip(groups, p, strict=True)}
