"""Does a threshold from one set of answers keep its promise on another, and if not, what would?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import betabinom

from calibrail.conformal import Calibration, calibrate, calibrate_weighted, coverage_band
from calibrail.errors import InputError
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.density_ratio import density_ratio
from calibrail.evaluation.stats.phrases import count, number, percent
from calibrail.evaluation.stats.rates import wilson

_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]

#: What a test says about the promise.
HOLDS: Final = "consistent"
BROKEN: Final = "broken"
UNTESTED: Final = "too few"
#: Fewer hallucinated test answers than this show nothing either way.
FEWEST: Final = 10


@dataclass(frozen=True, slots=True)
class Side:
    """Answers with their scores: those that set a threshold, or those that it is tried on.

    Attributes
    ----------
    values : ndarray of float64, shape (n,)
        Scores, higher = more likely hallucinated; NaN where undefined.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    features : mapping of str to ndarray of float64, shape (n,)
        What is known of an answer without its label; empty where there are no texts.
    """

    values: _Floats
    labels: NDArray[np.int8]
    features: Mapping[str, _Floats]

    def part(self, rows: _Bools) -> Side:
        """Return some of the answers."""
        return Side(
            self.values[rows],
            self.labels[rows],
            {name: column[rows] for name, column in self.features.items()},
        )

    @property
    def hallucinated(self) -> _Floats:
        """Scores of the hallucinated answers."""
        own: _Floats = self.values[self.labels == 1]
        return own


def drift(
    home: Side,
    away: Side,
    *,
    alpha: float,
    guarantee: Any,
    delta: float,
    undefined: Any,
    confidence: float,
    tolerance: float,
) -> dict[str, Any]:
    """Set a threshold on one side and measure it on the other.

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
    calibration = calibrate(home.hallucinated, alpha, guarantee, delta, undefined)
    policy = calibration.undefined != "pass"

    def flags(side: Side, threshold: float) -> _Bools:
        result: _Bools = (side.values + tolerance >= threshold) | (np.isnan(side.values) & policy)
        return result

    def rates(side: Side, flagged: _Bools) -> dict[str, Any]:
        shares = {}
        for name, label in (("coverage", 1), ("fpr", 0)):
            own = side.labels == label
            shares[name] = wilson(int(flagged[own].sum()), int(own.sum()), confidence).to_dict()
        return shares

    flagged = flags(away, calibration.threshold)
    measured = rates(away, flagged)
    caught, n = measured["coverage"]["count"], measured["coverage"]["n"]
    band = None
    if n:
        lowest, highest = coverage_band(calibration, n, confidence)
        band = {"lower": lowest / n, "upper": highest / n, "confidence": confidence}
    return {
        "threshold": calibration.threshold,
        "n_calibration": calibration.n,
        "rank": calibration.rank,
        **measured,
        "home_fpr": rates(home, flags(home, calibration.threshold))["fpr"],
        "band": band,
        "p_value": _chance(calibration, caught, n) if n else None,
        "auroc": auroc(
            away.hallucinated[~np.isnan(away.hallucinated)],
            away.values[(away.labels == 0) & ~np.isnan(away.values)],
            confidence=confidence,
        ).to_dict(),
        "needed": _needed(away, calibration, flags, rates),
        "weighted": _weighted(home, away, calibration, tolerance, confidence, rates),
    }


def _chance(calibration: Calibration, caught: int, n: int) -> float:
    """Return the chance of at most so many caught, if both sides came from one process.

    The miss rate of a threshold of rank k among n is Beta(k, n + 1 - k), so that misses among m are
    beta-binomial (STATISTICS: the band's law). Ties only make catching more likely.
    """
    k = calibration.rank
    return float(betabinom.sf(n - caught - 1, n, k, calibration.n + 1 - k))


def _needed(away: Side, calibration: Calibration, flags: Any, rates: Any) -> dict[str, Any] | None:
    """Return the threshold that the other side's own hallucinated answers would set."""
    try:
        own = calibrate(
            away.hallucinated, calibration.alpha, calibration.guarantee,
            calibration.delta or 0.1, calibration.undefined,
        )  # fmt: skip
    except InputError:
        return None
    return {
        "threshold": own.threshold,
        "n": own.n,
        "fpr": rates(away, flags(away, own.threshold))["fpr"],
    }


