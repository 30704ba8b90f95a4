"""Do shares, overlaps and areas agree with their oracles, and is nothing ever NaN?"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, ks_2samp, norm

from calibrail.data.splits import TEST
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.stats.auroc import auroc, auroc_difference
from calibrail.evaluation.stats.intervals import Measure, ranked_values, wilson
from calibrail.evaluation.stats.tests import overlap


def test_wilson_knows_nothing_from_nothing() -> None:
    bound = wilson(0, 0)
    assert (bound.lower, bound.upper) == (0.0, 1.0)


def test_overlap_of_known_distributions() -> None:
    """Unit-separated Gaussians share 2 Phi(-1/2) = 0.617 of their area."""
    rng = np.random.default_rng(3)
    h, f = rng.normal(1, 1, 20_000), rng.normal(0, 1, 20_000)
    result = overlap(h, f)
    truth = 2 * norm.cdf(-0.5)
    assert result.estimate == pytest.approx(truth, abs=0.03)
    distance = ks_2samp(h, f).statistic
    band = math.sqrt(math.log(4 / 0.05) / (2 * 20_000))
    assert result.upper == pytest.approx(1 - distance + 2 * band, abs=1e-12)
    assert truth < result.upper < truth + 0.04
    assert (result.lower, result.reason) == (None, "densities_unbounded_below")


@pytest.mark.parametrize("n", [20, 200])
def test_the_bound_on_the_overlap_holds_where_the_classes_are_the_same(n: int) -> None:
    rng, shift = np.random.default_rng(n), 0.8
    truth = 2 * norm.cdf(-shift / 2)
    for gap, least in ((0.0, 1.0), (shift, truth)):
        found = [overlap(rng.normal(gap, 1, n), rng.normal(0, 1, n)) for _ in range(300)]
        missed = sum(float(item.upper or 0.0) < least for item in found)
        assert missed <= binom.isf(1e-3, 300, 0.05)


def test_overlap_at_its_ends_and_on_few_values() -> None:
    same = np.array([0.0, 1.0, 1.0, 1.0])
    assert overlap(same, same).estimate == 1.0
    apart = overlap(np.full(8, 1.0), np.zeros(5))
    assert (apart.estimate, apart.upper) == (0.0, 1.0)
    assert overlap(np.full(800, 1.0), np.zeros(500)).upper == pytest.approx(0.119, abs=1e-3)
    half = overlap(np.array([0.0, 1.0] * 50), np.zeros(30))
    assert half.estimate == pytest.approx(0.5)
    assert overlap(np.array([]), np.zeros(3)).estimate is None


def test_the_range_of_a_ranking_takes_a_groups_answers_of_both_classes_for_alike() -> None:
    """Each question has a hallucinated and a faithful answer, and is as hard for both."""
    hard, other = np.random.default_rng(5).normal(size=(2, 60))
    labels, split = np.repeat(np.array([1, 0], np.int8), 60), np.full(120, TEST, np.int8)
    values, beside = (np.r_[1.0 - column, column] for column in (hard, other))
    alone = Sample(values, labels, split)
    paired = replace(alone, groups=np.tile(np.arange(60), 2))
    for sample, times in ((paired, 1.2), (replace(paired, independent=True), 1.0)):
        for measure, here in (("auroc", (values,)), ("auroc_difference", (values, beside))):
            one, all_alone = (getattr(it, measure)(*here, 0.95) for it in (sample, alone))
            assert one.estimate == all_alone.estimate
            assert one.upper - one.lower >= times * (all_alone.upper - all_alone.lower)


def test_undefined_scores_stand_where_the_policy_puts_them() -> None:
    values = np.array([np.nan, 1.0])
    assert ranked_values(values, "review").tolist() == [np.inf, 1.0]
    assert ranked_values(values, "pass").tolist() == [-np.inf, 1.0]


values = st.lists(
    st.one_of(
        st.sampled_from([0.0, 1.0, -1.0, math.nan, 1e308, -1e308, 5e-324]),
        st.floats(allow_nan=True, allow_infinity=False),
    ),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(h=values, f=values, policy=st.sampled_from(["flag", "review", "pass"]))
def test_nothing_is_ever_nan(h: list[float], f: list[float], policy: str) -> None:
    raw_h, raw_f = np.array(h, dtype=np.float64), np.array(f, dtype=np.float64)
    ranked_h, ranked_f = ranked_values(raw_h, policy), ranked_values(raw_f, policy)
    labels = np.r_[np.ones(len(h)), np.zeros(len(f))].astype(np.int8)
    both = np.r_[ranked_h, ranked_f]
    results = [
        auroc(ranked_h, ranked_f),
        auroc_difference(both, both[::-1].copy(), labels, None),
        overlap(ranked_h, ranked_f),
    ]
    for result in results:
        json.dumps(result.to_dict(), allow_nan=False)
        assert type(result).from_dict(result.to_dict()) == result
    for result in results:
        assert isinstance(result, Measure)
        if result.estimate is not None:
            assert result.upper is not None
            assert (result.lower or -1.0) <= result.estimate <= result.upper
            assert (result.lower is None) == (result.reason is not None)
