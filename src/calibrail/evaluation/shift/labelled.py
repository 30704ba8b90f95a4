"""Does a threshold from one set of answers keep its promise on another, and if not, what would?"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from scipy.stats import betabinom

from calibrail.conformal import calibrate_threshold, coverage_band, holm
from calibrail.errors import InputError
from calibrail.evaluation.sample import CALIBRATION, TEST, Sample
from calibrail.evaluation.shift.weighting import Features, weight_towards
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.rates import wilson
from calibrail.settings import Promise

#: What a test says about the promise.
HOLDS: Final = "consistent"
BROKEN: Final = "broken"
UNTESTED: Final = "too few"
#: Fewer hallucinated test answers than this show nothing either way.
FEWEST: Final = 10


def drift(
    sample: Sample, features: Features, promise: Promise, confidence: float = 0.95
) -> dict[str, Any]:
    """Set a threshold on the calibration part and measure it on the test part.

    Parameters
    ----------
    sample : Sample
        Answers of both sides; those of neither belong to the fit part.
    features : mapping of str to ndarray of float64, shape (n,)
        What is known of an answer without its label; empty where there are no texts.
    promise : Promise
        One threshold's: without groups, clusters or a second threshold.
    confidence : float
        Level of every interval.

    Returns
    -------
    dict
        ``threshold``, ``n_calibration``; ``coverage`` and ``fpr`` on the other side, ``home_fpr``
        on its own (Wilson); ``band`` (where the promise's own law puts the caught share) and
        ``p_value`` (chance of so few caught if both sides were alike: beta-binomial, one-sided);
        ``needed``, the threshold that the other side's own hallucinated answers ask for, with its
        FPR there; ``weighted``, what weighting towards the other side's features changes.

    Raises
    ------
    TooFewExamplesError
        If no threshold short of flagging everything keeps the promise.
    """
    promise = replace(promise, allow_flag_all=False)
    calibration = calibrate_threshold(sample.scores(CALIBRATION, 1), promise)
    flags = calibration.flags(sample.values, sample.tolerance)
    coverage, fpr = sample.bounds(flags, confidence)
    band = p_value = None
    if n := coverage.n:
        lowest, highest = coverage_band(calibration, n, confidence)
        band = {"lower": lowest / n, "upper": highest / n, "confidence": confidence}
        # The miss rate of a threshold of rank k among n is Beta(k, n + 1 - k), so that misses among
        # m are beta-binomial (STATISTICS: the band's law). Ties only make catching more likely.
        k, missed = calibration.rank, n - coverage.count
        p_value = float(betabinom.sf(missed - 1, n, k, calibration.n + 1 - k))
    scores = (values[~np.isnan(values)] for values in sample.by_class(sample.values))
    return {
        "threshold": calibration.threshold,
        "n_calibration": calibration.n,
        "rank": calibration.rank,
        "coverage": coverage.to_dict(),
        "fpr": fpr.to_dict(),
        "home_fpr": wilson(*sample.count(flags, CALIBRATION, 0), confidence).to_dict(),
        "band": band,
        "p_value": p_value,
        "auroc": auroc(*scores, confidence=confidence).to_dict(),
        "needed": _needed(sample, promise, confidence),
        "weighted": _weighted(sample, features, promise, confidence),
    }


def _needed(sample: Sample, promise: Promise, confidence: float) -> dict[str, Any] | None:
    """Return the threshold that the other side's own hallucinated answers would set."""
    try:
        calibration = calibrate_threshold(sample.scores(TEST, 1), promise)
    except InputError:
        return None
    _, fpr = sample.bounds(calibration.flags(sample.values, sample.tolerance), confidence)
    return {"threshold": calibration.threshold, "n": calibration.n, "fpr": fpr.to_dict()}


def _weighted(
    sample: Sample, features: Features, promise: Promise, confidence: float
) -> dict[str, Any] | None:
    """Return what happens when calibration examples are weighted towards the other side."""
    away = sample.rows(TEST)
    if not features or not away.any():
        return None
    others = {name: column[away] for name, column in features.items()}
    weighting = weight_towards(sample, features, others, promise.alpha, confidence)
    flags = np.full(len(sample), promise.undefined != "pass")
    defined = away & ~np.isnan(sample.values)
    flags[defined] = weighting.calibration.flags(
        sample.values[defined], weighting.weights[defined[away]], sample.tolerance
    )
    coverage, fpr = sample.bounds(flags, confidence)
    return {
        "features": list(features),
        "effective_n": weighting.calibration.effective_n,
        "told_apart": weighting.told_apart.to_dict(),
        "coverage": coverage.to_dict(),
        "fpr": fpr.to_dict(),
    }


def judge_drift(
    results: Sequence[dict[str, Any]], alpha: float, confidence: float
) -> list[dict[str, Any]]:
    """Return every result with ``adjusted_p``, ``finding`` and ``repair``, Holm over all of them.

    ``finding`` is ``broken`` where so few are caught that both sides cannot be alike, at the stated
    confidence for all tests together; ``consistent`` where the data does not contradict the promise
    (which is no proof of it); ``too few`` below 10 hallucinated answers. ``repair`` says whether
    weighting brings the caught share back: ``repaired`` if its interval holds the target or lies
    above it, ``not repaired`` if it lies below.
    """
    tested = [item["p_value"] for item in results if item["coverage"]["n"] >= FEWEST]
    adjusted = iter(holm(tested).tolist() if tested else ())
    judged = []
    for item in results:
        p_value, finding, repair = None, UNTESTED, None
        if item["coverage"]["n"] >= FEWEST:
            p_value = next(adjusted)
            finding = BROKEN if p_value <= 1.0 - confidence else HOLDS
        if finding == BROKEN and item["weighted"] is not None:
            reached = item["weighted"]["coverage"]["upper"] >= 1.0 - alpha
            repair = "repaired" if reached else "not repaired"
        judged.append({**item, "adjusted_p": p_value, "finding": finding, "repair": repair})
    return judged
