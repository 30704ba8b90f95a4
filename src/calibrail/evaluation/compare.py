"""Compare detectors at one coverage.

Thresholds calibrated to one target still catch different shares of the test answers: chance moves
them, and ties push them up. Beside what was calibrated, every threshold is set on the test answers
themselves, so that all detectors catch the same share. That describes this data; it is no promise,
and decides nothing.

A detector with few distinct values (a yes/no judge) cannot reach every coverage. What it can reach
is listed, and the others are compared with it *there*.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.special import betainc

from calibrail.conformal import minimum_n
from calibrail.conformal import rank as rank_of
from calibrail.conformal.threshold_rule import Rule
from calibrail.data.splits import CALIBRATION, TEST
from calibrail.errors import InputError
from calibrail.evaluation import winner as winners
from calibrail.evaluation.evaluate import Others, Report, ReportOrigin, evaluate
from calibrail.evaluation.measures import BaselineResult
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.stats.auroc import LEAST_COVERAGE, partial_auroc
from calibrail.evaluation.stats.intervals import Codes, Floats, Ints, Measure, ranked_values, wilson
from calibrail.evaluation.stats.tests import overlap
from calibrail.formatting import Scale
from calibrail.options import Promise, Requirement
from calibrail.serialization import plain

#: Name of the format that ``Comparison.to_dict`` writes.
SCHEMA = "calibrail.compare/1"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several detectors on one split at one target, the fewest false alarms first.

    Parameters
    ----------
    detectors : tuple of (str, Report)
        Name and report of each detector, sorted by observed FPR, then by AUROC (highest first).
    uncalibrated : mapping of str to InputError
        Detectors that could not be calibrated, with the reason.
    baselines : tuple of BaselineResult
        The trivial baselines, sorted alike; those that could not be calibrated come last.
    winner : Winner
        Who raises the fewest false alarms, on data that did and on data that did not choose it.
    measures : mapping of str to mapping of str to Measure
        By name: ``partial_auroc`` of every score, ``overlap`` of the baselines.
    matched : mapping
        FPR at the same coverage of the test answers that choose; see ``matched_coverage``.
    sweep : sequence of mapping
        Other targets; see ``alpha_sweep``.
    origin : ReportOrigin
        Of the data; passed through.
    """

    detectors: tuple[tuple[str, Report], ...]
    uncalibrated: Mapping[str, InputError]
    baselines: tuple[BaselineResult, ...]
    winner: winners.Winner
    measures: Mapping[str, Mapping[str, Measure]]
    matched: Mapping[str, Any]
    sweep: Sequence[Mapping[str, Any]]
    origin: ReportOrigin

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dictionary that strict JSON can hold.

        Each entry of ``detectors`` has the fields of a report, its ``name`` and its
        ``partial_auroc``. No time that was measured is in it: the same input gives the same bytes.
        """
        winner = self.winner
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "leader": winner.name,
            "winner": winner,
            "detectors": [
                {"name": name, **report.to_dict(), **self.measures.get(name, {})}
                for name, report in self.detectors
            ],
            "uncalibrated": [
                {"name": name, "reason": str(error), **getattr(error, "counts", {})}
                for name, error in self.uncalibrated.items()
            ],
            "baselines": [
                {**row.to_dict(), **self.measures.get(row.name, {})} for row in self.baselines
            ],
            "paired": {
                "against_best": winner.choosing,
                "against_best_baseline": winner.baseline_tests,
                "confirming": winner.confirming,
            },
            "reference": winner.reference,
            "partial_auroc": {"least_coverage": LEAST_COVERAGE},
            "matched_coverage": self.matched,
            "alpha_sweep": self.sweep,
            "data": self.origin.data,
            "reproduce": self.origin.reproduce,
        }
        return {name: plain(value) for name, value in content.items()}


def compare_detectors(
    detectors: Mapping[str, Sample],
    promise: Promise,
    requirement: Requirement | None = None,
    origins: Mapping[str, ReportOrigin] | None = None,
    *,
    baselines: Mapping[str, Sample] | None = None,
    seed: int = 0,
    halves: Codes | None = None,
    against: tuple[str, float] | None = None,
) -> Comparison:
    """Calibrate every detector to the same target on the same split, and compare what that costs.

    Each detector's own measures are those of a single report, on the half of the test part that
    chooses: their intervals claim nothing about several detectors at once, and the other half is
    seen by nobody but a winner. Claims about who is better rest on paired, corrected tests, see
    ``calibrail.evaluation.winner``.

    Parameters
    ----------
    detectors : mapping of str to Sample
        Scores per detector, all on the same answers. Tests, halves and bootstrap draws keep the
        groups of these whole.
    promise : Promise
        The same for every detector and baseline.
    requirement : Requirement, optional
        What the data is to show of each.
    origins : mapping of str to Origin, optional
        What the report of a detector says of it and of the data.
    baselines : mapping of str to Sample, optional
        Trivial baselines, under other names than the detectors'; they take part in every test.
    seed : int
        Of the halves of the test part and of every bootstrap: the same input gives the same
        comparison.
    halves : ndarray of int8, shape (n,), optional
        Which half of the test part each answer belongs to, as from ``halve``, where others have to
        be the same.
    against : (str, float), optional
        A reference and a margin, as for ``find_winner``.

    Raises
    ------
    InputError
        If a baseline has the name of a detector, or the reference is no detector with a threshold.
    """
    requirement, origins = requirement or Requirement(), origins or {}
    promise = promise.settled(requirement)
    baselines = baselines or {}
    if twice := sorted(set(detectors) & set(baselines)):
        raise InputError(f"baselines must have names of their own; {twice[0]} is also a detector")
    samples = {**detectors, **baselines}
    shared = next(iter(detectors.values()))
    candidates: list[winners.Candidate] = []
    uncalibrated: dict[str, InputError] = {}
    for name, sample in samples.items():
        try:
            calibration = sample.calibrated(promise)
        except InputError as error:
            if name in detectors:
                uncalibrated[name] = error
            continue
        made = winners.Candidate.of(name, sample, calibration, baseline=name in baselines)
        candidates.append(made)
    if against is not None and against[0] not in detectors.keys() - uncalibrated.keys():
        why = uncalibrated.get(against[0]) or f"the detectors are {', '.join(detectors)}"
        raise InputError(f"{against[0]} can be no reference: {why}")
    level, required = requirement.confidence, requirement.coverage(promise)
    everyone = winners.Candidates.on(shared, candidates, confidence=level, seed=seed, drawn=halves)
    shown = everyone.without_confirming()
    samples = {name: replace(sample, split=shown.split) for name, sample in samples.items()}
    others = Others({name: samples[name] for name in baselines})
    reports: list[tuple[str, Report]] = []
    for item in candidates:
        if not item.baseline:
            origin = origins.get(item.name, ReportOrigin({"name": item.name, "params": {}}))
            rule, sample = Rule(item.calibration), samples[item.name]
            report = evaluate(rule, sample, promise, requirement, origin, others=others)
            reports.append((item.name, report))
    reports.sort(key=lambda item: _order(item[1].test.fpr.estimate, item[1].test.auroc.estimate))
    winner = winners.find_winner(
        everyone if reports else replace(everyone, members=()),
        Requirement(requirement.max_fpr, required, level),
        against,
    )
    matched = matched_coverage(shown, promise.coverage)
    sweep = alpha_sweep(samples, promise, baselines, (*ALPHAS, promise.alpha), level)
    scales = {name: Scale.of(origin.score) for name, origin in origins.items()}
    # Those that could not be calibrated stand in the sweep, too.
    tables = [matched["attainable"], *(entry["rows"] for entry in (*matched["levels"], *sweep))]
    for rows in tables:
        rows[:] = [scales.get(row["name"], Scale()).beside(row) for row in rows]
    return Comparison(
        detectors=tuple(reports),
        uncalibrated=uncalibrated,
        baselines=_baseline_rows(reports),
        winner=winner,
        measures={
            name: _measures(sample, shown, promise.undefined, name in baselines)
            for name, sample in samples.items()
        },
        matched=matched,
        sweep=sweep,
        origin=next(iter(origins.values()), ReportOrigin({})),
    )


def _measures(
    sample: Sample, everyone: winners.Candidates, undefined: str, baseline: bool
) -> dict[str, Measure]:
    """Return what a report does not hold; a baseline's overlap, too."""
    test, level, seed = everyone.split == TEST, everyone.confidence, everyone.seed
    ranked, labels = ranked_values(sample.values[test], undefined), everyone.labels[test]
    area = partial_auroc(ranked, labels, everyone.groups[test], confidence=level, seed=seed)
    if not baseline:
        return {"partial_auroc": area}
    shared = overlap(ranked[labels == 1], ranked[labels == 0], confidence=level)
    return {"partial_auroc": area, "overlap": shared}


