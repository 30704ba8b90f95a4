"""What is one estimate of a rate, and what does it rest on?"""

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from scipy.special import ndtri

from calibrail.evaluation.agree.judge_labels import LabelCounts
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.record import Record

Method = Literal["judge_only", "human_only", "rogan_gladen", "prediction_powered"]

METHODS: Final[tuple[Method, ...]] = (
    "judge_only",
    "human_only",
    "rogan_gladen",
    "prediction_powered",
)

#: What each method takes for granted.
ASSUMPTIONS: Final = {
    "judge_only": "the judge never errs",
    "human_only": "the answers with a human label are a random sample",
    "rogan_gladen": "the judge errs alike on flagged and on other answers of a class, and on the "
    "answers with a human label as on the rest",
    "prediction_powered": "the answers with a human label are a random sample",
}

#: What each interval promises, its assumption granted.
PROMISES: Final = {
    "judge_only": "exact for the judge's labels; nothing about its errors",
    "human_only": "exact at any number of labels",
    "rogan_gladen": "asymptotic: no finite-sample promise",
    "prediction_powered": "asymptotic: no finite-sample promise",
}
#: Successes and trials added to a share before its variance is taken (Agresti and Coull, 1998).
_SUCCESSES: Final = 2.0
_TRIALS: Final = 4.0


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
        What it takes for granted, and what the interval promises then.
    clipped : tuple of str
        Which of estimate, lower and upper lay outside [0, 1] and were cut off.
    caution : str or None
        Why there are too few human labels to rely on it, and how many would do.
    n_needed : int or None
        That number, at the rates seen.
    weight : float or None
        Of the judge's labels in the prediction-powered estimate, in [0, 1].
    """

    measure: Measure
    n_human: int
    n_judge: int
    assumption: str
    promise: str
    clipped: tuple[str, ...] = ()
    caution: str | None = None
    n_needed: int | None = None
    weight: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able, those of the measure beside the others."""
        content = Record.to_dict(self)
        measure: dict[str, Any] = content.pop("measure")
        return measure | content


@dataclass(frozen=True, slots=True)
class Correction:
    """A method that corrects the judge by people, on the rows of one file.

    Attributes
    ----------
    method : {"rogan_gladen", "prediction_powered"}
        Which one.
    interval : str
        How its interval is computed.
    counts : LabelCounts
        The rows.
    level : float
        Of the interval.
    assumption : str or None
        What it takes for granted of this rate, where that is not what ``ASSUMPTIONS`` says.
    """

    method: Method
    interval: str
    counts: LabelCounts
    level: float
    assumption: str | None = None

    @property
    def quantile(self) -> float:
        """The normal quantile of the two-sided level."""
        return float(ndtri((1.0 + self.level) / 2.0))

    def refused(self, reason: str) -> RateEstimate:
        """Return no estimate, with the reason."""
        return self._estimate(missing(self.interval, reason, self.level))

    def estimate(
        self,
        share: float,
        variance: float,
        too_few: tuple[int | None, str | None],
        weight: float | None = None,
    ) -> RateEstimate:
        """Return an estimate with its normal interval, cut to [0, 1].

        A corrected value that lies outside with its whole interval contradicts what it assumes: it
        is refused.

        Parameters
        ----------
        share, variance : float
            The corrected rate, and its variance.
        too_few : (int or None, str or None)
            ``n_needed`` and ``caution``.
        weight : float, optional
            Of the judge's labels.
        """
        half = self.quantile * math.sqrt(max(0.0, variance))
        ends = (float(share), float(share - half), float(share + half))
        estimate, lower, upper = (min(1.0, max(0.0, end)) for end in ends)
        measure = Measure(estimate, lower, upper, self.interval, self.level)
        named = zip(("estimate", "lower", "upper"), ends, strict=True)
        clipped = tuple(name for name, end in named if not 0.0 <= end <= 1.0)
        if ends[2] < 0.0 or ends[1] > 1.0:
            clipped = ()
            measure = missing(
                self.interval,
                f"the corrected value is {share:.2f} and its whole interval lies outside [0, 1]: "
                "the assumption does not hold",
                self.level,
            )
        n_needed, caution = too_few
        return replace(
            self._estimate(measure),
            clipped=clipped,
            caution=caution,
            n_needed=n_needed,
            weight=weight,
        )

    def _estimate(self, measure: Measure) -> RateEstimate:
        estimate = rate_estimate(self.method, measure, self.counts.n_both, self.counts.n_judge)
        return replace(estimate, assumption=self.assumption or estimate.assumption)


def rate_estimate(method: Method, measure: Measure, n_human: int, n_judge: int) -> RateEstimate:
    """Return an estimate with its method's assumption and promise."""
    return RateEstimate(measure, n_human, n_judge, ASSUMPTIONS[method], PROMISES[method])


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
