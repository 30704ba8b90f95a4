"""How well does a score rank answers where it matters: at high coverage?

A guardrail works where nearly all hallucinations are caught. The whole AUROC mixes that corner with
thresholds that nobody would use.

scikit-learn has the area (the tests hold ours against it), one sample at a time: 1,000 draws of
2,000 answers take it six times as long as they take here.
"""

from typing import Final

import numpy as np

from calibrail.evaluation.stats.arrays import Codes, Floats, Ints
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.evaluation.stats.resampling import bootstrap_counts, draws_for

#: The region: coverage from here up to 1.
LEAST_COVERAGE: Final = 0.8

#: Independent answers (groups) of either class below which there is no interval: it would hold the
#: truth in 0.83 of all cases with 20, in 0.92 with 50 (stated: 0.95; benchmarks/intervals.py).
FEWEST: Final = 100

_METHOD = "bootstrap-groups, McClish"


def partial_auroc(
    ranked: Floats,
    labels: Codes,
    groups: Ints,
    *,
    least_coverage: float = LEAST_COVERAGE,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Measure:
    """Return the area under the ROC curve where coverage is at least ``least_coverage``.

    The area between the curve and the axis of coverage, over coverage in [c, 1], is standardised
    as McClish (1989) does: 0.5 for a score that guesses, 1 for one that separates the classes
    perfectly. Turned around (faithful answers as the positives, negated scores) it is what
    scikit-learn computes as ``roc_auc_score(max_fpr=1 - c)``.

    The interval holds the middle of bootstrap draws of whole groups; where no draw differs, it is
    Clopper-Pearson's for min(m, n) equal outcomes. With fewer than ``FEWEST`` groups of a class
    there is none: the region then rests on a handful of misses.

    Parameters
    ----------
    ranked : ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated, no NaN (see ``ranked_values``).
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    groups : ndarray of int64, shape (n,)
        What examples share; one that stands alone has a number of its own.
    least_coverage : float
        Lower end of the region, in [0, 1).
    confidence : float
        Level of the two-sided interval.
    draws, seed : int
        Bootstrap draws, fewer for very many examples; the same seed gives the same interval.

    Returns
    -------
    Measure
        Without an estimate, and with the reason, if a class is empty.

    Examples
    --------
    >>> labels = np.array([1, 1, 0, 0], dtype=np.int8)
    >>> partial_auroc(np.array([0.9, 0.4, 0.1, 0.5]), labels, np.arange(4)).estimate
    0.7222222222222222
    """
    m, n = int(np.sum(labels == 1)), int(np.sum(labels == 0))
    if m == 0 or n == 0:
        return missing(_METHOD, "one_class", confidence)
    order = np.argsort(ranked, kind="stable")
    ordered, hallucinated, most = ranked[order], labels[order] == 1, 1.0 - least_coverage
    # Examples of one value are passed together: only where a value ends is there a threshold.
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))

    def shares(counts: Ints) -> Floats:
        """Return, per draw, the share of a class at or below each threshold."""
        steps = np.cumsum(counts, axis=1)[:, ends]
        result = np.zeros((len(steps), len(ends) + 1))
        result[:, 1:] = steps / steps[:, -1:]
        return result

    def area(counts: Ints) -> Floats:
        """Return the standardised area of each draw, given how often examples are drawn."""
        missed = shares(counts[:, order] * hallucinated)
        passed = shares(counts[:, order] * ~hallucinated)
        # Trapezoids under the share of faithful answers passed, over the share of misses.
        left, step = missed[:, :-1], np.diff(missed)
        width = np.clip(np.minimum(missed[:, 1:], most) - left, 0.0, None)
        part = np.divide(width, step, out=np.zeros_like(step), where=step > 0.0)
        height = passed[:, :-1] + 0.5 * part * np.diff(passed)
        guessing, perfect = 0.5 * most**2, most
        whole = (width * height).sum(axis=1)
        result: Floats = 0.5 * (1.0 + (whole - guessing) / (perfect - guessing))
        return np.clip(result, 0.0, 1.0)

    estimate = float(area(np.ones((1, len(ranked)), dtype=np.int64))[0])
    if min(len(np.unique(groups[labels == label])) for label in (0, 1)) < FEWEST:
        reason = f"few_for_the_corner:{FEWEST}"
        return Measure(estimate, None, None, _METHOD, confidence, reason)
    draws = draws_for(len(ranked), draws)
    chunks = bootstrap_counts(groups, labels, draws=draws, seed=seed, stream=1)
    drawn = np.concatenate([area(counts) for counts in chunks])
    tail = (1.0 - confidence) / 2.0
    lower, upper = (float(end) for end in np.quantile(drawn, [tail, 1.0 - tail]))
    if float(np.ptp(drawn)) < 1e-12:
        slack = 1.0 - tail ** (1.0 / min(m, n))
        lower, upper = max(0.0, estimate - slack), min(1.0, estimate + slack)
    return Measure(estimate, min(lower, estimate), max(upper, estimate), _METHOD, confidence)