def _order(fpr: float | None, area: float | None) -> tuple[float, float]:
    """Sort by FPR, then by AUROC from the top; what is missing comes last."""
    return (2.0 if fpr is None else fpr, 0.0 if area is None else -area)


def _baseline_rows(reports: Sequence[tuple[str, Report]]) -> tuple[BaselineResult, ...]:
    """Return the baselines by themselves, without the comparison with one detector."""
    rows = [
        replace(row, auroc_difference=None, beats_detector=False, detector_beats=False)
        for row in (reports[0][1].baselines if reports else ())
    ]
    rows.sort(key=lambda row: _order(row.fpr.estimate if row.fpr else None, row.auroc.estimate))
    return tuple(rows)


#: A score with at most this many distinct test values has its attainable coverages listed.
FEW_VALUES: Final = 20


#: Coverages at which detectors are compared, at most; the target is always one of them.
_MOST_LEVELS: Final = 5


#: Where more of the hallucinated scores than this, and at least so many, share one value, a
#: threshold is not moved there.
_TIED: Final = 0.05


_LEAST_TIED: Final = 5


def matched_coverage(candidates: winners.Candidates, target: float) -> dict[str, Any]:
    """Return every candidate's FPR at the same coverage of the test answers.

    Coverages compared: the target, and for each detector that cannot come near the target short of
    flagging everything, the highest coverage that it does reach.

    Parameters
    ----------
    candidates : Candidates
        Detectors and baselines, and the level of the intervals (see ``_interval``).
    target : float
        Coverage that all were calibrated to.

    Returns
    -------
    dict
        ``levels``, each with ``coverage``, ``set_by`` (the detector whose reach it is, None for
        the target) and ``rows``; ``attainable``, for each candidate with few distinct values.
        Both are empty where the test part lacks a class or nothing is compared.
    """
    test, confidence = candidates.split == TEST, candidates.confidence
    caught, faithful = (test & (candidates.labels == label) for label in (1, 0))
    m = int(caught.sum())
    result: dict[str, Any] = {"levels": [], "attainable": [], "confidence": confidence}
    if m == 0 or not faithful.any() or not len(candidates):
        return result
    sizes = _independent(candidates.groups[caught]), _independent(candidates.groups[faithful])
    classes = {item.name: (item.ranked[caught], item.ranked[faithful]) for item in candidates}
    short: dict[float, str] = {}
    for item in candidates:
        share = 0.0 if item.baseline else _reach(*classes[item.name])
        if 0.0 < share < target - 1.0 / m:
            short.setdefault(share, item.name)
    # Of levels close to each other the lowest serves all.
    levels = sorted(short, reverse=True)
    steps = zip(levels, [*levels[1:], -1.0], strict=False)
    lower = [level for level, below in steps if level - below > winners.NEAR]
    for coverage in (target, *lower[: _MOST_LEVELS - 1]):
        # 1e-9 keeps 0.1 * 30 = 3.0000000000000004 from being more than 3.
        missed = math.floor((1.0 - coverage) * m + 1e-9)
        rows = []
        for item in candidates:
            ladder, passable = np.sort(classes[item.name][0]), classes[item.name][1]
            rank = min(1 + missed, m)
            at = _at(float(ladder[rank - 1]), ladder, passable, confidence)
            at["fpr"] |= _interval(ladder, passable, rank, 1.0 - coverage, sizes, confidence)
            cost = {"threshold": at["threshold"], "attained": at["coverage"], "fpr": at["fpr"]}
            rows.append({"name": item.name, "baseline": item.baseline, **cost})
        rows.sort(key=lambda row: (row["fpr"]["estimate"], -row["attained"]["estimate"]))
        result["levels"].append(
            {"coverage": coverage, "set_by": short.get(coverage), "missed": missed, "rows": rows}
        )
    for item in candidates:
        values = np.unique(item.ranked[test])
        if len(values) <= FEW_VALUES:
            attained = [_at(edge, *classes[item.name], confidence) for edge in values.tolist()]
            result["attainable"].append(
                {"name": item.name, "baseline": item.baseline, "at": attained}
            )
    return result


