from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from calibrail.conformal import clopper_pearson, exact_bound
from calibrail.conformal.bounds import further, interval
from tests.conformal.counted import certify

CHECK = settings(max_examples=30, deadline=None)

COUNTS = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
LEVELS = st.floats(0.01, 0.999)


@pytest.mark.parametrize("n", [1, 2, 7, 20])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_each_side_errs_no_more_than_its_half_for_every_true_share(n: int, level: float) -> None:
    ends = np.array([clopper_pearson(count, n, level) for count in range(n + 1)])
    for share in np.linspace(0.0, 1.0, 501):
        mass = binom.pmf(np.arange(n + 1), n, share)
        assert mass[ends[:, 0] > share].sum() <= (1 - level) / 2 + 1e-12
        assert mass[ends[:, 1] < share].sum() <= (1 - level) / 2 + 1e-12


@CHECK
@given(st.lists(COUNTS, min_size=1, max_size=20), LEVELS)
def test_arrays_get_the_same_ends_one_by_one(counts: list[tuple[int, int]], level: float) -> None:
    count, n = np.array(counts).T
    lower, upper = interval(count, n, level)
    assert list(zip(lower, upper, strict=True)) == [
        clopper_pearson(*pair, level) for pair in counts
    ]


def test_the_largest_counts_and_extreme_levels_stay_finite_and_ordered() -> None:
    for count in (0, 1, 10**12 // 2, 10**12 - 1, 10**12):
        for level in (1e-300, 0.5, 1 - 1e-16):
            lower, upper = clopper_pearson(count, 10**12, level)
            assert 0.0 <= lower <= upper <= 1.0


SMALL_COUNTS = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def settled(count: int, n: int, requirement: float, level: float, good_above: bool) -> bool:
    """Say what a certificate says: the requirement is proven to be met, or not to be met."""
    lower, upper = clopper_pearson(count, n, level)
    if good_above:
        return lower >= requirement or upper < requirement
    return upper <= requirement or lower > requirement


def by_hand(
    count: int, n: int, requirement: float, level: float, good_above: bool, most: int
) -> int | None:
    """Try one more example after the other, the expected count rounded to the requirement."""
    above = count / n > requirement
    for extra in range(1, most):
        total = n + extra
        expected = count * total
        rounded = expected // n if above else -(-expected // n)
        if settled(rounded, total, requirement, level, good_above):
            return extra
    return None


@CHECK
@given(SMALL_COUNTS, st.integers(1, 19), st.sampled_from([0.6, 0.9, 0.95]), st.booleans())
def test_the_number_is_the_first_that_settles(
    counts: tuple[int, int], twentieths: int, level: float, good_above: bool
) -> None:
    count, n = counts
    requirement = twentieths / 20
    if settled(count, n, requirement, level, good_above) or count * 20 == twentieths * n:
        return
    found = further(exact_bound(count, n, level), requirement, level, good_above=good_above)
    assert found is not None
    expected = by_hand(count, n, requirement, level, good_above, most=3000)
    assert found == expected or (expected is None and found >= 3000)


@pytest.mark.parametrize(
    ("count", "n", "requirement", "above", "below"),
    [
        # 20 and 50 examples at the rates of 5 and 10; the end of their interval is the requirement.
        (0, 5, clopper_pearson(0, 20, 0.9)[1], 16, 15),
        (3, 10, clopper_pearson(15, 50, 0.9)[1], 43, 40),
        (5, 5, clopper_pearson(20, 20, 0.9)[0], 15, 16),
        (7, 10, clopper_pearson(35, 50, 0.9)[0], 40, 43),
    ],
)
def test_to_reach_a_requirement_is_to_meet_it_and_not_to_miss_it(
    count: int, n: int, requirement: float, above: int, below: int
) -> None:
    bound = exact_bound(count, n, 0.9)
    assert further(bound, requirement, 0.9, good_above=True) == above
    assert further(bound, requirement, 0.9, good_above=False) == below


@pytest.mark.parametrize("good_above", [True, False])
def test_what_no_number_settles_is_none(good_above: bool) -> None:
    assert further(exact_bound(0, 0, 0.9), 0.5, 0.9, good_above=good_above) is None
    assert further(exact_bound(5, 10, 0.9), 0.5, 0.9, good_above=good_above) is None


def test_a_rate_next_to_its_requirement_needs_many_and_gets_an_exact_number() -> None:
    bound = exact_bound(9001, 10_000, 0.95)
    found = further(bound, 0.9, 0.95, good_above=True)
    assert found is not None and found > 10**6
    total = bound.n + found
    assert settled(9001 * total // 10_000, total, 0.9, 0.95, True)
    assert not settled(9001 * (total // 2) // 10_000, total // 2, 0.9, 0.95, True)
    # Ten times closer it takes a hundred times as many: as good as never.
    assert further(exact_bound(90_001, 100_000, 0.95), 0.9, 0.95, good_above=True) is None


@pytest.mark.parametrize(
    ("counts", "key", "side"),
    [((28, 30, 2, 400), "hallucinated", True), ((290, 300, 2, 40), "faithful", False)],
)
def test_a_certificate_tells_the_number_of_the_open_side(
    counts: tuple[int, int, int, int], key: str, side: bool
) -> None:
    made = certify(*counts, 0.9, 0.1, 0.95)
    other = {"hallucinated": "faithful", "faithful": "hallucinated"}[key]
    assert made.verdict == "inconclusive" and made.needed[other] == 0
    count, n = counts[:2] if side else counts[2:]
    # Certified needs both of its ends, so each is that of a two-sided interval at 2 * 0.95 - 1.
    assert made.needed[key] == by_hand(count, n, 0.9 if side else 0.1, 0.9, side, most=3000)
