"""Do the corners of bounds bound what follows from them?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from calibrail.conformal import confidence_sequence
from calibrail.conformal.bounds import (
    ANYTHING,
    Interval,
    drawn_at_least,
    drawn_share,
    mixed_share,
    rates_behind,
    share_behind,
)
from calibrail.conformal.sequential.betting import estimated_labels

SHARE = st.floats(0.0, 1.0)
BOX = st.lists(st.tuples(SHARE, SHARE), min_size=3, max_size=3).map(
    lambda ends: [Interval(min(pair), max(pair)) for pair in ends]
)
INSIDE = st.tuples(SHARE, SHARE, SHARE)


def point(box: list[Interval], at: tuple[float, float, float]) -> list[float]:
    return [end.lower + place * end.width for end, place in zip(box, at, strict=True)]


@given(BOX, INSIDE)
def test_nothing_within_the_bounds_leads_out_of_the_interval(
    box: list[Interval], at: tuple[float, float, float]
) -> None:
    share, reason = share_behind(*box)
    seen, high, low = point(box, at)
    assert (reason == "not_told_apart") == (box[1].lower <= box[2].upper)
    if reason is None:
        behind = (seen - low) / (high - low)
        if 0.0 <= behind <= 1.0:
            assert share.lower - 1e-9 <= behind <= share.upper + 1e-9
    else:
        assert share == ANYTHING
    mixed, (coverage, fpr) = mixed_share(*box), rates_behind(*box)
    flagged, among, missed = seen, high, low
    total = flagged * among + (1.0 - flagged) * missed
    assert mixed.lower - 1e-9 <= total <= mixed.upper + 1e-9
    if total > 1e-6:
        assert coverage.lower - 1e-6 <= flagged * among / total <= coverage.upper + 1e-6
    if total < 1.0 - 1e-6:
        alarms = flagged * (1.0 - among) / (1.0 - total)
        assert fpr.lower - 1e-6 <= alarms <= fpr.upper + 1e-6


def test_more_flags_than_any_share_gives_are_a_contradiction() -> None:
    high, low = Interval(0.7, 0.8), Interval(0.1, 0.2)
    assert share_behind(Interval(0.9, 0.95), high, low) == (ANYTHING, "contradiction")
    assert share_behind(Interval(0.01, 0.05), high, low) == (ANYTHING, "contradiction")
    assert share_behind(Interval(0.05, 0.15), high, low)[1] is None


def test_nothing_known_says_nothing() -> None:
    none = Interval(0.0, 0.0)
    assert rates_behind(none, ANYTHING, none)[0] == ANYTHING
    assert drawn_share(np.zeros(0), np.zeros(0), 0.95) == ANYTHING


def share_of(mass: Any, rows: Any, floor: float | None, times: float = 1.0) -> Interval:
    """Return the interval of labels, or of draws labelled with probabilities above a floor."""
    if floor is None:
        return drawn_share(mass, rows, 0.8, times=times)
    least = np.array([1.0 - 1.0 / floor])
    ends = [drawn_at_least(it[None], least, rows, 0.8, times=times) for it in (mass, 1.0 - mass)]
    return Interval(ends[0], 1.0 - ends[1])


@pytest.mark.parametrize("floor", [None, 0.2])
@pytest.mark.parametrize("drifting", [False, True])
def test_shares_of_all_rows_hold_at_all_times(floor: float | None, drifting: bool) -> None:
    rng, runs, outside, n = np.random.default_rng(1), 100, 0, 160
    chance, rows = np.full(n, 0.3), np.ones(n)
    if drifting:
        # Where there is more traffic there are more hallucinations.
        busy = np.arange(n) // 20 % 2 == 1
        chance, rows = np.where(busy, 0.5, 0.1), np.where(busy, 3.0, 1.0)
    mean = np.cumsum(rows * chance) / np.cumsum(rows)
    for _ in range(runs):
        mass = (rng.random(n) < chance).astype(float)
        if floor is not None:
            guess = np.clip(rng.normal(0.3 + 0.3 * mass, 0.2), 0.0, 1.0)
            q = np.clip(guess, floor, 1.0)
            mass = estimated_labels(np.where(rng.random(n) < q, mass, np.nan), q, guess)
        looks = range(5, n + 1, 12)
        ends = [share_of(mass[:at], rows[:at], floor) for at in looks]
        outside += any(
            not end.lower <= mean[at - 1] <= end.upper for at, end in zip(looks, ends, strict=True)
        )
    assert outside <= binom.isf(1e-4, runs, 0.2)
    assert ends[-1].width < 0.85
    # As if each draw had been made four times: the same as drawing it four times.
    four = share_of(np.repeat(mass, 4), np.repeat(rows, 4), floor)
    assert share_of(mass, rows, floor, 4.0) == pytest.approx(four)


def test_draws_that_stand_for_as_many_rows_pay_twice_the_error() -> None:
    labels = (np.random.default_rng(2).random(200) < 0.2).astype(float)
    expected = confidence_sequence(int(labels.sum()), 200, 0.975)
    found = drawn_share(labels, np.full(200, 37.5), 0.95)
    assert (found.lower, found.upper) == pytest.approx((float(expected[0]), float(expected[1])))
    # Rows that differ by a tenth cost one more step, and weigh.
    rows = np.where(labels == 1.0, 1.1, 1.0)
    rows[0] = 1.0
    uneven = drawn_share(labels, rows, 0.95)
    assert uneven.upper > found.upper and uneven.lower < found.lower
