"""Does a simulated plan say what labelling until a verdict takes?"""

from __future__ import annotations

import json

import pytest

from calibrail.conformal import Assumption, plan, plan_sequential
from calibrail.errors import InputError
from calibrail.settings import Promise, Requirement

REQUIRED = Requirement(max_fpr=0.3, min_coverage=0.8)
RATES = Assumption(coverage=0.93, fpr=0.15)


def test_the_fixed_number_is_that_of_the_plan_and_less_is_needed_by_a_guess() -> None:
    made = plan_sequential(REQUIRED, RATES, 0.3, runs=300)
    fixed = plan(Promise(0.2), REQUIRED, RATES, base_rate=0.3).n
    assert fixed is not None and made.fixed == fixed and made.budget == 3 * fixed
    uniform, active = made.designs["uniform"], made.designs["active"]
    for found in (uniform, active):
        assert found.median is not None and found.percentile_80 is not None
        assert found.median < found.percentile_80 <= made.budget
        assert found.certified + found.rejected + found.inconclusive == pytest.approx(1.0)
        assert found.certified > 0.9 and found.rejected < 0.05
    assert uniform.drawn_median == uniform.median
    assert active.median is not None and active.drawn_median is not None
    assert active.median < fixed and active.drawn_median > active.median
    json.dumps(made.to_dict(), allow_nan=False)
    assert made == plan_sequential(REQUIRED, RATES, 0.3, runs=300)
    assert made != plan_sequential(REQUIRED, RATES, 0.3, runs=300, seed=1)


def test_a_threshold_that_is_not_good_enough_is_rejected() -> None:
    made = plan_sequential(REQUIRED, Assumption(coverage=0.6, fpr=0.1), 0.3, runs=100)
    assert made.fixed is None
    assert all(found.rejected > 0.9 for found in made.designs.values())


def test_a_small_budget_leaves_streams_without_a_verdict() -> None:
    found = plan_sequential(REQUIRED, RATES, 0.3, runs=100, budget=20).designs["uniform"]
    assert found.median is None and found.inconclusive > 0.5


def test_rates_are_needed() -> None:
    with pytest.raises(InputError, match="coverage and fpr must be assumed"):
        plan_sequential(REQUIRED, Assumption(auroc=0.9), 0.3)
    with pytest.raises(InputError, match="min_coverage must be given"):
        plan_sequential(Requirement(0.3), RATES, 0.3)
    with pytest.raises(InputError, match="budget must be at most"):
        plan_sequential(REQUIRED, RATES, 0.3, budget=10**6)
