"""Does a rule hold exactly the thresholds that its promise calls for, from calibration alone?"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.conformal import (
    GUARANTEES,
    Calibration,
    Rule,
    calibrate_clusters,
    calibrate_groups,
    calibrate_threshold,
    fit_rule,
    least_withheld,
    minimum_n,
    three_way,
)
from calibrail.conformal.threshold_rule import upper_calibration
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.options import Promise

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
        "calibration": expected.to_dict(),
        "groups": None,
        "upper": None,
        "chosen": None,
    }
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


CHECK = settings(max_examples=40, deadline=None)

SCORES = st.lists(st.integers(-30, 30), min_size=19, max_size=60)
SHARES = st.sampled_from([0.05, 0.1, 0.2, 0.35])
QUERIES = np.arange(-31.0, 32.0)
PASS, REVIEW, FLAG = range(3)


def pass_below(rule: Rule) -> float:
    return rule.calibration.threshold


def upper(rule: Rule) -> Calibration:
    assert rule.upper is not None
    return rule.upper


def flag_above(rule: Rule) -> float:
    assert rule.flag_above == -upper(rule).threshold
    return max(rule.flag_above, pass_below(rule))


def needs_review(rule: Rule) -> bool:
    return -upper(rule).threshold >= pass_below(rule)


@CHECK
@given(SCORES, SCORES, SHARES, SHARES, st.sampled_from(["marginal", "paper"]))
def test_both_thresholds_are_one_sided_ones_of_their_own_class(
    hallucinated: list[int], faithful: list[int], alpha: float, beta: float, guarantee: Any
) -> None:
    made = three_way(hallucinated, faithful, Promise(alpha, guarantee, beta=beta))
    low = calibrate_threshold(hallucinated, Promise(alpha, guarantee))
    high = calibrate_threshold([-score for score in faithful], Promise(beta, guarantee))
    assert pass_below(made) == low.threshold
    assert needs_review(made) == (-high.threshold >= low.threshold)
    assert flag_above(made) == max(-high.threshold, low.threshold)
    expected = [
        PASS if score < low.threshold else FLAG if score > -high.threshold else REVIEW
        for score in QUERIES
    ]
    assert made.decide(QUERIES).tolist() == expected
    assert needs_review(made) or REVIEW not in expected


@CHECK
@given(SCORES, SCORES, SHARES, SHARES)
def test_the_calibration_examples_themselves_keep_both_shares(
    hallucinated: list[int], faithful: list[int], alpha: float, beta: float
) -> None:
    made = three_way(hallucinated, faithful, Promise(alpha, beta=beta))
    passed = np.count_nonzero(made.decide(hallucinated) == PASS)
    flagged = np.count_nonzero(made.decide(faithful) == FLAG)
    assert passed <= alpha * (len(hallucinated) + 1) and flagged <= beta * (len(faithful) + 1)


@CHECK
@given(SCORES, SCORES, st.sampled_from([0.0, 1.0, 2.5]))
def test_decisions_rise_with_the_score_and_near_ties_go_to_review(
    hallucinated: list[int], faithful: list[int], tolerance: float
) -> None:
    made = three_way(hallucinated, faithful, Promise(0.1, beta=0.1))
    codes, exact = made.decide(QUERIES, tolerance), made.decide(QUERIES)
    assert (np.diff(codes) >= 0).all() and (np.diff(exact) >= 0).all()
    changed = codes != exact
    near_low = np.abs(QUERIES - pass_below(made)) <= tolerance
    near_high = np.abs(QUERIES + upper(made).threshold) <= tolerance
    assert (near_low | near_high)[changed].all()
    if needs_review(made):
        assert (codes[changed] == REVIEW).all()


def test_simulated_shares_of_both_classes_keep_to_the_promises() -> None:
    rng, runs, alpha, beta = np.random.default_rng(2), 3000, 0.1, 0.2
    wrong = np.zeros(2)
    for _ in range(runs):
        made = three_way(
            rng.normal(1.0, 1.0, 30), rng.normal(0.0, 1.0, 24), Promise(alpha, beta=beta)
        )
        wrong[0] += made.decide(rng.normal(1.0, 1.0, 1))[0] == PASS
        wrong[1] += made.decide(rng.normal(0.0, 1.0, 1))[0] == FLAG
    for share, promised in zip(wrong / runs, (alpha, beta), strict=True):
        assert share <= promised + 4 * math.sqrt(promised * (1 - promised) / runs)
        assert share >= promised / 2


@pytest.mark.parametrize(
    ("undefined", "code"), [("flag", FLAG), ("review", REVIEW), ("pass", PASS)]
)
def test_undefined_scores_follow_the_policy_and_count_against_the_right_side(
    undefined: Any, code: int
) -> None:
    bad, good = [*range(40, 98), math.nan, math.nan], [*range(58), math.nan, math.nan]
    made = three_way(bad, good, Promise(0.1, undefined=undefined, beta=0.1))
    assert made.decide([math.nan, 0.0, 200.0]).tolist() == [code, PASS, FLAG]
    # k = 6 of 60: two of the passed or flagged places are taken by the undefined ones.
    assert pass_below(made) == (43.0 if undefined == "pass" else 45.0)
    assert -upper(made).threshold == (54.0 if undefined == "flag" else 52.0)


def test_a_detector_that_separates_needs_no_review_and_a_constant_one_reviews_all() -> None:
    apart = three_way(range(100, 200), range(100), Promise(0.1, beta=0.1))
    assert not needs_review(apart) and REVIEW not in apart.decide(np.arange(200.0))
    constant = three_way([5.0] * 30, [5.0] * 30, Promise(0.1, beta=0.1))
    assert needs_review(constant) and constant.decide([4.9, 5.0, 5.1]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_too_few_of_either_class_name_the_minimum(guarantee: Any) -> None:
    least = minimum_n(0.1, guarantee, 0.1)
    enough, few = np.arange(float(least)), np.arange(float(least - 1))
    three_way(enough, enough, Promise(0.1, guarantee, 0.1, beta=0.1))
    for classes, name in (((few, enough), "hallucinated"), ((enough, few), "faithful")):
        with pytest.raises(TooFewExamplesError, match=f"{least - 1} {name}") as caught:
            three_way(*classes, Promise(0.1, guarantee, 0.1, beta=0.1))
        assert caught.value.minimum_n == least


def test_json_round_trip() -> None:
    rng = np.random.default_rng(3)
    bad, good = rng.normal(1.0, 1.0, 90), np.append(rng.normal(size=80), math.nan)
    for made in (
        three_way(bad, good, Promise(0.1, beta=0.2)),
        three_way(bad, good, Promise(0.1, "pac", 0.05, "flag", beta=0.2)),
        three_way(bad, good, Promise(0.1, undefined="pass", beta=0.2)),
    ):
        again = Rule.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False)))
        assert again.to_dict() == made.to_dict()
        queries = np.append(np.linspace(-3, 4, 30), math.nan)
        assert np.array_equal(again.decide(queries), made.decide(queries))


@pytest.mark.parametrize("side", ["calibration", "upper"])
@pytest.mark.parametrize(
    ("field", "value"), [("threshold", 0.5), ("rank", 1), ("alpha", 0.3), ("scores", [1.0])]
)
def test_tampered_content_is_refused(side: str, field: str, value: Any) -> None:
    content = three_way(range(30), range(40), Promise(0.1, beta=0.1)).to_dict()
    content[side][field] = value
    with pytest.raises(InputError):
        Rule.from_dict(content)


@pytest.mark.parametrize("content", [{}, {"calibration": None}])
def test_a_missing_threshold_is_named(content: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"calibration|NoneType"):
        Rule.from_dict(content)


@CHECK
@given(st.integers(0, 100), st.integers(1, 99))
def test_an_ideal_detector_withholds_exactly_the_least(base: int, percent: int) -> None:
    """Release all faithful answers, and hallucinated ones until they make up the share."""
    rate, share = base / 100, percent / 100
    released_bad = min(rate, (1 - rate) * share / (1 - share))
    assert least_withheld(rate, share) == pytest.approx(rate - released_bad, abs=1e-12)
    assert 0.0 <= least_withheld(rate, share) <= rate
    assert least_withheld(rate, share) <= least_withheld(min(1.0, rate + 0.05), share)
