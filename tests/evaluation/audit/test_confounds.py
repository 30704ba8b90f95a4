"""Does an audit tell what a surface feature explains from what it does not?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm, spearmanr
from sklearn.metrics import roc_auc_score

from calibrail.evaluation.audit_answers import AuditAnswers
from calibrail.evaluation.confounds import by_column, confound, prepare, prepare_columns, verdict_of
from calibrail.evaluation.stats.auroc import auroc, match, rank_within, ranked
from calibrail.evaluation.stats.intervals import Estimated, Measure, missing
from calibrail.evaluation.stats.tests import partial, spearman

ALONE = np.arange(2000)
LABELS = np.tile([0, 1], 1000).astype(np.int8)


def feature(seed: int, gap: float = 1.5) -> np.ndarray:
    """A rounded feature, so that there are ties, that separates the classes."""
    rng = np.random.default_rng(seed)
    return np.round(20.0 * (rng.normal(size=2000) + gap * LABELS) + 100.0)


def explained(score: np.ndarray, column: np.ndarray, clusters: np.ndarray = ALONE):
    answers = AuditAnswers(LABELS, clusters)
    (prepared,) = prepare({"length": column}, answers)
    return confound(prepared, score, answers)


def test_a_score_that_is_the_feature_with_noise_is_explained() -> None:
    length = feature(0)
    score = length + np.random.default_rng(1).normal(0.0, 10.0, 2000)
    row = explained(score, length)
    assert row.auroc.estimate > 0.8
    assert row.verdict == "explains"
    assert row.matched.lower < 0.5 < row.matched.upper
    assert row.share.lower < 1.0 < row.share.upper
    assert row.partial.lower < 0.0 < row.partial.upper
    assert abs(row.balance.estimate - 0.5) <= 0.01


def test_a_score_that_knows_more_than_the_feature_is_not_explained() -> None:
    rng = np.random.default_rng(2)
    row = explained(rng.normal(size=2000) + 1.2 * LABELS, feature(3))
    assert row.verdict == "does not explain"
    # Given the label the two are independent: matching changes nothing.
    assert row.matched.estimate == pytest.approx(norm.cdf(1.2 / np.sqrt(2.0)), abs=0.05)
    assert row.added.lower > 0.0


def test_half_and_half_is_part() -> None:
    rng = np.random.default_rng(4)
    length = feature(5, gap=1.0)
    score = 0.02 * length + rng.normal(size=2000) + 0.9 * LABELS
    row = explained(score, length)
    assert row.verdict == "explains part"
    assert 0.0 < row.share.lower < row.share.upper < 0.5


def test_nothing_to_explain_and_too_few_alike() -> None:
    rng = np.random.default_rng(8)
    row = explained(rng.normal(size=2000), feature(9))
    assert row.verdict == "nothing to explain"
    assert row.share.estimate is None and row.share.reason == "nothing_to_explain"
    apart = 1000.0 * LABELS + rng.normal(size=2000)
    row = explained(rng.normal(size=2000) + LABELS, apart)
    assert row.verdict == "cannot tell"
    assert row.matched.reason == "few_alike:0:0:20"
    assert row.n_pairs == 0
    same = explained(apart, apart)
    assert same.verdict == "is the score"


@pytest.mark.parametrize(
    ("area", "matched", "share", "verdict"),
    [
        ((0.7, 0.9), (0.45, 0.55), (0.8, 1.1), "explains"),
        ((0.7, 0.9), (0.52, 0.6), (0.6, 0.9), "explains most"),
        ((0.7, 0.9), (0.6, 0.7), (0.1, 0.45), "explains part"),
        ((0.7, 0.9), (0.7, 0.9), (-0.1, 0.2), "does not explain"),
        ((0.7, 0.9), (0.4, 0.9), (-0.4, 1.2), "cannot tell"),
        ((0.7, 0.9), (0.5, 0.7), (0.2, 0.8), "cannot tell"),
        ((0.4, 0.9), (0.5, 0.7), (0.2, 0.8), "nothing to explain"),
        ((0.1, 0.3), (0.6, 0.7), (1.1, 1.8), "explains"),
    ],
)
def test_verdicts_follow_the_intervals(area, matched, share, verdict) -> None:
    measures = [Measure((a + b) / 2, a, b, "made up") for a, b in (area, matched, share)]
    assert verdict_of(*measures) == verdict


def test_without_an_interval_the_verdict_is_open() -> None:
    some = Measure(0.8, 0.7, 0.9, "made up")
    assert verdict_of(some, missing("x", "none"), some) == "cannot tell"
    assert verdict_of(missing("x", "none"), some, some) == "nothing to explain"


def test_a_column_explains_what_differs_between_its_values() -> None:
    """Two models, one worse: a score that only tells the models apart is explained by them."""
    rng = np.random.default_rng(10)
    model = rng.integers(0, 2, 2000)
    labels = (rng.random(2000) < np.where(model == 1, 0.8, 0.2)).astype(np.int8)
    division = by_column("model", [f"m{k}" for k in model])
    assert division is not None
    answers = AuditAnswers(labels, ALONE)
    (prepared,) = prepare_columns([division], answers)
    row = confound(prepared, model + rng.normal(size=2000), answers)
    assert row.verdict == "explains"
    assert row.feature_auroc.estimate == pytest.approx(0.8, abs=0.05)
    skilled = confound(prepared, rng.normal(size=2000) + 1.5 * labels, answers)
    assert skilled.verdict == "does not explain"


def brute(values: np.ndarray, labels: np.ndarray, bins: np.ndarray) -> tuple[float, int]:
    won, pairs = 0.0, 0
    for h in np.flatnonzero(labels == 1):
        for f in np.flatnonzero((labels == 0) & (bins == bins[h])):
            won += float(values[h] > values[f]) + 0.5 * float(values[h] == values[f])
            pairs += 1
    return won / pairs, pairs


def test_ranking_within_bins_counts_pairs() -> None:
    rng = np.random.default_rng(11)
    values, bins = rng.integers(0, 6, 80).astype(float), rng.integers(0, 5, 80)
    labels = rng.integers(0, 2, 80).astype(np.int8)
    ranking = rank_within(values, labels, bins)
    area, pairs = brute(values, labels, bins)
    assert ranking.n_pairs == pairs
    assert ranking.area.value == pytest.approx(area, abs=1e-12)
    assert ranking.area.influence.sum() == pytest.approx(0.0, abs=1e-12)
    whole = ranked(values, labels)
    assert whole.value == pytest.approx(roc_auc_score(labels, values), abs=1e-12)


def test_by_hand() -> None:
    """Bin 0: h 3 against f 1 and f 3, 1.5 of 2. Bin 1: h 0 against f 2, 0 of 1."""
    values = np.array([3.0, 1.0, 3.0, 0.0, 2.0])
    labels = np.array([1, 0, 0, 1, 0], np.int8)
    ranking = rank_within(values, labels, np.array([0, 0, 0, 1, 1]))
    assert (ranking.n_pairs, ranking.n_hallucinated, ranking.n_faithful) == (3, 2, 3)
    assert ranking.area.value == pytest.approx(0.5)


def test_influence_is_the_jackknife_to_first_order() -> None:
    rng = np.random.default_rng(12)
    x = rng.normal(size=300)
    y = x + rng.normal(size=300)
    label = (rng.random(300) < 0.5).astype(float)
    functions = {
        "spearman": lambda i: spearman(x[i], y[i]),
        "partial": lambda i: partial(
            spearman(x[i], y[i]), spearman(x[i], label[i]), spearman(y[i], label[i])
        ),
        "auroc": lambda i: ranked(x[i], label[i].astype(np.int8)),
    }
    every = np.arange(300)
    for name, function in functions.items():
        statistic = function(every)
        left = np.array([function(np.delete(every, k)).value for k in range(300)])
        jackknife = 299 / 300 * np.sum((left - left.mean()) ** 2)
        assert statistic.variance(every)[0] == pytest.approx(jackknife, rel=0.03), name
        assert statistic.influence.sum() == pytest.approx(0.0, abs=1e-9), name
    assert functions["spearman"](every).value == pytest.approx(spearmanr(x, y)[0], abs=1e-12)


def test_partial_correlation_of_ranks_against_statsmodels() -> None:
    from scipy.stats import rankdata
    from statsmodels.stats.multivariate_tools import partial_project

    rng = np.random.default_rng(13)
    z = rng.normal(size=200)
    x, y = z + rng.normal(size=200), z + rng.normal(size=200)
    ours = partial(spearman(x, y), spearman(x, z), spearman(y, z))
    ranks = np.stack([rankdata(x), rankdata(y)], axis=1)
    exog = np.stack([np.ones(200), rankdata(z)], axis=1)
    rest = partial_project(ranks, exog).resid
    assert ours.value == pytest.approx(np.corrcoef(rest.T)[0, 1], abs=1e-9)


def test_clusters_widen_or_narrow_intervals_as_they_should() -> None:
    """Two copies of every answer: the interval must be that of the answers, not of the copies."""
    rng = np.random.default_rng(14)
    values = rng.normal(size=400) + 0.5 * np.tile([0, 1], 200)
    labels = np.tile([0, 1], 200).astype(np.int8)
    one = AuditAnswers(labels, np.arange(400)).auroc(values)
    twice = np.repeat(np.arange(400), 2)
    two = AuditAnswers(np.repeat(labels, 2), twice).auroc(np.repeat(values, 2))
    assert two.estimate == pytest.approx(one.estimate)
    assert two.upper - two.lower == pytest.approx(one.upper - one.lower, rel=0.02)
    assert one == auroc(values[labels == 1], values[labels == 0])


def test_intervals_cover() -> None:
    """Paired answers of one question; 400 draws at 95 %, binomial tolerance of 3.5 sigma."""
    rng = np.random.default_rng(15)
    labels, clusters = np.tile([0, 1], 120).astype(np.int8), np.repeat(np.arange(120), 2)
    truth = float(norm.cdf(1.0 / np.sqrt(2.0 * 1.5)))
    hits = 0
    for _ in range(400):
        common = np.repeat(rng.normal(0.0, np.sqrt(0.5), 120), 2)
        area = AuditAnswers(labels, clusters).auroc(rng.normal(size=240) + common + labels)
        hits += area.lower <= truth <= area.upper
    assert hits >= binom.ppf(1e-3, 400, 0.95)


def test_few_groups_of_unequal_size_keep_the_interval() -> None:
    """A logit interval with Obuchowski's variance holds the truth in 0.77 of these."""
    rng, truth, runs, hits = np.random.default_rng(16), 0.75, 300, 0
    for _ in range(runs):
        sizes = np.minimum(rng.zipf(1.6, 15), 60)
        clusters = np.repeat(np.arange(15), sizes)
        labels = (np.arange(15) % 2).astype(np.int8)[clusters]
        common = rng.normal(size=15)[clusters] + rng.normal(size=len(labels))
        area = AuditAnswers(labels, clusters).auroc(common + 2.0 * norm.ppf(truth) * labels)
        hits += area.lower <= truth <= area.upper
    assert hits >= binom.ppf(1e-3, runs, 0.95)


def test_a_perfect_area_keeps_an_interval() -> None:
    labels, clusters = np.tile([0, 1], 20).astype(np.int8), np.repeat(np.arange(20), 2)
    area = AuditAnswers(labels, clusters).auroc(labels.astype(float))
    assert area.estimate == area.upper == 1.0
    assert area.lower == pytest.approx(0.025 ** (1 / 20))
    still = AuditAnswers(labels, clusters).measured(Estimated(1.0, np.zeros(40)), "x", "fisher")
    assert still.lower is None


def test_matching_ends_at_equal_values() -> None:
    column = np.repeat([1.0, 2.0, 3.0], [400, 800, 800])
    labels = np.zeros(2000, np.int8)
    labels[300:900] = labels[1000:1900] = 1
    matching = match(column, labels)
    assert abs(matching.balance.area.value - 0.5) < 1e-12
    assert len(np.unique(matching.bins)) == 3
