from __future__ import annotations

import itertools
import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.conformal import (
    ClassCounts,
    calibrate_threshold,
    certify_groups,
    clopper_pearson,
    coverage_band,
    rank,
)
from calibrail.conformal.certificate import joint_flip_tolerance
from calibrail.options import Promise, Requirement
from tests.conformal.counted import certify, tolerance

CHECK = settings(max_examples=40, deadline=None)

#: Caught, missed, false alarms and passed faithful answers.
CELLS = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))


def holds(cells: tuple[int, ...], required: float, limit: float, level: float) -> bool:
    caught, missed, alarms, passed = cells
    coverage, _ = clopper_pearson(caught, caught + missed, level)
    _, fpr = clopper_pearson(alarms, alarms + passed, level)
    return coverage >= required and fpr <= limit


def by_trying(cells: tuple[int, ...], required: float, limit: float, level: float) -> int | None:
    """Return the most flips of any kind, in any mixture, that no certificate falls to.

    A flip moves one example between caught and false alarms, or between missed and passed.
    """
    caught, missed, alarms, passed = cells
    broken_by = math.inf
    for out, back, hide, show in itertools.product(
        range(caught + 1), range(alarms + 1), range(passed + 1), range(missed + 1)
    ):
        flips = out + back + hide + show
        if flips < broken_by:
            moved = (
                caught - out + back,
                missed + hide - show,
                alarms + out - back,
                passed - hide + show,
            )
            if not holds(moved, required, limit, level):
                broken_by = flips
    return None if broken_by == 0 else int(min(broken_by - 1, sum(cells)))


@CHECK
@given(
    CELLS,
    st.sampled_from([0.05, 0.3, 0.5, 0.6, 0.8]),
    st.sampled_from([0.2, 0.4, 0.5, 0.7, 0.95]),
    st.sampled_from([0.2, 0.6, 0.9]),
)
def test_the_tolerance_is_that_of_every_mixture_of_flips(
    cells: tuple[int, ...], required: float, limit: float, level: float
) -> None:
    caught, missed, alarms, passed = cells
    # Each end of a two-sided interval at this level errs with 1 - one.
    one = (1.0 + level) / 2.0
    found = tolerance(caught, caught + missed, alarms, alarms + passed, required, limit, one)
    assert (None if found is None else found.flips) == by_trying(cells, required, limit, level)


@pytest.mark.parametrize("cells", [(12, 0, 0, 12), (14, 1, 1, 13), (14, 3, 0, 15), (30, 2, 1, 30)])
@pytest.mark.parametrize(("required", "limit"), [(0.55, 0.45), (0.3, 0.6), (0.5, 0.5)])
def test_larger_tables_against_the_harmful_flips(
    cells: tuple[int, ...], required: float, limit: float
) -> None:
    """Only flips that hurt one requirement need a look: the others cannot break it sooner."""
    caught, missed, alarms, passed = cells
    broken_by = math.inf
    for out, hide in itertools.product(range(caught + 1), range(passed + 1)):
        coverage, _ = clopper_pearson(caught - out, caught - out + missed + hide, 0.8)
        _, fpr = clopper_pearson(alarms + out, alarms + out + passed - hide, 0.8)
        if coverage < required or fpr > limit:
            broken_by = min(broken_by, out + hide)
    found = tolerance(caught, caught + missed, alarms, alarms + passed, required, limit, 0.9)
    if found is None:
        assert broken_by == 0
        return
    assert found.flips == broken_by - 1
    assert found.n == sum(cells) and found.share == found.flips / found.n


def test_the_weakest_requirement_is_the_one_that_falls_first() -> None:
    for counts, weakest in (((270, 300, 2, 400), "coverage"), ((300, 300, 30, 400), "fpr")):
        found = tolerance(*counts, 0.85, 0.12, 0.95)
        assert found is not None and found.weakest == weakest


