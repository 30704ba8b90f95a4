"""What are coverage and false alarms when most labels come from a judge that errs?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal.bound import exact_bound
from calibrail.evaluation.agree.corrections import (
    Method,
    RateEstimate,
    prediction_powered,
    rogan_gladen,
)
from calibrail.evaluation.agree.judge_labels import NONE, LabelCounts
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.record import Record
from calibrail.settings.checks import share

RateName = Literal["prevalence", "coverage", "fpr"]

_EXACT: Final = "clopper-pearson"


@dataclass(frozen=True, slots=True)
class Rate(Record):
    """P(hallucinated), P(flag | hallucinated) or P(flag | faithful), estimated four ways."""

    judge_only: RateEstimate
    human_only: RateEstimate
    rogan_gladen: RateEstimate
    prediction_powered: RateEstimate

    def __iter__(self) -> Iterator[tuple[Method, RateEstimate]]:
        """Go through methods and estimates."""
        for method in get_args(Method):
            yield method, getattr(self, method)


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

    Both corrections have melded intervals (see ``melded``): made of exact bounds, so that they hold
    with few labels and with shares near 0 and 1, too, though by simulation and not by proof. Rows
    count as independent, groups are ignored.

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
    level = share(confidence, "confidence")
    rates: dict[RateName, Rate] = {"prevalence": _rate(counts, level, flagged=False)}
    if counts.decided:
        rates["coverage"] = _rate(counts, level, flagged=True)
        # False alarms are to faithful answers what coverage is to hallucinated ones.
        rates["fpr"] = _rate(counts.turned(), level, flagged=True)
    return rates


def _rate(counts: LabelCounts, level: float, *, flagged: bool) -> Rate:
    """Estimate the share of label 1, or the share of it that is flagged."""
    cells = counts.cells
    if flagged:
        judge, human = cells[:, 1].sum(axis=0), cells[1].sum(axis=0)
        reasons = "judge_calls_none", "people_call_none"
    else:
        judge, human = cells[:, :NONE].sum(axis=(0, 2)), cells[:NONE].sum(axis=(1, 2))
        reasons = "no_judge_label", "no_human_label"
    return Rate(
        RateEstimate(_exact(judge, level, reasons[0]), 0, int(judge.sum())),
        RateEstimate(_exact(human, level, reasons[1]), int(human.sum()), 0),
        rogan_gladen(counts, level, flagged=flagged),
        prediction_powered(counts, level, flagged=flagged),
    )


def _exact(rows: NDArray[np.int64], level: float, reason: str) -> Measure:
    """Return the exact interval of a share counted as (without, with)."""
    bound = exact_bound(int(rows[1]), int(rows.sum()), level)
    if bound.estimate is None:
        return missing(_EXACT, reason, level)
    return Measure(bound.estimate, bound.lower, bound.upper, _EXACT, level)


def trusted(rates: Mapping[RateName, Rate], *, random: bool = True) -> dict[RateName, Trust]:
    """Say for each rate which estimate to rely on.

    The prediction-powered one, if the judge's labels have a part in it and its interval is narrower
    than the exact one of the human labels, which else is the choice.
    Neither, if the human labels are known to be no random sample.

    Parameters
    ----------
    rates : mapping of str to Rate
        From ``corrected_rates``.
    random : bool
        False where the rows with human labels are known to be no random sample.
    """
    none = Trust(None, "no_sample")
    return {name: _trusted(rate) if random else none for name, rate in rates.items()}


def _trusted(rate: Rate) -> Trust:
    human, tuned = rate.human_only, rate.prediction_powered
    if human.measure.estimate is None:
        return Trust(None, "no_label")
    if tuned.measure.estimate is None:
        return Trust("human_only", "no_correction")
    if not tuned.weight:
        # Without the judge's labels it is the human labels with a normal interval.
        every = tuned.n_judge == tuned.n_human
        return Trust("human_only", "all_labelled" if every else "no_weight")
    if _width(tuned.measure) >= _width(human.measure):
        return Trust("human_only", "not_narrower")
    return Trust("prediction_powered", "narrower")


def _width(measure: Measure) -> float:
    return float(measure.upper or 0.0) - float(measure.lower or 0.0)
