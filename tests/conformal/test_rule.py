"""Does a rule hold exactly the thresholds that its promise calls for, from calibration alone?"""

from __future__ import annotations

import numpy as np
import pytest

from calibrail.conformal import (
    calibrate_clusters,
    calibrate_groups,
    calibrate_threshold,
    fit_rule,
)
from calibrail.conformal.rule import Rule, upper_calibration
from calibrail.errors import InputError
from calibrail.settings import Promise

RNG = np.random.default_rng(12)
LABELS = np.repeat([1, 0], 200).astype(np.int8)
VALUES = RNG.normal(LABELS * 2.0)
CALIBRATING = RNG.random(400) < 0.5
BAD, GOOD = CALIBRATING & (LABELS == 1), CALIBRATING & (LABELS == 0)
CLUSTERS = np.arange(400) // 3
NAMES = [f"topic {row % 2}" for row in range(400)]


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
def test_one_threshold_comes_from_hallucinated_calibration_answers_alone(guarantee: str) -> None:
    promise = Promise(0.2, guarantee, 0.05, "review")  # type: ignore[arg-type]
    rule = fit_rule(VALUES, LABELS, CALIBRATING, promise)
    expected = calibrate_threshold(VALUES[BAD], Promise(0.2, guarantee, 0.05, "review"))  # type: ignore[arg-type]
    assert rule.to_dict() == {
        "calibration": expected.to_dict(), "groups": None, "upper": None, "chosen": None
    }  # fmt: skip
    changed = np.where(BAD, VALUES, 0.0)
    assert fit_rule(changed, LABELS, CALIBRATING, promise).to_dict() == rule.to_dict()


def test_clusters_groups_and_a_second_class_are_calibrated_as_each_function_does() -> None:
    promise = Promise(0.2, beta=0.1, by="topic", min_n=7)
    clustered = fit_rule(VALUES, LABELS, CALIBRATING, promise, clusters=CLUSTERS)
    expected = calibrate_clusters(VALUES[BAD], CLUSTERS[BAD], Promise(0.2))
    assert clustered.calibration.to_dict() == expected.to_dict()
    grouped = fit_rule(VALUES, LABELS, CALIBRATING, promise, names=NAMES)
    members = [NAMES[row] for row in np.flatnonzero(BAD)]
    own = calibrate_groups(VALUES[BAD], members, Promise(0.2, by="group", min_n=7))
    assert grouped.groups is not None and grouped.groups.to_dict() == own.to_dict()
    assert grouped.calibration is grouped.groups.fallback
    upper = upper_calibration(VALUES[GOOD], promise)
    for rule in (clustered, grouped):
        assert rule.upper is not None and rule.upper.to_dict() == upper.to_dict()


def test_p_values_are_those_of_the_answers_group_within_the_tolerance() -> None:
    promise = Promise(0.2, by="topic", min_n=7)
    rule = fit_rule(VALUES, LABELS, CALIBRATING, promise, names=NAMES)
    assert rule.groups is not None
    queries = VALUES[BAD][:5] - 0.05
    for tolerance in (0.0, 0.1):
        expected = rule.groups.of("topic 1").p_value(queries, tolerance)
        assert rule.p_value(queries, ["topic 1"] * 5, tolerance).tolist() == expected.tolist()
    with pytest.raises(InputError, match="values"):
        rule.p_value(["a"], ["topic 1"])


def test_a_chosen_threshold_decides_in_place_of_the_calibrated_one() -> None:
    rule = Rule(calibrate_threshold(VALUES[BAD], Promise(0.2, undefined="pass")), chosen=1.0)
    queries = [0.5, 0.95, 1.0, 9.0, np.nan]
    assert rule.flags(queries).tolist() == [False, False, True, True, False]
    assert rule.flags(queries, tolerance=0.1).tolist() == [False, True, True, True, False]