def _weighted(
    home: Side,
    away: Side,
    calibration: Calibration,
    tolerance: float,
    confidence: float,
    rates: Any,
) -> dict[str, Any] | None:
    """Return what happens when calibration examples are weighted towards the other side."""
    if not home.features or not len(away.values):
        return None
    near, far = _matrix(home.features), _matrix(away.features)
    mine, theirs = density_ratio(near, far)
    chosen = (home.labels == 1) & ~np.isnan(home.values)
    weighted = calibrate_weighted(home.values[chosen], mine[chosen], calibration.alpha)
    defined = ~np.isnan(away.values)
    flagged = np.full(len(away.values), calibration.undefined != "pass")
    flagged[defined] = weighted.flags(away.values[defined], theirs[defined], tolerance)
    return {
        "features": list(home.features),
        "effective_n": weighted.effective_n,
        "told_apart": auroc(theirs, mine, confidence=confidence).to_dict(),
        **rates(away, flagged),
    }


def _matrix(features: Mapping[str, _Floats]) -> _Floats:
    """Return one column a feature, 0 where undefined, and one that says where it is undefined."""
    found = list(features.values())
    return np.column_stack(
        [*map(np.nan_to_num, found), *(np.isnan(part).astype(np.float64) for part in found)]
    )


def judge_drift(results: Sequence[dict[str, Any]], alpha: float, confidence: float) -> None:
    """Add ``adjusted_p``, ``finding`` and ``repair`` to every result, Holm over all of them.

    ``finding`` is ``broken`` where so few are caught that both sides cannot be alike, at the stated
    confidence for all tests together; ``consistent`` where the data does not contradict the promise
    (which is no proof of it); ``too few`` below 10 hallucinated answers. ``repair`` says whether
    weighting brings the caught share back: ``repaired`` if its interval holds the target or lies
    above it, ``not repaired`` if it lies below.
    """
    tested = [item for item in results if item["coverage"]["n"] >= FEWEST]
    ordered = sorted(tested, key=lambda item: item["p_value"])
    running = 0.0
    for place, item in enumerate(ordered):
        running = max(running, min(1.0, (len(ordered) - place) * item["p_value"]))
        item["adjusted_p"] = running
    for item in results:
        if item["coverage"]["n"] < FEWEST:
            item |= {"adjusted_p": None, "finding": UNTESTED, "repair": None}
            continue
        item["finding"] = BROKEN if item["adjusted_p"] <= 1.0 - confidence else HOLDS
        weighted = item["weighted"]
        item["repair"] = None
        if item["finding"] == BROKEN and weighted is not None:
            reached = weighted["coverage"]["upper"] >= 1.0 - alpha
            item["repair"] = "repaired" if reached else "not repaired"


def sentence(item: Mapping[str, Any], alpha: float) -> str:
    """Return what one test shows, in words."""
    coverage, name = item["coverage"], item["tested_on"]
    told = f"{name}: {coverage['count']:,} of {count(coverage['n'], 'hallucinated answer')} caught"
    if item["finding"] == UNTESTED:
        return f"{told}; too few to tell."
    told += (
        f" ({percent(coverage['estimate'])}, {percent(coverage['lower'])} to "
        f"{percent(coverage['upper'])}), {percent(1.0 - alpha)} promised"
    )
    if item["finding"] == HOLDS:
        return f"{told}: no contradiction to the promise (p = {number(item['p_value'])})."
    told += f": the promise is broken (corrected p = {number(item['adjusted_p'])})."
    if needed := item["needed"]:
        told += (
            f" A threshold of {number(needed['threshold'])} instead of "
            f"{number(item['threshold'])} would be needed, at "
            f"{percent(needed['fpr']['estimate'])} false alarms"
            if needed["fpr"]["estimate"] is not None
            else f" A threshold of {number(needed['threshold'])} would be needed"
        )
        told += "."
    weighted = item["weighted"]
    if item["repair"] == "repaired" and weighted["fpr"]["estimate"] is not None:
        told += (
            f" Weighting brings it back to {percent(weighted['coverage']['estimate'])}, at "
            f"{percent(weighted['fpr']['estimate'])} false alarms and an effective sample of "
            f"{weighted['effective_n']:,.0f}; that is seen here, not promised."
        )
    elif item["repair"] == "not repaired":
        told += (
            f" Weighting does not repair it ({percent(weighted['coverage']['estimate'])} caught): "
            "more than the mix of surface features has changed."
        )
    return told
