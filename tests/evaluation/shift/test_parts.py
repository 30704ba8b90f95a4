"""Do the parts of a drift audit hold each answer once, on the side where it belongs?"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from calibrail.data.splits import CALIBRATION, FIT, TEST
from calibrail.evaluation.shift import group_parts, time_parts


def test_each_group_is_tested_once_by_all_others_or_by_those_named() -> None:
    cells = ["a", "b", None, "a", "c"]
    parts = group_parts(cells, "model", ())
    assert [(part.calibrated_on, part.tested_on) for part in parts] == [
        ("all but (none)", "(none)"),
        ("all but a", "a"),
        ("all but b", "b"),
        ("all but c", "c"),
    ]
    tested = np.sum([part.split == TEST for part in parts], axis=0)
    assert tested.tolist() == [1] * 5
    assert all(set(part.split.tolist()) == {CALIBRATION, TEST} for part in parts)
    named = group_parts(cells, "model", ("a", "b"))
    assert [part.calibrated_on for part in named] == ["a, b", "a, b"]
    assert named[1].split.tolist() == [CALIBRATION, CALIBRATION, FIT, CALIBRATION, TEST]


@pytest.mark.parametrize("periods", [1, 3, 7])
def test_later_answers_are_tested_once_and_never_before_those_that_calibrate(periods: int) -> None:
    rng = np.random.default_rng(periods)
    times = rng.integers(0, 12, 60)
    parts = time_parts([str(time) for time in times], "day", periods)
    home = parts[0].split == CALIBRATION
    tested = np.sum([part.split == TEST for part in parts], axis=0)
    assert ((tested == 1) == ~home).all()
    assert times[home].max() < times[~home].min()
    ends = [(times[part.split == TEST].min(), times[part.split == TEST].max()) for part in parts]
    # Answers of one moment stay together, and periods follow each other.
    assert all(last < first for (_, last), (first, _) in pairwise(ends))


def test_dates_with_and_without_a_zone_are_one_line_of_time() -> None:
    cells = ["2026-01-01", "2026-01-02T00:00:00+02:00", "2026-01-01T23:00:00Z", "2026-01-03"]
    (part,) = time_parts(cells, "when", 1)
    # The second is 22:00 UTC of the first day: it calibrates, and 23:00 is the middle.
    assert part.split.tolist() == [CALIBRATION, CALIBRATION, TEST, TEST]
    assert part.calibrated_on == "before 2026-01-01T23:00:00Z"
