from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.conformal import minimum_n, rank
from calibrail.errors import InputError

ALPHAS = st.integers(1, 999).map(lambda k: k / 1000)


def binomial_cdf(k: int, n: int, alpha: float) -> float:
    return math.fsum(math.comb(n, i) * alpha**i * (1 - alpha) ** (n - i) for i in range(k + 1))


@given(st.integers(0, 5000), st.integers(1, 999))
def test_marginal_is_the_exact_floor(n: int, thousandths: int) -> None:
    assert rank(n, thousandths / 1000) == Fraction(thousandths, 1000) * (n + 1) // 1


def test_a_float_floor_would_be_wrong() -> None:
    assert math.floor(0.29 * 100) == 28
    assert rank(99, 0.29) == 29


@pytest.mark.parametrize("n", [1, 19, 44, 45, 46, 100, 250])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("delta", [0.01, 0.1, 0.5])
def test_pac_is_the_largest_rank_by_direct_summation(n: int, alpha: float, delta: float) -> None:
    allowed = [k for k in range(1, n + 1) if binomial_cdf(k - 1, n, alpha) <= delta]
    assert rank(n, alpha, "pac", delta) == (max(allowed) if allowed else 0)


@given(st.integers(1, 10**7), ALPHAS, st.floats(0.001, 0.5))
def test_pac_never_exceeds_marginal_by_much_and_leaves_a_margin(
    n: int, alpha: float, delta: float
) -> None:
    k = rank(n, alpha, "pac", delta)
    assert 0 <= k <= n
    # With delta at most one half the median of the miss rate is at most alpha, so that the rank
    # lies at or below the marginal one but for the rounding of a median (less than one rank).
    assert k <= rank(n, alpha) + 1


def test_known_minimum_sizes() -> None:
    assert minimum_n(0.05) == 19
    assert minimum_n(0.05, "pac", 0.1) == 45
    assert minimum_n(0.01) == 99


@given(ALPHAS, st.floats(0.001, 0.5), st.sampled_from(["marginal", "pac"]))
def test_the_minimum_is_the_first_size_that_works(alpha: float, delta: float, kind: str) -> None:
    n = minimum_n(alpha, kind, delta)  # type: ignore[arg-type]
    assert rank(n, alpha, kind, delta) >= 1  # type: ignore[arg-type]
    assert n == 1 or rank(n - 1, alpha, kind, delta) == 0  # type: ignore[arg-type]


def test_the_papers_rank_undercovers_by_the_known_figures() -> None:
    for n, coverage in ((50, 0.941), (30, 0.935)):
        assert 1 - rank(n, 0.05, "paper") / (n + 1) == pytest.approx(coverage, abs=5e-4)


@given(st.integers(20, 3000), ALPHAS, ALPHAS)
def test_more_misses_allowed_never_lower_the_rank(n: int, first: float, second: float) -> None:
    low, high = sorted((first, second))
    for kind in ("marginal", "pac", "paper"):
        assert rank(n, low, kind) <= rank(n, high, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 1.3, math.nan, math.inf, "0.1", True, None])
def test_alpha_outside_its_domain_is_named(alpha: object) -> None:
    with pytest.raises(InputError, match="alpha must"):
        rank(100, alpha)  # type: ignore[arg-type]


def test_other_arguments_outside_their_domain_are_named() -> None:
    with pytest.raises(InputError, match="n must"):
        rank(-1, 0.1)
    with pytest.raises(InputError, match="n must"):
        rank(1.5, 0.1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="delta must"):
        rank(100, 0.1, "pac", 1.0)
    with pytest.raises(InputError, match="guarantee must"):
        rank(100, 0.1, "other")  # type: ignore[arg-type]
    assert rank(int(np.int64(100)), 0.05) == 5
