from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from calibrail.conformal import GUARANTEES, log_wealth, minimum_n, rank

shares = st.floats(0.001, 0.999)
sizes = st.integers(0, 400)


@given(sizes, st.integers(1, 999))
def test_marginal_rank_is_the_floor_in_decimal_arithmetic(n: int, thousandths: int) -> None:
    assert rank(n, thousandths / 1000) == thousandths * (n + 1) // 1000


@given(sizes, shares)
def test_marginal_rank_agrees_with_the_p_values_for_any_float(n: int, alpha: float) -> None:
    assert rank(n, alpha) == sum(k / (n + 1) <= alpha for k in range(1, n + 1))


@given(st.integers(1, 60), st.integers(1, 99), st.integers(1, 99))
def test_pac_rank_is_the_largest_allowed_in_exact_arithmetic(n: int, a: int, d: int) -> None:
    p, delta = Fraction(a, 100), Fraction(d, 100)
    cdf, allowed = Fraction(0), 0
    for k in range(1, n + 1):
        cdf += math.comb(n, k - 1) * p ** (k - 1) * (1 - p) ** (n - k + 1)
        allowed = k if cdf <= delta else allowed
    assert rank(n, a / 100, "pac", d / 100) == allowed


@given(st.integers(1, 40), st.integers(1, 99), st.integers(1, 99))
def test_anytime_rank_is_the_largest_allowed_in_exact_arithmetic(n: int, a: int, d: int) -> None:
    p, delta = Fraction(a, 100), Fraction(d, 100)
    allowed = 0
    for k in range(1, n + 1):
        # The mean over x in (0, p) of x^(k - 1) (1 - x)^(n - k + 1), term by term.
        m = n - k + 1
        area = sum(math.comb(m, i) * (-1) ** i * p ** (k + i) / (k + i) for i in range(m + 1))
        allowed = k if area / p >= p ** (k - 1) * (1 - p) ** m / delta else allowed
    assert rank(n, a / 100, "anytime", d / 100) == allowed


@pytest.mark.parametrize(
    ("alpha", "n", "k", "delta"),
    [(0.875, 2, 2, 0.6), (0.875, 8, 6, 0.45), (0.98, 6, 6, 0.75), (0.5, 6, 2, 0.35)],
)
def test_a_wealth_that_is_just_reached_suffices_whatever_the_rounding(
    alpha: float, n: int, k: int, delta: float
) -> None:
    # In exact arithmetic the wealth at k - 1 misses is 1 / delta; in floats mostly a little less.
    assert rank(n, alpha, "anytime", delta) == k
    assert rank(n, alpha, "anytime", delta * (1 - 1e-8)) == k - 1


@pytest.mark.parametrize("n", [1_000, 99_999, 10**6, 10**7])
@pytest.mark.parametrize("alpha", [1e-4, 0.01, 0.05, 0.5])
def test_anytime_rank_at_large_n(n: int, alpha: float) -> None:
    k = rank(n, alpha, "anytime", 0.1)
    assert k == 0 or log_wealth(k - 1, n, alpha, above=False) >= math.log(10)
    assert log_wealth(k, n, alpha, above=False) < math.log(10)
    assert k <= rank(n, alpha, "pac", 0.1) <= rank(n + 1, alpha, "pac", 0.1)


def test_only_anytime_keeps_its_promise_where_every_new_answer_makes_a_new_threshold(
    repository: Path,
) -> None:
    # A threshold misses more than alpha exactly where as few as rank - 1 of the n lie at or below
    # the alpha-quantile: that number is all that has to be drawn.
    most, alpha, delta, runs = 2_000, 0.1, 0.1, 4_000
    below = np.cumsum(np.random.default_rng(5).random((runs, most)) < alpha, axis=1)
    ever, at_the_end = {}, {}
    for guarantee in ("pac", "anytime"):
        ranks = np.array([rank(n, alpha, guarantee, delta) for n in range(1, most + 1)])
        bad = below < ranks
        ever[guarantee] = int(bad.any(axis=1).sum())
        at_the_end[guarantee] = int(bad[:, -1].sum())
    assert binom.sf(at_the_end["pac"] - 1, runs, delta) > 1e-4
    assert binom.sf(ever["anytime"] - 1, runs, delta) > 1e-4
    assert binom.sf(ever["pac"] - 1, runs, 3 * delta) < 1e-4
    # And the promise is not kept by asking for far too much.
    assert ever["anytime"] > runs * delta / 4
    page = " ".join((repository / "docs" / "guarantees.md").read_text(encoding="utf-8").split())
    assert f"too much in half of {runs:,} simulated runs" in page
    assert ever["pac"] / runs == pytest.approx(0.5, abs=0.02)
    assert f"`anytime` one in {ever['anytime'] / runs:.0%} (" in page


@pytest.mark.parametrize("n", [1_000, 99_999, 10**6, 10**7])
@pytest.mark.parametrize("alpha", [1e-4, 0.01, 0.05, 0.5])
def test_pac_rank_at_large_n(n: int, alpha: float) -> None:
    k = rank(n, alpha, "pac", 0.1)
    assert k == 0 or binom.cdf(k - 1, n, alpha) <= 0.1
    assert binom.cdf(k, n, alpha) > 0.1


@pytest.mark.parametrize(("n", "covers"), [(50, 0.941), (30, 0.935)])
def test_the_paper_rank_under_covers(n: int, covers: float) -> None:
    k = rank(n, 0.05, "paper")
    assert k == math.ceil(Fraction(5, 100) * (n + 1))
    assert round(1 - k / (n + 1), 3) == covers


def test_known_minimum_sizes() -> None:
    assert minimum_n(0.05) == 19
    assert minimum_n(0.05, "pac", 0.1) == 45
    assert minimum_n(0.05, "anytime", 0.1) == 71
    assert minimum_n(0.1) == 9
    assert minimum_n(1 / 3) == 2


@pytest.mark.parametrize(("alpha", "n"), [(0.01, 2), (0.02, 4), (0.03, 3), (0.1, 4), (0.5, 6)])
def test_an_error_probability_that_is_just_reached_suffices_whatever_the_rounding(
    alpha: float, n: int
) -> None:
    delta = float((1 - Fraction(str(alpha))) ** n)
    assert minimum_n(alpha, "pac", delta) == n


@given(shares, shares, st.sampled_from(GUARANTEES))
def test_minimum_n_is_where_the_rank_leaves_zero(alpha: float, delta: float, kind: str) -> None:
    least = minimum_n(alpha, kind, delta)  # type: ignore[arg-type]
    assert rank(least, alpha, kind, delta) >= 1  # type: ignore[arg-type]
    assert least == 1 or rank(least - 1, alpha, kind, delta) == 0  # type: ignore[arg-type]


@given(sizes, shares, shares, shares)
def test_ranks_grow_with_alpha_and_delta(n: int, a: float, b: float, delta: float) -> None:
    low, high = sorted((a, b))
    for guarantee in GUARANTEES:
        assert rank(n, low, guarantee, delta) <= rank(n, high, guarantee, delta)
    for guarantee in ("pac", "anytime"):
        assert rank(n, delta, guarantee, low) <= rank(n, delta, guarantee, high)
