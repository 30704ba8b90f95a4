"""Separation of two classes as papers report it: effect size, t-test, crossed medians."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_ind

Floats = NDArray[np.float64]


def cohens_d(hallucinated: Floats, faithful: Floats) -> float | None:
    """Return (mean of the first - mean of the second) / pooled SD (Cohen, 1988)."""
    n_h, n_f = len(hallucinated), len(faithful)
    squares = (n_h - 1) * np.var(hallucinated, ddof=1) + (n_f - 1) * np.var(faithful, ddof=1)
    pooled = float(squares) / (n_h + n_f - 2)
    return float(hallucinated.mean() - faithful.mean()) / pooled**0.5 if pooled > 0.0 else None


def welch(hallucinated: Floats, faithful: Floats) -> float | None:
    """Return the two-sided p-value of "both classes have the same mean" (Welch, 1947)."""
    p = float(ttest_ind(hallucinated, faithful, equal_var=False).pvalue)
    return None if np.isnan(p) else p


def median_overlap(hallucinated: Floats, faithful: Floats) -> float:
    """Return min(P(S_f > median S_h), P(S_h < median S_f)), as the paper's public code does."""
    crossed_f = np.mean(faithful > np.median(hallucinated))
    return float(min(crossed_f, np.mean(hallucinated < np.median(faithful))))
