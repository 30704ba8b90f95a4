"""Does the section on a three-way decision count what passes, is reviewed and is flagged?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calibrail.conformal import calibrate_groups, exact_bound
from calibrail.conformal.threshold_rule import Rule, upper_calibration
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.sections import three_way_review
from calibrail.options import Promise

HALLUCINATED, FAITHFUL = np.arange(10.0, 110.0), np.arange(-60.0, 40.0)
GROUPED = calibrate_groups(HALLUCINATED, ["a", "b"] * 50, Promise(0.1))
RULE = Rule(
    GROUPED.fallback, upper=upper_calibration(FAITHFUL, Promise(beta=0.2, undefined="review"))
)


def review(rule: Rule, groups: list[str] | None = None) -> dict[str, object]:
    """Three answers of each class in the test part, one in the calibration part."""
    values = np.array([-50.0, 19.5, 90.0, 90.0, -50.0, 19.5, 90.0, -50.0])
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.int8)
    codes = np.array([2, 2, 2, 1, 2, 2, 2, 1], dtype=np.int8)
    return three_way_review(rule, groups, Sample(values, labels, codes), 0.9)


def test_each_class_is_counted_by_decision_on_the_test_part() -> None:
    # The 10th smallest of 100 hallucinated scores, and of 100 faithful ones the 20th from above.
    assert (RULE.calibration.threshold, RULE.flag_above) == (19.0, 20.0)
    section = review(RULE)
    once = {"pass": 1, "review": 1, "flag": 1}
    assert section["counts"] == {"hallucinated": once, "faithful": once}
    assert (section["pass_below"], section["flag_above"]) == (19.0, 20.0)
    assert section["needs_review"] is True
    assert (section["alpha"], section["beta"]) == (0.1, 0.2)
    assert section["missed"] == section["blocked"] == exact_bound(1, 3, 0.9).to_dict()
    shares = ("review", "released_hallucinated", "withheld")
    counted = [(section[name]["count"], section[name]["n"]) for name in shares]
    assert counted == [(2, 6), (1, 2), (4, 6)]
    assert section["base_rate"] == 0.5
    assert section["shown"] == {"pass": "open", "flag": "open"}


def test_shares_of_both_classes_count_one_answer_of_a_group() -> None:
    """Ten questions have an answer of either class, and pass both or neither."""
    values, labels = np.tile(np.repeat([0.0, 50.0], 5), 2), np.repeat(np.array([1, 0], np.int8), 10)
    split, groups = np.full(20, 2, np.int8), np.tile(np.arange(10), 2)
    section = three_way_review(RULE, None, Sample(values, labels, split, groups), 0.9)
    assert section["missed"]["n"] == section["blocked"]["n"] == 10
    assert (section["withheld"]["count"], section["withheld"]["n"]) == (5, 10)


def test_thresholds_by_group_are_said_to_be_by_group() -> None:
    assert review(RULE)["by_group"] is False
    assert review(replace(RULE, groups=GROUPED), ["a", "b"] * 4)["by_group"] is True


@pytest.mark.parametrize(("passed", "shown"), [(0, "within"), (10, "open"), (60, "exceeded")])
def test_what_the_test_part_shows_of_a_promise(passed: int, shown: str) -> None:
    values = np.where(np.arange(100) < passed, 0.0, 50.0)
    hallucinated, test = np.ones(100, dtype=np.int8), np.full(100, 2, dtype=np.int8)
    section = three_way_review(RULE, None, Sample(values, hallucinated, test), 0.9)
    assert section["shown"] == {"pass": shown, "flag": "open"}
