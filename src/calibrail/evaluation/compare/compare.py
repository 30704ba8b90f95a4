"""Which of several detectors costs the fewest false alarms at the same target?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import calibrate_threshold
from calibrail.conformal.rule import Rule
from calibrail.errors import InputError
from calibrail.evaluation.compare.candidate import Candidate, Candidates
from calibrail.evaluation.compare.conclusion import conclusion
from calibrail.evaluation.compare.matched import matched_coverage
from calibrail.evaluation.compare.sweep import ALPHAS, alpha_sweep
from calibrail.evaluation.compare.winner import Winner, find_winner
from calibrail.evaluation.evaluate import Origin, Others, evaluate
from calibrail.evaluation.report import Report
from calibrail.evaluation.rows import Row
from calibrail.evaluation.sample import TEST, Sample
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.overlap import overlap
from calibrail.evaluation.stats.partial_auroc import LEAST_COVERAGE, partial_auroc
from calibrail.evaluation.stats.resampling import with_singletons
from calibrail.evaluation.stats.undefined import ranked_values
from calibrail.record import plain
from calibrail.settings import Promise, Requirement

#: Name of the format that ``Comparison.to_dict`` writes.
SCHEMA = "calibrail.compare/1"

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several detectors on one split at one target, the fewest false alarms first.

    Parameters
    ----------
    detectors : tuple of (str, Report)
        Name and report of each detector, sorted by observed FPR, then by AUROC (highest first).
    uncalibrated : mapping of str to str
        Detectors that could not be calibrated, with the reason.
    baselines : tuple of Row
        The trivial baselines, sorted alike; those that could not be calibrated come last.
    winner : Winner
        Who raises the fewest false alarms, on data that did and on data that did not choose it.
    finding : str
        What the comparison shows, in plain words.
    measures : mapping of str to mapping of str to Measure
        By name: ``partial_auroc`` of every score, ``overlap`` of the baselines.
    matched : mapping
        FPR at the same coverage of the test answers; see ``matched_coverage``.
    sweep : sequence of mapping
        Other targets; see ``alpha_sweep``.
    data, reproduce : mapping
        Passed through.
    """

    detectors: tuple[tuple[str, Report], ...]
    uncalibrated: Mapping[str, str]
    baselines: tuple[Row, ...]
    winner: Winner
    finding: str
    measures: Mapping[str, Mapping[str, Measure]] = field(default_factory=dict)
    matched: Mapping[str, Any] = field(default_factory=dict)
    sweep: Sequence[Mapping[str, Any]] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    reproduce: Mapping[str, Any] = field(default_factory=dict)

    @property
    def leader(self) -> str | None:
        """The winner's name, if there is one."""
        return self.winner.name

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dictionary that strict JSON can hold.

        Each entry of ``detectors`` has the fields of a report, its ``name`` and its
        ``partial_auroc``. No time that was measured is in it: the same input gives the same bytes.
        """
        winner = self.winner
        return {
            "schema": SCHEMA,
            "leader": self.leader,
            "finding": self.finding,
            "winner": plain(winner.to_dict()),
            "detectors": [
                {"name": name, **report.to_dict(), **self._measures(name)}
                for name, report in self.detectors
            ],
            "uncalibrated": [
                {"name": name, "reason": reason} for name, reason in self.uncalibrated.items()
            ],
            "baselines": [
                {**item.to_dict(), **self._measures(item.name)} for item in self.baselines
            ],
            "paired": {
                "against_best": [test.to_dict() for test in winner.choosing],
                "against_best_baseline": [test.to_dict() for test in winner.baseline_tests],
                "confirming": [test.to_dict() for test in winner.confirming],
            },
            "partial_auroc": {"least_coverage": LEAST_COVERAGE},
            "matched_coverage": plain(self.matched),
            "alpha_sweep": plain(list(self.sweep)),
            "data": plain(self.data),
            "reproduce": plain(self.reproduce),
        }

    def _measures(self, name: str) -> dict[str, Any]:
        found = self.measures.get(name, {})
        return {key: measure.to_dict() for key, measure in found.items()}

    def to_json(self) -> str:
        """Return the comparison as strict JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def compare_detectors(
    values: Mapping[str, _Floats],
    *,
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    alpha: float,
    guarantee: Literal["marginal", "pac", "paper"] = "marginal",
    delta: float = 0.1,
    undefined: Literal["flag", "review", "pass"] = "flag",
    confidence: float = 0.95,
    max_fpr: float | None = None,
    min_coverage: float | None = None,
    baselines: Mapping[str, _Floats] | None = None,
    specs: Mapping[str, Mapping[str, Any]] | None = None,
    tolerances: Mapping[str, float] | None = None,
    groups: NDArray[np.int64] | None = None,
    data: Mapping[str, Any] | None = None,
    reproduce: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    seed: int = 0,
) -> Comparison:
    """Calibrate every detector to the same target on the same split, and compare what that costs.

    Each detector's own measures are those of a single report, on the whole test part: their
    intervals claim nothing about several detectors at once. Claims about who is better rest on
    paired, corrected tests, see ``calibrail.evaluation.compare.winner``.

    Parameters
    ----------
    values : mapping of str to ndarray of float64, shape (n,)
        Scores per detector, higher = more likely hallucinated; NaN where undefined.
    labels, codes : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful; 0 = fit, 1 = calibration, 2 = test.
    alpha, guarantee, delta, undefined
        As in ``calibrate``, the same for every detector and baseline.
    specs : mapping of str to mapping
        Full specification (``name``, ``params``) of the detectors that have one.
    baselines : mapping of str to ndarray of float64, shape (n,)
        Trivial baselines, under other names than the detectors'; they take part in every test.
    groups : ndarray of int64, shape (n,), or None
        What examples share (a source, a question); negative = stands alone. Tests, halves and
        bootstrap draws keep groups whole.
    confidence, max_fpr, min_coverage, tolerances, data, reproduce, notes
        As in ``evaluate``.
    seed : int
        Of the halves of the test part and of every bootstrap: the same input gives the same
        comparison.

    Raises
    ------
    InputError
        If there is no detector, a baseline has the name of one, or an array is not as
        ``evaluate`` needs it.
    """
    if not values:
        raise InputError("values must hold at least one detector; got none")
    trivial = dict(baselines or {})
    if twice := sorted(set(values) & set(trivial)):
        raise InputError(f"baselines must have names of their own; {twice[0]} is also a detector")
    source = (codes == 1) & (labels == 1)
    samples: dict[str, Sample] = {}
    members = with_singletons(groups, len(labels))
    reports: list[tuple[str, Report]] = []
    candidates: list[Candidate] = []
    uncalibrated: dict[str, str] = {}
    for name, column in {**values, **trivial}.items():
        if len(column) != len(labels):
            raise InputError(f"{name} must have {len(labels)} values; got {len(column)}")
        slack = (tolerances or {}).get(name, 0.0)
        samples[name] = Sample(column, labels, codes, groups, slack)
        try:
            calibration = calibrate_threshold(
                column[source], Promise(alpha, guarantee, delta, undefined)
            )
        except InputError as error:
            if name in values:
                uncalibrated[name] = str(error)
            continue
        candidates.append(Candidate.of(name, samples[name], calibration, baseline=name in trivial))
        if name in trivial:
            continue
        sample = Sample(column, labels, codes, groups, slack)
        spec = (specs or {}).get(name, {"name": name, "params": {}})
        report = evaluate(
            Rule(calibration),
            sample,
            Promise(alpha, guarantee, delta, undefined),
            Requirement(max_fpr, min_coverage, confidence),
            Origin(spec, data or {}, reproduce or {}, tuple(notes)),
            others=Others({key: sample.with_scores(trivial[key]) for key in trivial}),
            seed=seed,
        )
        reports.append((name, report))
    reports.sort(key=lambda item: _order(item[1].test.fpr.estimate, item[1].test.auroc.estimate))
    everyone = Candidates.on(
        next(iter(samples.values())), candidates, confidence=confidence, seed=seed
    )
    winner = find_winner(
        everyone if reports else replace(everyone, members=()),
        min_coverage=1.0 - alpha if min_coverage is None else min_coverage,
        max_fpr=max_fpr,
    )
    test = codes == TEST
    return Comparison(
        detectors=tuple(reports),
        uncalibrated=uncalibrated,
        baselines=_baseline_rows(reports),
        winner=winner,
        finding=conclusion(reports, winner),
        measures={
            name: _measures(
                ranked_values(column[test], undefined), labels[test], members[test],
                name in trivial, confidence, seed,
            )
            for name, column in {**values, **trivial}.items()
        },
        matched=matched_coverage(everyone, 1.0 - alpha),
        sweep=alpha_sweep(
            samples,
            Promise(alpha, guarantee, delta, undefined),
            alphas=(*ALPHAS, alpha),
            baselines=trivial,
            confidence=confidence,
        ),
        data=dict(data or {}),
        reproduce=dict(reproduce or {}),
    )  # fmt: skip