def _reach(hallucinated: Floats, faithful: Floats) -> float:
    """Return the highest coverage at which some faithful answer passes; 0 where none can."""
    ladder = np.concatenate([hallucinated, faithful])
    above = ladder[ladder > faithful.min()]
    return float(np.mean(hallucinated >= above.min())) if len(above) else 0.0


def _interval(
    ladder: Floats,
    faithful: Floats,
    rank: int,
    share: float,
    sizes: tuple[float, float],
    confidence: float,
) -> dict[str, Any]:
    """Return the interval of the FPR at the threshold that misses a share of all hallucinations.

    Other hallucinated answers would have set another threshold, other faithful ones would have
    been flagged. The distribution-free interval of the quantile, between two order statistics
    (interpolated: Hutson, "Calculating nonparametric confidence intervals for quantiles using
    fractional order statistics", 1999), gives the FPR at either end; Wilson's interval holds at
    the threshold seen. The distances of the two from the estimate are combined as the square root
    of the sum of their squares (MOVER: Zou and Donner, 2008).

    Where even the lowest score lies above the quantile too often, nothing bounds the threshold
    from below, nor the FPR from above. Where ties leave no other threshold, Wilson's interval
    stands alone.

    Parameters
    ----------
    ladder : ndarray of float64, shape (m,)
        Scores of hallucinated answers, ascending.
    faithful : ndarray of float64, shape (n,)
        Scores of faithful answers.
    rank : int
        Of the threshold on the ladder.
    share : float
        Share of hallucinated answers that the threshold is to miss.
    sizes : (float, float)
        Independent answers of each class.
    confidence : float
        Level of the interval.
    """
    m, fpr = len(ladder), float(np.mean(faithful >= ladder[rank - 1]))
    n_hallucinated, n_faithful = sizes
    fixed = wilson(round(fpr * n_faithful), max(1, round(n_faithful)), confidence)
    lower, upper = min(fpr, fixed.lower), max(fpr, fixed.upper)
    if _tied(ladder, float(ladder[rank - 1])):
        return {"lower": lower, "upper": upper, "method": "wilson", "reason": None}
    tail, method = (1.0 - confidence) / 2.0, "order statistics and wilson, mover"
    first, last = _quantile_ranks(n_hallucinated, share, tail)
    flagged = 1.0 - np.searchsorted(np.sort(faithful), ladder, side="left") / len(faithful)
    scale = (m + 1) / (n_hallucinated + 1)
    low, high = np.interp([last * scale, first * scale], np.arange(1, m + 1), flagged).tolist()
    least = 0.0 if last > n_hallucinated else min(fpr, low)
    lower = max(0.0, fpr - math.hypot(fpr - lower, fpr - least))
    if first < 1.0:
        needed = math.ceil(math.log(tail) / math.log1p(-share))
        return {"lower": lower, "upper": None, "method": method, "reason": f"few_to_miss:{needed}"}
    upper = min(1.0, fpr + math.hypot(upper - fpr, max(fpr, high) - fpr))
    return {"lower": lower, "upper": upper, "method": method, "reason": None}


