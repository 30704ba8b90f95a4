"""Do splits keep groups whole and meet their shares?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
def test_no_group_is_torn_and_shares_are_met_as_closely_as_groups_allow(
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
def test_ungrouped_examples_meet_each_share_within_two(labels: list[int], share: float) -> None:
    # At most one group a side is left over in each of the two strata.
    classes = np.array(labels)
    codes = split(classes, calibration_share=share)
    for label in (0, 1):
        n = int((classes == label).sum())
        assert abs(((codes == CALIBRATION) & (classes == label)).sum() - share * n) <= 2


def test_pairs_are_split_exactly_in_half() -> None:
    labels = np.tile([0, 1], 500)
    groups = [str(i // 2) for i in range(1000)]
    codes = split(labels, groups)
    assert (codes == CALIBRATION).sum() == 500
    assert _share(codes, labels, CALIBRATION, 1) == 0.5


def test_uneven_groups_meet_shares_of_both_classes() -> None:
    rng = np.random.default_rng(5)
    numbers = np.repeat(np.arange(400), rng.integers(1, 9, 400))
    labels = (rng.random(numbers.size) < 0.2).astype(int)
    codes = split(labels, [str(g) for g in numbers], calibration_share=0.4, fit_share=0.2, seed=9)
    for label in (0, 1):
        for code, share in ((FIT, 0.2), (CALIBRATION, 0.4), (TEST, 0.4)):
            # No group holds more than 8 examples, so that no class misses its share by more.
            n = (labels == label).sum()
            assert abs(_share(codes, labels, code, label) - share) <= 8 / n


def test_numbers_and_names_of_groups_give_the_same_split() -> None:
    rng = np.random.default_rng(2)
    numbers, labels = rng.integers(0, 90, 300), rng.integers(0, 2, 300)
    names = [f"group {number}" for number in numbers]
    assert (split(labels, numbers, seed=3) == split(labels, names, seed=3)).all()


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
        ({"labels": [0, 2]}, "labels must be 0 or 1 to split by class; got 2"),
        ({"labels": [[0]]}, "one dimension"),
        ({"labels": [0, 1], "groups": ["a"]}, r"one entry a label \(2\); got 1"),
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
    with pytest.raises(DataError, match=r"column 'part' must say .*example 2 says 'train'"):
        split_from_column(["fit", "train"], column="part")
    with pytest.raises(DataError, match="example 1 says nothing"):
        split_from_column([None])
    with pytest.raises(DataError, match=r"example 1 says 1\.0"):
        split_from_column([1.0])
    with pytest.raises(DataError, match=r"group 'b' on several sides \(calibration, test\)"):
        split_from_column(["fit", "calibration", "test"], ["a", "b", "b"])
    with pytest.raises(InputError, match="one entry a label \\(2\\); got 1"):
        split_from_column(["fit", "test"], ["a"])


def test_steps_grow_no_faster_than_the_rows() -> None:
    def rows(n: int) -> tuple[list[int], list[str]]:
        rng = np.random.default_rng(0)
        groups = [str(group) for group in rng.integers(0, 30 * n, 100 * n)]
        return (rng.random(100 * n) < 0.3).astype(int).tolist(), groups

    assert grows_with(lambda made: split(*made), rows)
