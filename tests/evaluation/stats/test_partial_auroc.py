"""Is the AUROC at high coverage the standardised one, and does its interval hold the truth?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm
from sklearn.metrics import roc_auc_score

from calibrail.evaluation.stats.auroc import partial_auroc


def example(n: int, seed: int, gap: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.4).astype(np.int8)
    return rng.normal(size=n) + gap * labels, labels


@pytest.mark.parametrize("digits", [None, 0, 1])
@pytest.mark.parametrize("least", [0.8, 0.5, 0.95])
def test_turned_around_it_is_scikit_learns(digits: int | None, least: float) -> None:
    values, labels = example(300, 3)
    if digits is not None:
        values = np.round(values, digits)
    area = partial_auroc(values, labels, np.arange(300), least_coverage=least, draws=10)
    # Faithful answers as positives and negated scores: their FPR is the share of misses.
    assert area.estimate == pytest.approx(
        roc_auc_score(1 - labels, -values, max_fpr=1.0 - least), abs=1e-12
    )


def test_the_whole_region_is_the_auroc() -> None:
    values, labels = example(200, 4)
    whole = partial_auroc(values, labels, np.arange(200), least_coverage=0.0, draws=10)
    assert whole.estimate == pytest.approx(roc_auc_score(labels, values))


def test_landmarks() -> None:
    labels = np.repeat([1, 0], 100).astype(np.int8)
    groups = np.arange(200)
    perfect = partial_auroc(labels.astype(float), labels, groups)
    assert perfect.estimate == 1.0
    assert perfect.lower == pytest.approx(0.025 ** (1 / 100))
    guess = partial_auroc(np.zeros(200), labels, groups)
    assert guess.estimate == pytest.approx(0.5)
    undefined = np.where(labels == 1, np.inf, 0.0)
    assert partial_auroc(undefined, labels, groups).estimate == 1.0
    assert partial_auroc(np.zeros(5), np.ones(5, dtype=np.int8), np.arange(5)).reason


def test_the_interval_holds_the_truth() -> None:
    gap, missed = 1.0, 0.2
    area, _ = quad(lambda miss: norm.cdf(norm.ppf(miss) + gap), 0.0, missed)
    truth = 0.5 * (1 + (area - missed**2 / 2) / (missed - missed**2 / 2))
    rng = np.random.default_rng(6)
    runs, held = 150, 0
    labels = np.repeat([1, 0], [120, 240]).astype(np.int8)
    for seed in range(runs):
        values = rng.normal(size=360) + gap * labels
        measure = partial_auroc(values, labels, np.arange(360), draws=200, seed=seed)
        held += measure.lower <= truth <= measure.upper
    # A percentile interval of 120 answers may fall short of its level by two points.
    assert held >= binom.ppf(0.001, runs, 0.93)


def test_few_answers_have_no_interval() -> None:
    """The bootstrap of 20 answers a class held the truth in 0.83 of all cases."""
    labels = np.repeat([1, 0], [99, 400]).astype(np.int8)
    found = partial_auroc(np.arange(499.0), labels, np.arange(499))
    assert found.estimate is not None
    assert (found.lower, found.upper, found.reason) == (None, None, "few_for_the_corner:100")


def test_groups_widen_the_interval() -> None:
    values, labels = example(300, 7)
    alone = partial_auroc(values, labels, np.arange(300))
    copies = [np.repeat(x, 6) for x in (values, labels)]
    naive = partial_auroc(*copies, np.arange(1800))
    whole = partial_auroc(*copies, np.repeat(np.arange(300), 6))
    assert whole.estimate == pytest.approx(alone.estimate)
    width = {name: m.upper - m.lower for name, m in (("a", alone), ("n", naive), ("w", whole))}
    assert width["n"] < 0.6 * width["a"] < width["w"]
