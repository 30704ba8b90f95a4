"""What does each detector of a comparison cost, at thresholds set, and shipped?

Everything rests on what the comparison found: thresholds at the guarantee that was asked for, the
same test answers for all detectors, one answer of each group and class. New here are the lowest
limit on false alarms that is certified, and thresholds that their authors ship.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Bound, Counts, smallest_limit
from calibrail.data.splits import SPLIT_NAMES, TEST
from calibrail.evaluation.leaderboard.board import (
    TARGETS,
    AgainstBaseline,
    Shipped,
    Standing,
    Target,
)
from calibrail.evaluation.stats.rates import wilson
from calibrail.scale import Scale
from calibrail.settings.promise import OF_THIS_THRESHOLD

#: Fewer independent test answers of a class than this is few.
FEW: Final = 50


def standings(
    comparison: Mapping[str, Any],
    values: Mapping[str, NDArray[np.float64]],
    labels: NDArray[np.int8],
    split: NDArray[np.str_],
    *,
    negated: Collection[str] = (),
    shipped: Mapping[str, float] | None = None,
    marks: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Standing, ...]:
    """Return a row for every detector and baseline of a comparison.

    Parameters
    ----------
    comparison : mapping
        The content of ``compare.json``.
    values : mapping of str to ndarray of float64, shape (n,)
        Its scores, higher = more likely hallucinated; NaN where undefined.
    labels, split : ndarray, shape (n,)
        1 = hallucinated, 0 = faithful; the name of each answer's part.
    negated : collection of str
        Scores whose own columns hold higher values for faithful answers.
    shipped : mapping of str to float, optional
        Thresholds chosen elsewhere, by score, in the numbers of the score's own column.
    marks : mapping of str to sequence of str, optional
        What else weakens a row, by score.
    """
    shipped, marks = shipped or {}, marks or {}
    reports = {item["name"]: item for item in comparison["detectors"]}
    baselines = {item["name"]: item for item in comparison["baselines"]}
    reasons = {item["name"]: item["reason"] for item in comparison["uncalibrated"]}
    first = comparison["detectors"][0]
    promise, confidence = first["promise"], first["requirement"]["confidence"]
    against = {
        item["name"]: _against(item) for item in comparison["paired"]["against_best_baseline"]
    }
    test = split == SPLIT_NAMES[TEST]
    uncertified = _uncertified(first)
    rows = []
    for name in (*reports, *reasons, *baselines):
        report = reports.get(name, baselines.get(name, {}))
        scale = Scale(name, negated=True) if name in negated else Scale()
        scores = values[name]
        undefined = np.isnan(scores)
        ranked = np.where(undefined, np.inf if promise["undefined"] == "flag" else -np.inf, scores)
        targets = tuple(
            _target(comparison, name, coverage, promise, confidence, scale, ranked)
            for coverage in TARGETS
        )
        if uncertified:
            targets = tuple(replace(item, limit=None, confidence=None) for item in targets)
        at = None
        if name in shipped:
            flagged = ranked >= scale.shown(float(shipped[name]))
            caught, fpr = (
                wilson(int(np.sum(flagged & part)), int(np.sum(part)), confidence)
                for part in (test & (labels == label) for label in (1, 0))
            )
            at = Shipped(float(shipped[name]), caught, fpr)
        own = () if name in baselines else marks.get(name, ())
        rows.append(
            Standing(
                name=name,
                baseline=name in baselines,
                higher="faithful" if scale.negated else "hallucinated",
                auroc=report.get("test", report).get("auroc"),
                targets=targets,
                shipped=at,
                against=against.get(name),
                n_undefined=int(undefined.sum()),
                marks=tuple(dict.fromkeys((*own, *uncertified, *_weak(first)))),
                reason=reasons.get(name),
            )
        )
    return tuple(sorted(rows, key=_order))


def _order(row: Standing) -> tuple[Any, ...]:
    """Sort detectors above baselines, by the FPR at the first target, then by AUROC."""
    target, area = row.targets[0], (row.auroc or {}).get("estimate")
    fpr = target.fpr.estimate if target.fpr else None
    return (
        row.baseline,
        row.reason is not None,
        target.state == "flags_all",
        2.0 if fpr is None else fpr,
        0.0 if area is None else -area,
    )


def _uncertified(first: Mapping[str, Any]) -> list[str]:
    """Return why a data set's rows certify nothing, whatever their bounds: as in a report."""
    found = ["further_look"] if first["looks"] else []
    if first["data"].get("n_alike") and not first["requirement"]["assume_independent"]:
        found.append("rows_alike")
    return found


def _weak(first: Mapping[str, Any]) -> list[str]:
    """Return what weakens every row of a data set."""
    found = []
    if first["requirement"]["assume_independent"]:
        found.append("assumed_independent")
    if min(first["test"]["n_hallucinated"], first["test"]["n_faithful"]) < FEW:
        found.append("few_groups" if first["promise"]["clustered"] else "few_answers")
    return found


def _target(
    comparison: Mapping[str, Any],
    name: str,
    coverage: float,
    promise: Mapping[str, Any],
    confidence: float,
    scale: Scale,
    ranked: NDArray[np.float64],
) -> Target:
    """Return what the comparison's sweep says of one score at one coverage."""
    entry = next(
        item for item in comparison["alpha_sweep"] if abs(item["alpha"] - (1.0 - coverage)) < 1e-9
    )
    row = next((item for item in entry["rows"] if item["name"] == name), None)
    if not entry["rank"]:
        return Target(coverage, "few_labels", needed=entry["minimum_n"])
    if row is None or row["threshold"] is None:
        return Target(coverage, "failed")
    caught, fpr = Bound.from_dict(row["coverage"]), Bound.from_dict(row["fpr"])
    threshold = float(row["threshold"])
    shown = Target(coverage, "set", scale.shown(threshold), caught, fpr)
    if bool(np.all(ranked >= threshold)):
        return replace(shown, state="flags_all")
    counts = Counts(caught.count, caught.n, fpr.count, fpr.n)
    delta = promise["delta"] if promise["guarantee"] in OF_THIS_THRESHOLD else None
    limit, level = smallest_limit(counts, coverage, confidence, delta)
    return replace(shown, limit=limit, confidence=None if limit is None else level)


def _against(test: Mapping[str, Any]) -> AgainstBaseline:
    fpr = test["fpr"]
    return AgainstBaseline(
        name=test["against"],
        difference=fpr["estimate"],
        lower=fpr["lower"],
        upper=fpr["upper"],
        p_value=fpr["p_value"],
    )
