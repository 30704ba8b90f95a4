"""Is the promise kept in every group of the test part?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Calibration, GroupCounts, GroupedCalibration, certify_groups
from calibrail.evaluation.sample import CALIBRATION, TEST


def by_group(
    column: str,
    grouped: GroupedCalibration,
    shared: Calibration,
    groups: Sequence[str],
    values: NDArray[np.float64],
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    *,
    tolerance: float,
    min_coverage: float,
    max_fpr: float | None,
    confidence: float,
) -> dict[str, Any]:
    """Return what the thresholds of the groups, and one shared threshold, do in each group.

    Bounds and verdicts are corrected for the number of groups, so that all of them hold together
    with ``confidence``.

    Parameters
    ----------
    column : str
        Where the groups come from.
    grouped, shared : GroupedCalibration, Calibration
        One threshold per group; one for all examples, for comparison.
    groups : sequence of str, length n
        Group of each example.
    values, labels, codes : ndarray, shape (n,)
        Scores; 1 = hallucinated, 0 = faithful; 1 = calibration, 2 = test.
    tolerance, min_coverage, max_fpr, confidence
        As for ``evaluate``.

    Returns
    -------
    dict
        ``column``, ``min_n``, ``scope``, ``confidence`` and ``rows``, one a group of the test part.
    """
    names = np.asarray(groups, dtype=object)
    test = codes == TEST
    own = grouped.flags(values, groups, tolerance)
    common = shared.flags(values, tolerance)
    present = sorted(set(names[test].tolist()))

    def counts(flagged: NDArray[np.bool_]) -> dict[str, GroupCounts]:
        found = {}
        for name in present:
            part = test & (names == name)
            hallucinated, faithful = part & (labels == 1), part & (labels == 0)
            found[name] = GroupCounts(
                int(np.sum(flagged & hallucinated)), int(np.sum(hallucinated)),
                int(np.sum(flagged & faithful)), int(np.sum(faithful)),
            )  # fmt: skip
        return found

    verdicts = certify_groups(counts(own), min_coverage, max_fpr, confidence)
    beside = certify_groups(counts(common), min_coverage, max_fpr, confidence)
    rows = []
    for name in present:
        calibration = grouped.of(name)
        source = (codes == CALIBRATION) & (labels == 1) & (names == name)
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
        "column": column,
        "min_n": grouped.min_n,
        "scope": grouped.scope,
        "confidence": confidence,
        "shared_threshold": None if shared.flag_all else shared.threshold,
        "rows": rows,
    }
