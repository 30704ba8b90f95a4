"""Are both estimates what they claim, whatever table of labels there is?"""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom, hypergeom
from statsmodels.stats.proportion import proportion_confint

from calibrail.conformal import bounds
from calibrail.evaluation.confounds import Division
from calibrail.evaluation.judge_agreement import (
    LabelCounts,
    _among_at_most,
    _share_at_most,
    corrected_rates,
    errors_by,
    sample_tests,
    stratified,
)
from tests.evaluation.agree.tables import ALONE, BOTH, files, law, made


def test_rows_without_a_judge_label_have_no_part() -> None:
    cells = made(BOTH, ALONE).cells.copy()
    cells[1, 2] = (2, 3)  # hallucinated, says a person; no judge label
    assert corrected_rates(LabelCounts(cells), 0.9) == corrected_rates(made(BOTH, ALONE), 0.9)


def test_where_people_have_labelled_all_the_interval_is_exact() -> None:
    rates = corrected_rates(made(BOTH, np.zeros_like(ALONE)), 0.9)
    for name, count, n in (("coverage", 40, 50), ("fpr", 14, 70), ("prevalence", 50, 120)):
        found = rates[name]["prediction_powered"]  # type: ignore[index]
        ends = proportion_confint(count, n, alpha=0.1, method="beta")
        assert found.estimate == pytest.approx(count / n)
        assert (found.lower, found.upper) == pytest.approx(ends, abs=1e-9)


def test_segments_may_be_labelled_at_different_rates() -> None:
    """One in two of the bad segment is labelled, one in forty of the good one."""
    held, runs, truth = 0, 200, 0.5 * 0.6 + 0.5 * 0.05
    few, many = law(0.05, 0, 0, 0.9, 0.9), law(0.6, 0, 0, 0.9, 0.9)
    sides = files(few, 50, 1950, runs, seed=1), files(many, 1000, 1000, runs, seed=2)
    for number, segments in enumerate(zip(*sides, strict=True)):
        found = stratified(segments, 0.95)
        assert None not in (found.lower, found.upper)
        held += found.lower <= truth <= found.upper
        if number < 10:
            pooled = LabelCounts(segments[0].cells + segments[1].cells, decided=False)
            whole = corrected_rates(pooled)["prevalence"]["prediction_powered"]
            assert whole.estimate > truth + 0.04
    assert held >= 0.95 * runs - 4 * np.sqrt(0.05 * 0.95 * runs)
    empty = LabelCounts(np.zeros((3, 3, 2), np.int64), decided=False)
    assert stratified([segments[0], empty], 0.95).reason == "segment_not_labelled"


def test_errors_that_gather_in_a_stratum_are_seen_and_others_are_not() -> None:
    rng, n = np.random.default_rng(3), 120
    strata = Division("lang", "column", np.arange(n) % 3, ("a", "b", "c"), (None,) * 3)
    every, p_values = np.full(n, True), []
    for _ in range(100):
        p_values.append(errors_by(strata, rng.random(n) < 0.2, every)["p_value"])
    assert 0 < np.mean(np.array(p_values) <= 0.2) < 0.36
    gathered = errors_by(strata, np.arange(n) % 6 == 1, every)
    assert gathered["p_value"] == 0.0005
    assert [row["n_wrong"] for row in gathered["strata"]] == [0, 20, 0]
    assert errors_by(strata, ~every, every) is None


@settings(max_examples=60, deadline=None)
@given(arrays(np.int64, (3, 3, 2), elements=st.integers(0, 8)), st.booleans())
def test_no_table_gives_nan_or_an_interval_without_its_estimate(
    cells: np.ndarray, decided: bool
) -> None:
    if not decided:
        cells[..., 1] = 0
    counts = LabelCounts(cells, decided)
    rates = corrected_rates(counts)
    assert set(rates) == ({"prevalence", "coverage", "fpr"} if decided else {"prevalence"})
    for rate in rates.values():
        for measure in rate.values():
            assert (measure.estimate is None) == (measure.reason is not None)
            if measure.estimate is not None:
                assert 0 <= measure.lower <= measure.estimate <= measure.upper <= 1
                assert measure.lower < measure.upper
    tests = sample_tests(counts)
    listed = [{m: item.to_dict() for m, item in rate.items()} for rate in rates.values()]
    json.dumps([listed, tests], allow_nan=False)


