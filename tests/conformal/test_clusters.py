from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from calibrail.conformal import (
    ClusteredCalibration,
    calibrate_clusters,
    calibrate_threshold,
    group_thresholds,
    minimum_n,
)
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.options import Promise, Undefined

CHECK = settings(max_examples=30, deadline=None)

#: Scores with their clusters.
EXAMPLES = st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 12)), min_size=1, max_size=40)
BOTH: list[Any] = ["marginal", "pac"]
POLICIES: list[Any] = ["flag", "review", "pass"]
ALPHAS = st.sampled_from([0.05, 0.1, 0.2, 0.25, 0.3, 0.5])


def _split(examples: list[tuple[int, int]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    scores, clusters = np.array(examples).T
    return scores.astype(np.float64), clusters


def exact_p(examples: list[tuple[int, int]], value: float) -> Fraction:
    """Return (1 + sum over clusters of its share of scores <= value) / (K + 1)."""
    names = {cluster for _, cluster in examples}
    total = Fraction(1)
    for name in names:
        own = [score for score, cluster in examples if cluster == name]
        total += Fraction(sum(score <= value for score in own), len(own))
    return total / (len(names) + 1)


@CHECK
@given(EXAMPLES, ALPHAS)
def test_threshold_and_p_values_in_exact_fractions(
    examples: list[tuple[int, int]], alpha: float
) -> None:
    scores, clusters = _split(examples)
    made = calibrate_clusters(scores, clusters, Promise(alpha, allow_flag_all=True))
    assert made.n_clusters == len(set(clusters.tolist()))
    limit = Fraction(str(alpha))
    queries = np.arange(-10.0, 11.0)
    p = [exact_p(examples, value) for value in queries]
    assert made.p_value(queries) == pytest.approx([float(value) for value in p], abs=1e-12)
    assert made.flags(queries).tolist() == [value > limit for value in p]
    assert np.array_equal(made.flags(queries), made.p_value(queries) > alpha)
    if not made.flag_all:
        assert made.threshold == min(s for s in scores if exact_p(examples, s) > limit)


def test_the_p_value_is_the_mean_over_all_ways_to_draw_one_example_per_cluster() -> None:
    examples = [(0, 0), (4, 0), (2, 1), (1, 2), (3, 2), (3, 2), (9, 3)]
    scores, clusters = _split(examples)
    made = calibrate_clusters(scores, clusters, Promise(0.3))
    parts = [scores[clusters == name] for name in range(4)]
    for value in np.arange(-1.0, 11.0):
        draws = [
            (1 + sum(score <= value for score in drawn)) / 5 for drawn in itertools.product(*parts)
        ]
        assert made.p_value([value])[0] == pytest.approx(np.mean(draws))


@CHECK
@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=40),
    st.integers(1, 999),
    st.sampled_from(["flag", "review"]),
)
def test_clusters_of_one_are_plain_examples(
    scores: list[int], thousandths: int, undefined: Any
) -> None:
    alpha = thousandths / 1000
    found = calibrate_clusters(
        scores, np.arange(len(scores)), Promise(alpha, undefined=undefined, allow_flag_all=True)
    )
    expected = calibrate_threshold(scores, Promise(alpha, undefined=undefined, allow_flag_all=True))
    assert (found.threshold, found.flag_all) == (expected.threshold, expected.flag_all)
    queries = np.arange(-51.0, 52.0)
    assert found.p_value(queries) == pytest.approx(expected.p_value(queries), abs=1e-11)


def test_pac_is_the_highest_threshold_at_which_the_bet_still_wins() -> None:
    """Every threshold by the definition: the wealth of a fixed bet on each group's missed share."""
    rng, alpha, delta = np.random.default_rng(0), 0.2, 0.2
    clusters = rng.integers(0, 60, 400)
    values = rng.normal(size=400).round(1)
    made = calibrate_clusters(values, clusters, Promise(alpha, "pac", delta))
    names = np.unique(clusters)
    bet = np.sqrt(2 * np.log(1 / delta) / (len(names) * 0.6 * alpha * (1 - alpha)))
    assert bet < 0.95 / (1 - alpha)

    def wealth(threshold: float) -> float:
        missed = [np.mean(values[clusters == name] < threshold) for name in names]
        return float(np.prod(1 + bet * (alpha - np.array(missed))))

    winning = [value for value in np.unique(values) if wealth(value) >= 1 / delta]
    assert made.threshold == max(winning)
    assert made.n_clusters == len(names)
    assert np.sort(values)[made.rank - 1] == made.threshold


