"""All thresholds of one guardrail; three-way decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import argument_checks, group_thresholds, threshold
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.overlapping_groups import OverlappingCalibration, calibrate_overlapping
from calibrail.errors import InputError, TooFewExamplesError, error_text, errors_as
from calibrail.options.guarantee import Promise, Undefined
from calibrail.serialization import Record

Decision = Literal["pass", "review", "flag"]
#: Decisions by code, in the order of rising scores.
DECISIONS: Final[tuple[Decision, ...]] = ("pass", "review", "flag")
#: Groups of the answers, one per value; None where a rule has no groups.
Groups = Sequence[str] | None


@dataclass(frozen=True, slots=True, eq=False)
class Rule(Record):
    """Everything that turns a score into a decision.

    Attributes
    ----------
    calibration : Calibration
        The threshold below which an answer passes; with ``groups``, that of all other groups.
    groups : GroupedCalibration, OverlappingCalibration or None
        Thresholds of groups that have their own; its fallback is ``calibration``.
    upper : Calibration or None
        From negated scores of faithful answers: above minus its threshold an answer is flagged,
        and what neither passes nor is flagged is reviewed. None: what does not pass is flagged.
    chosen : float or None
        A threshold that multi-risk control chose. It decides in place of that of ``calibration``,
        which then serves the p-values and the policy for undefined scores alone.
    """

    calibration: threshold.Calibration
    groups: group_thresholds.GroupedCalibration | OverlappingCalibration | None = None
    upper: threshold.Calibration | None = None
    chosen: float | None = None

    @property
    def undefined(self) -> Undefined:
        """Policy for answers without a score."""
        return self.calibration.undefined

    @property
    def ranked(self) -> bool:
        """Whether one threshold decides that is a calibration score of some rank."""
        given = self.chosen is not None or self.calibration.guarantee == "fixed"
        return self.groups is None and not given

    @property
    def _threshold(self) -> float:
        return self.calibration.threshold if self.chosen is None else self.chosen

    @property
    def flag_all(self) -> bool:
        """Whether nothing can ever pass."""
        if self.chosen is not None:
            return False
        return self.calibration.flag_all if self.groups is None else self.groups.flag_all

    @property
    def flag_above(self) -> float | None:
        """Above it answers are flagged; None where everything that does not pass is flagged."""
        return None if self.upper is None else -self.upper.threshold

    def thresholds(self, n: int, groups: Groups = None) -> Floats:
        """Return for each of n answers the threshold below which it passes."""
        if self.groups is None:
            return np.full(n, self._threshold)
        return self.groups.thresholds(self._named(n, groups))

    def flags(self, values: ArrayLike, groups: Groups = None, tolerance: float = 0.0) -> Bools:
        """Return which answers are not passed; an undefined score (NaN) follows the policy."""
        queries = argument_checks.vector(values, "values")
        if self.groups is None:
            return threshold.flags_under(self.undefined, queries, self._threshold, tolerance)
        return self.groups.flags(queries, self._named(len(queries), groups), tolerance)

    def decide(
        self, values: ArrayLike, groups: Groups = None, tolerance: float = 0.0
    ) -> NDArray[np.int8]:
        """Return 0 = pass, 1 = review, 2 = flag for each answer (positions in ``DECISIONS``).

        A near tie within ``tolerance`` neither passes nor is flagged where there is a review.
        """
        queries = argument_checks.vector(values, "values")
        stopped = self.flags(queries, groups, tolerance)
        codes = np.where(stopped, 2, 0).astype(np.int8)
        nan = np.isnan(queries)
        if self.upper is not None:
            kept = self.upper.flags(-np.where(nan, 0.0, queries), tolerance)
            codes[stopped & kept] = 1
        # What passes undefined scores still flags them where every score is flagged.
        codes[nan & ~(stopped & (self.undefined == "pass"))] = DECISIONS.index(self.undefined)
        return codes

    def p_value(self, values: ArrayLike, groups: Groups = None, tolerance: float = 0.0) -> Floats:
        """Return p-values of "this answer is hallucinated"; no NaN is accepted."""
        if self.groups is None:
            return self.calibration.p_value(values, tolerance)
        queries = argument_checks.vector(values, "values")
        return self.groups.p_value(queries, self._named(len(queries), groups), tolerance)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Rebuild a rule; every calibration in it is checked against its own scores."""
        with errors_as(InputError, (KeyError, TypeError), "rule_lacks_field"):
            calibration = content["calibration"]
            build: type[threshold.Calibration] = threshold.Calibration
            if "clusters" in calibration:
                build = group_thresholds.ClusteredCalibration
            elif "weights" in calibration:
                from calibrail.conformal.sequential.audited_calibration import AuditedCalibration

                build = AuditedCalibration
            groups, upper = content.get("groups"), content.get("upper")
            overlap = groups is not None and "columns" in groups
            kind: Any = OverlappingCalibration if overlap else group_thresholds.GroupedCalibration
            return cls(
                build.from_dict(calibration),
                None if groups is None else kind.from_dict(groups),
                None if upper is None else threshold.Calibration.from_dict(upper),
                content.get("chosen"),
            )

    def _named(self, n: int, groups: Groups) -> Sequence[str]:
        if groups is None or len(groups) != n:
            raise InputError(f"groups must name the group of each of the {n} answers")
        return groups


