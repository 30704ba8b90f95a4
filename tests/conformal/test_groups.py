from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.conformal import GroupedCalibration, calibrate_groups, calibrate_threshold, minimum_n
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.options import Promise

CHECK = settings(max_examples=30, deadline=None)

#: Scores with their groups: large ones, small ones, ties.
EXAMPLES = st.lists(
    st.tuples(st.integers(-20, 20), st.sampled_from("aaaabbbcd")), min_size=20, max_size=80
)
ALPHAS = st.sampled_from([0.1, 0.2, 0.25, 0.4])


def _split(examples: list[tuple[int, str]]) -> tuple[np.ndarray[Any, Any], list[str]]:
    scores, groups = zip(*examples, strict=True)
    return np.array(scores, dtype=np.float64), list(groups)


@CHECK
@given(EXAMPLES, ALPHAS, st.sampled_from(["marginal", "paper"]), st.integers(1, 30))
def test_each_group_is_calibrated_on_its_own_members(
    examples: list[tuple[int, str]], alpha: float, guarantee: Any, min_n: int
) -> None:
    scores, groups = _split(examples)
    made = calibrate_groups(scores, groups, Promise(alpha, guarantee, by="group", min_n=min_n))
    least = max(min_n, minimum_n(alpha, guarantee))
    assert made.min_n == least
    sizes = {name: groups.count(name) for name in set(groups)}
    assert set(made.groups) == {name for name, size in sizes.items() if size >= least}
    assert dict(made.small) == {name: size for name, size in sizes.items() if size < least}
    for name, calibration in made.groups.items():
        own = scores[np.array(groups) == name]
        assert (
            calibration.to_dict() == calibrate_threshold(own, Promise(alpha, guarantee)).to_dict()
        )
    rest = scores[[name in made.small for name in groups]]
    source = rest if len(rest) >= least else scores
    assert made.scope == ("small groups" if len(rest) >= least else "all groups")
    assert (
        made.fallback.to_dict() == calibrate_threshold(source, Promise(alpha, guarantee)).to_dict()
    )


@CHECK
@given(EXAMPLES, ALPHAS, st.sampled_from([0.0, 1.0]))
def test_an_answer_is_judged_by_its_own_group_alone(
    examples: list[tuple[int, str]], alpha: float, tolerance: float
) -> None:
    scores, groups = _split(examples)
    made = calibrate_groups(scores, groups, Promise(alpha))
    queries = np.arange(-21.0, 22.0)
    names = [("a", "b", "c", "d", "never seen")[i % 5] for i in range(len(queries))]
    p, flagged = made.p_value(queries, names, tolerance), made.flags(queries, names, tolerance)
    for index, name in enumerate(names):
        own = made.groups.get(name, made.fallback)
        assert made.of(name) is own
        assert p[index] == own.p_value(queries[[index]], tolerance)[0]
        assert flagged[index] == own.flags(queries[[index]], tolerance)[0]
    assert np.array_equal(flagged, p > alpha)
    assert made.thresholds(names).tolist() == [made.of(name).threshold for name in names]


@CHECK
@given(EXAMPLES, ALPHAS, st.randoms())
def test_neither_order_nor_an_increasing_transform_matters(
    examples: list[tuple[int, str]], alpha: float, random: Any
) -> None:
    plain = calibrate_groups(*_split(examples), Promise(alpha))
    shuffled = list(examples)
    random.shuffle(shuffled)
    scores, groups = _split(shuffled)
    assert calibrate_groups(scores, groups, Promise(alpha)).to_dict() == plain.to_dict()
    other = calibrate_groups(np.exp(scores / 7.0), groups, Promise(alpha))
    queries, names = np.arange(-21.0, 22.0), ["a", "b", "x"] * 15
    expected = plain.p_value(queries, names[: len(queries)])
    found = other.p_value(np.exp(queries / 7.0), names[: len(queries)])
    assert np.array_equal(found, expected)


def test_each_group_keeps_the_promise_where_one_threshold_does_not() -> None:
    rng, runs, alpha = np.random.default_rng(3), 600, 0.1
    names = np.repeat(["easy", "hard"], [150, 50])
    missed = {"own": 0.0, "shared": 0.0}
    for _ in range(runs):
        scores = rng.normal(size=200) + 2.0 * (names == "easy")
        made = calibrate_groups(scores, names.tolist(), Promise(alpha))
        new = rng.normal(size=20)
        missed["own"] += float(np.mean(~made.flags(new, ["hard"] * 20)))
        missed["shared"] += float(np.mean(~calibrate_threshold(scores, Promise(alpha)).flags(new)))
    # A miss rate per run lies in [0, 1] with mean alpha: four (over-)estimated standard errors.
    assert missed["own"] / runs <= alpha + 4 * math.sqrt(alpha * (1 - alpha) / runs)
    assert missed["shared"] / runs > 0.3


