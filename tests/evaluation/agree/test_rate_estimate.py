"""Does an interval keep a width where a share is 0 or 1?"""

from __future__ import annotations

import pytest

from calibrail.evaluation.agree.corrected_rates import corrected_rates
from calibrail.evaluation.agree.rate_estimate import agresti_coull
from tests.evaluation.agree.tables import ALONE, made


def test_agresti_coull_is_what_two_more_of_each_add() -> None:
    assert agresti_coull(19, 20) == pytest.approx((21 / 24) * (3 / 24) / 24 - 0.95 * 0.05 / 20)
    assert agresti_coull(50, 100) == 0.0
    # All caught: a normal interval alone would have no width.
    caught = made((((60, 10), (6, 4)), ((0, 8), (0, 42))), ALONE)
    measure = corrected_rates(caught)["coverage"].prediction_powered.measure
    assert measure.lower < 0.97 and measure.upper == 1.0
