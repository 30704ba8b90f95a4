"""What are rates once a judge's known error rates are taken out?"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from calibrail.evaluation.agree.judge_labels import LabelCounts
from calibrail.evaluation.agree.rate_estimate import Correction, RateEstimate, agresti_coull
from calibrail.phrases import count

#: Human labels of a class below which the judge's error rate in it is not known well enough.
#: Lang and Reiczigel (2014) found their intervals to hold from samples of 30 on.
FEWEST_OF_A_CLASS: Final = 30

_NAME: Final = "Rogan-Gladen (1978); delta method, Agresti-Coull error rates"

#: What the correction assumes of prevalence, in which flags have no part.
_OF_PREVALENCE: Final = "the judge errs on the answers with a human label as on the rest"

#: Human label, judge label and flag of each cell.
_Y, _J, _F = np.indices((2, 2, 2)).astype(np.float64)


def rogan_gladen_share(counts: LabelCounts, level: float, names: tuple[str, str]) -> RateEstimate:
    """Return P(flag | hallucinated): (P(F, J) - e P(F)) / (P(J) - e).

    Here F is the flag, J the judge's label and e = P(J | faithful), one minus the specificity. It
    is Rogan and Gladen's (1978) correction of P(hallucinated and F) over that of P(hallucinated);
    the sensitivity cancels out. The variance is that of its influence function over all judged
    rows, so that a row which serves both for e and for the shares counts as what it is.

    Parameters
    ----------
    counts : LabelCounts
        The rows; ``counts.turned()`` gives the FPR.
    level : float
        Of the interval.
    names : (str, str)
        What labels 1 and 0 stand for.

    Returns
    -------
    RateEstimate
        Without an estimate where the judge is not shown to know anything, or where the corrected
        share of the class is not clearly above 0.
    """
    correction = Correction("rogan_gladen", _NAME, counts, level)
    if reason := _uninformative(counts, level):
        return correction.refused(reason)
    both, alone = counts.both.astype(np.float64), counts.judge_alone.astype(np.float64)
    rows, n_other = both.sum(axis=0) + alone, both[0].sum()
    n = rows.sum()
    error = both[0, 1].sum() / n_other
    called, flagged, joint = rows[1].sum() / n, rows[:, 1].sum() / n, rows[1, 1] / n
    below = called - error
    by_human = (_Y == 0) * (_J - error) * n / n_other
    extra = agresti_coull(both[0, 1].sum(), n_other)
    spread = _influence(_J - called - by_human, both, _J[0] - called, alone) + extra
    if below <= correction.quantile * math.sqrt(spread):
        return correction.refused(
            f"the corrected share of {names[0]} answers is not clearly above 0, and the rate is a "
            "share of it"
        )
    share = (joint - error * flagged) / below
    base = (_J - error) * (_F - share)
    variance = _influence(base + (share - flagged) * by_human, both, base[0], alone)
    variance = (variance + (share - flagged) ** 2 * extra) / below**2
    return correction.estimate(share, variance, _few_of_a_class(counts, {names[1]: int(n_other)}))


def rogan_gladen_prevalence(counts: LabelCounts, level: float) -> RateEstimate:
    """Return P(hallucinated): (P(J) + specificity - 1) / (sensitivity + specificity - 1).

    Rogan and Gladen (1978); the variance of the three shares by the influence function, as for
    ``rogan_gladen_share``.

    Parameters
    ----------
    counts : LabelCounts
        The rows.
    level : float
        Of the interval.
    """
    correction = Correction("rogan_gladen", _NAME, counts, level, _OF_PREVALENCE)
    if reason := _uninformative(counts, level):
        return correction.refused(reason)
    both, alone = counts.both.astype(np.float64), counts.judge_alone.astype(np.float64)
    rows, sizes = both.sum(axis=0) + alone, both.sum(axis=(1, 2))
    n = rows.sum()
    error, sensitivity = both[:, 1].sum(axis=1) / sizes
    gain, called = sensitivity - error, rows[1].sum() / n
    share = (called - error) / gain
    by_human = (1 - share) * (_Y == 0) * (_J - error) * n / sizes[0]
    by_human += share * (_Y == 1) * (_J - sensitivity) * n / sizes[1]
    variance = _influence(_J - called - by_human, both, _J[0] - called, alone)
    extra = (1 - share) ** 2 * agresti_coull(both[0, 1].sum(), sizes[0])
    extra += share**2 * agresti_coull(both[1, 1].sum(), sizes[1])
    classes = {"faithful": int(sizes[0]), "hallucinated": int(sizes[1])}
    return correction.estimate(
        share, (variance + extra) / gain**2, _few_of_a_class(counts, classes)
    )


def _uninformative(counts: LabelCounts, level: float) -> str | None:
    """Say why the judge's labels cannot be corrected: it is not shown to know anything."""
    table = counts.both.sum(axis=2)
    for label, name in ((1, "hallucinated"), (0, "faithful")):
        if not table[label].sum():
            return f"people call no answer {name} that the judge has labelled, too"
    p_value = float(fisher_exact(table, alternative="greater").pvalue)
    if p_value <= (1.0 - level) / 2.0:
        return None
    gain = float(table[1, 1] / table[1].sum() + table[0, 0] / table[0].sum() - 1.0)
    return (
        f"sensitivity + specificity - 1 is {gain:.2f}, not clearly above 0 (Fisher's exact test, "
        f"p = {p_value:.2g}): the correction divides by it"
    )


def _influence(
    on_both: NDArray[np.float64],
    both: NDArray[np.float64],
    on_alone: NDArray[np.float64],
    alone: NDArray[np.float64],
) -> float:
    """Return the variance of a mean over all judged rows from each cell's centred value."""
    n = both.sum() + alone.sum()
    return float(((both * on_both**2).sum() + (alone * on_alone**2).sum()) / n**2)


def _few_of_a_class(counts: LabelCounts, classes: dict[str, int]) -> tuple[int | None, str | None]:
    """Return how many human labels the judge's error rates need, and why, where there are fewer."""
    name = min(classes, key=lambda key: classes[key])
    n_labels = classes[name]
    if n_labels >= FEWEST_OF_A_CLASS:
        return None, None
    n_needed = math.ceil(FEWEST_OF_A_CLASS * counts.n_both / n_labels)
    return n_needed, (
        f"the judge's error rate on {name} answers rests on {count(n_labels, 'human label')}; "
        f"about {FEWEST_OF_A_CLASS} are wanted, so about {n_needed:,} human labels in all"
    )
