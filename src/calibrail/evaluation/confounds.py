"""Surface features that explain a score: confounds, strata, reliability curve."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from scipy.special import ndtri
from scipy.stats import chi2, rankdata

from calibrail.conformal import Bound, holm
from calibrail.data.values import group_name
from calibrail.errors import extra
from calibrail.evaluation.audit_answers import AuditAnswers
from calibrail.evaluation.stats import intervals
from calibrail.evaluation.stats.auroc import Matching, Ranking, match, rank_within, ranked, too_few
from calibrail.evaluation.stats.intervals import Floats, Measure, fold_numbers
from calibrail.evaluation.stats.tests import CONSTANT, partial, spearman
from calibrail.serialization import Record

#: Most values of a column that are strata of their own; the rarer ones are one stratum together.
STRATA_MOST: Final = 20
#: A column of numbers with more distinct values is cut into thirds.
FEW_NUMBERS: Final = 12
#: Fewest answers of each class with which a stratum takes part in the test.
TESTED: Final = 10

THIRDS: Final = ("low", "medium", "high")


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """How answers are divided into strata, before any score is looked at.

    Parameters
    ----------
    name : str
        The feature, or the column.
    kind : {"thirds", "column"}
        Thirds of a number, or the values of a column.
    members : ndarray of int64, shape (n,)
        Stratum of each answer; -1 for one without a value.
    names : tuple of str
        Names of the strata.
    ranges : tuple of (float, float) or None
        Smallest and largest value in each third.
    """

    name: str
    kind: Literal["thirds", "column"]
    members: intervals.Ints
    names: tuple[str, ...]
    ranges: tuple[tuple[float, float] | None, ...]


@dataclass(frozen=True, slots=True)
class Stratum(Record):
    """A detector on the answers of one stratum.

    Parameters
    ----------
    name : str
        ``low``, ``medium`` or ``high``, or the column's value.
    range : tuple of (float, float) or None
        Smallest and largest value of the feature.
    n_hallucinated, n_faithful, n_undefined : int
        Answers of each class; those of them whose score is undefined.
    auroc : Measure
        How far apart the classes are; above 0.5 where hallucinated answers score higher.
    reversed : bool
        The AUROC's interval lies below 0.5.
    """

    name: str
    range: tuple[float, float] | None
    n_hallucinated: int
    n_faithful: int
    n_undefined: int
    auroc: Measure
    reversed: bool


@dataclass(frozen=True, slots=True)
class Heterogeneity(Record):
    """Test of "the AUROC is the same in all strata".

    Parameters
    ----------
    statistic, df, p_value : float, int and float, or None
        Cochran's Q on the logit scale; where groups span strata, with their covariances.
    p_holm : float or None
        Corrected for all divisions of one detector (Holm).
    left_out : tuple of str
        Strata that take no part, for want of answers or because nothing varies there.
    reason : str or None
        Why there is no test.
    """

    statistic: float | None
    df: int | None
    p_value: float | None
    p_holm: float | None
    left_out: tuple[str, ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Stratification(Record):
    """A detector on every stratum of one division.

    Parameters
    ----------
    name, kind
        As in ``Division``.
    n_missing : int
        Answers without a value, which are in no stratum.
    strata : tuple of Stratum
        From low to high, or from the most frequent value to the rarest.
    test : Heterogeneity
        Whether they differ.
    """

    name: str
    kind: str
    n_missing: int
    strata: tuple[Stratum, ...]
    test: Heterogeneity


def thirds(name: str, values: Floats) -> Division | None:
    """Divide answers into thirds of a feature, equal values together; None if it does not vary.

    Examples
    --------
    >>> thirds("length", np.array([3.0, 1.0, 2.0, np.nan])).members.tolist()
    [2, 0, 1, -1]
    """
    there = ~np.isnan(values)
    members = np.full(len(values), -1, dtype=np.int64)
    places = (rankdata(values[there]) - 0.5) / max(1, int(there.sum()))
    # Many equal values may leave a third empty; the names then say which there are.
    present, members[there] = np.unique((3.0 * places).astype(np.int64), return_inverse=True)
    if len(present) < 2:
        return None
    parts = [values[members == k] for k in range(len(present))]
    ranges = tuple((float(part.min()), float(part.max())) for part in parts)
    return Division(name, "thirds", members, tuple(THIRDS[k] for k in present), ranges)


def by_column(name: str, cells: Sequence[Any]) -> Division | None:
    """Divide answers by the values of a column; None unless there are at least two strata.

    Numbers with more than twelve distinct values are cut into thirds. Of other values the twenty
    most frequent are strata, the rest is one more. An empty cell is in none.
    """
    filled = [cell for cell in cells if not _empty(cell)]
    if filled and all(isinstance(cell, int | float) for cell in filled):
        numbers = np.array([np.nan if _empty(cell) else float(cell) for cell in cells])
        if np.isfinite(numbers[~np.isnan(numbers)]).all() and len(set(filled)) > FEW_NUMBERS:
            return thirds(name, numbers)
    texts = [group_name(cell) or None for cell in cells]
    counts = Counter(text for text in texts if text is not None)
    order = sorted(counts, key=lambda text: (-counts[text], text))
    kept = order if len(order) <= STRATA_MOST + 1 else order[:STRATA_MOST]
    place = {text: min(index, len(kept)) for index, text in enumerate(order)}
    rarer = [] if len(kept) == len(order) else [f"{len(order) - STRATA_MOST:,} rarer values"]
    names = (*kept, *rarer)
    if len(names) < 2:
        return None
    members = np.array([-1 if text is None else place[text] for text in texts], dtype=np.int64)
    return Division(name, "column", members, names, (None,) * len(names))


def stratify(
    division: Division, values: Floats, ranks: Floats, answers: AuditAnswers
) -> Stratification:
    """Measure a detector in every stratum, and test whether they differ.

    Parameters
    ----------
    division : Division
        Which answer is in which stratum.
    values, ranks : ndarray of float64, shape (n,)
        Scores, NaN where undefined; the same with undefined ones where the policy puts them.
    answers : Answers
        Labels and groups.
    """
    strata = []
    for index, name in enumerate(division.names):
        rows = division.members == index
        here = answers.where(rows)
        n_hallucinated, n_faithful = (int(np.sum(here.labels == label)) for label in (1, 0))
        counts = n_hallucinated, n_faithful, int(np.isnan(values[rows]).sum())
        separated = here.separation(ranks[rows])
        strata.append(Stratum(name, division.ranges[index], *counts, **separated))
    n_missing = int(np.sum(division.members < 0))
    test = heterogeneity(division, ranks, answers)
    return Stratification(division.name, division.kind, n_missing, tuple(strata), test)


def heterogeneity(division: Division, ranks: Floats, answers: AuditAnswers) -> Heterogeneity:
    """Test whether the AUROC is the same in all strata.

    Wald's test of equal logits. Where no group spans strata it is Cochran's (1954) Q, the sum of
    (logit A_k - their weighted mean)^2 / var; else their covariances enter.
    """
    logits, influences = [], []
    left_out: list[str] = []
    for index, name in enumerate(division.names):
        rows = np.flatnonzero(division.members == index)
        here = answers.where(rows)
        area = ranked(ranks[rows], here.labels)
        few = min(int(np.sum(here.labels == k)) for k in (0, 1)) < TESTED
        slope = 0.0 if area is None else area.value * (1.0 - area.value)
        if area is None or few or slope == 0.0 or area.variance(here.clusters)[0] <= 0.0:
            left_out.append(name)
            continue
        column = np.zeros(len(ranks))
        column[rows] = area.influence / slope
        influences.append(column)
        logits.append(np.log(area.value / (1.0 - area.value)))
    if len(logits) < 2:
        return Heterogeneity(None, None, None, None, tuple(left_out), f"few_strata:{TESTED}")
    totals = intervals.cluster_sums(np.stack(influences, axis=1), answers.clusters)
    covariance = totals.T @ totals * len(totals) / (len(totals) - 1)
    k = len(logits)
    contrasts = np.eye(k)[1:] - np.eye(k)[0]
    apart = contrasts @ np.array(logits)
    spread = contrasts @ covariance @ contrasts.T
    if np.linalg.matrix_rank(spread) < k - 1:
        return Heterogeneity(None, None, None, None, tuple(left_out), "few_groups_for_strata")
    statistic = float(apart @ np.linalg.solve(spread, apart))
    return Heterogeneity(statistic, k - 1, float(chi2.sf(statistic, k - 1)), None, tuple(left_out))


def corrected(divided: Sequence[Stratification]) -> tuple[Stratification, ...]:
    """Return one detector's stratifications with p-values corrected for their number (Holm)."""
    adjusted = iter(holm([p for item in divided if (p := item.test.p_value) is not None]).tolist())

    def tested(test: Heterogeneity) -> Heterogeneity:
        return test if test.p_value is None else replace(test, p_holm=next(adjusted))

    return tuple(replace(item, test=tested(item.test)) for item in divided)


