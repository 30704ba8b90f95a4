"""Does a simulated plan say what labelling until a verdict takes?"""

from __future__ import annotations

import json

import numpy as np
import pytest

from calibrail.conformal import Assumption, SequentialTest, plan, plan_sequential
from calibrail.conformal.sequential.forecast import fewest_drawn
from calibrail.errors import InputError
from calibrail.options import Drawing, Promise, Requirement

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


@pytest.mark.parametrize("drawing", [Drawing(), Drawing(whole_groups=True)])
def test_with_fewer_answers_even_without_an_error_nothing_is_certified(drawing: Drawing) -> None:
    hallucinated, faithful = fewest_drawn(REQUIRED, drawing)

    def verdict(n: int, other: int) -> str:
        labels = [1] * n + [0] * other
        groups = np.arange(n + other) if drawing.whole_groups else None
        return SequentialTest(REQUIRED, drawing).update(labels, labels, groups=groups).verdict

    assert verdict(hallucinated, faithful) == "certified"
    assert verdict(hallucinated - 1, faithful) == verdict(hallucinated, faithful - 1)
    assert verdict(hallucinated - 1, faithful) == "inconclusive"


def test_a_low_floor_takes_far_more_answers() -> None:
    by_floor = {floor: fewest_drawn(REQUIRED, Drawing("active", floor)) for floor in (0.001, 0.1)}
    assert min(by_floor[0.001]) > 20 * max(by_floor[0.1])
    # A guess that is never wrong, the lots all lost: as slow as said.
    n, other = by_floor[0.1]
    drawing, labels = Drawing("active", 0.1), [1] * n + [0] * other
    test = SequentialTest(REQUIRED, drawing)
    for stop, found in ((n + other - 1, "inconclusive"), (n + other, "certified")):
        seen = labels[:stop]
        q = [0.1 if item else 0.2 for item in seen]
        assert test.update(seen, [None] * stop, q, seen).verdict == found
