"""Compare detectors at one coverage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibrail.conformal.threshold_rule import Rule
from calibrail.data.splits import TEST
from calibrail.errors import InputError
from calibrail.evaluation import winner as winners
from calibrail.evaluation.evaluate import Others, Report, ReportOrigin, evaluate
from calibrail.evaluation.measures import BaselineResult
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.stats.auroc import LEAST_COVERAGE, partial_auroc
from calibrail.evaluation.stats.intervals import Codes, Measure, ranked_values
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
    matched = winners.matched_coverage(shown, promise.coverage)
    alphas = (*winners.ALPHAS, promise.alpha)
    sweep = winners.alpha_sweep(samples, promise, baselines, alphas, level)
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
