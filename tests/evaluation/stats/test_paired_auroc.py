"""Is the paired test of AUROC DeLong's, and does it count groups?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from calibrail.evaluation import auroc_difference
from calibrail.evaluation.stats.paired_auroc import auroc_test


def scores(rng: np.random.Generator, n: int, gap: float = 0.0) -> tuple[np.ndarray, ...]:
    labels = (np.arange(n) % 3 == 0).astype(np.int8)
    shared = rng.normal(size=n) + labels
    one, two = shared + rng.normal(size=n), shared + rng.normal(size=n) - gap * labels
    return one, two, labels


@pytest.mark.parametrize("ties", [None, 1])
def test_alone_it_is_delong(ties: int | None) -> None:
    one, two, labels = scores(np.random.default_rng(0), 150, 0.3)
    if ties is not None:
        one, two = np.round(one, ties - 1), np.round(two, ties - 1)
    found = auroc_test(one, two, labels, np.arange(150))
    expected = auroc_difference(one, two, labels)
    assert found.estimate == pytest.approx(expected.estimate)
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper))
    assert found.method == "delong-paired"
    error = (expected.upper - expected.lower) / (2 * norm.ppf(0.975))
    assert found.p_value == pytest.approx(2 * norm.sf(abs(expected.estimate) / error))


def test_copies_of_an_answer_add_no_evidence() -> None:
    one, two, labels = scores(np.random.default_rng(1), 90, 0.5)
    alone = auroc_test(one, two, labels, np.arange(90))
    copies = auroc_test(*(np.repeat(x, 5) for x in (one, two, labels, np.arange(90))))
    assert copies.method == "obuchowski-paired"
    assert copies.estimate == pytest.approx(alone.estimate)
    assert copies.p_value == pytest.approx(alone.p_value, rel=1e-9)


def test_the_level_holds_for_groups_of_both_classes() -> None:
    rng = np.random.default_rng(2)
    runs, level, rejected = 600, 0.05, 0
    for _ in range(runs):
        groups = np.arange(160) // 4
        labels = (np.arange(160) % 4 < 2).astype(np.int8)
        own = rng.normal(size=(2, 40))[:, groups]
        one, two = (own[i] + 0.5 * rng.normal(size=160) + labels for i in (0, 1))
        rejected += auroc_test(one, two, labels, groups).p_value <= level
    assert binom.ppf(0.0005, runs, level) <= rejected <= binom.ppf(0.9995, runs, 1.3 * level)


def test_where_no_variance_is_left_a_valid_bound_stands() -> None:
    labels = np.repeat([1, 0], 40).astype(np.int8)
    perfect, constant = labels.astype(float), np.zeros(80)
    same = auroc_test(perfect, perfect, labels, np.arange(80))
    assert (same.estimate, same.p_value) == (0.0, 1.0)
    told = auroc_test(perfect, constant, labels, np.arange(80))
    assert told.estimate == 0.5
    assert told.p_value == pytest.approx(2 * np.exp(-40 * 0.25 / 2))
    alone = auroc_test(perfect, constant, np.ones(80, dtype=np.int8), np.arange(80))
    assert alone.estimate is None
    assert alone.p_value == 1.0
