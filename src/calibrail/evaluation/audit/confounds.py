"""How much of what a detector separates do surface features explain?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation.audit.strata import Division
from calibrail.evaluation.stats.correlation import correlation_measure, partial, spearman
from calibrail.evaluation.stats.influence import Estimated, chained, measured
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.evaluation.stats.ranking import (
    Matching,
    area_measure,
    match,
    matched_measure,
    rank_within,
    ranked,
    too_few,
)
from calibrail.evaluation.stats.resampling import fold_numbers

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_Labels = NDArray[np.int8]

Verdict = Literal[
    "explains", "explains most", "explains part", "does not explain", "cannot tell",
    "nothing to explain", "is the score",
]  # fmt: skip

#: Features whose influence is looked at, in the order in which they are shown.
SURFACE: Final = (
    "length", "novelty", "novel_count", "question_words", "question_length", "context_length",
)  # fmt: skip

#: A share explained that is shown to exceed this is most of the result.
MOST: Final = 0.5


@dataclass(frozen=True, slots=True)
class Confound:
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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return asdict(self)


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
    """

    name: str
    rows: NDArray[np.bool_]
    values: _Floats
    matching: Matching
    alone: _Floats


def prepare(
    features: Mapping[str, _Floats], labels: _Labels, clusters: _Ints, seed: int = 0
) -> tuple[Matched, ...]:
    """Match answers by every feature that varies and is there for both classes."""
    prepared = []
    for name, column in features.items():
        rows = ~np.isnan(column)
        values, classes = column[rows], labels[rows]
        if len(np.unique(classes)) < 2 or values.min() == values.max():
            continue
        alone = cross_fitted((values,), classes, clusters[rows], seed)
        prepared.append(Matched(name, rows, values, match(values, classes), alone))
    return tuple(prepared)


def prepare_columns(
    divisions: Sequence[Division], labels: _Labels, clusters: _Ints, seed: int = 0
) -> tuple[Matched, ...]:
    """Match answers by the value of a column; the feature is the rate of hallucinations there.

    The rate comes from the other folds, so that an answer's own label is not in it.
    """
    prepared = []
    folds = fold_numbers(clusters, seed)
    for division in divisions:
        rows = division.members >= 0
        classes, members, fold = labels[rows], division.members[rows], folds[rows]
        if division.kind != "column" or len(np.unique(classes)) < 2:
            continue
        size = int(members.max()) + 1
        rates = np.zeros(len(classes))
        for k in np.unique(fold):
            train, test = fold != k, fold == k
            n = np.bincount(members[train], minlength=size)
            halls = np.bincount(members[train], weights=classes[train], minlength=size)
            # One answer of each class more, so that no rate is 0, 1 or undefined.
            rates[test] = ((halls + 1.0) / (n + 2.0))[members[test]]
        alone = cross_fitted((rates,), classes, clusters[rows], seed)
        balance = rank_within(rates, classes, members)
        matching = Matching(members, None, balance, too_few(balance))
        prepared.append(Matched(division.name, rows, rates, matching, alone))
    return tuple(prepared)


def confound(
    feature: Matched,
    ranks: _Floats,
    labels: _Labels,
    clusters: _Ints,
    confidence: float = 0.95,
    seed: int = 0,
) -> Confound:
    """Say what a feature has to do with a detector's AUROC.

    Parameters
    ----------
    feature : Matched
        From ``prepare``.
    ranks : ndarray of float64, shape (n,)
        Scores without NaN: undefined ones where the policy puts them.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    clusters : ndarray of int64, shape (n,)
        What answers hang together.
    confidence : float
        Level of the intervals.
    seed : int
        Seed of the folds.
    """
    rows, matching = feature.rows, feature.matching
    score, classes, groups = ranks[rows], labels[rows], clusters[rows]
    everywhere, own = ranked(score, classes), ranked(feature.values, classes)
    assert everywhere is not None and own is not None
    area = area_measure(score, classes, groups, confidence)
    alike = rank_within(score, classes, matching.bins)
    with_label = spearman(score, classes.astype(np.float64))
    with_feature = spearman(score, feature.values)
    between = spearman(classes.astype(np.float64), feature.values)
    given = None
    if with_label is not None and with_feature is not None and between is not None:
        given = partial(with_label, with_feature, between)
    same = with_feature is not None and abs(with_feature.value) > 1.0 - 1e-9
    matched = matched_measure(alike, groups, matching.reason, confidence)
    share = _share(everywhere, area, alike.area, matched, groups, confidence)
    together = cross_fitted((feature.values, score), classes, groups, seed)
    return Confound(
        feature=feature.name,
        n=int(rows.sum()),
        feature_auroc=area_measure(feature.values, classes, groups, confidence),
        spearman=correlation_measure(with_feature, groups, "spearman", confidence),
        partial=correlation_measure(
            given, groups, "partial spearman", confidence,
            "the score does not vary, or the feature determines score or label",
        ),
        auroc=area,
        matched=matched,
        balance=matched_measure(matching.balance, groups, matching.reason, confidence),
        n_bins=matching.n_bins,
        n_pairs=alike.n_pairs,
        n_hallucinated=alike.n_hallucinated,
        n_faithful=alike.n_faithful,
        share=share,
        lead=_lead(own, everywhere, groups, confidence),
        added=_added(feature.alone, together, classes, groups, confidence),
        verdict="is the score" if same else verdict_of(area, matched, share),
    )  # fmt: skip


