"""Can a score be read as a probability, and how do hallucinations rise with it?"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from scipy.stats import rankdata

from calibrail.conformal import Bound
from calibrail.evaluation.audit.answers import Answers
from calibrail.evaluation.stats.arrays import Codes, Floats
from calibrail.evaluation.stats.rates import wilson
from calibrail.evaluation.stats.resampling import fold_numbers
from calibrail.record import Record

BINS: Final = 10


@dataclass(frozen=True, slots=True)
class Bin(Record):
    """Answers with similar scores.

    Parameters
    ----------
    lower, upper : float
        Smallest and largest score.
    predicted : float
        Mean of what is read as a probability.
    rate : Bound
        Share of hallucinated answers, with Wilson's interval.
    """

    lower: float
    upper: float
    predicted: float
    rate: Bound


@dataclass(frozen=True, slots=True)
class Reliability(Record):
    """How far scores, read as probabilities, lie from the rates of hallucinations.

    Parameters
    ----------
    n, n_undefined : int
        Answers with a score, and those without, which take no part.
    ece_scaled : float
        Expected calibration error of min-max scaled scores, in ten bins of equal frequency.
    ece_isotonic : float or None
        The same of out-of-fold isotonic probabilities.
    by_chance : float
        What the error would be on average if the isotonic probabilities were the true ones.
    deciles : tuple of Bin
        Tenths by score (equal scores together), ``predicted`` being the min-max scaled score.
    isotonic : tuple of Bin
        Tenths by isotonic probability.
    rising : bool
        Whether the rate never falls from one tenth to the next.
    reason : str or None
        Why there are no isotonic probabilities.
    """

    n: int
    n_undefined: int
    ece_scaled: float
    ece_isotonic: float | None
    by_chance: float | None
    deciles: tuple[Bin, ...]
    isotonic: tuple[Bin, ...]
    rising: bool
    reason: str | None = None


def reliability(values: Floats, answers: Answers) -> Reliability | None:
    """Measure the calibration of a score; None where no score is defined.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Scores, NaN where undefined.
    answers : Answers
        Labels, and groups, which folds keep whole.
    """
    rows = ~np.isnan(values)
    score, answers = values[rows], answers.where(rows)
    if not len(score):
        return None
    # Halves first: the range of two finite numbers need not be finite.
    low, width = score.min() / 2.0, score.max() / 2.0 - score.min() / 2.0
    scaled = (score / 2.0 - low) / width if width > 0.0 else np.full(len(score), 0.5)
    deciles = tenths(score, scaled, answers.labels, answers.confidence)
    bins: tuple[Bin, ...] = ()
    probabilities = _isotonic(scaled, answers)
    if probabilities is not None:
        bins = tenths(probabilities, probabilities, answers.labels, answers.confidence)
    rates = [item.rate.estimate or 0.0 for item in deciles]
    few = "few_groups_to_fit"
    return Reliability(
        n=len(score),
        n_undefined=int(np.sum(~rows)),
        ece_scaled=calibration_error(deciles),
        ece_isotonic=calibration_error(bins) if bins else None,
        by_chance=_by_chance(bins) if bins else None,
        deciles=deciles,
        isotonic=bins,
        rising=all(a <= b for a, b in pairwise(rates)),
        reason=None if bins else few,
    )


def tenths(
    order: Floats, predicted: Floats, labels: Codes, confidence: float = 0.95
) -> tuple[Bin, ...]:
    """Divide answers into ten bins of equal frequency; equal scores stay together.

    Examples
    --------
    >>> bins = tenths(np.arange(20.0), np.arange(20.0) / 20, np.tile([0, 1], 10).astype(np.int8))
    >>> len(bins), bins[0].rate.estimate
    (10, 0.5)
    """
    places = (rankdata(order) - 0.5) / len(order)
    member = np.minimum((BINS * places).astype(np.int64), BINS - 1)
    bins = []
    for index in np.unique(member):
        here = member == index
        rate = wilson(int(labels[here].sum()), int(here.sum()), confidence)
        ends = float(order[here].min()), float(order[here].max())
        bins.append(Bin(*ends, float(predicted[here].mean()), rate))
    return tuple(bins)


def calibration_error(bins: tuple[Bin, ...]) -> float:
    """Return the mean distance of prediction and rate over bins, weighted by their answers."""
    away = (item.rate.n * abs(item.predicted - (item.rate.estimate or 0.0)) for item in bins)
    return float(sum(away) / sum(item.rate.n for item in bins))


def _by_chance(bins: tuple[Bin, ...]) -> float:
    """Return the error that chance alone makes: the mean of a half-normal in each bin."""
    spread = (
        item.rate.n
        * math.sqrt(2.0 * item.predicted * (1.0 - item.predicted) / math.pi)
        / math.sqrt(item.rate.n)
        for item in bins
    )
    return float(sum(spread) / sum(item.rate.n for item in bins))


def _isotonic(score: Floats, answers: Answers) -> Floats | None:
    """Return probabilities from models that have not seen the answer; None with too few groups."""
    from sklearn.isotonic import IsotonicRegression

    folds = fold_numbers(answers.clusters, answers.seed)
    labels = answers.labels.astype(np.float64)
    result = np.empty(len(score))
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        if not train.any():
            return None
        model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        result[test] = model.fit(score[train], labels[train]).predict(score[test])
    # Rounding may leave a hair outside.
    return np.clip(result, 0.0, 1.0)