def _empty(cell: Any) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and np.isnan(cell))


Verdict = Literal[
    "explains",
    "explains most",
    "explains part",
    "does not explain",
    "cannot tell",
    "nothing to explain",
    "is the score",
    "tells the label",
]

#: Features whose influence is looked at, in the order in which they are shown.
SURFACE: Final = (
    "length",
    "novelty",
    "novel_count",
    "question_words",
    "question_length",
    "context_length",
)

#: A column with this AUROC by itself was probably made from the label, or the label from it.
TELLS_LABEL: Final = 0.98

#: A share explained that is shown to exceed this is most of the result.
MOST: Final = 0.5


@dataclass(frozen=True, slots=True)
class Confound(Record):
    """What one feature has to do with one detector's AUROC.

    Parameters
    ----------
    feature : str
        Name of the feature.
    n : int
        Answers that have it; every number here is about them.
    feature_auroc : Measure
        The feature's own AUROC; below 0.5 where faithful answers have more of it.
    spearman : Measure
        Rank correlation of score and feature.
    partial : Measure
        Rank correlation of score and label, given the feature.
    auroc, matched : Measure
        The detector's AUROC over all pairs of a hallucinated and a faithful answer, and over the
        pairs that are alike in the feature.
    balance : Measure
        The feature's own AUROC over those pairs: near 0.5 when they are alike.
    n_bins : int or None
        Into how many bins of equal frequency the feature was cut; None: equal values only.
    n_pairs, n_hallucinated, n_faithful : int
        Matched pairs, and the answers in them.
    share : Measure
        1 - (matched - 1/2)/(auroc - 1/2).
    lead : Measure
        How much farther from 0.5 the feature's AUROC lies than the detector's.
    added : Measure
        AUROC of feature and score together minus that of the feature alone, both by cross-fitted
        logistic regression.
    verdict : str
        See ``verdict_of``.
    """

    feature: str
    n: int
    feature_auroc: Measure
    spearman: Measure
    partial: Measure
    auroc: Measure
    matched: Measure
    balance: Measure
    n_bins: int | None
    n_pairs: int
    n_hallucinated: int
    n_faithful: int
    share: Measure
    lead: Measure
    added: Measure
    verdict: Verdict


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """A feature prepared once for all detectors.

    Parameters
    ----------
    name : str
        Name of the feature.
    rows : ndarray of bool, shape (n,)
        Answers that have it.
    values : ndarray of float64, shape (k,)
        Its values there.
    matching : Matching
        Answers that are alike.
    alone : ndarray of float64, shape (k,)
        Cross-fitted log odds of a hallucination from the feature alone.
    tells_label : bool
        Whether it is a column that gives the label, so that nothing about a detector follows.
    """

    name: str
    rows: intervals.Mask
    values: Floats
    matching: Matching
    alone: Floats
    tells_label: bool = False