def test_the_fewest_clusters_that_can_promise_stake_everything_on_the_lowest_score() -> None:
    least = minimum_n(0.1, "pac", 0.1)
    made = calibrate_clusters(np.arange(least), np.arange(least), Promise(0.1, "pac", 0.1))
    assert (made.threshold, made.rank) == (0.0, 1)


@pytest.mark.parametrize("undefined", ["flag", "pass"])
def test_undefined_examples_are_caught_or_the_first_to_be_missed(undefined: Undefined) -> None:
    rng = np.random.default_rng(3)
    scores, clusters = rng.normal(size=300), np.arange(300) // 6
    gone = rng.random(300) < 0.02
    end = -np.inf if undefined == "pass" else np.inf
    promise = Promise(0.1, "pac", 0.1, undefined)
    made = calibrate_clusters(np.where(gone, np.nan, scores), clusters, promise)
    far = np.where(gone, -1e9 if undefined == "pass" else 1e9, scores)
    assert made.threshold == calibrate_clusters(far, clusters, promise).threshold
    assert np.sort(np.where(gone, end, scores))[made.rank - 1] == made.threshold


def test_clusters_keep_the_promise_where_the_naive_threshold_breaks_it() -> None:
    """Large clusters score high here, so counting examples hides the small ones."""
    rng, runs, alpha, size = np.random.default_rng(4), 1000, 0.1, 30
    missed = np.zeros((2, runs))
    for run in range(runs):
        large = rng.random(size + 1) < 0.5
        sizes = np.where(large, 12, 1)
        centres = np.where(large, 2.0, 0.0) + rng.normal(size=size + 1)
        clusters = np.repeat(np.arange(size), sizes[:size])
        scores = centres[clusters] + rng.normal(size=len(clusters))
        made = calibrate_clusters(scores, clusters, Promise(alpha))
        alone = calibrate_threshold(scores, Promise(alpha))
        new = centres[[size]] + rng.normal()
        missed[:, run] = ~made.flags(new)[0], ~alone.flags(new)[0]
    own, naive = missed.mean(axis=1)
    assert own <= alpha + 4 * math.sqrt(alpha * (1 - alpha) / runs)
    assert naive > alpha + 4 * math.sqrt(alpha * (1 - alpha) / runs)


@pytest.mark.parametrize("undefined", POLICIES)
def test_undefined_scores_weigh_as_the_policy_says(undefined: Any) -> None:
    scores = np.append(np.arange(57.0), [math.nan] * 3)
    # Of a few groups with many answers none is left out, so that no lot falls otherwise.
    clusters = np.append(np.arange(57) % 6, [0, 1, 1])
    stand_in = -1e9 if undefined == "pass" else 1e9
    filled = np.where(np.isnan(scores), stand_in, scores)
    for guarantee in BOTH:
        made = calibrate_clusters(scores, clusters, Promise(0.2, guarantee, 0.5, undefined))
        expected = calibrate_clusters(filled, clusters, Promise(0.2, guarantee, 0.5))
        assert made.threshold == expected.threshold and made.rank == expected.rank
        queries = np.arange(-1.0, 58.0)
        assert np.array_equal(made.p_value(queries), expected.p_value(queries))
        assert made.flags([math.nan]).tolist() == [undefined != "pass"]


def test_too_many_undefined_scores_are_an_error() -> None:
    scores, clusters = [math.nan] * 15 + [1.0] * 5, np.arange(20)
    for guarantee in BOTH:
        for policy in POLICIES:
            with pytest.raises(InputError, match="undefined"):
                calibrate_clusters(scores, clusters, Promise(0.7, guarantee, undefined=policy))


