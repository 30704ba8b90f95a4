"""Is the promise kept in every group of the test part?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Calibration, GroupCounts, GroupedCalibration, certify_groups
from calibrail.evaluation.sample import CALIBRATION, TEST, Sample
from calibrail.settings import Requirement


def by_group(
    grouped: GroupedCalibration,
    shared: Calibration,
    groups: Sequence[str],
    sample: Sample,
    requirement: Requirement,
) -> dict[str, Any]:
    """Return what the thresholds of the groups, and one shared threshold, do in each group.

    Bounds and verdicts are corrected for the number of groups, so that all of them hold together
    with ``confidence``.

    Parameters
    ----------
    grouped, shared : GroupedCalibration, Calibration
        One threshold per group; one for all examples, for comparison.
    groups : sequence of str, length n
        Group of each example.
    sample : Sample
        Its test part is looked at.
    requirement : Requirement
        With a ``min_coverage``.

    Returns
    -------
    dict
        ``min_n``, ``scope``, ``confidence`` and ``rows``, one a group of the test part.
    """
    names = np.asarray(groups, dtype=object)
    test = sample.rows(TEST)
    by_own = grouped.flags(sample.values, groups, sample.tolerance)
    by_shared = shared.flags(sample.values, sample.tolerance)
    present = sorted(set(names[test].tolist()))

    def counts(flagged: NDArray[np.bool_]) -> dict[str, GroupCounts]:
        of_groups = {}
        for name in present:
            caught = sample.count(flagged, TEST, 1, names == name)
            of_groups[name] = GroupCounts(*caught, *sample.count(flagged, TEST, 0, names == name))
        return of_groups

    assert requirement.min_coverage is not None
    limits = requirement.min_coverage, requirement.max_fpr, requirement.confidence
    verdicts = certify_groups(counts(by_own), *limits)
    beside = certify_groups(counts(by_shared), *limits)
    rows = []
    for name in present:
        calibration = grouped.of(name)
        source = sample.rows(CALIBRATION, 1) & (names == name)
        rows.append(
            {
                "group": name,
                "own": name in grouped.groups,
                "n_calibration": int(np.sum(source)),
                "threshold": None if calibration.flag_all else calibration.threshold,
                **verdicts[name].to_dict(),
                "shared_coverage": beside[name].certificate.coverage.to_dict(),
                "shared_fpr": beside[name].certificate.fpr.to_dict(),
                "shared_p_undercovered": beside[name].p_undercovered,
            }
        )
    return {
        "min_n": grouped.min_n,
        "scope": grouped.scope,
        "confidence": requirement.confidence,
        "shared_threshold": None if shared.flag_all else shared.threshold,
        "rows": rows,
    }