def prepare(features: Mapping[str, Floats], answers: AuditAnswers) -> tuple[Matched, ...]:
    """Match answers by every feature that varies and is there for both classes."""
    prepared = []
    for name, column in features.items():
        rows = ~np.isnan(column)
        values, there = column[rows], answers.where(rows)
        if there.both_classes and values.min() < values.max():
            matching, alone = match(values, there.labels), cross_fitted((values,), there)
            prepared.append(Matched(name, rows, values, matching, alone))
    return tuple(prepared)


def prepare_columns(divisions: Sequence[Division], answers: AuditAnswers) -> tuple[Matched, ...]:
    """Match answers by the value of a column; the feature is the rate of hallucinations there.

    The rate comes from the other folds, so that an answer's own label is not in it.
    """
    prepared = []
    folds = fold_numbers(answers.clusters, answers.seed)
    for division in divisions:
        rows = division.members >= 0
        there, members, fold = answers.where(rows), division.members[rows], folds[rows]
        if division.kind != "column" or not there.both_classes:
            continue
        rates, size = np.zeros(len(there)), int(members.max()) + 1
        for k in np.unique(fold):
            train, test = fold != k, fold == k
            n = np.bincount(members[train], minlength=size)
            hallucinated = np.bincount(members[train], weights=there.labels[train], minlength=size)
            # One answer of each class more, so that no rate is 0, 1 or undefined.
            rates[test] = ((hallucinated + 1.0) / (n + 2.0))[members[test]]
        balance = rank_within(rates, there.labels, members)
        matching = Matching(members, None, balance, too_few(balance))
        alone = cross_fitted((rates,), there)
        known = (there.auroc(rates).estimate or 0.0) >= TELLS_LABEL
        prepared.append(Matched(division.name, rows, rates, matching, alone, known))
    return tuple(prepared)