def _quantile_ranks(n: float, share: float, tail: float) -> tuple[float, float]:
    """Return the ranks, of n, between which the quantile lies but for the tail on either side."""

    def rank(error: float) -> float:
        # The chance that at least so many of n lie below the quantile falls from 1 to 0.
        edge = 1e-9
        from scipy.optimize import brentq  # takes long to import

        return float(brentq(lambda k: betainc(k, n + 1.0 - k, share) - error, edge, n + 1.0 - edge))

    return rank(1.0 - tail), rank(tail)


def _independent(groups: Ints) -> float:
    """Return how many independent answers groups of answers are worth at least.

    The square of the sum of the groups' sizes over the sum of their squares (Kish, 1965): what is
    left where the answers of a group are all alike.
    """
    sizes = np.unique(groups, return_counts=True)[1].astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes @ sizes))


def _tied(hallucinated: Floats, threshold: float) -> bool:
    """Return whether ties at the threshold, or just below it, make coverage jump."""
    below = hallucinated[hallucinated < threshold].max(initial=-math.inf)
    least = max(_LEAST_TIED, _TIED * len(hallucinated))
    return any(np.sum(hallucinated == value) >= least for value in (threshold, below))


def _at(
    threshold: float, hallucinated: Floats, faithful: Floats, confidence: float
) -> dict[str, Any]:
    """Return coverage and FPR of a threshold with Wilson's intervals."""
    shares = {
        name: wilson(int(np.sum(values >= threshold)), len(values), confidence).to_dict()
        for name, values in (("coverage", hallucinated), ("fpr", faithful))
    }
    # Where the undefined answers alone decide, there is none.
    return {"threshold": threshold if math.isfinite(threshold) else None, **shares}