def test_too_few_clusters_name_the_minimum_however_many_examples_there_are() -> None:
    with pytest.raises(TooFewExamplesError, match=r"from 8 groups.*at least 9 groups") as caught:
        calibrate_clusters(range(800), np.arange(800) % 8, Promise(0.1))
    assert caught.value.minimum_n == 9
    with pytest.raises(TooFewExamplesError) as caught:
        calibrate_clusters(range(40), [7] * 40, Promise(0.1, "pac", 0.1))
    assert caught.value.minimum_n == minimum_n(0.1, "pac", 0.1)
    with pytest.raises(TooFewExamplesError):
        calibrate_clusters([], [], Promise(0.1))
    accepted = calibrate_clusters([1.0], [3], Promise(0.1, allow_flag_all=True))
    assert accepted.flag_all and accepted.flags([-1e300]).all()
    empty = calibrate_clusters([], [], Promise(0.1, allow_flag_all=True))
    assert empty.n_clusters == 0 and empty.p_value([1.0]).tolist() == [1.0]


def test_json_round_trip() -> None:
    rng = np.random.default_rng(1)
    scores, clusters = np.append(rng.normal(size=80), [math.nan] * 2), rng.integers(0, 40, 82)
    for made in (
        calibrate_clusters(scores, clusters, Promise(0.1)),
        calibrate_clusters(scores, clusters, Promise(0.2, "pac", 0.3, "pass")),
        calibrate_clusters(scores, clusters, Promise(0.001, allow_flag_all=True)),
    ):
        content = json.loads(json.dumps(made.to_dict(), allow_nan=False))
        again = ClusteredCalibration.from_dict(content)
        assert again.to_dict() == made.to_dict()
        queries = np.linspace(-3, 3, 30)
        assert np.array_equal(again.p_value(queries), made.p_value(queries))
        assert np.array_equal(again.flags(queries), made.flags(queries))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", 0.5),
        ("rank", 1),
        ("n", 61),
        ("alpha", 0.3),
        ("alpha", "0.2"),
        ("guarantee", "pac"),
        ("guarantee", "paper"),
        ("delta", 0.1),
        ("n_undefined", 1),
        ("n_undefined", -1),
        ("undefined", "x"),
        ("flag_all", True),
        ("scores", [2.0, 1.0] * 30),
        ("scores", 3),
        ("clusters", [0] * 60),
        ("clusters", [0.5] * 60),
        ("clusters", list(range(59))),
        ("clusters", None),
    ],
)
def test_tampered_content_is_refused_and_a_missing_field_is_named(field: str, value: Any) -> None:
    made = calibrate_clusters(np.arange(60.0), np.arange(60) // 2, Promise(0.2))
    content = json.loads(json.dumps(made.to_dict()))
    with pytest.raises(InputError):
        ClusteredCalibration.from_dict({**content, field: value})
    del content[field]
    with pytest.raises(InputError, match=field):
        ClusteredCalibration.from_dict(content)


def test_the_score_drawn_of_a_cluster_does_not_depend_on_its_rank() -> None:
    rng, runs, k = np.random.default_rng(8), 3000, 13
    clusters, low = np.repeat(np.arange(k), 2), 0
    for _ in range(runs):
        scores = rng.normal(size=2 * k)
        drawn = calibrate_clusters(scores, clusters, Promise(0.2)).one_per_cluster()
        assert len(drawn) == k and (drawn == drawn[0]).sum() == 1
        # The p-value of a new answer is 1 / 14.
        low += bool(rng.normal() < drawn.min())
    assert binom.ppf(0.001, runs, 1 / (k + 1)) <= low <= binom.ppf(0.999, runs, 1 / (k + 1))


def test_every_member_of_a_cluster_is_drawn_as_often_as_it_stands_there() -> None:
    runs, k = 200, 40
    rng, ones = np.random.default_rng(9), 0
    for _ in range(runs):
        # Three of four are equal: their place in the order must not make them one.
        scores = np.tile([0.0, 0.0, 0.0, 1.0], k) + np.repeat(rng.normal(size=k) * 10, 4).round(6)
        made = calibrate_clusters(scores, np.repeat(np.arange(k), 4), Promise(0.2))
        lowest = np.sort(scores.reshape(k, 4)[:, 0])
        ones += int(np.sum(~np.isin(made.one_per_cluster(), lowest)))
    assert binom.ppf(0.001, runs * k, 0.25) <= ones <= binom.ppf(0.999, runs * k, 0.25)


def test_the_p_values_are_prepared_once_for_every_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    made = calibrate_clusters(np.arange(40.0), np.arange(40) // 2, Promise(0.2))
    first = made.p_value([-1.0, 3.0, 50.0])
    # Were they summed up again for this, there would be other values.
    monkeypatch.setattr("calibrail.conformal.group_thresholds._ladder", lambda *_: np.zeros(41))
    assert made.p_value([-1.0, 3.0, 50.0]).tolist() == first.tolist() == [1 / 21, 3 / 21, 1.0]
    assert calibrate_clusters(
        np.arange(20.0), np.arange(20), Promise(0.2, guarantee="pac", delta=0.1)
    ).p_value([3.0]) == [0.0]


@pytest.mark.parametrize("undefined", POLICIES)
@pytest.mark.parametrize(("size", "by_lot"), [(1, True), (2, True), (3, True), (4, False)])
def test_pac_takes_the_rank_of_one_answer_a_group_where_groups_are_small(
    size: int, by_lot: bool, undefined: Undefined
) -> None:
    """The numbers of answers alone choose, and a file holds what was chosen."""
    rng = np.random.default_rng(size)
    scores, clusters = rng.normal(size=200 * size).round(1), np.arange(200 * size) // size
    scores[rng.random(len(scores)) < 0.02] = math.nan
    promise = Promise(0.1, "pac", 0.1, undefined)
    made = calibrate_clusters(scores, clusters, promise)
    assert made.by_lot is by_lot == calibrate_clusters(-scores, clusters, promise).by_lot
    assert ClusteredCalibration.from_dict(made.to_dict()).to_dict() == made.to_dict()
    assert ("by_lot" in made.to_dict()) is by_lot
    if by_lot:
        one = calibrate_threshold(made.one_per_cluster(), promise)
        assert made.threshold == one.threshold
        assert made.least_alpha(made.missed) == one.least_alpha(one.missed) <= 0.1
        # A file from before has no such field, and its threshold is that of the bet.
        old = {key: value for key, value in made.to_dict().items() if key != "by_lot"}
        if made.threshold != _by_bet(made, promise).threshold:
            with pytest.raises(InputError, match="contradicts itself"):
                ClusteredCalibration.from_dict(old)
    bet = _by_bet(made, promise)
    assert ClusteredCalibration.from_dict(bet.to_dict()).threshold == bet.threshold


def _by_bet(made: ClusteredCalibration, promise: Promise) -> ClusteredCalibration:
    """Calibrate as before there was a lot."""
    scores = np.append(made.scores, np.full(made.n_undefined, math.nan))
    return group_thresholds._calibrate_clusters(scores, made.clusters, promise, by_lot=False)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_the_lot_keeps_the_promise_and_flags_fewer(correlation: float) -> None:
    rng, runs, wrong, alarms = np.random.default_rng(7), 300, 0, np.zeros(2)
    promise = Promise(0.1, "pac", 0.1)
    for _ in range(runs):
        clusters = np.repeat(np.arange(60), rng.choice([1, 1, 2], 60))
        shared = rng.normal(0.0, math.sqrt(correlation), 60)[clusters]
        scores = shared + rng.normal(0.0, math.sqrt(1.0 - correlation), len(clusters))
        made = calibrate_clusters(scores, clusters, promise)
        wrong += bool(norm.cdf(made.threshold) > 0.1)
        edges = made.threshold, _by_bet(made, promise).threshold
        alarms += norm.sf(np.array(edges) + 2.0)
    assert wrong <= binom.ppf(1.0 - 1e-4, runs, 0.1)
    assert alarms[0] / runs < alarms[1] / runs - 0.03
