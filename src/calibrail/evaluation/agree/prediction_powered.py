"""What are rates once a judge is set right by what people said about a sample?"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation.agree.judge_labels import LabelCounts
from calibrail.evaluation.agree.rate_estimate import Correction, RateEstimate, agresti_coull
from calibrail.phrases import count

#: Human labels of each kind (caught and missed, say) below which the interval is not to be relied
#: on: the usual rule for normal approximations of a share.
FEWEST_OF_A_KIND: Final = 5

_NAME: Final = "PPI++ (2023), power-tuned; delta method, Agresti-Coull addition"

#: Human label, judge label and flag of each cell.
_Y, _J, _F = np.indices((2, 2, 2)).astype(np.float64)


def prediction_powered_share(
    counts: LabelCounts, level: float, names: tuple[str, str]
) -> RateEstimate:
    """Return P(flag | hallucinated) as the ratio of P(flag and hallucinated) to P(hallucinated).

    Parameters
    ----------
    counts : LabelCounts
        The rows; ``counts.turned()`` gives the FPR.
    level : float
        Of the interval.
    names : (str, str)
        What labels 1 and 0 stand for.
    """
    kinds = (f"{names[0]} and flagged", f"{names[0]} and passed")
    return _tuned_ratio(counts, level, (_Y * _F, _Y), (_J * _F, _J), kinds)


def prediction_powered_prevalence(counts: LabelCounts, level: float) -> RateEstimate:
    """Return P(hallucinated).

    Parameters
    ----------
    counts : LabelCounts
        The rows.
    level : float
        Of the interval.
    """
    ones = np.ones_like(_Y)
    return _tuned_ratio(counts, level, (_Y, ones), (_J, ones), ("hallucinated", "faithful"))


def _tuned_ratio(
    counts: LabelCounts,
    level: float,
    truth: tuple[NDArray[np.float64], NDArray[np.float64]],
    judged: tuple[NDArray[np.float64], NDArray[np.float64]],
    kinds: tuple[str, str],
) -> RateEstimate:
    """Return the power-tuned ratio of the means of two variables, given each cell's values.

    With psi = numerator - rate * denominator by the human labels and psi_judge by the judge's, the
    weight is Cov(psi, psi_judge) / ((1 + n / N) Var(psi_judge)), kept within [0, 1], for n rows
    with both labels and N with the judge's alone, at the rate that the human labels give
    (Angelopoulos, Duchi and Zrnic, 2023, section 6).
    """
    both, alone = counts.both.astype(np.float64), counts.judge_alone.astype(np.float64)
    n, n_alone = float(both.sum()), float(alone.sum())
    correction = Correction("prediction_powered", _NAME, counts, level)

    def by_both(values: NDArray[np.float64]) -> float:
        return float((both * values).sum()) / n

    def by_judge(values: NDArray[np.float64]) -> float:
        # The judge's values do not depend on the human label: either half of the cells has them.
        return float((alone * values[0]).sum()) / n_alone

    if n < 2:
        return correction.refused("fewer than two rows have both labels")
    hits, trials = (round(by_both(values) * n) for values in truth)
    if not trials:
        return correction.refused(f"no row with both labels is {kinds[0].split(' and ')[0]}")
    weight = 0.0
    if n_alone > 1:
        by_people, by_judgement = (part[0] - hits / trials * part[1] for part in (truth, judged))
        rows = both.sum(axis=0) + alone
        mean = float((rows * by_judgement[0]).sum() / rows.sum())
        spread = float((rows * (by_judgement[0] - mean) ** 2).sum() / rows.sum())
        shared = by_both(by_people * by_judgement) - by_both(by_people) * by_both(by_judgement)
        if spread > 0.0:
            weight = min(1.0, max(0.0, shared / ((1.0 + n / n_alone) * spread)))

    def mean_of(people: NDArray[np.float64], judge: NDArray[np.float64]) -> float:
        return by_both(people) + (weight * (by_judge(judge) - by_both(judge)) if weight else 0.0)

    def variance_of(people: NDArray[np.float64], judge: NDArray[np.float64]) -> float:
        rest = people - weight * judge
        variance = by_both((rest - by_both(rest)) ** 2) / (n - 1.0)
        if weight:
            variance += weight**2 * by_judge((judge - by_judge(judge)) ** 2) / (n_alone - 1.0)
        return variance

    above, below = (mean_of(*pair) for pair in zip(truth, judged, strict=True))
    if below <= correction.quantile * math.sqrt(variance_of(truth[1], judged[1])):
        return correction.refused("the share that the rate divides by is not clearly above 0")
    share = above / below
    variance = variance_of(*(part[0] - share * part[1] for part in (truth, judged))) / below**2
    too_few = _few_of_a_kind(counts.n_both, (hits, trials - hits), kinds)
    return correction.estimate(share, variance + agresti_coull(hits, trials), too_few, weight)


def _few_of_a_kind(
    n: int, counts: tuple[int, int], kinds: tuple[str, str]
) -> tuple[int | None, str | None]:
    """Return how many human labels the normal approximation wants, and why, if there are fewer."""
    fewest = min(counts)
    if fewest >= FEWEST_OF_A_KIND:
        return None, None
    # None seen among n: by the rule of three their share is probably below 3 / n.
    n_needed = math.ceil(FEWEST_OF_A_KIND * n / (fewest or 3))
    number = f"only {fewest} of" if fewest else "none of"
    return n_needed, (
        f"{number} the {count(n, 'row')} with both labels {'is' if fewest < 2 else 'are'} "
        f"{kinds[counts.index(fewest)]}; the normal approximation wants {FEWEST_OF_A_KIND}: "
        f"about {n_needed:,} human labels{'' if fewest else ' or more'}"
    )