def test_undefined_scores_follow_the_policy() -> None:
    scores = np.append(np.arange(58.0), [math.nan] * 2)
    for undefined, flagged in (("flag", True), ("review", True), ("pass", False)):
        made = calibrate_groups(scores, ["a"] * 30 + ["b"] * 30, Promise(0.2, undefined=undefined))  # type: ignore[arg-type]
        assert made.groups["b"].n_undefined == 2 and made.groups["a"].n_undefined == 0
        assert made.flags([math.nan] * 2, ["a", "x"]).tolist() == [flagged] * 2
        with pytest.raises(InputError, match="must not hold NaN"):
            made.p_value([math.nan], ["a"])


def test_too_few_examples_of_all_groups_name_the_minimum() -> None:
    with pytest.raises(TooFewExamplesError, match="at least 19 are needed") as caught:
        calibrate_groups(range(18), ["a"] * 18, Promise(0.05))
    assert caught.value.minimum_n == 19
    with pytest.raises(TooFewExamplesError):
        calibrate_groups([], [], Promise(0.05))
    accepted = calibrate_groups(range(18), ["a"] * 18, Promise(0.05, allow_flag_all=True))
    assert accepted.flags([-1e300], ["a"]).all() and not accepted.groups


def test_json_round_trip() -> None:
    scores = np.append(np.random.default_rng(1).normal(size=99), math.nan)
    groups = ["a"] * 60 + ["b"] * 37 + ["c"] * 3
    for made in (
        calibrate_groups(scores, groups, Promise(0.1)),
        calibrate_groups(scores, groups, Promise(0.1, "pac", 0.2, by="group", min_n=40)),
        calibrate_groups(scores, groups, Promise(0.005, allow_flag_all=True)),
    ):
        content = json.loads(json.dumps(made.to_dict(), allow_nan=False))
        again = GroupedCalibration.from_dict(content)
        assert again.to_dict() == made.to_dict()
        queries, names = [-1.0, 0.0, 1.0, math.nan], ["a", "b", "c", "x"]
        assert np.array_equal(again.flags(queries, names), made.flags(queries, names))


@pytest.mark.parametrize(("field", "value"), [("groups", {"a": {}}), ("fallback", {})])
def test_tampered_content_is_refused(field: str, value: Any) -> None:
    made = calibrate_groups(range(63), ["a"] * 30 + ["b"] * 30 + ["c"] * 3, Promise(0.1))
    content = json.loads(json.dumps(made.to_dict()))
    content[field] = value
    with pytest.raises(InputError):
        GroupedCalibration.from_dict(content)


@pytest.mark.parametrize("field", ["groups", "fallback", "scope", "small", "min_n"])
def test_a_missing_field_is_named(field: str) -> None:
    content = calibrate_groups(range(30), ["a"] * 30, Promise(0.1)).to_dict()
    del content[field]
    with pytest.raises(InputError, match=field):
        GroupedCalibration.from_dict(content)


@pytest.mark.parametrize("where", ["groups", "fallback"])
def test_a_changed_threshold_inside_is_refused(where: str) -> None:
    content = calibrate_groups(range(30), ["a"] * 30, Promise(0.1)).to_dict()
    part = content["groups"]["a"] if where == "groups" else content["fallback"]
    part["threshold"] += 1.0
    with pytest.raises(InputError, match="contradicts itself"):
        GroupedCalibration.from_dict(content)


@pytest.mark.parametrize("method", ["flags", "p_value"])
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a"], "groups must have 2 entries"),
        ([1, "a"], "groups must hold strings"),
        ([["a"], ["b"]], "groups must hold strings"),
        ("ab", "groups must"),
    ],
)
def test_bad_groups_of_answers_are_named(method: str, groups: Any, message: str) -> None:
    made = calibrate_groups(range(30), ["a"] * 30, Promise(0.1))
    with pytest.raises(InputError, match=message):
        getattr(made, method)([1.0, 2.0], groups)
