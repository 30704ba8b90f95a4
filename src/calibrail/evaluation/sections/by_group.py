"""Is the promise kept in every group of the test part?"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import (
    GroupedCalibration,
    GroupVerdict,
    certify_groups,
)
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
    promise = replace(grouped.fallback.promise, allow_flag_all=True)
    shared = sample.calibrated(promise)
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
        calibration, beside = grouped.of(name), shared_threshold[name]
        rows.append(
            {
                "group": name,
                "own": name in grouped.groups,
                "n_calibration": int(np.sum(sample.rows(CALIBRATION, 1) & (members == name))),
                "threshold": None if calibration.flag_all else calibration.threshold,
                **own_threshold[name].to_dict(),
                "shared_coverage": beside.certificate.coverage.to_dict(),
                "shared_fpr": beside.certificate.fpr.to_dict(),
                "shared_p_undercovered": beside.p_undercovered,
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
    sample, outcomes = trimmed.sample, trimmed.outcomes
    groups, codes = np.unique(members, return_inverse=True)
    counting = in_order(sample, sample.drawn(TEST, codes))
    counts = {
        name: (
            sample.counts(trimmed.stopped, members == name),
            outcomes.shares(counting[members[counting] == name]),
        )
        for name in groups.tolist()
        if (sample.rows(TEST) & (members == name)).any()
    }
    return certify_group_trimming(counts, requirement)
