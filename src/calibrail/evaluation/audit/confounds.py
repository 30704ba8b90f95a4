"""How much of what a detector separates do surface features explain?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from calibrail.evaluation.audit.answers import Answers
from calibrail.evaluation.audit.strata import Division
from calibrail.evaluation.stats.arrays import Floats, Mask
from calibrail.evaluation.stats.correlation import CONSTANT, partial, spearman
from calibrail.evaluation.stats.influence import Estimated, chained, difference_from_half
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.evaluation.stats.ranking import Matching, Ranking, match, rank_within, too_few
from calibrail.evaluation.stats.resampling import fold_numbers
from calibrail.record import Record

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
    rows: Mask
    values: Floats
    matching: Matching
    alone: Floats
    tells_label: bool = False


def prepare(features: Mapping[str, Floats], answers: Answers) -> tuple[Matched, ...]:
    """Match answers by every feature that varies and is there for both classes."""
    prepared = []
    for name, column in features.items():
        rows = ~np.isnan(column)
        values, there = column[rows], answers.where(rows)
        if there.both_classes and values.min() < values.max():
            matching, alone = match(values, there.labels), cross_fitted((values,), there)
            prepared.append(Matched(name, rows, values, matching, alone))
    return tuple(prepared)


def prepare_columns(divisions: Sequence[Division], answers: Answers) -> tuple[Matched, ...]:
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


def confound(feature: Matched, ranks: Floats, answers: Answers) -> Confound:
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
    lead = difference_from_half(answers.ranked(values), of_score)
    alone = answers.ranked(feature.alone)
    together = answers.ranked(cross_fitted((values, score), answers))
    undetermined = "undetermined"
    added = chained(together.value - alone.value, ((together, 1.0), (alone, -1.0)))
    return Confound(
        feature.name,
        n=len(answers),
        feature_auroc=answers.auroc(values),
        spearman=answers.correlation(with_feature, "spearman", CONSTANT),
        partial=answers.correlation(given, "partial spearman", undetermined),
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
    everywhere: Estimated, area: Measure, alike: Ranking, matched: Measure, answers: Answers
) -> Measure:
    """Return which share of the distance to 1/2 goes in matched pairs."""
    method = "delta method"
    if not (area.lies_above(0.5) or area.lies_below(0.5)):
        return missing(method, "nothing_to_explain", answers.confidence)
    if alike.area is None or matched.estimate is None:
        return missing(method, matched.reason or "none_alike", answers.confidence)
    whole, left = everywhere.value - 0.5, alike.area.value - 0.5
    parts = ((alike.area, -1.0 / whole), (everywhere, left / whole**2))
    return answers.measured(chained(1.0 - left / whole, parts), method)


def cross_fitted(columns: tuple[Floats, ...], answers: Answers) -> Floats:
    """Return log odds of a hallucination for every answer, from a model that has not seen it.

    Logistic regression on each column's mid-ranks, as normal scores, and their squares; five
    seeded folds that keep groups whole.
    """
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
