"""Does the promise hold in every one of several overlapping groups, exactly?"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from calibrail.conformal import (
    OverlappingCalibration,
    Rule,
    calibrate_groups,
    calibrate_overlapping,
    fit_rule,
    overlapping_groups,
)
from calibrail.conformal.group_thresholds import joined
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.options import Promise

CHECK = settings(max_examples=10, deadline=None)
BY = ("model", "topic")

#: Answers: a score, NaN among them, a model and a topic; few enough that some groups are small.
ANSWERS = st.lists(
    st.tuples(
        st.sampled_from([*map(float, range(-4, 5)), math.nan]),
        st.sampled_from("aaaabbbc"),
        st.sampled_from("xxxyyz"),
    ),
    min_size=14,
    max_size=26,
)


def _parts(answers: list[Any]) -> tuple[Any, list[str]]:
    return np.array([row[0] for row in answers]), [joined(row[1:]) for row in answers]


@settings(max_examples=10, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(ANSWERS, st.sampled_from([0.2, 0.25]), st.sampled_from(["flag", "pass"]))
def test_each_of_a_pool_in_turn_is_missed_alpha_of_the_time_at_most(
    answers: list[Any], alpha: float, undefined: Any
) -> None:
    # What exchangeability means: of all answers of a pool each is the new one equally often.
    # So this is the theorem itself, without any chance, ties and small groups included.
    promise = Promise(alpha, undefined=undefined, by=BY, allow_flag_all=True)
    scores, keys = _parts(answers)
    least = {0.2: 4, 0.25: 3}[alpha]
    sizes = [Counter(row[1 + column] for row in answers) for column in range(2)]
    missed: dict[tuple[int, str], list[bool]] = {}
    for place, (_, *names) in enumerate(answers):
        rest = np.arange(len(answers)) != place
        others = [keys[row] for row in np.flatnonzero(rest)]
        with pytest.MonkeyPatch.context() as patch:
            # Only alpha decides here, and each further level is a program for every vector.
            patch.setattr(overlapping_groups, "_LEVELS", ())
            made = calibrate_overlapping(scores[rest], others, promise)
        key = keys[place : place + 1]
        for column, name in enumerate(names):
            # All answers of a value count, whatever their group of the other column.
            if sizes[column][name] > least:
                assert made.has_promise(column, name) and made.is_covered(key)[0]
                flagged = made.flags(scores[place : place + 1], key)[0]
                missed.setdefault((column, name), []).append(not flagged)
    for wrong in missed.values():
        assert np.sum(wrong) <= alpha * len(wrong) + 1e-9


@CHECK
@given(ANSWERS, st.sampled_from([0.1, 0.2]))
def test_a_second_column_that_says_nothing_leaves_mondrian(
    answers: list[Any], alpha: float
) -> None:
    scores, _ = _parts(answers)
    scores = np.where(np.isnan(scores), 0.0, scores)
    models = [row[1] for row in answers]
    one = calibrate_groups(scores, models, Promise(alpha, by="model", allow_flag_all=True))
    promise = Promise(alpha, by=BY, allow_flag_all=True)
    made = calibrate_overlapping(scores, [joined([name, "all"]) for name in models], promise)
    # A group that just has enough is small beside another one's new answer; the rest agree.
    for name, calibration in one.groups.items():
        assert made.thresholds([joined([name, "all"])])[0] == calibration.threshold
    assert made.min_n == one.min_n and made.small[0] == one.small


@CHECK
@given(ANSWERS, st.randoms(use_true_random=False), st.sampled_from([0.25, 4.0]))
def test_order_does_not_matter_and_thresholds_move_with_the_scores(
    answers: list[Any], random: Any, scale: float
) -> None:
    promise = Promise(0.2, by=BY, allow_flag_all=True)
    scores, keys = _parts(answers)
    made = calibrate_overlapping(scores, keys, promise)
    order = list(range(len(keys)))
    random.shuffle(order)
    again = calibrate_overlapping(scores[order], [keys[row] for row in order], promise)
    assert np.allclose(made.thresholds_, again.thresholds_, rtol=0.0, atol=1e-7)
    moved = calibrate_overlapping(scale * scores + 3.0, keys, promise)
    assert np.allclose(scale * made.thresholds_ + 3.0, moved.thresholds_, rtol=0.0, atol=1e-6)


@CHECK
@given(ANSWERS)
def test_a_p_value_is_at_most_alpha_where_an_answer_passes_and_nowhere_else(
    answers: list[Any],
) -> None:
    scores, keys = _parts(answers)
    made = calibrate_overlapping(scores, keys, Promise(0.15, by=BY, allow_flag_all=True))
    values = np.linspace(-6.0, 6.0, len(keys))
    passed = ~made.flags(values, keys, 0.25)
    p = made.p_value(values, keys, 0.25)
    assert ((p <= 0.15) == passed).all()
    assert set(p.tolist()) <= {*made.levels, 1.0}


def _two_columns(n: int = 400) -> tuple[Any, list[str]]:
    rng = np.random.default_rng(2)
    models, topics = rng.choice(["a", "b"], n), rng.choice(["x", "y", "z"], n)
    scores = rng.normal(size=n) + 2.0 * (models == "b") - (topics == "z")
    return scores, [joined(pair) for pair in zip(models.tolist(), topics.tolist(), strict=True)]


def test_it_comes_back_from_json_as_it_was() -> None:
    scores, keys = _two_columns()
    made = fit_rule(
        scores, np.ones(400, np.int8), np.full(400, True), Promise(0.1, by=BY), names=keys
    )
    again = Rule.from_dict(json.loads(json.dumps(made.to_dict())))
    assert isinstance(again.groups, OverlappingCalibration)
    new = [*sorted(set(keys)), joined([None, "x"]), joined(["a", None]), ""]
    assert again.thresholds(len(new), new).tolist() == made.thresholds(len(new), new).tolist()
    assert again.to_dict() == made.to_dict()


@pytest.mark.parametrize("undefined", ["flag", "pass"])
def test_an_answer_of_a_kept_group_is_flagged_where_its_other_group_is_unknown(
    undefined: Any,
) -> None:
    scores, keys = _two_columns()
    rare = [joined(["a", f"rare {row}"]) for row in range(5)]
    made = calibrate_overlapping(
        np.append(scores, np.full(5, -9.0)), keys + rare, Promise(0.1, undefined=undefined, by=BY)
    )
    strange = [joined(["new", "x"]), joined(["a", "new"]), rare[0]]
    assert made.is_covered(strange).all()
    assert set(made.thresholds(strange).tolist()) == {-math.inf}
    assert made.flags([9.0, math.nan, -9.0], strange).all()
    # It has no group whose promise it could break.
    unknown = [joined(["new", "new"]), ""]
    assert not made.is_covered(unknown).any()
    assert set(made.thresholds(unknown).tolist()) == {made.fallback.threshold}
    assert made.flags([math.nan], unknown[:1])[0] == (undefined == "flag")
    assert made.known(joined(["a", "secret text"])) == joined(["a", None])


def test_small_groups_of_a_column_that_are_enough_together_are_one_group() -> None:
    scores, keys = _two_columns()
    few = [joined([f"rare {row % 10}", "x"]) for row in range(40)]
    made = calibrate_overlapping(np.append(scores, np.zeros(40)), keys + few, Promise(0.1, by=BY))
    assert "rare 1" in made.small[0] and made.values[0] == ("a", "b")
    # All of theirs are zero.
    assert made.is_covered([joined(["rare 1", "x"]), joined(["never seen", "x"])]).all()
    assert made.thresholds([joined(["rare 1", "x"])])[0] == pytest.approx(0.0, abs=1e-6)


def test_the_hard_group_is_kept_where_one_threshold_for_all_breaks() -> None:
    rng = np.random.default_rng(8)
    n = 4000
    models, topics = rng.choice(["easy", "hard"], n, p=[0.9, 0.1]), rng.choice(["x", "y"], n)
    shift = -2.0 * (models == "hard") - 0.5 * (topics == "y")
    scores = rng.normal(size=n) + shift
    keys = [joined(pair) for pair in zip(models.tolist(), topics.tolist(), strict=True)]
    half = n // 2
    made = calibrate_overlapping(scores[:half], keys[:half], Promise(0.1, by=BY))
    hard = models[half:] == "hard"
    shared = scores[half:][hard] < made.fallback.threshold
    own = ~made.flags(scores[half:], keys[half:])[hard]
    # Both over about 200 hard answers, of which a tenth may be missed; four deviations.
    assert shared.mean() > 0.4 > 0.1 + 4.0 * math.sqrt(0.09 / hard.sum()) > own.mean()


@pytest.mark.parametrize(
    ("damage", "what"),
    [({"more": 1}, "unknown field"), ({"covered": 3, "thresholds": 3}, "damaged")],
)
def test_what_is_no_calibration_is_refused(damage: dict[str, Any], what: str) -> None:
    made = calibrate_overlapping(*_two_columns(), Promise(0.1, by=BY))
    with pytest.raises(InputError, match=what):
        OverlappingCalibration.from_dict({**made.to_dict(), **damage})


def test_what_cannot_be_calibrated_is_said() -> None:
    scores, keys = _two_columns()
    with pytest.raises(TooFewExamplesError, match="at least 9 are needed"):
        calibrate_overlapping(scores[:5], keys[:5], Promise(0.1, by=BY))
    with pytest.raises(InputError, match="by must name several columns"):
        calibrate_overlapping(scores, keys, Promise(0.1, by="model"))
    with pytest.raises(InputError, match="one group a column"):
        calibrate_overlapping(scores, ["a"] * 400, Promise(0.1, by=BY))
    many = [joined([str(row % 80), str(row % 79)]) for row in range(4000)]
    with pytest.raises(InputError, match="6,480 combinations"):
        calibrate_overlapping(np.arange(4000.0), many, Promise(0.1, by=BY))
