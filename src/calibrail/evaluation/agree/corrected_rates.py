"""What are coverage and false alarms when most labels come from a judge that errs?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.bound import exact_bound
from calibrail.evaluation.agree.judge_labels import LabelCounts
from calibrail.evaluation.agree.prediction_powered import (
    prediction_powered_prevalence,
    prediction_powered_share,
)
from calibrail.evaluation.agree.rate_estimate import METHODS, Method, RateEstimate, rate_estimate
from calibrail.evaluation.agree.rogan_gladen import rogan_gladen_prevalence, rogan_gladen_share
from calibrail.evaluation.stats.measure import Measure, checked_confidence, missing
from calibrail.phrases import percent
from calibrail.record import Record

RateName = Literal["prevalence", "coverage", "fpr"]

_EXACT: Final = "clopper-pearson"


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate, estimated four ways.

    Attributes
    ----------
    name : {"prevalence", "coverage", "fpr"}
        P(hallucinated), P(flag | hallucinated) or P(flag | faithful).
    judge_only, human_only, rogan_gladen, prediction_powered : RateEstimate
        The four estimates.
    """

    name: RateName
    judge_only: RateEstimate
    human_only: RateEstimate
    rogan_gladen: RateEstimate
    prediction_powered: RateEstimate

    def __iter__(self) -> Iterator[tuple[Method, RateEstimate]]:
        """Go through methods and estimates."""
        for method in METHODS:
            yield method, getattr(self, method)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimates by method, JSON-able."""
        return {method: estimate.to_dict() for method, estimate in self}


@dataclass(frozen=True, slots=True)
class Trust(Record):
    """Which of the four estimates to rely on.

    Attributes
    ----------
    method : str or None
        None where none can be relied on.
    reason : str
        Why.
    """

    method: Method | None
    reason: str


def corrected_rates(counts: LabelCounts, confidence: float = 0.95) -> dict[RateName, Rate]:
    """Estimate prevalence, and with decisions coverage and FPR, four ways.

    - ``judge_only`` takes the judge's labels as the truth; its exact interval does not know of the
      judge's errors.
    - ``human_only`` has the exact interval (Clopper and Pearson, 1934) of the few human labels.
    - ``rogan_gladen`` (Rogan and Gladen, 1978) solves P(judge says hallucinated) = sensitivity *
      prevalence + (1 - specificity) * (1 - prevalence), the same among flagged answers, for the
      truth. In coverage, P(flag and hallucinated) / P(hallucinated), the sensitivity cancels out,
      in the FPR the specificity.
    - ``prediction_powered`` (Angelopoulos et al., 2023; PPI++ by Angelopoulos, Duchi and Zrnic,
      2023) corrects the judge's ratio by how far it is off where people have labelled, with the
      judge's weight chosen for the least variance.

    Both corrections have delta-method intervals. Such intervals are too narrow while counts are
    small, so the human part of the variance is made at least that of a share with two successes and
    two failures more (Agresti and Coull, 1998; in this spirit Lang and Reiczigel, 2014, for
    Rogan-Gladen). They are asymptotic all the same: no finite-sample promise. Rows count as
    independent, groups are ignored.

    Parameters
    ----------
    counts : LabelCounts
        The rows. Those without a judge label serve ``human_only`` alone.
    confidence : float
        Level of every interval.

    Returns
    -------
    dict of str to Rate
        ``prevalence``, and with decisions ``coverage`` and ``fpr``.
    """
    level = checked_confidence(confidence)
    rates: dict[RateName, Rate] = {"prevalence": _prevalence(counts, level)}
    if counts.decided:
        rates["coverage"] = _share_flagged(counts, level, "coverage", ("hallucinated", "faithful"))
        # False alarms are to faithful answers what coverage is to hallucinated ones.
        rates["fpr"] = _share_flagged(counts.turned(), level, "fpr", ("faithful", "hallucinated"))
    return rates


def trusted(rates: Mapping[RateName, Rate], doubt: str | None = None) -> dict[RateName, Trust]:
    """Say for each rate which estimate to rely on.

    The prediction-powered one, if its interval may be relied on and is narrower than the exact one
    of the human labels, which else is the choice. Neither, if the human labels are known to be no
    random sample.

    Parameters
    ----------
    rates : mapping of str to Rate
        From ``corrected_rates``.
    doubt : str, optional
        Why the rows with human labels are no random sample.
    """
    return {name: _trusted(rate, doubt) for name, rate in rates.items()}


def _trusted(rate: Rate, doubt: str | None) -> Trust:
    if doubt is not None:
        return Trust(None, f"the human labels are no random sample: {doubt}")
    human, tuned = rate.human_only, rate.prediction_powered
    if human.measure.estimate is None:
        return Trust(None, str(human.measure.reason))
    if tuned.measure.estimate is None:
        return Trust("human_only", f"exact; no correction: {tuned.measure.reason}")
    if tuned.caution is not None:
        return Trust("human_only", f"exact at any number of labels; {tuned.caution}")
    gained = 1.0 - _width(tuned.measure) / _width(human.measure)
    if gained <= 0.0:
        return Trust("human_only", "exact, and the judge's labels do not make it narrower")
    return Trust(
        "prediction_powered",
        "like the human labels alone it needs no more than a random sample; its interval, "
        f"asymptotic, is {percent(gained)} narrower than the exact one",
    )


def _width(measure: Measure) -> float:
    return float(measure.upper or 0.0) - float(measure.lower or 0.0)


def _prevalence(counts: LabelCounts, level: float) -> Rate:
    human, judge = counts.cells[:2].sum(axis=(1, 2)), counts.cells[:, :2].sum(axis=(0, 2))
    return Rate(
        "prevalence",
        _exact("judge_only", judge, level, "no row has a judge label"),
        _exact("human_only", human, level, "no row has a human label"),
        rogan_gladen_prevalence(counts, level),
        prediction_powered_prevalence(counts, level),
    )


def _share_flagged(
    counts: LabelCounts, level: float, name: RateName, names: tuple[str, str]
) -> Rate:
    """Estimate P(flag | label 1), whichever class label 1 stands for."""
    human, judge = counts.cells[1].sum(axis=0), counts.cells[:, 1].sum(axis=0)
    return Rate(
        name,
        _exact("judge_only", judge, level, f"the judge calls no answer {names[0]}"),
        _exact("human_only", human, level, f"people call no answer {names[0]}"),
        rogan_gladen_share(counts, level, names),
        prediction_powered_share(counts, level, names),
    )


def _exact(method: Method, rows: NDArray[np.int64], level: float, reason: str) -> RateEstimate:
    """Return the exact interval of a share counted as (without, with)."""
    bound = exact_bound(int(rows[1]), int(rows.sum()), level)
    measure = missing(_EXACT, reason, level)
    if bound.estimate is not None:
        measure = Measure(bound.estimate, bound.lower, bound.upper, _EXACT, level)
    humans = bound.n if method == "human_only" else 0
    return rate_estimate(method, measure, humans, bound.n - humans)
