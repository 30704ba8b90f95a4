"""Is the promise kept in every group of the test part?"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import (
    GroupedCalibration,
    GroupVerdict,
    OverlappingCalibration,
    certify_groups,
)
from calibrail.conformal.group_keys import joined, parted
from calibrail.conformal.trim_certificate import certify_group_trimming
from calibrail.evaluation.sample import CALIBRATION, TEST, Mask, Sample
from calibrail.evaluation.trimmed import Trimmed, in_order
from calibrail.settings import Requirement


def by_group(
    grouped: GroupedCalibration,
    names: Sequence[str],
    sample: Sample,
    requirement: Requirement,
    trimmed: Trimmed | None = None,
) -> dict[str, Any]:
    """Return what the thresholds of the groups, and one shared threshold, do in each group.

    Bounds and verdicts are corrected for the number of groups, so that all of them hold together
    with ``confidence``.

    Parameters
    ----------
    grouped : GroupedCalibration
        One threshold per group. The shared one is calibrated by the promise of its fallback.
    names : sequence of str, length n
        Group of each example.
    sample : Sample
        Its test part is looked at.
    requirement : Requirement
        With a ``min_coverage``.
    trimmed : Trimmed, optional
        Where sentences are removed: what the thresholds of the groups leave of the answers.

    Returns
    -------
    dict
        ``min_n``, ``scope``, ``confidence`` and ``rows``, one a group of the test part.
    """
    shared = _shared(grouped, sample)
    members = np.asarray(names, dtype=object)
    present = sorted(set(members[sample.rows(TEST)].tolist()))

    def verdicts(flagged: Mask) -> dict[str, GroupVerdict]:
        counts = {name: sample.counts(flagged, members == name) for name in present}
        return certify_groups(counts, requirement)

    if trimmed is None:
        own_threshold = verdicts(grouped.flags(sample.values, names, sample.tolerance))
        shared_threshold = verdicts(shared.flags(sample.values, sample.tolerance))
    else:
        own_threshold = _trimmed_verdicts(trimmed, members, requirement)
        at_shared = trimmed.again(np.full(len(sample), shared.threshold))
        shared_threshold = _trimmed_verdicts(at_shared, members, requirement)
    rows = []
    for name in present:
        calibration = grouped.of(name)
        rows.append(
            {
                "group": name,
                "own": name in grouped.groups,
                "n_calibration": int(np.sum(sample.rows(CALIBRATION, 1) & (members == name))),
                "threshold": None if calibration.flag_all else calibration.threshold,
                **own_threshold[name].to_dict(),
                **_beside(shared_threshold[name]),
            }
        )
    return {
        "min_n": grouped.min_n,
        "scope": grouped.scope,
        "confidence": requirement.confidence,
        "shared_threshold": None if shared.flag_all else shared.threshold,
        "rows": rows,
    }


def _trimmed_verdicts(
    trimmed: Trimmed, members: NDArray[np.object_], requirement: Requirement
) -> dict[str, GroupVerdict]:
    """Decide about every group of the test part by what is left of its answers."""
    return certify_group_trimming(_left(trimmed, members), requirement)


def _left(trimmed: Trimmed, members: NDArray[np.object_]) -> dict[str, tuple[Any, Any]]:
    """Return for every group of the test part what is left of its answers."""
    sample, outcomes = trimmed.sample, trimmed.outcomes
    groups, codes = np.unique(members, return_inverse=True)
    counting = in_order(sample, sample.drawn(TEST, codes))
    return {
        name: (
            sample.counts(trimmed.stopped, members == name),
            outcomes.shares(counting[members[counting] == name]),
        )
        for name in groups.tolist()
        if (sample.rows(TEST) & (members == name)).any()
    }


def by_overlapping_groups(
    grouped: OverlappingCalibration,
    names: Sequence[str],
    sample: Sample,
    requirement: Requirement,
    trimmed: Trimmed | None = None,
) -> dict[str, Any]:
    """Return what the thresholds of overlapping groups do in every group of every column.

    Parameters
    ----------
    grouped : OverlappingCalibration
        One threshold per vector of groups.
    names : sequence of str, length n
        The groups of each example, joined.
    sample, requirement, trimmed
        As for ``by_group``.

    Returns
    -------
    dict
        As from ``by_group``, with ``by``, a ``column`` in every row and the lowest and the highest
        threshold of its test answers; ``n_uncovered`` of the hallucinated ones have a group for
        which nothing is promised, ``n_flagged_by_lack`` of all are flagged whatever their score.
    """
    shared, test = _shared(grouped, sample), sample.rows(TEST)
    parts = np.array([parted(name, len(grouped.columns)) for name in names], dtype=object)
    groups = {
        (column, str(name)): parts[:, place] == name
        for place, column in enumerate(grouped.columns)
        for name in sorted(set(parts[test, place].tolist()))
    }
    keys = {joined(key): key for key in groups}

    def verdicts(flagged: Mask) -> dict[str, GroupVerdict]:
        counts = {name: sample.counts(flagged, groups[key]) for name, key in keys.items()}
        return certify_groups(counts, requirement)

    def of_trimmed(left: Trimmed) -> dict[str, GroupVerdict]:
        counts = {
            joined((column, name)): item
            for place, column in enumerate(grouped.columns)
            for name, item in _left(left, parts[:, place]).items()
        }
        return certify_group_trimming({name: counts[name] for name in keys}, requirement)

    if trimmed is None:
        decided = verdicts(grouped.flags(sample.values, names, sample.tolerance))
        beside = verdicts(shared.flags(sample.values, sample.tolerance))
    else:
        decided = of_trimmed(trimmed)
        beside = of_trimmed(trimmed.again(np.full(len(sample), shared.threshold)))
    thresholds, covered = grouped.thresholds(names), grouped.is_covered(names)
    rows = []
    for (column, name), members in groups.items():
        used = thresholds[members & test]
        rows.append(
            {
                "column": column,
                "group": name,
                "own": grouped.has_promise(grouped.columns.index(column), name),
                "n_calibration": int(np.sum(sample.rows(CALIBRATION, 1) & members)),
                "threshold": None,
                "thresholds": [
                    float(end) if np.isfinite(end) else None for end in (used.min(), used.max())
                ],
                **decided[joined((column, name))].to_dict(),
                **_beside(beside[joined((column, name))]),
            }
        )
    return {
        "by": list(grouped.columns),
        "cuts": None if grouped.cuts is None else list(grouped.cuts),
        "min_n": grouped.min_n,
        "scope": "all groups",
        "confidence": requirement.confidence,
        "shared_threshold": None if shared.flag_all else shared.threshold,
        "n_uncovered": int(np.sum(sample.rows(TEST, 1) & ~covered)),
        "n_flagged_by_lack": int(np.sum(test & (thresholds == -np.inf))),
        "rows": rows,
    }


def _shared(grouped: GroupedCalibration | OverlappingCalibration, sample: Sample) -> Any:
    """Return the calibration of one threshold for all groups."""
    return sample.calibrated(replace(grouped.fallback.promise, allow_flag_all=True))


def _beside(verdict: GroupVerdict) -> dict[str, Any]:
    return {
        "shared_coverage": verdict.certificate.coverage.to_dict(),
        "shared_fpr": verdict.certificate.fpr.to_dict(),
        "shared_p_undercovered": verdict.p_undercovered,
    }