def _measures(
    ranked: _Floats,
    labels: NDArray[np.int8],
    groups: NDArray[np.int64],
    baseline: bool,
    confidence: float,
    seed: int,
) -> dict[str, Measure]:
    """Return what a report does not hold; a baseline's overlap, too."""
    area = partial_auroc(ranked, labels, groups, confidence=confidence, seed=seed)
    if not baseline:
        return {"partial_auroc": area}
    classes = [ranked[labels == label] for label in (1, 0)]
    return {"partial_auroc": area, "overlap": overlap(*classes, confidence=confidence, seed=seed)}


def _order(fpr: float | None, area: float | None) -> tuple[float, float]:
    """Sort by FPR, then by AUROC from the top; what is missing comes last."""
    return (2.0 if fpr is None else fpr, 0.0 if area is None else -area)


def _baseline_rows(reports: Sequence[tuple[str, Report]]) -> tuple[Row, ...]:
    """Return the baselines by themselves, without the comparison with one detector."""
    if not reports:
        return ()
    bare = [
        replace(item, auroc_difference=None, beats_detector=False, detector_beats=False)
        for item in reports[0][1].baselines
    ]
    return tuple(
        sorted(bare, key=lambda r: _order(r.fpr.estimate if r.fpr else None, r.auroc.estimate))
    )
