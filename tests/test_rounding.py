"""Does every printed end of an interval lie on the outer side of the number it stands for?"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.conformal import ClassCounts, certify_counts, clopper_pearson
from calibrail.formatting import lower_percent, outward, upper_percent
from calibrail.options import Requirement
from calibrail.report import text
from calibrail.report.messages import environment

SHARES = st.floats(0.0, 1.0)


def numbers(shown: str) -> list[float]:
    return [float(item) for item in re.findall(r"-?\d+(?:\.\d+)?", shown)]


@given(SHARES, SHARES)
def test_ends_are_rounded_outwards(one: float, other: float) -> None:
    lower, upper = min(one, other), max(one, other)
    value = {"estimate": lower, "lower": lower, "upper": upper}
    assert float(lower_percent(lower)[:-1]) / 100 <= lower + 1e-15
    assert float(upper_percent(upper)[:-1]) / 100 >= upper - 1e-15
    for shown, scale in (
        (text.interval(value), 100.0),
        (text.bounds(value), 1.0),
        (text.share_with_bounds(value).partition("(")[2], 100.0),
    ):
        low, high = numbers(shown)
        assert low <= scale * lower + 1e-12 and high >= scale * upper - 1e-12, shown


@given(st.floats(-10.0, 10.0), st.integers(0, 5))
def test_any_number_of_digits_lies_outside(value: float, digits: int) -> None:
    low, high = (float(outward(value, digits, upper=upper)) for upper in (False, True))
    assert low <= value <= high
    assert high - low <= 1.001 * 10.0**-digits


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 400), st.integers(1, 400), st.data())
def test_a_verdict_never_says_more_than_was_shown(m: int, n: int, data: st.DataObject) -> None:
    counts = ClassCounts(data.draw(st.integers(0, m)), m, data.draw(st.integers(0, n)), n)
    made = certify_counts(counts, Requirement(0.3, 0.7))
    if made.verdict == "certified":
        caught, alarms = numbers(made.reason.partition("shown: ")[2])
        # What a verdict shows of each rate is one-sided.
        ends = [clopper_pearson(bound.count, bound.n, 0.9) for bound in (made.coverage, made.fpr)]
        assert caught <= 100 * ends[0][0] + 1e-9
        assert alarms >= 100 * ends[1][1] - 1e-9


@pytest.mark.parametrize(
    ("value", "low", "high"), [(0.916656, "91.6%", "91.7%"), (0.29, "29%", "29%")]
)
def test_a_bound_that_needs_no_more_digits_is_itself(value: float, low: str, high: str) -> None:
    filters = environment().filters
    assert (filters["lower_percent"](value), filters["upper_percent"](value)) == (low, high)