def confound(feature: Matched, ranks: Floats, answers: AuditAnswers) -> Confound:
    """Return what a feature has to do with a detector's AUROC.

    Parameters
    ----------
    feature : Matched
        From ``prepare``.
    ranks : ndarray of float64, shape (n,)
        Scores without NaN: undefined ones where the policy puts them.
    answers : Answers
        Labels and groups.
    """
    matching, values = feature.matching, feature.values
    score, answers = ranks[feature.rows], answers.where(feature.rows)
    classes = answers.labels.astype(np.float64)
    of_score, area = answers.ranked(score), answers.auroc(score)
    alike = rank_within(score, answers.labels, matching.bins)
    matched = answers.matched_auroc(alike, matching.reason)
    with_feature = spearman(score, values)
    given = partial(spearman(score, classes), with_feature, spearman(classes, values))
    share = _share(of_score, area, alike, matched, answers)
    same = with_feature is not None and abs(with_feature.value) > 1.0 - 1e-9
    verdict: Verdict = "is the score" if same else verdict_of(area, matched, share)
    lead = intervals.difference_from_half(answers.ranked(values), of_score)
    alone = answers.ranked(feature.alone)
    together = answers.ranked(cross_fitted((values, score), answers))
    added = intervals.chained(together.value - alone.value, ((together, 1.0), (alone, -1.0)))
    return Confound(
        feature.name,
        n=len(answers),
        feature_auroc=answers.auroc(values),
        spearman=answers.correlation(with_feature, "spearman", CONSTANT),
        partial=answers.correlation(given, "partial spearman", "undetermined"),
        auroc=area,
        matched=matched,
        balance=answers.matched_auroc(matching.balance, matching.reason),
        n_bins=matching.n_bins,
        n_pairs=alike.n_pairs,
        n_hallucinated=alike.n_hallucinated,
        n_faithful=alike.n_faithful,
        share=share,
        lead=answers.measured(lead, "paired, either direction"),
        added=answers.measured(added, "cross-fitted logistic regression, paired"),
        verdict="tells the label" if feature.tells_label else verdict,
    )


