from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.conformal import calibrate_threshold, discoveries, p_values
from calibrail.conformal.selection import _crossed, _limits, _ranks, shared_level
from calibrail.errors import InputError
from calibrail.settings import Promise

CHECK = settings(max_examples=12, deadline=None)

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


@CHECK
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


@CHECK
@given(BATCHES)
def test_bounds_grow_with_confidence(batch: tuple[int, list[int]]) -> None:
    n, counts = batch
    p = np.array(counts) / (n + 1)
    tables = [discoveries(p, n, level) for level in (0.5, 0.8, 0.95, 0.99)]
    for low, high in itertools.pairwise(tables):
        assert (low.most <= high.most).all()
        assert low.most_hallucinated <= high.most_hallucinated


@CHECK
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


def test_the_callers_p_values_are_not_changed() -> None:
    p = np.array([0.1, math.nan])
    discoveries(p, 9)
    assert p[0] == 0.1 and math.isnan(p[1])


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


def test_a_good_detector_is_recognised() -> None:
    rng = np.random.default_rng(0)
    made = calibrate_threshold(rng.normal(5.0, 1.0, 2000), Promise(0.1))
    p = made.p_value(np.concatenate([rng.normal(5.0, 1.0, 100), rng.normal(0.0, 1.0, 900)]))
    released, most = discoveries(p, 2000, 0.95).at(0.02)
    assert released >= 900 and most < 30


def test_an_empty_batch_has_an_empty_table() -> None:
    table = discoveries([], 20)
    assert table.released.shape == (0,) and table.most_hallucinated == 0
    assert table.at(1.0) == (0, 0)


def test_equal_p_values_and_one_calibration_score() -> None:
    table = discoveries([0.5, 0.5, 1.0], 1, 0.9)
    assert table.cutoffs.tolist() == [0.5, 1.0] and table.released.tolist() == [2, 3]
    assert table.most.tolist() == [2, 3] and table.most_hallucinated == 3


def test_the_table_is_json() -> None:
    found = json.loads(json.dumps(discoveries([0.1, 0.2, math.nan], 9).to_dict(), allow_nan=False))
    assert found["cutoffs"] == [0.1, 0.2, 1.0] and found["released"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], 9), r"p_values must lie in \(0, 1\]"),
        (([1.1], 9), r"p_values must lie in \(0, 1\]"),
        (([math.inf], 9), r"p_values must lie in \(0, 1\]"),
        (([0.15], 9), r"p_values must be multiples of 1 / \(n \+ 1\) with n = 9"),
        (([1e-9], 99), r"p_values must be multiples of 1 / \(n \+ 1\) with n = 99"),
        (([[0.1]], 9), r"p_values must have shape \(n,\)"),
        ((["0.1"], 9), "p_values must hold numbers"),
        (([0.1], 0), "n must be at least 1"),
        (([0.1], 9.0), "n must be a whole number"),
        (([0.1], 9, 0.0), r"confidence must lie in \(0, 1\)"),
        (([0.1], 9, math.nan), r"confidence must lie in \(0, 1\)"),
    ],
)
def test_bad_input_is_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        discoveries(*arguments)


def test_no_answer_is_released_up_to_nan() -> None:
    with pytest.raises(InputError, match="cutoff must"):
        discoveries([0.1, 0.2], 9).at(math.nan)
