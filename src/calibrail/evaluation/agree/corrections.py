"""What are rates once a judge is set right by what people said about a sample?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import fisher_exact

from calibrail.evaluation.agree.judge_labels import LabelCounts
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.record import Record

Method = Literal["judge_only", "human_only", "rogan_gladen", "prediction_powered"]

#: Human labels of each kind (caught and missed, say) below which the prediction-powered interval is
#: not to be relied on: the usual rule for normal approximations of a share.
FEWEST_OF_A_KIND: Final = 5

#: Human labels of a class below which the judge's error rate in it is not known well enough.
#: Lang and Reiczigel (2014) found their intervals to hold from samples of 30 on.
FEWEST_OF_A_CLASS: Final = 30

#: Successes and trials added to a share before its variance is taken (Agresti and Coull, 1998).
_SUCCESSES: Final = 2.0
_TRIALS: Final = 4.0

#: Human label, judge label and flag of each cell.
_Y, _J, _F = np.indices((2, 2, 2)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class RateEstimate(Record):
    """One estimate of a rate with what it rests on.

    Attributes
    ----------
    measure : Measure
        Estimate and interval, or the reason why there is none.
    n_human, n_judge : int
        Rows with a human label and with a judge label that it uses.
    assumption, promise : str
        What it takes for granted, and what the interval promises then, once that is said in words.
    clipped : tuple of str
        Which of estimate, lower and upper lay outside [0, 1] and were cut off.
    caution : str or None
        Why there are too few human labels to rely on it.
    n_needed : int or None
        How many would do, at the rates seen.
    weight : float or None
        Of the judge's labels in the prediction-powered estimate, in [0, 1].
    values : mapping
        The numbers behind the reason and the caution.
    """

    measure: Measure
    n_human: int
    n_judge: int
    assumption: str = ""
    promise: str = ""
    clipped: tuple[str, ...] = ()
    caution: str | None = None
    n_needed: int | None = None
    weight: float | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields but the values, JSON-able, those of the measure beside the others."""
        content = Record.to_dict(self)
        del content["values"]
        measure: dict[str, Any] = content.pop("measure")
        return measure | content


@dataclass(frozen=True, slots=True)
class _Correction:
    """What every corrected estimate has: the way to its interval, its rows and its level."""

    interval: str
    counts: LabelCounts
    level: float

    def half(self, variance: float) -> float:
        """Return how far a normal interval reaches to either side."""
        return float(ndtri((1.0 + self.level) / 2.0)) * math.sqrt(max(0.0, variance))

    def refused(self, reason: str, **values: Any) -> RateEstimate:
        """Return no estimate, with the reason."""
        measure = missing(self.interval, reason, self.level)
        return RateEstimate(measure, self.counts.n_both, self.counts.n_judge, values=values)

    def estimate(self, share: float, variance: float, too_few: Mapping[str, Any]) -> RateEstimate:
        """Return a corrected rate with its normal interval, cut to [0, 1].

        A value that lies outside with its whole interval contradicts what it assumes: it is
        refused. ``too_few`` holds what the estimate says of too few human labels.
        """
        half = self.half(variance)
        ends = (share, share - half, share + half)
        if ends[2] < 0.0 or ends[1] > 1.0:
            values = {"share": share, **too_few.get("values", {})}
            return replace(self.refused("outside"), **{**too_few, "values": values})
        estimate, lower, upper = (min(1.0, max(0.0, end)) for end in ends)
        measure = Measure(estimate, lower, upper, self.interval, self.level)
        named = zip(("estimate", "lower", "upper"), ends, strict=True)
        clipped = tuple(name for name, end in named if not 0.0 <= end <= 1.0)
        n_human, n_judge = self.counts.n_both, self.counts.n_judge
        return RateEstimate(measure, n_human, n_judge, clipped=clipped, **too_few)


