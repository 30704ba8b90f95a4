"""Do others compute the same numbers, and where not, why?"""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import numpy as np
import pytest
from crepes import ConformalClassifier  # type: ignore[import-untyped]
from crepes.base import p_values_batch  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import roc_auc_score, roc_curve
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from benchmarks.validity.bands import simultaneous_band
from calibrail.conformal import (
    ClassCounts,
    attainable_coverages,
    calibrate_groups,
    calibrate_threshold,
    certify_groups,
    clopper_pearson,
    conformal_selection,
    holm,
    p_values,
)
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.intervals import wilson
from calibrail.options import Promise, Requirement

CHECK = settings(max_examples=30, deadline=None)

COUNTS = st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
TIED = hnp.arrays(np.float64, st.integers(1, 60), elements=st.sampled_from([0.0, 0.5, 1.0, 2.0]))


@CHECK
@given(COUNTS, st.floats(0.01, 0.999))
def test_clopper_pearson_is_the_beta_interval_of_statsmodels(
    counts: tuple[int, int], level: float
) -> None:
    expected = proportion_confint(*counts, alpha=1 - level, method="beta")
    assert clopper_pearson(*counts, level) == pytest.approx(expected, abs=1e-9)


@CHECK
@given(COUNTS, st.floats(0.01, 0.999))
def test_wilson_is_that_of_statsmodels(counts: tuple[int, int], level: float) -> None:
    expected = proportion_confint(*counts, alpha=1 - level, method="wilson")
    found = wilson(*counts, level)
    assert (found.lower, found.upper) == pytest.approx(expected, abs=1e-9)
    assert found.lower <= counts[0] / counts[1] <= found.upper


@CHECK
@given(hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(0.0, 1.0)))
def test_holm_is_that_of_statsmodels(p: np.ndarray[Any, Any]) -> None:
    # Each of its calls collects the garbage of the whole process.
    with mock.patch("gc.collect"):
        expected = multipletests(p, method="holm")[1]
    assert holm(p) == pytest.approx(expected, abs=1e-15)


def test_holm_across_groups_rejects_what_statsmodels_rejects() -> None:
    rng = np.random.default_rng(0)
    caught = rng.binomial(200, np.linspace(0.75, 0.95, 12))
    table = {str(i): ClassCounts(int(c), 200, 0, 0) for i, c in enumerate(caught)}
    found = certify_groups(table, Requirement(None, 0.9, 0.95))
    rejected = [item.p_undercovered <= 0.05 for item in found.values()]
    raw = [proportion_confint_p(int(c), 200, 0.9) for c in caught]
    assert rejected == multipletests(raw, alpha=0.05, method="holm")[0].tolist()
    assert 0 < sum(rejected) < 12


def proportion_confint_p(count: int, n: int, share: float) -> float:
    """Return the one-sided exact p-value as the level at which statsmodels' interval touches it."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        upper = proportion_confint(count, n, alpha=2 * middle, method="beta")[1]
        low, high = (low, middle) if upper < share else (middle, high)
    return high


def test_p_values_are_those_of_crepes_without_ties_and_bounded_by_them_with_ties() -> None:
    """crepes calls a LARGE score strange, so both arrays are negated.

    It counts calibration scores at least as strange, ties included, and so does calibrail: with
    ties the unsmoothed p-values agree too. Its smoothed ones draw a share of the ties, and lie
    below for that reason alone.
    """
    rng = np.random.default_rng(1)
    for decimals in (15, 0):
        scores = np.sort(np.round(rng.normal(size=99), decimals))
        values = np.round(rng.normal(size=80), decimals)
        found = p_values(scores, values)
        exact = p_values_batch(-scores, -values, smoothing=False)
        smoothed = p_values_batch(-scores, -values, smoothing=True, seed=0)
        assert found == pytest.approx(exact, abs=1e-12)
        assert (smoothed <= found + 1e-12).all()


def test_mondrian_p_values_are_those_of_crepes_for_bins() -> None:
    rng = np.random.default_rng(2)
    groups = rng.choice(["a", "b", "c"], 240)
    scores = np.round(rng.normal(size=240) + 2.0 * (groups == "b"), 1)
    names, values = rng.choice(["a", "b", "c"], 100), np.round(rng.normal(size=100), 1)
    found = calibrate_groups(scores, groups.tolist(), Promise(0.1)).p_value(values, names.tolist())
    made = ConformalClassifier().fit(-scores, bins=groups)
    expected = made.predict_p(-values[:, None], bins=names, classes=np.array([1]), smoothing=False)[
        :, 0
    ]
    assert found == pytest.approx(expected, abs=1e-12)


def test_a_small_group_gets_the_fallback_where_crepes_keeps_it_alone() -> None:
    """With two members crepes' p-values cannot fall below 1/3, so nothing of the group ever passes.

    Here such a group shares the threshold of all examples: weaker in what it promises for the
    group, and stated so by ``scope``.
    """
    scores, groups = np.arange(60.0), np.array(["a"] * 58 + ["b"] * 2)
    made = calibrate_groups(scores, groups.tolist(), Promise(0.1))
    crepes = p_values_batch(-scores, np.array([50.0]), groups, np.array(["b"]), smoothing=False)
    assert crepes[0] == pytest.approx(1 / 3)
    assert made.p_value([-50.0], ["b"])[0] == pytest.approx(1 / 61)
    assert made.scope == "all groups" and dict(made.small) == {"b": 2}


def test_selection_is_benjamini_hochberg_of_statsmodels_on_conformal_p_values() -> None:
    rng = np.random.default_rng(3)
    made = calibrate_threshold(rng.normal(3.0, 1.0, 997), Promise(0.1))
    p = made.p_value(np.concatenate([rng.normal(3.0, 1.0, 60), rng.normal(0.0, 1.0, 140)]))
    for fdr in (0.013, 0.057, 0.11, 0.31):
        found = conformal_selection(p, fdr).released
        assert np.array_equal(found, multipletests(p, alpha=fdr, method="fdr_bh")[0])
        assert 0 < found.sum() < len(p)


@CHECK
@given(TIED, TIED)
def test_auroc_is_that_of_scikit_learn(
    hallucinated: np.ndarray[Any, Any], faithful: np.ndarray[Any, Any]
) -> None:
    labels = np.repeat([1, 0], [len(hallucinated), len(faithful)])
    expected = roc_auc_score(labels, np.concatenate([hallucinated, faithful]))
    found = auroc(hallucinated, faithful)
    assert found.estimate == pytest.approx(expected, abs=1e-12)
    assert found.lower is not None and found.upper is not None
    assert 0.0 <= found.lower <= found.upper <= 1.0


@CHECK
@given(TIED, TIED)
def test_coverage_and_fpr_are_the_points_of_scikit_learns_curve(
    hallucinated: np.ndarray[Any, Any], faithful: np.ndarray[Any, Any]
) -> None:
    """scikit-learn's first point is a threshold above every score; calibrail lists scores only."""
    labels = np.repeat([1, 0], [len(hallucinated), len(faithful)])
    fpr, coverage, thresholds = roc_curve(
        labels, np.concatenate([hallucinated, faithful]), drop_intermediate=False
    )
    assert thresholds[0] == math.inf
    shares = simultaneous_band(hallucinated).at(thresholds)[0]
    assert shares == pytest.approx(coverage, abs=1e-12)
    assert simultaneous_band(faithful).at(thresholds)[0] == pytest.approx(fpr, abs=1e-12)
    own, reached = attainable_coverages(hallucinated)
    assert (
        dict(zip(own, reached, strict=True)).items()
        <= dict(zip(thresholds, coverage, strict=True)).items()
    )
