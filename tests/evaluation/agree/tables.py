"""What do files hold whose truth, judge and flags are known?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from calibrail.evaluation.judge_agreement import (
    LabelCounts,
    prediction_powered,
    rogan_gladen,
)
from calibrail.evaluation.stats.intervals import Measure

#: Runs of a simulation; a share of them is known to within four standard errors.
RUNS = 120


#: By how much an asymptotic 95 % interval may miss its level at a few hundred human labels.
SLACK = 0.015


def law(
    prevalence: float,
    coverage: float,
    fpr: float,
    sensitivity: float,
    specificity: float,
    along: tuple[float, float] = (0.0, 0.0),
) -> np.ndarray:
    """Return P(human label, judge label, flag); ``along`` is the covariance of judge and flag
    among faithful and among hallucinated answers."""
    cells = np.zeros((2, 2, 2))
    classes = ((1 - prevalence, fpr, 1 - specificity), (prevalence, coverage, sensitivity))
    for label, (weight, flagged, called) in enumerate(classes):
        product = np.outer([1 - called, called], [1 - flagged, flagged])
        cells[label] = weight * (product + along[label] * np.array([[1, -1], [-1, 1]]))
    assert cells.min() >= -1e-12
    return np.maximum(cells, 0.0)


def files(cells: np.ndarray, n: int, n_alone: int, runs: int, seed: int) -> Iterator[LabelCounts]:
    """Draw files with n rows that people label, and others that the judge alone does."""
    rng = np.random.default_rng(seed)
    both = rng.multinomial(n, cells.ravel(), size=runs).reshape(runs, 2, 2, 2)
    alone = rng.multinomial(n_alone, cells.sum(axis=0).ravel(), size=runs).reshape(runs, 2, 2)
    for drawn in zip(both, alone, strict=True):
        yield made(*drawn)


def made(both: Any, alone: Any = ((0, 0), (0, 0))) -> LabelCounts:
    cells = np.zeros((3, 3, 2), np.int64)
    cells[:2, :2], cells[2, :2] = both, alone
    return LabelCounts(cells)


def counted(human: Any, judge: Any, flagged: Any = None) -> LabelCounts:
    """Count rows by labels (-1 for none) and flags."""
    cells = np.zeros((3, 3, 2), np.int64)
    # Index -1 is the last one, which stands for no label.
    flags = np.zeros(len(human), int) if flagged is None else np.asarray(flagged, int)
    np.add.at(cells, (np.asarray(human), np.asarray(judge), flags), 1)
    return LabelCounts(cells, flagged is not None)


def estimates(found: Callable[[LabelCounts], Measure], drawn: Iterator[LabelCounts]) -> np.ndarray:
    """Return estimate, lower and upper end of every file."""
    measures = [found(counts) for counts in drawn]
    assert all(measure.estimate is not None for measure in measures)
    return np.array([(m.estimate, m.lower, m.upper) for m in measures], dtype=float)


def by_errors(counts: LabelCounts) -> Measure:
    return rogan_gladen(counts, 0.95)


def powered(counts: LabelCounts) -> Measure:
    return prediction_powered(counts, 0.95, flagged=True)


def held(found: np.ndarray, truth: float) -> float:
    return float(np.mean((found[:, 1] <= truth) & (truth <= found[:, 2])))


BOTH = (((50, 10), (6, 4)), ((3, 5), (7, 35)))  # human, judge, flag


ALONE = ((500, 120), (90, 260))