def rogan_gladen(counts: LabelCounts, level: float, *, flagged: bool) -> RateEstimate:
    """Return the share of hallucinated answers, or the flagged among them, by the error rates.

    With the flag F, the judge's label J, its sensitivity s and e = P(J | faithful), one minus the
    specificity, Rogan and Gladen (1978) give P(hallucinated) = (P(J) - e) / (s - e). The same of
    flagged answers over that of all gives P(flag | hallucinated) = (P(F, J) - e P(F)) / (P(J) - e);
    the sensitivity cancels out. The variance is that of the influence function over all judged
    rows, so that a row which serves both for e and for the shares counts as what it is.

    Parameters
    ----------
    counts : LabelCounts
        The rows; ``counts.turned()`` gives the rates of faithful answers.
    level : float
        Of the interval.
    flagged : bool
        Whether it is the share flagged.

    Returns
    -------
    RateEstimate
        Without an estimate where the judge is not shown to know anything, or where the corrected
        share of the class is not clearly above 0.
    """
    name = "Rogan-Gladen (1978); delta method, Agresti-Coull error rates"
    correction = _Correction(name, counts, level)
    both, alone = counts.both.astype(np.float64), counts.judge_alone.astype(np.float64)
    rows, table = both.sum(axis=0) + alone, counts.both.sum(axis=2)
    n, sizes = rows.sum(), table.sum(axis=1)
    for label in (1, 0):
        if not sizes[label]:
            return correction.refused("class_not_judged", label=label)
    error, sensitivity = table[:, 1] / sizes
    p_value = float(fisher_exact(table, alternative="greater").pvalue)
    if p_value > (1.0 - level) / 2.0:
        gain = float(sensitivity + table[0, 0] / sizes[0] - 1.0)
        return correction.refused("uninformative", gain=gain, p_value=p_value)
    extra_error, extra_hits = (agresti_coull(table[k, 1], sizes[k]) for k in (0, 1))
    # The error rates rest on the rows of their class that people have labelled.
    by_error, by_hits = (_Y == 0) * (_J - error), (_Y == 1) * (_J - sensitivity)

    def variance(centred: NDArray[np.float64], by_people: NDArray[np.float64]) -> float:
        """Return that of a mean over all judged rows, from each cell's values."""
        squares = (both * (centred - by_people) ** 2).sum() + (alone * centred[0] ** 2).sum()
        return float(squares / n**2)

    called = rows[1].sum() / n
    if not flagged:
        share, below = (called - error) / (sensitivity - error), sensitivity - error
        by_people = (1 - share) * by_error * n / sizes[0] + share * by_hits * n / sizes[1]
        spread = variance(_J - called, by_people)
        extra = (1 - share) ** 2 * extra_error + share**2 * extra_hits
        fewer = int(sizes.argmin())
    else:
        flags, joint, below = rows[:, 1].sum() / n, rows[1, 1] / n, called - error
        by_people = by_error * n / sizes[0]
        if below <= correction.half(variance(_J - called, by_people) + extra_error):
            return correction.refused("class_near_zero")
        share = (joint - error * flags) / below
        spread = variance((_J - error) * (_F - share), (flags - share) * by_people)
        extra = (share - flags) ** 2 * extra_error
        fewer = 0
    too_few: dict[str, Any] = {}
    if (n_labels := int(sizes[fewer])) < FEWEST_OF_A_CLASS:
        needed = math.ceil(FEWEST_OF_A_CLASS * counts.n_both / n_labels)
        values = {"label": fewer, "n_labels": n_labels}
        too_few = {"caution": "few_of_a_class", "n_needed": needed, "values": values}
    return correction.estimate(float(share), float((spread + extra) / below**2), too_few)


def prediction_powered(counts: LabelCounts, level: float, *, flagged: bool) -> RateEstimate:
    """Return the share of hallucinated answers, or the flagged among them, by PPI++.

    The rate is a ratio of two means. With psi = numerator - rate * denominator by the human labels
    and psi_judge by the judge's, the judge's weight is Cov(psi, psi_judge) / ((1 + n / N)
    Var(psi_judge)), kept within [0, 1], for n rows with both labels and N with the judge's alone,
    at the rate that the human labels give (Angelopoulos, Duchi and Zrnic, 2023, section 6).

    Parameters
    ----------
    counts : LabelCounts
        The rows; ``counts.turned()`` gives the rates of faithful answers.
    level : float
        Of the interval.
    flagged : bool
        Whether it is the share flagged.
    """
    name = "PPI++ (2023), power-tuned; delta method, Agresti-Coull addition"
    correction = _Correction(name, counts, level)
    ones = np.ones_like(_Y)
    # Numerator and denominator in each cell, by people and by the judge.
    truth, judged = (((y * _F, y) if flagged else (y, ones)) for y in (_Y, _J))
    both, alone = counts.both.astype(np.float64), counts.judge_alone.astype(np.float64)
    n, n_alone = float(both.sum()), float(alone.sum())

    def by_both(values: NDArray[np.float64]) -> float:
        return float((both * values).sum()) / n

    def by_judge(values: NDArray[np.float64]) -> float:
        # The judge's values do not depend on the human label: either half of the cells has them.
        return float((alone * values[0]).sum()) / n_alone

    if n < 2:
        return correction.refused("two_needed")
    hits, trials = (round(by_both(values) * n) for values in truth)
    if not trials:
        return correction.refused("class_not_labelled")
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

    above, below = map(mean_of, truth, judged)
    if below <= correction.half(variance_of(truth[1], judged[1])):
        return correction.refused("denominator_near_zero")
    share = above / below
    variance = variance_of(*(part[0] - share * part[1] for part in (truth, judged))) / below**2
    too_few: dict[str, Any] = {"weight": weight}
    kinds = (hits, trials - hits)
    if (fewest := min(kinds)) < FEWEST_OF_A_KIND:
        # None seen among n: by the rule of three their share is probably below 3 / n.
        needed = math.ceil(FEWEST_OF_A_KIND * counts.n_both / (fewest or 3))
        values = {"kind": kinds.index(fewest), "n_kind": fewest}
        too_few |= {"caution": "few_of_a_kind", "n_needed": needed, "values": values}
    return correction.estimate(share, variance + agresti_coull(hits, trials), too_few)


def agresti_coull(hits: float, trials: float) -> float:
    """Return by how much two successes and failures more raise the variance of a share, if at all.

    Examples
    --------
    >>> round(agresti_coull(20, 20), 5), agresti_coull(50, 100)
    (0.00318, 0.0)
    """
    share = hits / trials
    steadied = (hits + _SUCCESSES) / (trials + _TRIALS)
    more = steadied * (1 - steadied) / (trials + _TRIALS) - share * (1 - share) / trials
    return float(max(0.0, more))