def verdict_of(area: Measure, matched: Measure, share: Measure) -> Verdict:
    """Say what the intervals support.

    *Nothing to explain*: the AUROC's interval holds 0.5. *Explains*: at least half of the
    distance to 0.5 is shown to go in matched pairs, and what is left is not shown to lie on the
    same side. *Explains most*: at least half is shown to go. *Explains part*: some is, and at
    most half. *Does not explain*: no more than half goes, and some is not shown to. *Cannot
    tell*: everything else, too few matched pairs among it.
    """
    above, below = area.lies_above(0.5), area.lies_below(0.5)
    if not (above or below):
        return "nothing to explain"
    if share.lower is None or share.upper is None or matched.lower is None:
        return "cannot tell"
    left = matched.lies_above(0.5) if above else matched.lies_below(0.5)
    if share.lower >= MOST:
        return "explains most" if left else "explains"
    if share.upper <= MOST:
        return "explains part" if share.lower > 0.0 else "does not explain"
    return "cannot tell"


def _share(
    everywhere: intervals.Estimated,
    area: Measure,
    alike: Ranking,
    matched: Measure,
    answers: AuditAnswers,
) -> Measure:
    """Return which share of the distance to 1/2 goes in matched pairs."""
    method = "delta method"
    if not (area.lies_above(0.5) or area.lies_below(0.5)):
        return intervals.missing(method, "nothing_to_explain", answers.confidence)
    if alike.area is None or matched.estimate is None:
        return intervals.missing(method, matched.reason or "none_alike", answers.confidence)
    whole, left = everywhere.value - 0.5, alike.area.value - 0.5
    parts = ((alike.area, -1.0 / whole), (everywhere, left / whole**2))
    return answers.measured(intervals.chained(1.0 - left / whole, parts), method)


def cross_fitted(columns: tuple[Floats, ...], answers: AuditAnswers) -> Floats:
    """Return log odds of a hallucination for every answer, from a model that has not seen it.

    Logistic regression on each column's mid-ranks, as normal scores, and their squares; five
    seeded folds that keep groups whole.
    """
    with extra("learning", "the audit"):
        from sklearn.linear_model import LogisticRegression

    scores = [ndtri((rankdata(column) - 0.5) / len(column)) for column in columns]
    design = np.stack([part for z in scores for part in (z, z**2)], axis=1)
    folds = fold_numbers(answers.clusters, answers.seed)
    result = np.zeros(len(answers))
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        if answers.where(train).both_classes:
            model = LogisticRegression(max_iter=500).fit(design[train], answers.labels[train])
            result[test] = model.decision_function(design[test])
    return result


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


def reliability(values: Floats, answers: AuditAnswers) -> Reliability | None:
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
    return Reliability(
        n=len(score),
        n_undefined=int(np.sum(~rows)),
        ece_scaled=calibration_error(deciles),
        ece_isotonic=calibration_error(bins) if bins else None,
        by_chance=_by_chance(bins) if bins else None,
        deciles=deciles,
        isotonic=bins,
        rising=all(a <= b for a, b in pairwise(rates)),
        reason=None if bins else "few_groups_to_fit",
    )


def tenths(
    order: Floats, predicted: Floats, labels: intervals.Codes, confidence: float = 0.95
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
        rate = intervals.wilson(int(labels[here].sum()), int(here.sum()), confidence)
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


def _isotonic(score: Floats, answers: AuditAnswers) -> Floats | None:
    """Return probabilities from models that have not seen the answer; None with too few groups."""
    with extra("learning", "the audit"):
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