@CHECK
@given(CELLS, st.floats(0.1, 0.9), st.floats(0.1, 0.9), st.floats(0.2, 0.95))
def test_only_what_is_certified_has_a_tolerance(
    cells: tuple[int, ...], required: float, limit: float, level: float
) -> None:
    caught, missed, alarms, passed = cells
    counts = (caught, caught + missed, alarms, alarms + passed)
    made = certify(*counts, required, limit, level)
    found = tolerance(*counts, required, limit, level)
    assert (found is not None) == (made.verdict == "certified")
    assert made.flips == found
    if found is not None:
        assert json.loads(json.dumps(found.to_dict()))["flips"] == found.flips


def joint_by_trying(
    below: int, cells: tuple[int, ...], n: int, alpha: float, delta: float, limit: float
) -> int | None:
    """Try every number of labels of either part that are wrong, by the rule of the verdict."""
    caught, missed, alarms, passed = cells
    kept, broken_by = (alpha, "pac", delta), math.inf

    @cache
    def stands(n_now: int, below_now: int, hits: int, n_test: int, m: int, fa: int) -> bool:
        at = rank(n_now, *kept)
        lowest, _ = coverage_band((at, n_now), n_test, 0.8) if at else (n_test + 1, 0)
        _, upper = clopper_pearson(hits, n_test, 0.8)
        _, fpr = clopper_pearson(fa, m, 0.8)
        return below_now < at and hits >= lowest and upper >= 1.0 - alpha and fpr <= limit

    most = range(11)
    for hide, out, show, take in itertools.product(most, repeat=4):
        flips = hide + out + show + take
        if flips >= broken_by or show + hide > passed or take > caught:
            continue
        now = n + hide - out, below + hide, caught - take, caught + missed + show - take
        if not stands(*now, alarms + passed + take + out - show - hide, alarms + take + out):
            broken_by = flips
    return None if broken_by == 0 else int(broken_by - 1)


@pytest.mark.parametrize("ties", [0, 2, 5, 8])
@pytest.mark.parametrize("cells", [(28, 2, 0, 40), (25, 5, 1, 30), (21, 9, 3, 25), (18, 12, 2, 40)])
@pytest.mark.parametrize("undefined", ["flag", "pass"])
def test_the_joint_tolerance_is_that_of_the_whole_verdict(
    ties: int, cells: tuple[int, ...], undefined: Any
) -> None:
    alpha, delta, limit = 0.3, 0.2, 0.4
    scores = np.arange(30.0)
    scores[: 6 + ties] = np.maximum(scores[: 6 + ties], 6.0) if ties else scores[:6]
    scores[-2:] = math.nan
    made = calibrate_threshold(scores, Promise(alpha, "pac", delta, undefined))
    below = np.count_nonzero(scores < made.threshold) + 2 * (undefined == "pass")
    expected = joint_by_trying(int(below), cells, 30, alpha, delta, limit)
    caught, missed, alarms, passed = cells
    counts = ClassCounts(caught, caught + missed, alarms, alarms + passed)
    found = joint_flip_tolerance(made, counts, Requirement(limit, None, 0.8))
    assert (None if found is None else found.flips) == expected


def test_where_every_alarm_is_allowed_coverage_alone_limits_the_flips() -> None:
    allowed = tolerance(95, 100, 40, 40, 0.5, 1.0, 0.9)
    assert allowed is not None and allowed.flips > 0 and allowed.weakest == "coverage"


def test_a_group_that_hangs_on_the_verdicts_of_others_tolerates_no_flip_of_its_own() -> None:
    """Its step has more of the error, once another group is certified: by labels of that one."""
    wanted = Requirement(0.2, 0.9, 0.95)
    table = {"a": ClassCounts(300, 300, 5, 300), "b": ClassCounts(33, 33, 5, 100)}
    made = {name: item.certificate for name, item in certify_groups(table, wanted).items()}
    assert made["a"].verdict == made["b"].verdict == "certified"
    assert made["a"].flips is not None and made["a"].flips.flips > 0 and made["b"].flips is None
    table["a"] = ClassCounts(272, 300, 5, 300)
    assert certify_groups(table, wanted)["b"].certificate.verdict == "inconclusive"
