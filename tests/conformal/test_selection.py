from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import false_discovery_control
from statsmodels.stats.multitest import multipletests

from calibrail.conformal import conformal_selection, minimum_n_for_selection, p_values
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
@given(P, FDR, FDR)
def test_a_larger_fdr_releases_no_less(p: np.ndarray[Any, Any], one: float, other: float) -> None:
    low, high = (conformal_selection(p, fdr) for fdr in sorted((one, other)))
    assert (low.released <= high.released).all() and low.cutoff <= high.cutoff


@CHECK
@given(P, FDR, st.randoms())
def test_the_order_of_the_batch_does_not_matter(
    p: np.ndarray[Any, Any], fdr: float, random: Any
) -> None:
    order = list(range(len(p)))
    random.shuffle(order)
    assert np.array_equal(
        conformal_selection(p[order], fdr).released, conformal_selection(p, fdr).released[order]
    )


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


def test_the_result_is_frozen_json_and_leaves_the_callers_array_alone() -> None:
    p = np.array([0.01, math.nan])
    found = conformal_selection(p, np.float32(0.1))  # type: ignore[arg-type]
    assert math.isnan(p[1])
    for array in (found.released, found.p_values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == {
        "n": 2,
        "n_released": 1,
        "fdr": 0.1,
        "cutoff": 0.01,
        "released": [True, False],
        "p_values": [0.01, 1.0],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([-0.1], 0.1), r"p_values must lie in \[0, 1\]"),
        (([1.1, 0.5], 0.1), r"p_values must lie in \[0, 1\]"),
        (([-math.inf], 0.1), r"p_values must lie in \[0, 1\]"),
        (([[0.1]], 0.1), r"p_values must have shape \(n,\)"),
        ((["a"], 0.1), "p_values must hold numbers"),
        (([0.1], 0.0), r"fdr must lie in \(0, 1\)"),
        (([0.1], 1.0), r"fdr must lie in \(0, 1\)"),
        (([0.1], math.nan), r"fdr must lie in \(0, 1\)"),
        (([0.1], "0.1"), "fdr must be a number"),
    ],
)
def test_bad_input_is_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        conformal_selection(*arguments)


@pytest.mark.parametrize(
    ("fdr", "m", "message"),
    [
        (1.5, 5, r"fdr must lie in \(0, 1\)"),
        (0.1, 0, "m must be at least 1"),
        (0.1, 2.0, "m must be a whole number"),
    ],
)
def test_bad_sizes_are_named(fdr: Any, m: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        minimum_n_for_selection(fdr, m)
