"""Do splits keep groups whole and meet their shares?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from calibrail.data.splits import (
    CALIBRATION,
    FIT,
    TEST,
    group_numbers,
    split,
    split_from_column,
    straddling_groups,
)
from calibrail.errors import DataError, InputError
from tests.memory import peak_bytes
from tests.steps import grows_with


def _share(codes: np.ndarray, labels: np.ndarray, code: int, label: int) -> float:
    return float(np.mean(codes[labels == label] == code))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.one_of(st.none(), st.integers(0, 12).map(str))),
        min_size=1,
        max_size=120,
    ),
    st.integers(0, 2**32),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_no_group_is_torn_and_no_side_without_a_share_gets_any(
    rows: list[tuple[int, str | None]], seed: int, one: float, two: float
) -> None:
    labels = np.array([label for label, _ in rows])
    groups = [group for _, group in rows]
    calibration, fit = (one, two) if one + two <= 1 else (1 - one, 1 - two)
    codes = split(labels, groups, seed=seed, calibration_share=calibration, fit_share=fit)
    assert codes.dtype == np.int8 and codes.shape == labels.shape
    assert straddling_groups(codes, groups) == []
    again = split(labels, groups, seed=seed, calibration_share=calibration, fit_share=fit)
    assert (codes == again).all()
    shares = (fit, calibration, max(0.0, 1 - fit - calibration))
    for code, share in zip((FIT, CALIBRATION, TEST), shares, strict=True):
        if share == 0:
            assert not (codes == code).any()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 1), min_size=1, max_size=300), st.sampled_from([0.3, 0.5, 0.7]))
def test_ungrouped_examples_are_split_class_by_class(labels: list[int], share: float) -> None:
    classes = np.array(labels)
    codes = split(classes, calibration_share=share)
    for label in (0, 1):
        n = int((classes == label).sum())
        assert abs(((codes == CALIBRATION) & (classes == label)).sum() - share * n) < 1


def test_pairs_are_split_exactly_in_half() -> None:
    labels = np.tile([0, 1], 500)
    groups = [str(i // 2) for i in range(1000)]
    codes = split(labels, groups)
    assert (codes == CALIBRATION).sum() == 500
    assert _share(codes, labels, CALIBRATION, 1) == 0.5


def test_groups_of_each_stratum_meet_their_shares_whatever_their_sizes() -> None:
    rng = np.random.default_rng(5)
    numbers = np.repeat(np.arange(400), rng.integers(1, 90, 400))
    labels = (rng.random(numbers.size) < 0.02).astype(int)
    codes = split(labels, [str(g) for g in numbers], calibration_share=0.4, fit_share=0.2, seed=9)
    side = codes[np.unique(numbers, return_index=True)[1]]
    hallucinated = np.bincount(numbers, labels) > 0
    for stratum in (side[hallucinated], side[~hallucinated]):
        for code, share in ((FIT, 0.2), (CALIBRATION, 0.4), (TEST, 0.4)):
            assert abs((stratum == code).sum() - share * len(stratum)) < 1


def test_the_lot_knows_nothing_of_the_size_of_a_group() -> None:
    # 21 groups, of which the largest alone has a row in three.
    sizes = np.array([20] + [2] * 20)
    groups, labels = np.repeat(np.arange(21), sizes), np.ones(60, dtype=int)
    drawn = np.stack([split(labels, groups, seed=seed) for seed in range(2000)])
    side = (drawn == CALIBRATION)[:, np.cumsum(sizes) - 1]
    assert (side.sum(axis=1) == 11).all()
    # Each is Binomial(2000, 11/21): outside these limits with probability 1e-5 for all together.
    least, most = binom.interval(1 - 1e-5 / 21, 2000, 11 / 21)
    assert ((side.sum(axis=0) >= least) & (side.sum(axis=0) <= most)).all()
    # Neither do two groups attract one another.
    together = side[:, 0] & side[:, 1]
    least, most = binom.interval(1 - 1e-5, 2000, 11 / 21 * 10 / 20)
    assert least <= together.sum() <= most


def test_rows_in_another_order_are_on_the_same_sides() -> None:
    rng = np.random.default_rng(2)
    numbers, labels = rng.integers(0, 90, 300), rng.integers(0, 2, 300)
    names = [f"group {number}" if number % 3 else None for number in numbers]
    ids = [f"id {i}" for i in range(300)]
    order = rng.permutation(300)
    mixed, named = [names[i] for i in order], [ids[i] for i in order]
    for groups, shuffled in ((names, mixed), (numbers, numbers[order]), (None, None)):
        codes = split(labels, groups, ids=ids, seed=3)
        assert (split(labels[order], shuffled, ids=named, seed=3) == codes[order]).all()
    whole = [f"group {number}" for number in numbers]
    codes = split(labels, whole, seed=3)
    assert (split(labels[order], [whole[i] for i in order], seed=3) == codes[order]).all()
    assert (split(labels, [name.upper() for name in whole], seed=3) != codes).any()


def test_seeds_differ_and_every_example_can_land_on_each_side() -> None:
    labels = np.tile([0, 1], 20)
    drawn = np.stack([split(labels, seed=seed) for seed in range(200)])
    means = (drawn == CALIBRATION).mean(axis=0)
    # Each is Binomial(200, 1/2): five standard errors are 0.18.
    assert (abs(means - 0.5) < 0.18).all()


def test_none_is_a_group_of_its_own() -> None:
    assert group_numbers([None, "a", None, "a"], 4).tolist() == [0, 1, 2, 1]
    assert group_numbers(None, 3).tolist() == [0, 1, 2]
    assert group_numbers(np.array([7, 3, 7]), 3).tolist() == [0, 1, 0]
    assert split([], []).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [0], "seed": -1}, "seed must be a whole number >= 0; got -1"),
        ({"labels": [0], "seed": 0.5}, "seed must be a whole number >= 0; got 0.5"),
        ({"labels": [0], "calibration_share": 1.3}, r"must lie in \[0, 1\]; got 1.3"),
        ({"labels": [0], "fit_share": float("nan")}, "fit_share must lie in"),
        ({"labels": [0], "fit_share": 0.6}, "add up to at most 1; got 0.5 \\+ 0.6"),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(**arguments)


def test_a_users_own_split() -> None:
    values = ["fit", " Calibration", "TEST", "test"]
    codes = split_from_column(values, ["a", "b", "c", "c"])
    assert codes.tolist() == [FIT, CALIBRATION, TEST, TEST]
    with pytest.raises(DataError, match=r"column 'part' must say .*row 2 says 'train'"):
        split_from_column(["fit", "train"], column="part")
    with pytest.raises(DataError, match="row 1 says nothing"):
        split_from_column([None])
    with pytest.raises(DataError, match=r"row 1 says 1\.0"):
        split_from_column([1.0])
    with pytest.raises(DataError, match=r"group 'b' on several sides \(calibration, test\)"):
        split_from_column(["fit", "calibration", "test"], ["a", "b", "b"])


def test_steps_grow_no_faster_than_the_rows() -> None:
    def rows(n: int) -> tuple[list[int], list[str]]:
        rng = np.random.default_rng(0)
        groups = [str(group) for group in rng.integers(0, 30 * n, 100 * n)]
        return (rng.random(100 * n) < 0.3).astype(int).tolist(), groups

    assert grows_with(lambda made: split(*made), rows)


def test_a_million_examples_that_stand_alone_are_split_in_fifty_megabytes() -> None:
    rng = np.random.default_rng(0)
    n = 50_000
    labels, ids = rng.integers(0, 2, n, dtype=np.int8), rng.integers(0, 2**63, n)
    assert peak_bytes(lambda: split(labels, np.arange(n), ids=ids)) < 50 * n


def test_groups_are_numbered_in_order_of_appearance_whatever_their_numbers() -> None:
    for groups in ([2, 5, 9], [5, 2, 9], [2, 5, 5], [], [-1, 0, 0], [4]):
        expected = group_numbers([str(group) for group in groups], len(groups))
        given = group_numbers(np.array(groups, dtype=np.int64), len(groups))
        assert given.tolist() == expected.tolist()
