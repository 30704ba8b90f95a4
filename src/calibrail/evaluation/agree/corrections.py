"""What are rates once a judge is set right by what people said about a sample?"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation.agree.judge_labels import LabelCounts
from calibrail.evaluation.agree.melded import Interval, by_error_rates, by_strata
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.record import Record

Method = Literal["judge_only", "human_only", "rogan_gladen", "prediction_powered"]

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
        ``estimate``, where it lay outside [0, 1] and was cut off.
    weight : float or None
        Of the judge's labels in the prediction-powered estimate, in [0, 1].
    values : mapping
        The numbers behind the reason.
    """

    measure: Measure
    n_human: int
    n_judge: int
    assumption: str = ""
    promise: str = ""
    clipped: tuple[str, ...] = ()
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

    def refused(self, reason: str, **values: Any) -> RateEstimate:
        """Return no estimate, with the reason."""
        measure = missing(self.interval, reason, self.level)
        return RateEstimate(measure, self.counts.n_both, self.counts.n_judge, values=values)

    def estimate(self, share: float, interval: Interval) -> RateEstimate:
        """Return a corrected rate with its interval, cut to [0, 1].

        A value that lies outside with its whole interval contradicts what it assumes: it is
        refused.
        """
        rate, (lower, upper) = min(1.0, max(0.0, share)), interval
        if rate != share and lower == upper:
            return self.refused("outside", share=share)
        ends = min(rate, lower), max(rate, upper)
        measure = Measure(rate, *ends, self.interval, self.level)
        clipped = ("estimate",) if rate != share else ()
        return RateEstimate(measure, self.counts.n_both, self.counts.n_judge, clipped=clipped)


def rogan_gladen(counts: LabelCounts, level: float, *, flagged: bool) -> RateEstimate:
    """Return the share of hallucinated answers, or the flagged among them, by the error rates.

    With the flag F, the judge's label J, its sensitivity s and e = P(J | faithful), one minus the
    specificity, Rogan and Gladen (1978) give P(hallucinated) = (P(J) - e) / (s - e). The same of
    flagged answers over that of all gives P(flag | hallucinated) = (P(F, J) - e P(F)) / (P(J) - e);
    the sensitivity cancels out. For the interval see ``melded.by_error_rates``.

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
        Without an estimate where the judge calls hallucinated answers hallucinated no more often
        than faithful ones, or where the corrected share of the class is not above 0.
    """
    name = "Rogan-Gladen (1978); melded exact bounds (2015)"
    correction = _Correction(name, counts, level)
    rows, table = counts.both.sum(axis=0) + counts.judge_alone, counts.both.sum(axis=2)
    sizes = table.sum(axis=1)
    for label in (1, 0):
        if not sizes[label]:
            return correction.refused("class_not_judged", label=label)
    error, sensitivity = (float(share) for share in table[:, 1] / sizes)
    if sensitivity <= error:
        return correction.refused("uninformative", gain=sensitivity - error)
    above, below = float(rows[1].sum() / rows.sum()) - error, sensitivity - error
    if flagged:
        # P(F, J) - e P(F), over P(J) - e.
        above, below = float((rows[1, 1] - error * rows[:, 1].sum()) / rows.sum()), above
        if below <= 0.0:
            return correction.refused("class_near_zero")
    return correction.estimate(above / below, by_error_rates(counts, level, flagged=flagged))


def prediction_powered(counts: LabelCounts, level: float, *, flagged: bool) -> RateEstimate:
    """Return the share of hallucinated answers, or the flagged among them, by PPI++.

    The rate is a ratio of two means. With psi = numerator - rate * denominator by the human labels
    and psi_judge by the judge's, the judge's weight is Cov(psi, psi_judge) / ((1 + n / N)
    Var(psi_judge)), kept within [0, 1], for n rows with both labels and N with the judge's alone,
    at the rate that the human labels give (Angelopoulos, Duchi and Zrnic, 2023, section 6). Where
    labels are yes or no that is, but for small terms, what human labels within each judge label
    give, weighted by how many answers have it: the interval is that of ``melded.by_strata``. The
    normal one of PPI++ held the truth in 0.84 to 0.92 of files with 20 to 60 human labels.

    Parameters
    ----------
    counts : LabelCounts
        The rows; ``counts.turned()`` gives the rates of faithful answers.
    level : float
        Of the interval.
    flagged : bool
        Whether it is the share flagged.
    """
    name = "PPI++ (2023), power-tuned; melded exact bounds (2015) of strata"
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

    above, below = map(mean_of, truth, judged)
    if below <= 0.0:
        return correction.refused("denominator_near_zero")
    found = correction.estimate(above / below, by_strata(counts, level, flagged=flagged))
    return replace(found, weight=weight)
