"""Do all thresholds that multi-risk control accepts keep all promises?

The requirements are the true rates of one threshold, so every other one breaks a promise.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from calibrail.conformal.risks import CandidateSearch, control_risks
from calibrail.validity.check import Check, Setting
from calibrail.validity.distributions import Floats, below, draw, quantile

#: The faithful scores lie this far below the hallucinated ones; classes are equally frequent.
_SHIFT: Final = 1.5
#: Miss rate of the one threshold that keeps all promises.
_MISSED: Final = 0.25
PAIRS: Final = (("recall", "fpr"), ("recall", "precision"), ("accuracy", "abstention"))


def several_risks(at: Setting) -> Iterator[Check]:
    """Accept any threshold that breaks any promise: at most alpha = 1 - confidence."""
    required = _true(at, np.array([quantile(at.kind, _MISSED)]))
    at_most = ("fpr", "abstention")
    for pair in PAIRS:
        rng = at.rng(f"risks {pair}")
        signs = {name: "<=" if name in at_most else ">=" for name in pair}
        limits = [f"{name}{signs[name]}{float(required[name][0]):.9f}" for name in pair]
        wrong = np.zeros(at.runs, dtype=bool)
        for run in range(at.runs):
            labels = np.concatenate([[1, 0], rng.integers(2, size=2 * at.n - 2)])
            scores = draw(rng, at.kind, 2 * at.n, np.where(labels == 1, 0.0, -_SHIFT))
            search = CandidateSearch(grid=30, seed=run)
            control = control_risks(scores, labels, limits, 1.0 - at.alpha, search=search)
            true = _true(at, np.array(control.candidates)[list(control.valid)])
            for name in pair:
                worst = 1.0 if name in at_most else -1.0
                wrong[run] |= bool(np.any(worst * (true[name] - required[name]) > 1e-8))
        design = " and ".join(pair)
        yield at.check("several risks, any accepted threshold", wrong, at.alpha, design=design)


def _true(at: Setting, thresholds: Floats) -> dict[str, Floats]:
    """Return the true rates of thresholds."""
    coverage = 1.0 - below(at.kind, thresholds)
    fpr = 1.0 - below(at.kind, thresholds, -_SHIFT)
    flagged = (coverage + fpr) / 2.0
    return {
        "recall": coverage,
        "fpr": fpr,
        "precision": coverage / 2.0 / flagged,
        "accuracy": (coverage + 1.0 - fpr) / 2.0,
        "abstention": flagged,
    }
