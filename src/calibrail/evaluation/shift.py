"""Threshold on other answers; weighting."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from calibrail import conformal
from calibrail.data.splits import CALIBRATION, FIT, TEST
from calibrail.data.values import group_name
from calibrail.errors import DataError, InputError, extra
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.intervals import Codes, Floats, Mask, Measure, wilson
from calibrail.options import Promise
from calibrail.options.fields import cli_or_python

#: Groups tested at most; a column with more holds no groups.
MOST_GROUPS: Final = 50


@dataclass(frozen=True, slots=True, eq=False)
class ShiftPart:
    """One test: answers that calibrate, answers that are tested, and the rest.

    Attributes
    ----------
    calibrated_on, tested_on : str
        What they are called.
    home, away : ndarray of bool, shape (n,)
        Which they are.
    """

    calibrated_on: str
    tested_on: str
    home: Mask
    away: Mask

    @property
    def split(self) -> Codes:
        """CALIBRATION and TEST; FIT where an answer belongs to neither."""
        return np.asarray(np.select([self.home, self.away], [CALIBRATION, TEST], FIT), np.int8)


def group_parts(cells: Sequence[Any], by: str, calibrate_on: Sequence[str]) -> list[ShiftPart]:
    """Test every group by the others, or by those that are named.

    Parameters
    ----------
    cells : sequence, shape (n,)
        Each answer's group; None where it has none.
    by : str
        The column that holds them.
    calibrate_on : sequence of str
        Groups that calibrate; all others when empty.
    """
    names = np.array([*map(group_name, cells)], dtype=object)
    calibrate_on = [*map(group_name, calibrate_on)]
    groups = sorted(set(names.tolist()))
    if len(groups) < 2:
        raise DataError(f"the column {by!r} holds one value only; a shift needs two groups")
    if len(groups) > MOST_GROUPS:
        n, time = len(groups), cli_or_python("--time", "time=...")
        raise DataError.on("values_many", by=by, n=n, most=MOST_GROUPS, time=time)
    if unknown := [name for name in calibrate_on if name not in groups]:
        held = ", ".join(map(repr, groups[:10]))
        raise InputError.on("no_such_group", by=by, name=unknown[0], held=held)
    home = np.isin(names, list(calibrate_on))
    parts = []
    for group in groups:
        if group not in calibrate_on:
            name, away = group or "(none)", names == group
            calibrated_on = ", ".join(calibrate_on) or f"all but {name}"
            parts.append(ShiftPart(calibrated_on, name, home if calibrate_on else ~away, away))
    if not parts:
        raise InputError(f"every group of {by} calibrates, and none is left to test")
    return parts


def time_parts(cells: Sequence[Any], time: str, periods: int) -> list[ShiftPart]:
    """Test later answers, in their order, by the earlier half.

    Parameters
    ----------
    cells : sequence, shape (n,)
        Each answer's time: a number, or an ISO date with or without a time of day.
    time : str
        The column that holds them.
    periods : int
        Parts of the later half; those without an answer are left out.
    """
    moments = np.array([_moment(cell) for cell in cells])
    if len(unread := np.flatnonzero(~np.isfinite(moments))):
        row = int(unread[0])
        raise DataError.on("no_moment", time=time, cell=str(cells[row])[:40], n=row + 1)
    order = np.argsort(moments, kind="stable")
    middle = int(order[len(order) // 2])
    # Answers of one moment stay together.
    home, later = moments < moments[middle], moments >= moments[middle]
    if not home.any():
        raise DataError(f"the column {time!r} holds one time for most answers; nothing is later")
    edges = np.quantile(moments[later], np.linspace(0.0, 1.0, periods + 1)[1:-1], method="higher")
    period = np.searchsorted(edges, moments, "right")
    parts = []
    for index in np.unique(period[later]):
        away = later & (period == index)
        inside = np.flatnonzero(away)
        ends = np.argmin(moments[inside]), np.argmax(moments[inside])
        name = " to ".join(_shown(cells[int(inside[end])]) for end in ends)
        parts.append(ShiftPart(f"before {_shown(cells[middle])}", name, home, away))
    return parts


def _shown(cell: Any) -> str:
    """Return a time as the data spells it: a whole number without decimals."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _moment(cell: Any) -> float:
    """Return a time as a number; NaN where it cannot be read."""
    with suppress(TypeError, ValueError):
        return float(cell)
    try:
        moment = datetime.fromisoformat(str(cell).strip())
    except ValueError:
        return float("nan")
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def density_ratio(
    calibration: ArrayLike, production: ArrayLike, limit: float = 0.01
) -> tuple[Floats, Floats]:
    """Estimate the density ratio production / calibration from features of unlabelled answers.

    A logistic regression (scikit-learn, standardised features) tells the two samples apart; its
    odds, corrected for the sample sizes, are the ratio. Estimated probabilities are kept ``limit``
    away from 0 and 1, so that no single example carries everything.

    Parameters
    ----------
    calibration : array-like of float, shape (n, d)
        Features of the calibration examples; they must not be made from labels or scores.
    production : array-like of float, shape (m, d)
        The same features of production answers.
    limit : float
        In (0, 0.5).

    Returns
    -------
    (ndarray, ndarray) of float64, shapes (n,) and (m,)
        Weights of the calibration examples and of the production answers, of mean about 1 on the
        calibration side.

    """
    with extra("learning", "weighting by covariates"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

    near, far = np.asarray(calibration, np.float64), np.asarray(production, np.float64)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(np.concatenate([near, far]), np.repeat([0, 1], [len(near), len(far)]))

    def ratio(features: Floats) -> Floats:
        chance = np.clip(model.predict_proba(features)[:, 1], limit, 1.0 - limit)
        return np.asarray(chance / (1.0 - chance) * len(near) / len(far), dtype=np.float64)

    return ratio(near), ratio(far)


#: What is known of answers without their labels: a column a feature, NaN where undefined.
Features = Mapping[str, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Weighting:
    """Calibration answers, weighted by how much more often their like occurs elsewhere.

    Attributes
    ----------
    calibration : WeightedCalibration
        The hallucinated calibration answers with their weights.
    n : int
        How many they are.
    weights : ndarray of float64, shape (m,)
        Of the other answers.
    told_apart : Measure
        AUROC of telling the two sides apart by the weights; 0.5 = no difference seen.
    """

    calibration: conformal.WeightedCalibration
    n: int
    weights: Floats
    told_apart: Measure


def weight_towards(
    sample: Sample, features: Features, others: Features, alpha: float, confidence: float
) -> Weighting:
    """Weight calibration answers towards others by the density ratio of their features.

    Parameters
    ----------
    sample : Sample
        Its calibration part is weighted.
    features, others : mapping of str to ndarray of float64, shapes (n,) and (m,)
        The same features of the sample and of the others.
    alpha : float
        Tolerated miss rate.
    confidence : float
        Level of the AUROC's interval.
    """
    part = sample.rows(CALIBRATION)
    near = {name: column[part] for name, column in features.items()}
    here, there = density_ratio(_matrix(near, features), _matrix(others, features))
    values = sample.values[part]
    chosen = (sample.labels[part] == 1) & ~np.isnan(values)
    return Weighting(
        conformal.calibrate_weighted(values[chosen], here[chosen], alpha),
        int(chosen.sum()),
        there,
        auroc(there, here, confidence=confidence),
    )


def _matrix(columns: Features, names: Features) -> Floats:
    """Return one column a feature, 0 where undefined, and one that says where it is undefined."""
    parts = [columns[name] for name in names]
    return np.column_stack(
        [*map(np.nan_to_num, parts), *(np.isnan(part).astype(np.float64) for part in parts)]
    )


def measured_shift(
    calibration: conformal.Calibration,
    sample: Sample,
    features: Features,
    target: Features,
    confidence: float = 0.95,
) -> dict[str, Any]:
    """Weight the calibration examples towards production, and say how much is left of them.

    The weights are estimated from surface features, so the weighted threshold carries no exact
    promise; it shows in which direction, and about how far, the threshold would have to move.

    Parameters
    ----------
    calibration : Calibration
        The unweighted threshold.
    sample : Sample
        The labelled answers; the weighted ones are those of the calibration part.
    features, target : mapping of str to ndarray of float64, shapes (n,) and (m,)
        The same features of the labelled answers and of unlabelled production answers.
    confidence : float
        Level of the AUROC's interval.

    Returns
    -------
    dict
        ``effective_n`` of ``n`` hallucinated calibration examples, the thresholds, and the AUROC of
        telling production from calibration answers (0.5 = no difference seen).
    """
    if calibration.flag_all:
        raise InputError("target needs a threshold; there are too few calibration answers for one")
    weighting = weight_towards(sample, features, target, calibration.alpha, confidence)
    threshold = weighting.calibration.threshold(float(weighting.weights.mean()))
    return {
        "features": list(features),
        "n_target": len(weighting.weights),
        "n": weighting.n,
        "effective_n": weighting.calibration.effective_n,
        "threshold": calibration.threshold,
        "weighted_threshold": None if np.isinf(threshold) else threshold,
        "auroc": weighting.told_apart.to_dict(),
    }


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
    calibration = conformal.calibrate_threshold(sample.scores(CALIBRATION, 1), promise)
    flags = calibration.flags(sample.values, sample.tolerance)
    coverage, fpr = sample.bounds(flags, confidence)
    band = p_value = None
    if n := coverage.n:
        from scipy.stats import betabinom  # takes long to import

        lowest, highest = conformal.coverage_band(calibration, n, confidence)
        band = {"lower": lowest / n, "upper": highest / n, "confidence": confidence}
        # The miss rate of a threshold of rank k among n is Beta(k, n + 1 - k), so that misses among
        # m are beta-binomial (`coverage_band`). Ties only make catching more likely.
        k, missed = calibration.rank, n - coverage.count
        p_value = float(betabinom.sf(missed - 1, n, k, calibration.n + 1 - k))
    return {
        "threshold": calibration.threshold,
        "n_calibration": calibration.n,
        "rank": calibration.rank,
        "coverage": coverage.to_dict(),
        "fpr": fpr.to_dict(),
        "home_fpr": wilson(*sample.count(flags, CALIBRATION, 0), confidence).to_dict(),
        "band": band,
        "p_value": p_value,
        "auroc": sample.auroc(sample.values, confidence).to_dict(),
        "needed": _needed(sample, promise, confidence),
        "weighted": _weighted(sample, features, promise, confidence),
    }


def _needed(sample: Sample, promise: Promise, confidence: float) -> dict[str, Any] | None:
    """Return the threshold that the other side's own hallucinated answers would set."""
    try:
        calibration = conformal.calibrate_threshold(sample.scores(TEST, 1), promise)
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
    defined, unlike = away & ~np.isnan(sample.values), np.zeros(len(sample), np.bool_)
    made, weights = weighting.calibration, weighting.weights[defined[away]]
    flags[defined] = made.flags(sample.values[defined], weights, sample.tolerance)
    # Those that the lowest score would not let pass, either.
    unlike[defined] = made.flags(np.full(len(weights), -np.inf), weights)
    coverage, fpr = sample.bounds(flags, confidence)
    bad, good = sample.bounds(unlike, confidence)
    return {
        "features": list(features),
        "effective_n": made.effective_n,
        "told_apart": weighting.told_apart.to_dict(),
        "coverage": coverage.to_dict(),
        "fpr": fpr.to_dict(),
        "unlike": {"hallucinated": bad.count, "faithful": good.count},
    }


def judge_drift(
    results: Sequence[dict[str, Any]], alpha: float, confidence: float
) -> list[dict[str, Any]]:
    """Return every result with ``adjusted_p``, ``finding`` and ``repair``, Holm over all of them.

    ``finding`` is ``broken`` where so few are caught that both sides cannot be alike, at the stated
    confidence for all tests together; ``consistent`` where the data does not contradict the promise
    (which is no proof of it); ``too few`` below 10 hallucinated answers. ``repair`` says whether
    weighting brings the caught share back: ``not repaired`` if its interval lies below the target,
    ``unlike`` if fewer than 10 hallucinated answers are decided by their scores (the others are
    flagged whatever these are), ``repaired`` if of these the target is caught, else ``open``.
    """
    tested = [item["p_value"] for item in results if item["coverage"]["n"] >= FEWEST]
    adjusted = iter(conformal.holm(tested).tolist() if tested else ())
    judged = []
    for item in results:
        p_value, finding, repair = None, UNTESTED, None
        if item["coverage"]["n"] >= FEWEST:
            p_value = next(adjusted)
            finding = BROKEN if p_value <= 1.0 - confidence else HOLDS
        if finding == BROKEN and item["weighted"] is not None:
            repair = _repair(item["weighted"], 1.0 - alpha)
        judged.append({**item, "adjusted_p": p_value, "finding": finding, "repair": repair})
    return judged


def _repair(weighted: Mapping[str, Any], target: float) -> str:
    caught, unlike = weighted["coverage"], weighted["unlike"]["hallucinated"]
    if caught["upper"] < target:
        return "not repaired"
    if (n := caught["n"] - unlike) < FEWEST:
        return "unlike"
    return "repaired" if (caught["count"] - unlike) / n >= target else "open"
