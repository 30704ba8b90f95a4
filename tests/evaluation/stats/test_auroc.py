"""Do the AUROC and its paired test agree with their oracles, and does the test count groups?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, binom, norm, t
from sklearn.metrics import roc_auc_score

from calibrail.errors import InputError
from calibrail.evaluation.stats.auroc import auroc, auroc_difference, auroc_test, placements

Floats = NDArray[np.float64]


def pairwise(h: Floats, f: Floats) -> Floats:
    """Return the m x n kernel, straight from the definition."""
    return (h[:, None] > f[None, :]) + 0.5 * (h[:, None] == f[None, :])


def direct_variance(kernel: Floats) -> float:
    m, n = kernel.shape
    return float(np.var(kernel.mean(axis=1), ddof=1) / m + np.var(kernel.mean(axis=0), ddof=1) / n)


def tied(rng: np.random.Generator, size: int, shift: float) -> Floats:
    return np.round(rng.normal(shift, 1.0, size), 1)


@pytest.mark.parametrize(("m", "n"), [(2, 3), (40, 25), (300, 200)])
@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_sklearn_and_the_direct_formula(m: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    h, f = tied(rng, m, 0.5), tied(rng, n, 0.0)
    result = auroc(h, f, confidence=0.9)
    area = roc_auc_score(np.r_[np.ones(m), np.zeros(n)], np.r_[h, f])
    assert result.estimate == pytest.approx(area, abs=1e-12)
    variance, pairs, weight = direct_variance(pairwise(h, f)), min(m, n), norm.ppf(0.95) ** 2
    seen = pairs * min(area, 1 - area)
    pooled = (seen * variance + weight * area * (1 - area) / pairs) / (seen + weight)
    size = area * (1 - area) / pooled if pooled else pairs
    right, wrong = area * size, (1 - area) * size
    lower = beta.ppf(0.05, right, wrong + 1) if right else 0.0
    upper = beta.ppf(0.95, right + 1, wrong) if wrong else 1.0
    assert (result.lower, result.upper) == pytest.approx((lower, upper), abs=1e-9)


@pytest.mark.parametrize("binned", [False, True])
def test_placements_agree_with_the_direct_count(binned: bool) -> None:
    rng = np.random.default_rng(0)
    for n in (*range(8), 30, 60):
        values = rng.choice([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf], n)
        labels, bins = rng.integers(0, 2, n).astype(np.int8), rng.integers(-1, 3, n)
        pairs = labels[:, None] != labels[None, :]
        if binned:
            pairs &= bins[:, None] == bins[None, :]
        above, below = values[:, None] > values[None, :], values[:, None] < values[None, :]
        right = np.where(labels[:, None] == 1, above, below)
        expected = np.sum(pairs * (2 * right + (values[:, None] == values[None, :])), axis=1)
        assert placements(values, labels, bins if binned else None).tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_paired_difference_agrees_with_the_direct_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.r_[np.ones(60), np.zeros(45)].astype(np.int8)
    a = np.round(rng.normal(size=105) + labels, 1)
    b = np.round(a + rng.normal(size=105), 1)
    result = auroc_difference(a, b, labels, None)
    kernel = pairwise(a[:60], a[60:]) - pairwise(b[:60], b[60:])
    half = t.ppf(0.975, 44) * math.sqrt(direct_variance(kernel))
    assert result.estimate == pytest.approx(
        roc_auc_score(labels, a) - roc_auc_score(labels, b), abs=1e-12
    )
    assert result.lower == pytest.approx(kernel.mean() - half, abs=1e-10)
    assert result.upper == pytest.approx(kernel.mean() + half, abs=1e-10)


def test_perfect_ranking_has_the_exact_interval_of_independent_pairs() -> None:
    result = auroc(np.arange(10.0) + 100, np.arange(30.0), confidence=0.95)
    assert result.estimate == 1.0
    assert result.lower == pytest.approx(0.025**0.1)
    worst = auroc(np.arange(30.0), np.arange(10.0) + 100, confidence=0.95)
    assert (worst.estimate, worst.lower) == (0.0, 0.0)
    assert worst.upper == pytest.approx(1 - 0.025**0.1)


#: Hallucinated and faithful answers, the AUROC, and the spread of hallucinated scores.
HARD = [(20, 500, 0.98, 3.0), (20, 500, 0.98, 1.0), (100, 100, 0.995, 3.0), (10, 10, 0.85, 1.0)]


@pytest.mark.parametrize(("m", "n", "area", "spread"), HARD)
def test_the_interval_holds_near_one_and_for_few(
    m: int, n: int, area: float, spread: float
) -> None:
    """DeLong's interval on the logit scale covers 0.68 to 0.96 of these."""
    rng, runs = np.random.default_rng(round(1000 * area) + m), 300
    mean = norm.ppf(area) * math.sqrt(1 + spread**2)
    missed = 0
    for _ in range(runs):
        found = auroc(rng.normal(mean, spread, m), rng.normal(size=n))
        missed += not float(found.lower or 0.0) <= area <= float(found.upper or 1.0)
    assert missed <= binom.isf(1e-3, runs, 0.05)


