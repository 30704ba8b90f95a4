from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import false_discovery_control
from statsmodels.stats.multitest import multipletests

from calibrail.conformal import conformal_selection, discoveries, minimum_n_for_selection, p_values
from calibrail.conformal.false_discovery import _crossed, _limits, _ranks, shared_level
from calibrail.errors import InputError

CHECK = settings(max_examples=40, deadline=None)

P = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(0.0, 1.0))
FDR = st.floats(0.01, 0.99)


@CHECK
@given(P, FDR)
def test_agreement_with_statsmodels_and_scipy(p: np.ndarray[Any, Any], fdr: float) -> None:
    found = conformal_selection(p, fdr).released
    adjusted = false_discovery_control(p)
    # A p-value that lies on the line but for rounding is the next test's matter.
    clear = np.abs(adjusted - fdr) > 1e-9
    assert np.array_equal(found[clear], (adjusted <= fdr)[clear])
    if clear.all():
        assert np.array_equal(found, multipletests(p, alpha=fdr, method="fdr_bh")[0])


def test_a_p_value_on_the_line_is_released_where_floats_say_otherwise() -> None:
    """k of m answers have the p-value 1 / j, and q = m / (k j) makes just that their limit.

    In floating point the product q k / m may fall a last digit short of 1 / j, and so may scipy's
    adjusted p m / k exceed q: scipy then drops all k answers. A relative 1e-12 makes up for it.
    """
    m, disagreed = 30, 0
    for j in range(2, 40):
        for k in range(1, 30):
            if m >= k * j:
                continue
            batch = np.array([1 / j] * k + [1.0] * (m - k))
            assert conformal_selection(batch, m / (k * j)).n_released == k
            disagreed += np.count_nonzero(false_discovery_control(batch) <= m / (k * j)) != k
    assert disagreed > 0


@CHECK
@given(P, FDR)
def test_the_cutoff_is_the_largest_that_the_procedure_allows(
    p: np.ndarray[Any, Any], fdr: float
) -> None:
    found = conformal_selection(p, fdr)
    slack = 1.0 + 1e-12
    good = [v for v in p if v <= fdr * np.count_nonzero(p <= v) / len(p) * slack]
    assert found.cutoff == max(good, default=0.0)
    assert np.array_equal(found.released, p <= max(good, default=-1.0))
    assert found.n_released == np.count_nonzero(found.released)


@CHECK
@given(P, FDR, st.integers(1, 10))
def test_undefined_answers_count_in_the_batch_and_are_never_released(
    p: np.ndarray[Any, Any], fdr: float, undefined: int
) -> None:
    found = conformal_selection(np.concatenate([p, np.full(undefined, math.nan)]), fdr)
    assert not found.released[len(p) :].any()
    assert (found.p_values[len(p) :] == 1.0).all()
    same = conformal_selection(np.concatenate([p, np.ones(undefined)]), fdr)
    assert np.array_equal(found.released[: len(p)], same.released[: len(p)])


def test_the_simulated_share_of_hallucinations_keeps_to_the_promise() -> None:
    rng, runs, fdr = np.random.default_rng(2), 1500, 0.3
    shares = np.empty(runs)
    hallucinated = np.arange(60) < 40
    for run in range(runs):
        scores = np.sort(rng.normal(size=49))
        p = p_values(scores, rng.normal(size=60) - 1.5 * ~hallucinated)
        released = conformal_selection(p, fdr).released
        shares[run] = np.count_nonzero(released & hallucinated) / max(1, released.sum())
    # Four standard errors of the mean; the promise is fdr times the share of hallucinated.
    assert shares.mean() <= fdr * 2 / 3 + 4 * shares.std() / math.sqrt(runs)
    assert shares.mean() > fdr / 3


@CHECK
@given(st.integers(1, 99), st.integers(1, 200))
def test_the_minimum_is_where_the_smallest_p_value_is_first_released(percent: int, m: int) -> None:
    fdr = percent / 100
    least = minimum_n_for_selection(fdr, m)

    def releases(n: int, answers: int) -> bool:
        batch = [1 / (n + 1)] * answers + [1.0] * (m - answers)
        return conformal_selection(batch, fdr).n_released == answers

    assert releases(least, 1)
    assert least == 1 or not releases(least - 1, 1)
    whole = minimum_n_for_selection(fdr, 1)
    assert releases(whole, m) and (whole == 1 or not releases(whole - 1, m))


def test_an_empty_batch_and_equal_p_values() -> None:
    empty = conformal_selection([], 0.1)
    assert empty.n_released == 0 and empty.cutoff == 0.0 and empty.to_dict()["n"] == 0
    assert conformal_selection([0.1] * 9, 0.1).n_released == 9
    assert conformal_selection([0.11] * 9, 0.1).n_released == 0
    assert conformal_selection([0.0, 1.0], 0.1).released.tolist() == [True, False]


FEW = settings(max_examples=12, deadline=None)

#: A batch's p-values: counts 1 to n + 1 out of n + 1.
BATCHES = st.integers(1, 30).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.integers(1, n + 1), min_size=1, max_size=20))
)


def interleavings(m0: int, n: int) -> Any:
    """Yield for every order of n calibration and m0 batch scores the counts V_1, ..., V_n."""
    for places in itertools.combinations(range(m0 + n), n):
        yield np.array([place - index for index, place in enumerate(places)])