def upper_calibration(faithful: ArrayLike, promise: Promise) -> threshold.Calibration:
    """Find the threshold above which answers are flagged, from faithful calibration scores.

    The one-sided promise of ``calibrate_threshold`` on negated scores: P(flag | faithful) <= beta.

    Parameters
    ----------
    faithful : array-like of float, shape (m,)
        Higher = more likely hallucinated; NaN where undefined.
    promise : Promise
        With ``beta``. An undefined score counts against it only where it is flagged.

    Raises
    ------
    TooFewExamplesError
        If there are too few examples for the promise.
    InputError
        If an argument is outside its domain.
    """
    promise = promise.settled()
    beta = argument_checks.share(promise.beta, "beta")
    values = argument_checks.scores(faithful, "faithful")
    least = threshold.minimum_n(beta, promise.guarantee, promise.delta)
    if len(values) < least:
        n = len(values)
        text = error_text("faithful_too_few", n=n, promise=promise, beta=beta, least=least)
        raise TooFewExamplesError(text, least, len(values), "faithful")
    mirrored: Undefined = "pass" if promise.undefined == "flag" else "flag"
    one_sided = Promise(beta, promise.guarantee, promise.delta, mirrored)
    return threshold.calibrate_threshold(-values, one_sided)


def three_way(hallucinated: ArrayLike, faithful: ArrayLike, promise: Promise) -> Rule:
    """Find two thresholds: few hallucinations pass, few faithful answers are flagged.

    Each side is the one-sided promise of ``calibrate_threshold`` on its own class, so each holds
    whatever the detector: a poor one sends more to review. Under ``pac`` each errs with ``delta``.

    Parameters
    ----------
    hallucinated, faithful : array-like of float, shapes (n,) and (m,)
        Calibration scores of both classes, higher = more likely hallucinated; NaN where undefined.
    promise : Promise
        ``alpha`` is the tolerated share of hallucinations that pass, ``beta`` that of faithful
        answers that are flagged.

    Raises
    ------
    TooFewExamplesError
        If a class has too few examples for its promise.
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> rule = three_way(range(40, 140), range(0, 100), Promise(alpha=0.1, beta=0.1))
    >>> rule.calibration.threshold, rule.flag_above
    (49.0, 90.0)
    >>> [DECISIONS[code] for code in rule.decide([48, 49, 90, 91])]
    ['pass', 'review', 'review', 'flag']
    """
    return Rule(
        threshold.calibrate_threshold(hallucinated, promise),
        upper=upper_calibration(faithful, promise),
    )