def test_rows_of_small_units_that_were_not_met_are_reckoned_with() -> None:
    """Of 300 units of one row, and 300 of 50, 60 rows drawn singly meet about one small unit."""
    unit, rng = np.repeat(np.arange(600), [1] * 300 + [50] * 300), np.random.default_rng(0)
    small = np.arange(len(unit)) < 300
    truth = rng.random(600)[unit] < np.where(small, 0.9, 0.1)
    missed = 0
    for _ in range(40):
        human = np.full(len(unit), 2)
        chosen = rng.permutation(len(unit))[:60]
        human[chosen] = truth[chosen]
        judge = (rng.random(len(unit)) < 0.5).astype(int)
        counts = LabelCounts.weighted((human, judge, 0 * human), unit, decided=False)
        assert counts.n_human < 6
        found = corrected_rates(counts)["prevalence"]["prediction_powered"]
        missed += found.upper is not None and not found.lower <= 0.5 <= found.upper
    assert missed <= 5


@pytest.mark.parametrize("sizes", [(5, 3, 8), (6, 0, 8)])
def test_the_exact_end_of_the_share_errs_with_its_tail_at_most(sizes: tuple[int, int, int]) -> None:
    """All outcomes are counted: labels beside both judge labels, and calls of the others."""
    n0, n1, n = sizes
    ends = np.array(
        [
            [
                [_share_at_most(np.array([[n0 - a, n1 - b], [a, b]]), np.array([n - k, k]), 0.1)]
                for k in range(n + 1)
            ]
            for a, b in product(range(n0 + 1), range(n1 + 1))
        ]
    ).reshape(n0 + 1, n1 + 1, n + 1)
    rng, errors = np.random.default_rng(2), []
    for shape in (1.0, 0.3):
        for p0, p1, v in rng.beta(shape, shape, (1500, 3)):
            law = binom.pmf(np.arange(n0 + 1), n0, p0)[:, None, None]
            law = law * binom.pmf(np.arange(n1 + 1), n1, p1)[:, None]
            law = law * binom.pmf(np.arange(n + 1), n, v)
            errors.append(law[ends < v * p1 + (1.0 - v) * p0].sum())
    assert 0.05 < max(errors) <= 0.1


@pytest.mark.parametrize("sizes", [((9, 8), (5, 3)), ((12, 3), (6, 0)), ((15, 0), (4, 0))])
def test_the_end_of_the_number_among_just_these_errs_with_its_tail_at_most(
    sizes: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    """All files and all draws are counted: answers and labels beside both judge labels."""
    (all0, all1), (n0, n1) = sizes
    ends = np.array(
        [
            [
                _among_at_most(np.array([[n0 - a, n1 - b], [a, b]]), alone, 0.1)
                for b in range(n1 + 1)
                for alone in [np.array([all0 - n0, all1 - n1])]
            ]
            for a in range(n0 + 1)
        ]
    )
    errors = []
    for of0, of1 in product(range(all0 + 1), range(all1 + 1)):
        law = hypergeom.pmf(np.arange(n0 + 1), all0, of0, n0)[:, None]
        law = law * (hypergeom.pmf(np.arange(n1 + 1), all1, of1, n1) if all1 else np.ones(1))
        errors.append(law[ends < of0 + of1].sum())
    assert 0.05 < max(errors) <= 0.1


def test_a_judge_that_is_right_makes_the_exact_range_much_narrower_than_labels_alone() -> None:
    widths = []
    for counts in files(law(0.1, 0, 0, 0.9, 0.9), 300, 1700, 20, seed=5):
        found = corrected_rates(LabelCounts(counts.cells, decided=False))["prevalence"]
        alone = bounds.interval(counts.both[1].sum(), 300, 0.95)
        powered = found["prediction_powered"]
        widths.append((powered.upper - powered.lower, alone[1] - alone[0]))
    powered, alone = np.median(widths, axis=0)
    assert powered < 0.87 * alone


def test_where_the_judge_adds_fewer_answers_than_people_labels_alone_count() -> None:
    cells = made((((60, 0), (10, 0)), ((8, 0), (42, 0))), ((50, 0), (40, 0))).cells
    found = corrected_rates(LabelCounts(cells, decided=False))["prevalence"]["prediction_powered"]
    assert found.method == "clopper-pearson"
    assert (found.lower, found.upper) == tuple(bounds.interval(50, 120, 0.95))
