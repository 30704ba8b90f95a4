"""Do all thresholds that multi-risk control accepts keep all promises?

The requirements are the true rates of one threshold, so every other one breaks a promise.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from scipy.stats import norm

from calibrail.conformal.risks import CandidateSearch, Method, control_risks
from calibrail.validity.check import Check, Setting
from calibrail.validity.distributions import Floats, below, draw, quantile

#: The faithful scores lie this far below the hallucinated ones; classes are equally frequent.
_SHIFT: Final = 1.5
#: Miss rate of the one threshold that keeps all promises.
_MISSED: Final = 0.25
#: Where precision that rises and falls again reaches its limit for the first time.
_RISING: Final = 0.6
METHODS: Final[tuple[Method, ...]] = ("split_fixed_sequence", "bonferroni_holm", "bonferroni")
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


def risk_that_turns(at: Setting) -> Iterator[Check]:
    """Accept a threshold that breaks a precision which rises and falls again: at most alpha.

    Some faithful answers score above all others, so that thresholds on both sides break it.
    """

    def precision(thresholds: Floats) -> Floats:
        caught = norm.sf((thresholds - 1.2) / 0.8)
        alarms = 0.85 * norm.sf(thresholds) + 0.15 * norm.sf((thresholds - 3.0) / 0.4)
        return np.asarray(caught / (caught + alarms), dtype=np.float64)

    limit = float(precision(np.array([_RISING]))[0])
    for method in METHODS:
        rng, wrong = at.rng(f"turns {method}"), np.zeros(at.runs, dtype=bool)
        for run in range(at.runs):
            labels = np.concatenate([[1, 0], rng.integers(2, size=2 * at.n - 2)])
            high = rng.random(2 * at.n) < 0.15
            mean = np.where(labels == 1, 1.2, np.where(high, 3.0, 0.0))
            scale = np.where(labels == 1, 0.8, np.where(high, 0.4, 1.0))
            search = CandidateSearch(grid=30, method=method, seed=run)
            promised = [f"precision>={limit:.9f}"]
            scores = rng.normal(mean, scale)
            control = control_risks(scores, labels, promised, 1.0 - at.alpha, search=search)
            accepted = np.array(control.candidates)[list(control.valid)]
            wrong[run] = bool(np.any(precision(accepted) < limit - 1e-8))
        yield at.check("a risk that turns, any accepted threshold", wrong, at.alpha, design=method)


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