def test_infinite_values_rank_at_the_ends() -> None:
    assert auroc(np.array([np.inf, 0.0]), np.array([-np.inf, 1.0])).estimate == 0.75
    assert auroc(np.array([np.inf]), np.array([np.inf])).estimate == 0.5


def test_an_empty_class_has_a_reason_instead_of_a_number() -> None:
    result = auroc(np.array([]), np.array([1.0]))
    assert result.estimate is None
    assert "no_hallucinated" in str(result.reason)
    with pytest.raises(InputError, match=r"confidence must lie in \(0, 1\); got 1"):
        auroc(np.ones(2), np.zeros(2), confidence=1.0)


def test_the_interval_covers_at_its_level() -> None:
    """True AUROC of unit-separated Gaussians; tolerance: five binomial standard errors + bias."""
    truth, runs, inside = norm.cdf(1 / math.sqrt(2)), 2000, 0
    rng = np.random.default_rng(7)
    for _ in range(runs):
        result = auroc(rng.normal(1, 1, 60), rng.normal(0, 1, 60), confidence=0.9)
        assert result.lower is not None
        assert result.upper is not None
        inside += result.lower <= truth <= result.upper
    error = math.sqrt(0.9 * 0.1 / runs)
    assert abs(inside / runs - 0.9) < 5 * error


def test_identical_scores_do_not_differ() -> None:
    labels = np.array([1, 1, 0, 0])
    values = np.array([3.0, 1.0, 2.0, 0.0])
    result = auroc_difference(values, values, labels, None)
    assert result.estimate == 0.0
    assert result.method == "hoeffding-paired"
    assert result.lower is not None
    assert result.upper is not None
    assert result.lower < 0 < result.upper


def scores(rng: np.random.Generator, n: int, gap: float = 0.0) -> tuple[np.ndarray, ...]:
    labels = (np.arange(n) % 3 == 0).astype(np.int8)
    shared = rng.normal(size=n) + labels
    one, two = shared + rng.normal(size=n), shared + rng.normal(size=n) - gap * labels
    return one, two, labels


def test_copies_of_an_answer_add_no_evidence() -> None:
    one, two, labels = scores(np.random.default_rng(1), 90, 0.5)
    alone = auroc_test(one, two, labels, np.arange(90))
    copies = auroc_test(*(np.repeat(x, 5) for x in (one, two, labels, np.arange(90))))
    assert copies.method == "obuchowski-paired"
    assert copies.estimate == pytest.approx(alone.estimate)
    assert copies.p_value == pytest.approx(alone.p_value, rel=1e-9)


@pytest.mark.parametrize(("n_groups", "runs"), [(40, 600), (8, 800)])
def test_the_level_holds_for_groups_of_both_classes(n_groups: int, runs: int) -> None:
    """Of 8 groups, the normal distribution in place of Student's t rejects a tenth."""
    rng = np.random.default_rng(2)
    level, rejected, n = 0.05, 0, 4 * n_groups
    for _ in range(runs):
        groups = np.arange(n) // 4
        labels = (np.arange(n) % 4 < 2).astype(np.int8)
        shared = rng.normal(size=(2, n_groups))[:, groups]
        one, two = (shared[i] + 0.5 * rng.normal(size=n) + labels for i in (0, 1))
        rejected += auroc_test(one, two, labels, groups).p_value <= level
    assert binom.ppf(0.0005, runs, level) <= rejected <= binom.ppf(0.9995, runs, 1.2 * level)


def test_where_no_variance_is_left_a_valid_bound_stands() -> None:
    labels = np.repeat([1, 0], 40).astype(np.int8)
    perfect, constant = labels.astype(float), np.zeros(80)
    same = auroc_test(perfect, perfect, labels, np.arange(80))
    assert (same.estimate, same.p_value) == (0.0, 1.0)
    apart = auroc_test(perfect, constant, labels, np.arange(80))
    assert apart.estimate == 0.5
    assert apart.p_value == pytest.approx(2 * np.exp(-40 * 0.25 / 2))
    alone = auroc_test(perfect, constant, np.ones(80, dtype=np.int8), np.arange(80))
    assert alone.estimate is None
    assert alone.p_value == 1.0
