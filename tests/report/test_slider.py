"""Does the slider offer what the test part shows, in bands that hold?"""

from __future__ import annotations

import json

import numpy as np
import pytest
from reports import CODES, LABELS, NOISE, VALUES, classes, report

from calibrail.conformal.bounds import simultaneous_bounds
from calibrail.report.document import Figure, all_blocks
from calibrail.report.documents.calibrate import document
from calibrail.report.figures.scores import MOST, operating_points
from calibrail.report.html import inline

pytestmark = pytest.mark.painted


def test_every_point_is_what_its_threshold_does() -> None:
    value = report()
    offered = operating_points(value)
    assert offered is not None
    points = offered["points"]
    thresholds = [point[0] for point in points]
    assert thresholds == sorted(set(thresholds))
    own, other = classes()
    for threshold, caught, low, high, alarms, alarms_low, alarms_high in points:
        assert caught == pytest.approx(np.mean(own >= threshold), abs=1e-6)
        assert alarms == pytest.approx(np.mean(other >= threshold), abs=1e-6)
        assert low <= caught <= high and alarms_low <= alarms <= alarms_high
    assert points[offered["start"]][0] == value["threshold"]
    assert offered["start"] == offered["in_use"]


def test_the_band_in_between_holds_the_band_of_its_own() -> None:
    """A threshold that is not on the curve gets its neighbours' bounds, which are wider."""
    value = report()
    (own, _), level = classes(), 1.0 - 0.05 / 2.0
    offered = operating_points(value)
    assert offered is not None
    _, caught, low, high, *_ = offered["points"][offered["in_use"]]
    counts = np.array([round(caught * len(own))])
    lower, upper = simultaneous_bounds(counts, len(own), level)
    assert low <= lower[0] + 1e-6 and high >= upper[0] - 1e-6


def test_long_curves_are_thinned_and_a_rule_of_groups_has_no_threshold_in_use() -> None:
    value = report()
    n = 3 * MOST
    shares = np.linspace(1.0, 0.0, n).tolist()
    part = {end: shares for end in ("estimate", "lower", "upper")}
    curve = {"thresholds": np.arange(n).tolist(), "coverage": part, "fpr": part}
    offered = operating_points({**value, "curve": curve, "by_group": {"rows": []}})
    assert offered is not None
    assert len(offered["points"]) == MOST
    assert [offered["points"][place][0] for place in (0, -1)] == [0, n - 1]
    assert offered["in_use"] is None
    assert offered["points"][offered["start"]][1] >= 0.9
    assert operating_points({**value, "curve": None}) is None


@pytest.mark.parametrize(
    "values", [VALUES, np.zeros(400), np.where(np.arange(400) % 7 == 0, 1e308, VALUES)]
)
def test_marks_stand_where_the_axes_do(values: np.ndarray) -> None:
    assert len(values) == len(LABELS) == len(CODES) == len(NOISE)
    value = report(values)
    blocks = all_blocks(document(value, classes(values)).blocks)
    made = [block for block in blocks if isinstance(block, Figure)]
    assert {figure.name for figure in made} >= {"distributions"}
    for figure in made:
        drawn = inline(figure.svg(), figure.name, figure.limits)
        left, right, bottom, top, x0, x1, y0, y1 = map(
            float, drawn.split('data-place="')[1].split('"')[0].split()
        )
        width, height = map(float, drawn.split('viewBox="')[1].split('"')[0].split()[2:])
        assert 0 < left < right <= width and 0 < top < bottom <= height
        assert x0 < x1 and y0 < y1
    json.dumps(operating_points(value), allow_nan=False)


def test_it_begins_at_a_threshold_that_all_answers_set() -> None:
    value = report()
    curve = value["curve"]
    curve["below"] = [None, *curve["thresholds"][:-1]]
    value["test"]["coverage"] = {"method": "rank", "estimate": None, "lower": 0.8, "upper": 1.0}
    place = len(curve["thresholds"]) // 2
    between = (curve["thresholds"][place - 1] + curve["thresholds"][place]) / 2.0
    offered = operating_points(value | {"threshold": between})
    assert offered is not None and offered["start"] == offered["in_use"]
    threshold, caught, _, _, alarms, *_ = offered["points"][offered["in_use"]]
    assert threshold == between
    assert caught == pytest.approx(curve["coverage"]["estimate"][place], abs=1e-6)
    assert alarms == pytest.approx(curve["fpr"]["estimate"][place], abs=1e-6)