@pytest.mark.parametrize("n", [1, 2, 4, 6])
@pytest.mark.parametrize("m0", [1, 3, 6])
def test_the_urn_by_counting_every_order(n: int, m0: int) -> None:
    orders = list(interleavings(m0, n))
    assert len(orders) == math.comb(m0 + n, n)
    rng = np.random.default_rng(n * 10 + m0)
    for size in {1, (n + 1) // 2, n}:
        ranks = np.sort(rng.choice(np.arange(1, n + 1), size, replace=False))
        for _ in range(8):
            limits = np.sort(rng.integers(0, m0 + 1, size))
            crossed = sum((order[ranks - 1] > limits).any() for order in orders) / len(orders)
            assert _crossed(limits, m0, n, ranks) == pytest.approx(crossed, abs=1e-10)


@pytest.mark.parametrize(("m", "n"), [(6, 6), (20, 9), (50, 300), (300, 50)])
@pytest.mark.parametrize("error", [0.3, 0.05])
def test_the_limits_keep_to_the_error(m: int, n: int, error: float) -> None:
    ranks = _ranks(n)
    limits = _limits(m, n, ranks, shared_level(m, n, error))
    assert _crossed(limits, m, n, ranks) <= error


@pytest.mark.parametrize(("n", "m0", "faithful"), [(4, 3, 0), (4, 3, 4), (3, 5, 2)])
def test_over_all_orders_the_bounds_fail_no_more_often_than_stated(
    n: int, m0: int, faithful: int
) -> None:
    """Exact, not simulated: every order of hallucinated scores is equally likely.

    The faithful answers lie below all of them or above all of them.
    """
    confidence = 0.7
    for place in {1, n + 1} if faithful else {1}:
        failures = total = 0
        for order in interleavings(m0, n):
            total += 1
            # V_k lie below the k-th calibration score: their p-values are the gaps' numbers.
            gaps = np.diff(np.concatenate([[0], order, [m0]]))
            mine = np.repeat(np.arange(1, n + 2), gaps) / (n + 1)
            table = discoveries([*mine, *[place / (n + 1)] * faithful], n, confidence)
            truth = np.array([np.count_nonzero(mine <= cut + 1e-12) for cut in table.cutoffs])
            failures += bool((truth > table.most).any() or m0 > table.most_hallucinated)
        assert failures <= (1 - confidence) * total


@FEW
@given(BATCHES, st.floats(0.05, 0.99))
def test_bounds_are_ordered_and_no_more_than_what_is_released(
    batch: tuple[int, list[int]], level: float
) -> None:
    n, counts = batch
    p = np.array(counts) / (n + 1)
    table = discoveries(p, n, level)
    assert table.cutoffs.tolist() == sorted(set(p.tolist()))
    assert table.released.tolist() == [np.count_nonzero(p <= cut) for cut in table.cutoffs]
    assert (table.most >= 0).all() and (table.most <= table.released).all()
    assert (np.diff(table.most) >= 0).all()
    assert table.most[-1] <= table.most_hallucinated <= len(p)
    assert np.array_equal(table.proportion, table.most / table.released)
    for cut, released, most in zip(table.cutoffs, table.released, table.most, strict=True):
        assert table.at(float(cut)) == (released, most)
    assert table.at(0.0) == (0, 0)
    assert table.at(1.0) == (len(p), table.most[-1])


@FEW
@given(BATCHES, st.randoms(), st.integers(0, 5))
def test_order_does_not_matter_and_undefined_answers_are_never_released(
    batch: tuple[int, list[int]], random: Any, undefined: int
) -> None:
    n, counts = batch
    p = (np.array(counts) / (n + 1)).tolist()
    expected = discoveries([*p, *[1.0] * undefined], n).to_dict()
    shuffled = [*p, *[math.nan] * undefined]
    random.shuffle(shuffled)
    assert discoveries(shuffled, n).to_dict() == expected


@pytest.mark.parametrize(("m", "runs"), [(12, 80), (21_000, 40)])
def test_simulated_batches_break_the_bounds_no_more_often_than_stated(m: int, runs: int) -> None:
    rng, n, level = np.random.default_rng(m), 9, 0.8
    failures = 0
    for _ in range(runs):
        scores = np.sort(rng.normal(size=n))
        hallucinated = rng.random(m) < 0.3
        p = p_values(scores, rng.normal(size=m) - 2.0 * ~hallucinated)
        table = discoveries(p, n, level)
        truth = np.searchsorted(np.sort(p[hallucinated]), table.cutoffs, side="right")
        failures += bool((truth > table.most).any() or truth[-1] > table.most_hallucinated)
    assert failures / runs <= 1 - level + 4 * math.sqrt(level * (1 - level) / runs)


def test_equal_p_values_and_one_calibration_score() -> None:
    table = discoveries([0.5, 0.5, 1.0], 1, 0.9)
    assert table.cutoffs.tolist() == [0.5, 1.0] and table.released.tolist() == [2, 3]
    assert table.most.tolist() == [2, 3] and table.most_hallucinated == 3


def test_no_answer_is_released_up_to_nan() -> None:
    with pytest.raises(InputError, match="cutoff must"):
        discoveries([0.1, 0.2], 9).at(math.nan)
