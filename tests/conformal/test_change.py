"""Does the interval of a change hold it as often as is stated?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrail.conformal.change_point import alarm_threshold, change_point, stream_ranks
from tests.conformal.alarms import first_alarms

#: Shares of 20 bins before a change, of even size, and of the values after it.
EVEN = np.full(20, 0.05)
SHIFTED = np.diff(stats.norm.cdf(stats.norm.ppf(np.linspace(0, 1, 21)) - 0.5))
WIDER = np.diff(stats.norm.cdf(stats.norm.ppf(np.linspace(0, 1, 21)) / 1.5))
RARE, LESS_RARE = np.array([0.98, 0.02]), np.array([0.93, 0.07])


@pytest.mark.parametrize(
    ("before", "after"), [(EVEN, SHIFTED), (EVEN, WIDER), (RARE, LESS_RARE)], ids=lambda x: len(x)
)
def test_at_the_alarm_the_interval_holds_the_change(before: np.ndarray, after: np.ndarray) -> None:
    rng = np.random.default_rng(11)
    streams, counted, change, rows, width = 150, 500, 1_000, 3_000, 16
    bins = np.concatenate(
        [
            rng.choice(len(before), (streams, counted + change), p=before),
            rng.choice(len(after), (streams, rows - change), p=after),
        ],
        axis=1,
    )
    reference = np.array([np.bincount(row, minlength=len(before)) for row in bins[:, :counted]])
    stream = bins[:, counted:]
    ranks, _ = stream_ranks(stream, rng.random(stream.shape), reference)
    alarms = first_alarms(ranks, alarm_threshold(10_000, 6))
    held = []
    for row, first, start in zip(stream, alarms, reference, strict=True):
        if first <= change:
            continue
        blocks = np.arange(first) // width
        counts = np.zeros((blocks[-1] + 2, len(before)))
        counts[0] = start
        np.add.at(counts, (1 + blocks, row[:first]), 1)
        found = change_point(counts)
        assert found.lower <= found.estimate <= found.upper
        # Block j + 1 holds the rows from 16 j on.
        held.append((found.lower - 2) * width < change < found.upper * width)
    assert len(held) > 140
    # Stated 95 %: fewer than this of so many has a probability of 1e-4.
    assert sum(held) >= stats.binom.ppf(1e-4, len(held), 0.95)


def test_a_clear_change_is_found_at_its_block() -> None:
    blocks = [[500, 500], *[[8, 8]] * 10, *[[1, 15]] * 6]
    found = change_point(blocks)
    assert found.estimate == 11 and found.lower >= 10 and found.upper <= 12


def test_groups_of_bins_keep_the_ends_apart() -> None:
    # A new value beyond all of the reference is 1 % of what came before in all.
    reference = [*[50] * 20, 0]
    usual = [*[1] * 20, 0]
    unusual = [*[1] * 20, 5]
    assert change_point([reference, *[usual] * 8, *[unusual] * 4]).estimate == 9