#: Tolerated miss rates from 1 % to 20 %, as the Semantic Illusion paper sweeps them.
ALPHAS: Final = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2)


def alpha_sweep(
    samples: Mapping[str, Sample],
    promise: Promise,
    baselines: Collection[str] = (),
    alphas: Sequence[float] = ALPHAS,
    confidence: float = 0.95,
) -> list[dict[str, Any]]:
    """Return, for each tolerated miss rate, every score's threshold, coverage and FPR.

    Each target is calibrated by itself; its promise holds for one target named in advance, not for
    the best of the sweep.

    Parameters
    ----------
    samples : mapping of str to Sample
        Scores of the same answers.
    promise : Promise
        Everything but its alpha holds for every target.
    baselines : collection of str
        Which of ``samples`` are baselines.
    alphas : sequence of float
        Tolerated miss rates.
    confidence : float
        Level of the (Wilson) intervals.

    Returns
    -------
    list of dict
        One entry an alpha, ascending: ``alpha``, ``n``, ``rank`` (0 = cannot be promised with n
        calibration examples), ``minimum_n``, ``counted`` (what these three count, ``answers`` or
        ``groups``) and ``rows``; a row without a threshold has a reason.
    """
    promise, first = promise.settled(), next(iter(samples.values()))
    calibrating = first.rows(CALIBRATION, 1)
    n, counted = int(calibrating.sum()), "answers"
    if promise.clustered and first.groups is not None:
        n, counted = len(np.unique(first.groups[calibrating])), "groups"
    targets = []
    for alpha in sorted(set(alphas)):
        rank = rank_of(n, alpha, promise.guarantee, promise.delta)
        rows = [
            {"name": name, "baseline": name in baselines}
            | _row(sample, replace(promise, alpha=alpha), confidence)
            for name, sample in samples.items()
            if rank
        ]
        needed = minimum_n(alpha, promise.guarantee, promise.delta)
        head = {"alpha": alpha, "n": n, "rank": rank, "minimum_n": needed, "counted": counted}
        targets.append({**head, "rows": rows})
    return targets


def _row(sample: Sample, promise: Promise, confidence: float) -> dict[str, Any]:
    try:
        calibration = sample.calibrated(promise)
    except InputError as error:
        return {"threshold": None, "coverage": None, "fpr": None, "reason": str(error)}
    coverage, fpr = sample.bounds(calibration.flags(sample.values, sample.tolerance), confidence)
    return {
        "threshold": calibration.threshold,
        "coverage": coverage.to_dict(),
        "fpr": fpr.to_dict(),
        "reason": None,
    }
