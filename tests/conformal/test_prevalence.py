"""Do the corners of bounds bound what follows from them?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from calibrail.conformal.betting import estimated_labels
from calibrail.conformal.prevalence import (
    ANYTHING,
    Interval,
    mixed_share,
    rates_behind,
    share_behind,
    weighted_share,
)

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
    assert weighted_share(np.zeros(0), 0.2, 0.95) == ANYTHING


@pytest.mark.parametrize("floor", [1.0, 0.2])
def test_weighted_shares_hold_at_all_times(floor: float) -> None:
    rng, runs, outside = np.random.default_rng(1), 120, 0
    for _ in range(runs):
        hallucinated = rng.random(160) < 0.3
        guess = np.clip(rng.normal(0.3 + 0.3 * hallucinated, 0.2), 0.0, 1.0)
        q = np.clip(guess, floor, 1.0)
        labels = np.where(rng.random(160) < q, hallucinated, np.nan)
        mass = estimated_labels(labels, q, guess)
        ends = [weighted_share(mass[:n], floor, 0.8) for n in range(5, 161, 12)]
        outside += any(not end.lower <= 0.3 <= end.upper for end in ends)
    assert outside <= binom.isf(1e-4, runs, 0.2)
    assert ends[-1].width < 0.75
    # As if each draw had been made four times: the same as drawing it four times.
    assert weighted_share(mass, floor, 0.8, times=4.0) == pytest.approx(
        weighted_share(np.repeat(mass, 4), floor, 0.8)
    )
