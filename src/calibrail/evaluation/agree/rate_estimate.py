"""What is one estimate of a rate, and what does it rest on?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from scipy.special import ndtri

from calibrail.evaluation.agree.judge_labels import LabelCounts
from calibrail.evaluation.stats.measure import Measure, missing

Method = Literal["judge_only", "human_only", "rogan_gladen", "prediction_powered"]

METHODS: Final[tuple[Method, ...]] = (
    "judge_only", "human_only", "rogan_gladen", "prediction_powered",
)  # fmt: skip

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
class RateEstimate:
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
        return {
            **self.measure.to_dict(),
            "n_human": self.n_human,
            "n_judge": self.n_judge,
            "assumption": self.assumption,
            "promise": self.promise,
            "clipped": list(self.clipped),
            "caution": self.caution,
            "n_needed": self.n_needed,
            "weight": self.weight,
        }


def normal_interval(
    method: Method,
    name: str,
    share: float,
    variance: float,
    level: float,
    counts: LabelCounts,
    *,
    caution: str | None = None,
    n_needed: int | None = None,
    weight: float | None = None,
) -> RateEstimate:
    """Return an estimate with its normal interval, cut to [0, 1].

    A corrected value that lies outside with its whole interval contradicts what it assumes: it is
    refused.
    """
    half = quantile(level) * math.sqrt(max(0.0, variance))
    values = {"estimate": float(share), "lower": share - half, "upper": share + half}
    kept = {key: float(min(1.0, max(0.0, value))) for key, value in values.items()}
    clipped = tuple(key for key, value in values.items() if kept[key] != value)
    measure = Measure(kept["estimate"], kept["lower"], kept["upper"], name, level)
    if values["upper"] < 0.0 or values["lower"] > 1.0:
        clipped = ()
        measure = missing(
            name,
            f"the corrected value is {share:.2f} and its whole interval lies outside [0, 1]: the "
            "assumption does not hold",
            level,
        )
    return replace(
        rate_estimate(method, measure, counts.n_both, counts.n_judge),
        clipped=clipped, caution=caution, n_needed=n_needed, weight=weight,
    )  # fmt: skip


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


def quantile(level: float) -> float:
    """Return the normal quantile of a two-sided level."""
    return float(ndtri((1.0 + level) / 2.0))