def verdict_of(area: Measure, matched: Measure, share: Measure) -> Verdict:
    """Say what the intervals support.

    *Nothing to explain*: the AUROC's interval holds 0.5. *Explains*: at least half of the
    distance to 0.5 is shown to go in matched pairs, and what is left is not shown to lie on the
    same side. *Explains most*: at least half is shown to go. *Explains part*: some is, and at
    most half. *Does not explain*: no more than half goes, and some is not shown to. *Cannot
    tell*: everything else, too few matched pairs among it.
    """
    if area.lower is None or area.upper is None or area.estimate is None:
        return "nothing to explain"
    if area.lower <= 0.5 <= area.upper:
        return "nothing to explain"
    if share.lower is None or share.upper is None or matched.lower is None or matched.upper is None:
        return "cannot tell"
    left = matched.lower > 0.5 if area.estimate > 0.5 else matched.upper < 0.5
    if share.lower >= MOST:
        return "explains most" if left else "explains"
    if share.upper <= MOST:
        return "explains part" if share.lower > 0.0 else "does not explain"
    return "cannot tell"


def _share(
    everywhere: Estimated,
    area: Measure,
    alike: Estimated | None,
    matched: Measure,
    clusters: _Ints,
    confidence: float,
) -> Measure:
    method = "delta method"
    if area.lower is None or area.upper is None or area.lower <= 0.5 <= area.upper:
        reason = "the AUROC is not shown to differ from 0.5, so there is nothing to explain"
        return missing(method, reason, confidence)
    if alike is None or matched.estimate is None:
        return missing(method, matched.reason or "no two answers are alike", confidence)
    whole, left = everywhere.value - 0.5, alike.value - 0.5
    found = chained(1.0 - left / whole, ((alike, -1.0 / whole), (everywhere, left / whole**2)))
    return measured(found, clusters, method, confidence)


def _lead(own: Estimated, score: Estimated, clusters: _Ints, confidence: float) -> Measure:
    """Return how much better the feature ranks than the score, both in their better direction."""
    signs = [1.0 if item.value >= 0.5 else -1.0 for item in (own, score)]
    value = signs[0] * (own.value - 0.5) - signs[1] * (score.value - 0.5)
    found = chained(value, ((own, signs[0]), (score, -signs[1])))
    return measured(found, clusters, "paired, either direction", confidence)


def _added(
    alone: _Floats, together: _Floats, labels: _Labels, clusters: _Ints, confidence: float
) -> Measure:
    first, second = ranked(alone, labels), ranked(together, labels)
    assert first is not None and second is not None
    found = chained(second.value - first.value, ((second, 1.0), (first, -1.0)))
    return measured(found, clusters, "cross-fitted logistic regression, paired", confidence)


def cross_fitted(
    columns: tuple[_Floats, ...], labels: _Labels, clusters: _Ints, seed: int
) -> _Floats:
    """Return log odds of a hallucination for every answer, from a model that has not seen it.

    Logistic regression on each column's mid-ranks, as normal scores, and their squares; five
    seeded folds that keep groups whole.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata
    from sklearn.linear_model import LogisticRegression

    scores = [ndtri((rankdata(column) - 0.5) / len(column)) for column in columns]
    design = np.stack([part for z in scores for part in (z, z**2)], axis=1)
    folds = fold_numbers(clusters, seed)
    result = np.zeros(len(labels))
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        if len(np.unique(labels[train])) < 2:
            continue
        model = LogisticRegression(max_iter=500).fit(design[train], labels[train])
        result[test] = model.decision_function(design[test])
    return result