def fit_rule(
    values: Floats,
    labels: NDArray[np.int8],
    calibrating: Bools,
    promise: Promise,
    *,
    clusters: Ints | None = None,
    names: Sequence[str] | None = None,
    cuts: tuple[float, ...] | None = None,
    together: bool = False,
) -> Rule:
    """Find every threshold that a promise calls for.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated; NaN where undefined.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    calibrating : ndarray of bool, shape (n,)
        Which answers the thresholds come from; the others have no part in them.
    promise : Promise
        With ``beta``, faithful answers get a threshold, too.
    clusters : ndarray of int64, shape (n,), optional
        What answers share, for a promise that counts each cluster once.
    names : sequence of str, length n, optional
        Group of each answer, for a promise to each group; ``clusters`` then plays no part. Where
        the promise names several columns, their groups as ``group_keys`` joins them.
    cuts : tuple of float, optional
        Where the thirds of the answers' lengths end, if they are among the groups.
    together : bool
        As for ``calibrate_groups``.

    Raises
    ------
    TooFewExamplesError
        If no threshold short of flagging everything keeps the promise.

    Examples
    --------
    >>> values, labels = np.arange(40.0), np.repeat([0, 1], 20).astype(np.int8)
    >>> rule = fit_rule(values, labels, np.full(40, True), Promise(alpha=0.1, beta=0.1))
    >>> rule.calibration.threshold, rule.flag_above
    (21.0, 18.0)
    """
    source = calibrating & (labels == 1)
    scores = values[source]
    grouped: group_thresholds.GroupedCalibration | OverlappingCalibration | None = None
    calibration: threshold.Calibration
    upper = None
    if names is not None:
        members = [names[row] for row in np.flatnonzero(source).tolist()]
        if isinstance(promise.by, tuple):
            grouped = replace(calibrate_overlapping(scores, members, promise), cuts=cuts)
        else:
            grouped = group_thresholds.calibrate_groups(scores, members, promise, together=together)
        calibration = grouped.fallback
    elif clusters is not None:
        calibration = group_thresholds.calibrate_clusters(scores, clusters[source], promise)
    else:
        calibration = threshold.calibrate_threshold(scores, promise)
    if promise.beta is not None:
        upper = upper_calibration(values[calibrating & (labels == 0)], promise)
    return Rule(calibration, grouped, upper)


def least_cost(
    values: Floats, labels: NDArray[np.int8], weights: tuple[float, float], tolerance: float = 0.0
) -> float:
    """Return the score that costs least as a threshold of these answers; of equals, the lowest.

    Parameters
    ----------
    values, labels : ndarray of float64 and of int8, shape (n,)
        Scores, NaN where undefined, which cost the same whatever the threshold; 1 = hallucinated.
    weights : pair of float
        What missing all hallucinated answers costs, and flagging all faithful ones.
    tolerance : float
        Numerical tolerance of the score.

    Raises
    ------
    InputError
        If no score is finite.

    Examples
    --------
    >>> least_cost(np.array([0.1, 0.4, 0.3, 0.9]), np.array([0, 0, 1, 1]), (2.0, 0.9))
    0.3
    """
    edges = np.unique(values[np.isfinite(values)])
    if not len(edges):
        raise InputError.on("no_finite_score")
    cost = np.zeros(len(edges))
    for label, weight in zip((1, 0), weights, strict=True):
        scores = np.sort(threshold.add_tolerance(values[labels == label], tolerance))
        # NaN sorts to the end: undefined ones add the same everywhere.
        below = np.searchsorted(scores, edges) / max(1, len(scores))
        cost += weight * (below if label else -below)
    return float(edges[np.argmin(cost)]) + 0.0


def least_withheld(base_rate: float, share: float) -> float:
    """Return the least share of answers that ANY detector must withhold from release.

    To release answers of which at most ``share`` are hallucinated, when ``base_rate`` of all
    answers are: even a detector that withholds hallucinations alone must withhold (base_rate -
    share) / (1 - share) of all answers.

    Parameters
    ----------
    base_rate : float
        Share of hallucinated answers, in [0, 1].
    share : float
        Tolerated share of hallucinated answers among the released, in (0, 1).

    Examples
    --------
    >>> round(least_withheld(0.3, 0.05), 3)
    0.263
    >>> least_withheld(0.03, 0.05)
    0.0
    """
    rate = argument_checks.rate(base_rate, "base_rate")
    allowed = argument_checks.share(share, "share")
    return max(0.0, (rate - allowed) / (1.0 - allowed))
