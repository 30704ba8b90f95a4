"""Which reports do the tests of this room show?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import calibrate
from calibrail.evaluation import compare_detectors, evaluate

HOSTILE = "<script>alert(1)</script>[bold]\x1b[31m"

_RNG = np.random.default_rng(0)
LABELS = np.tile([0, 1], 200).astype(np.int8)
CODES = np.repeat(np.tile([1, 2], 100), 2).astype(np.int8)
VALUES = _RNG.normal(size=400) + 2.0 * LABELS
NOISE = _RNG.normal(size=400)


def classes(values: NDArray[np.float64] = VALUES) -> tuple[NDArray[np.float64], ...]:
    """Return the test scores of the hallucinated and of the faithful examples."""
    return values[(CODES == 2) & (LABELS == 1)], values[(CODES == 2) & (LABELS == 0)]


def report(values: NDArray[np.float64] = VALUES, **options: Any) -> dict[str, Any]:
    """Return a report's dictionary; the options are those of ``calibrate`` and ``evaluate``."""
    keys = ("alpha", "guarantee", "undefined", "allow_flag_all")
    how = {"alpha": 0.1, **{key: options.pop(key) for key in keys if key in options}}
    calibration = calibrate(values[(CODES == 1) & (LABELS == 1)], **how)
    settings = {"score": "toy", "labels": LABELS, "codes": CODES, **options}
    return evaluate(calibration, values=values, **settings).to_dict()


def hostile() -> dict[str, Any]:
    """Return a report in which every name that a file can choose is an attack."""
    return report(
        score={"name": HOSTILE, "params": {HOSTILE: HOSTILE}},
        baselines={HOSTILE: VALUES + 5.0 * LABELS},
        others={f"{HOSTILE}2": NOISE},
        data={"source": HOSTILE, HOSTILE: 1},
        reproduce={"command": HOSTILE},
        notes=[HOSTILE],
    )


def comparison(**options: Any) -> dict[str, Any]:
    """Return a comparison's dictionary with a detector that cannot be calibrated."""
    columns = {"toy": VALUES, "noise": NOISE, "never": np.full(400, np.nan)}
    settings = {"labels": LABELS, "codes": CODES, "alpha": 0.1, "undefined": "pass", **options}
    return compare_detectors(columns, **settings).to_dict()
