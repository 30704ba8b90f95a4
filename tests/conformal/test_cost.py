"""Is an expected cost bounded as seldom too low as stated, and is the cheapest threshold found?"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from calibrail.conformal.bounds import clopper_pearson, cost_at_most
from calibrail.conformal.threshold_rule import least_cost
from calibrail.errors import InputError
from calibrail.options import Costs

WEIGHTS = (2.0, 0.9)


@pytest.mark.parametrize(("n", "weights"), [((8, 8), WEIGHTS), ((5, 11), (0.3, 1.0))])
def test_the_bound_lies_below_the_cost_as_seldom_as_stated_whatever_the_rates(
    n: tuple[int, int], weights: tuple[float, float]
) -> None:
    error, often = 0.1, 0.0
    bounds = np.array(
        [
            [cost_at_most((k, n[0]), (j, n[1]), weights, 1.0 - error) for j in range(n[1] + 1)]
            for k in range(n[0] + 1)
        ]
    )
    rates = np.linspace(0.02, 0.98, 25)
    for p, q in product(rates, rates):
        chance = np.outer(binom.pmf(range(n[0] + 1), n[0], p), binom.pmf(range(n[1] + 1), n[1], q))
        wrong = float(chance[bounds < weights[0] * p + weights[1] * q].sum())
        assert wrong <= error + 1e-12, (p, q)
        often = max(often, wrong)
    # It is no more cautious than it has to be.
    assert often > 0.07


@pytest.mark.parametrize("missed", [(0, 60), (7, 60), (60, 60)])
@pytest.mark.parametrize("alarms", [(0, 40), (9, 40)])
def test_the_bound_is_the_largest_sum_that_the_data_leaves_possible(
    missed: tuple[int, int], alarms: tuple[int, int]
) -> None:
    bound = cost_at_most(missed, alarms, WEIGHTS, 0.95)
    seen = WEIGHTS[0] * missed[0] / missed[1] + WEIGHTS[1] * alarms[0] / alarms[1]
    k = np.arange(missed[1] + 1)
    room = np.floor((seen - WEIGHTS[0] * k / missed[1]) * alarms[1] / WEIGHTS[1] + 1e-9)
    rates = np.linspace(0.0, 1.0, 301)
    as_low = binom.pmf(k, missed[1], rates[:, None]) @ binom.cdf(room[:, None], alarms[1], rates)
    sums = WEIGHTS[0] * rates[:, None] + WEIGHTS[1] * rates
    largest = float(sums[as_low > 0.05].max())
    assert largest - 1e-9 <= bound <= largest + 0.03
    assert bound <= sum(WEIGHTS)


def test_the_bound_lies_below_that_of_two_exact_ends_which_share_the_error() -> None:
    for missed, alarms in (((5, 100), (20, 100)), ((0, 80), (3, 90)), ((150, 900), (90, 700))):
        ends = [clopper_pearson(*counts, 0.95)[1] for counts in (missed, alarms)]
        apart = WEIGHTS[0] * ends[0] + WEIGHTS[1] * ends[1]
        assert cost_at_most(missed, alarms, WEIGHTS, 0.95) < apart


def test_nothing_seen_of_a_class_leaves_its_rate_open() -> None:
    assert cost_at_most((0, 0), (0, 1000), WEIGHTS, 0.95) >= WEIGHTS[0]
    assert cost_at_most((1000, 1000), (50, 50), WEIGHTS, 0.95) == pytest.approx(sum(WEIGHTS))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"missed": (3, 2)}, "count"),
        ({"weights": (0.0, 1.0)}, "weights must be above 0"),
        ({"weights": (math.nan, 1.0)}, "weights"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_a_bound_of_nonsense_is_refused(changes: dict[str, object], says: str) -> None:
    given = {"missed": (1, 9), "alarms": (1, 9), "weights": WEIGHTS, "confidence": 0.9, **changes}
    with pytest.raises(InputError, match=says):
        cost_at_most(**given)  # type: ignore[arg-type]


SCORES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0, math.nan]), st.integers(0, 1)), min_size=2
)


@settings(max_examples=60, deadline=None)
@given(SCORES, st.floats(0.1, 5.0), st.sampled_from([0.0, 0.5]))
def test_the_cheapest_threshold_is_the_lowest_of_the_cheapest(
    drawn: list[tuple[float, int]], miss: float, tolerance: float
) -> None:
    values, labels = (np.array(column) for column in zip(*drawn, strict=True))
    if np.isnan(values).all():
        with pytest.raises(InputError, match="finite"):
            least_cost(values, labels, (miss, 1.0))
        return
    costs = {}
    for edge in sorted({value for value in values.tolist() if not math.isnan(value)}):
        flagged = values + tolerance >= edge
        wrong = ~flagged[labels == 1], flagged[labels == 0]
        shares = [float(np.mean(part)) if len(part) else 0.0 for part in wrong]
        costs[edge] = miss * shares[0] + shares[1]
    least = min(costs.values())
    chosen = least_cost(values, labels, (miss, 1.0), tolerance)
    # Undefined scores add the same at each threshold.
    assert costs[chosen] == pytest.approx(least)
    assert all(cost > least + 1e-9 or edge >= chosen - 1e-9 for edge, cost in costs.items())


def test_costs_are_checked_and_weighted_by_the_base_rate() -> None:
    assert Costs(20.0, 1.0).weights(0.25) == (5.0, 0.75)
    assert Costs(20.0, 1.0, 0.1).weights(0.25) == (2.0, 0.9)
    wrong = [(20.0, None, None), (None, None, 0.1), (0.0, 1.0, None), (math.inf, 1.0, None)]
    for given_ in (*wrong, (1.0, 1.0, 1.0), (1.0, "much", None)):
        with pytest.raises(InputError, match=r"cost|base_rate"):
            Costs(*given_)  # type: ignore[arg-type]
