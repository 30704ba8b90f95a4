from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom, binom

from calibrail.conformal import (
    ClassCounts,
    attainable_coverages,
    calibrate_threshold,
    certify_counts,
    certify_groups,
    clopper_pearson,
    coverage_band,
    holm,
    joint_certificate,
)
from calibrail.errors import InputError
from calibrail.options import Promise, Requirement
from calibrail.report.messages import spell
from tests.conformal.counted import certify, certify_each, certify_joint

COUNTS = st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(("k", "n", "m"), [(1, 19, 50), (5, 100, 200), (25, 500, 500), (3, 30, 1)])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_band_agrees_with_scipy(k: int, n: int, m: int, level: float) -> None:
    oracle = betabinom(m, n + 1 - k, k)
    tail = (1 - level) / 2
    assert coverage_band((k, n), m, level) == (oracle.ppf(tail), oracle.ppf(1 - tail))


@given(COUNTS, COUNTS, st.floats(0.5, 0.99), st.floats(0.01, 0.5), st.floats(0.6, 0.99))
def test_a_certificate_is_ordered_finite_and_consistent(
    hits: tuple[int, int],
    alarms: tuple[int, int],
    required: float,
    limit: float,
    level: float,
) -> None:
    made = certify(*hits, *alarms, required, limit, level)
    for bound in (made.coverage, made.fpr):
        assert 0.0 <= bound.lower <= bound.upper <= 1.0
    expected = "inconclusive"
    if made.coverage.upper < required or made.fpr.lower > limit:
        expected = "rejected"
    elif made.coverage_at_least >= required and made.fpr_at_most <= limit:
        expected = "certified"
    assert made.verdict == expected
    # A claim of two requirements needs two ends, each of which may err with 1 - level.
    tail = 1.0 - level
    if made.coverage_at_least > 0.0:
        assert binom.sf(hits[0] - 1, hits[1], made.coverage_at_least) <= tail * (1 + 1e-9)
    if made.fpr_at_most < 1.0:
        assert binom.cdf(*alarms, made.fpr_at_most) <= tail * (1 + 1e-9)
    if made.verdict != "inconclusive":
        assert dict(made.needed) == {"hallucinated": 0, "faithful": 0}


@pytest.mark.parametrize(
    ("hits", "alarms"), [((28, 30), (2, 40)), ((88, 100), (11, 100)), ((95, 100), (0, 5))]
)
def test_the_number_that_is_needed_suffices_and_half_of_it_does_not(
    hits: tuple[int, int], alarms: tuple[int, int]
) -> None:
    required, limit, level = 0.9, 0.1, 0.95
    made = certify(*hits, *alarms, required, limit, level)
    assert made.verdict == "inconclusive"
    further = made.needed["hallucinated"]
    assert further is not None
    rate = hits[0] / hits[1]
    if further:
        for share, settles in ((1.0, True), (0.5, False)):
            n = hits[1] + int(further * share)
            count = int(np.floor(rate * n)) if rate > required else int(np.ceil(rate * n))
            lower, _ = clopper_pearson(count, n, 2.0 * level - 1.0)
            _, upper = clopper_pearson(count, n, level)
            assert (lower >= required or upper < required) == settles


def test_a_rate_on_the_requirement_is_never_settled() -> None:
    made = certify(90, 100, 0, 1000, 0.9, 0.1, 0.95)
    assert made.needed["hallucinated"] is None


def test_without_a_limit_nothing_is_certified() -> None:
    made = certify(100, 100, 0, 100, 0.5, None, 0.95)
    assert made.verdict == "inconclusive"
    assert "--max-false-alarms" in spell(made.reason)
    assert certify(10, 100, 0, 100, 0.5, None, 0.95).verdict == "rejected"


def test_a_pac_threshold_brings_its_coverage_along() -> None:
    rng = np.random.default_rng(0)
    calibration = calibrate_threshold(rng.normal(size=300), Promise(0.1, "pac", 0.05))
    made = certify_joint(calibration, 30, 33, 10, 300, 0.1, 0.9)
    assert made.verdict == "certified"
    assert made.confidence == pytest.approx(0.9)
    assert certify(30, 33, 10, 300, 0.9, 0.1, 0.9).verdict == "inconclusive"
    assert certify_joint(calibration, 10, 33, 10, 300, 0.1, 0.9).verdict == "rejected"
    with pytest.raises(InputError, match="pac"):
        certify_joint(
            calibrate_threshold(rng.normal(size=300), Promise(0.1)), 30, 33, 10, 300, 0.1, 0.9
        )


def test_what_coverage_still_needs_is_said_without_a_limit_on_alarms() -> None:
    needed = certify(90, 100, 0, 100, 0.88, None, 0.95).needed
    limited = certify(90, 100, 0, 100, 0.88, 0.5, 0.95).needed
    assert needed["hallucinated"] == limited["hallucinated"] > 0
    assert needed["faithful"] is None


def test_a_threshold_that_flags_everything_proves_nothing() -> None:
    everything = calibrate_threshold([1.0], Promise(0.1, "pac", 0.1, allow_flag_all=True))
    assert everything.flag_all
    with pytest.raises(InputError, match="got one that flags everything"):
        certify_joint(everything, 30, 33, 10, 300, 0.1, 0.9)


def test_a_yes_no_judge_reaches_two_coverages() -> None:
    thresholds, coverages = attainable_coverages([1.0] * 67 + [0.0] * 33)
    assert thresholds.tolist() == [0.0, 1.0]
    assert coverages == pytest.approx([1.0, 0.67])


@pytest.mark.parametrize("required", [0.9 + 1e-9, 1.0])
def test_no_more_coverage_is_proven_than_the_threshold_aims_at(required: float) -> None:
    calibration = calibrate_threshold(range(60), Promise(0.1, "pac", 0.1))
    with pytest.raises(InputError, match=r"min_coverage must be at most the 0\.9 that"):
        joint_certificate(calibration, ClassCounts(9, 10, 1, 10), Requirement(0.5, required, 0.9))


CHECK = settings(max_examples=30, deadline=None)

SIDE = st.integers(0, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
GROUP_COUNTS = st.builds(lambda hits, alarms: ClassCounts(*hits, *alarms), SIDE, SIDE)
TABLES = st.dictionaries(st.text(min_size=1, max_size=3), GROUP_COUNTS, min_size=1, max_size=6)


@CHECK
@given(TABLES, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.5, 0.99))
def test_each_group_has_the_certificate_of_its_share_of_the_error(
    table: dict[str, ClassCounts], required: float, limit: float, confidence: float
) -> None:
    found = certify_each(table, required, limit, confidence)
    assert list(found) == list(table)
    level = 1 - (1 - confidence) / len(table)
    raw = []
    for name, item in table.items():
        counts = (item.caught, item.n_hallucinated, item.false_alarms, item.n_faithful)
        made = found[name].certificate
        expected = certify(*counts, required, limit, made.confidence)
        if made.confidence != level:
            # What hangs on the verdicts of others hangs on their labels, too.
            assert made.flips is None
            expected = replace(expected, flips=None)
        assert made.to_dict() == expected.to_dict()
        if certify(*counts, required, limit, level).verdict == "certified":
            assert made.verdict == "certified"
        raw.append(binom.cdf(item.caught, item.n_hallucinated, required))
    adjusted = [item.p_undercovered for item in found.values()]
    assert adjusted == pytest.approx(holm(raw).tolist(), abs=1e-9)
    json.dumps({name: item.to_dict() for name, item in found.items()}, allow_nan=False)


@CHECK
@given(TABLES, st.floats(0.5, 0.95))
def test_coverage_that_is_rejected_has_a_small_adjusted_p_value(
    table: dict[str, ClassCounts], required: float
) -> None:
    for item in certify_each(table, required, None, 0.9).values():
        if item.certificate.verdict == "rejected":
            assert item.p_undercovered <= 0.1 / 2 + 1e-9


def test_a_group_without_examples_of_a_class_stays_open() -> None:
    found = certify_each(
        {"empty": ClassCounts(0, 0, 0, 0), "one": ClassCounts(1, 1, 0, 1)}, 0.9, 0.1, 0.95
    )
    for item in found.values():
        assert item.certificate.verdict == "inconclusive" and item.p_undercovered == 1.0
    assert dict(found["empty"].certificate.needed) == {"hallucinated": None, "faithful": None}


@pytest.mark.parametrize(("groups", "truth"), [(1, 0.9), (8, 0.9), (8, 0.7)])
def test_all_groups_are_free_of_wrong_rejections_as_often_as_stated(
    groups: int, truth: float
) -> None:
    """Exact: the groups are independent, so the chance of no error is a product."""
    confidence, n = 0.8, 40
    rejected, small = np.zeros(n + 1, dtype=bool), np.zeros(n + 1, dtype=bool)
    for caught in range(n + 1):
        table = {str(i): ClassCounts(caught, n, 0, 0) for i in range(groups)}
        found = certify_each(table, truth, None, confidence)["0"]
        rejected[caught] = found.certificate.verdict == "rejected"
        alone = {**{str(i): ClassCounts(n, n, 0, 0) for i in range(1, groups)}}
        lone = certify_each({"0": table["0"], **alone}, truth, None, confidence)["0"]
        small[caught] = lone.p_undercovered <= 1 - confidence
    mass = binom.pmf(np.arange(n + 1), n, truth)
    assert 0.0 < 1 - (1 - mass[rejected].sum()) ** groups <= (1 - confidence) / 2
    # Holm finds at least as much as the corrected bounds do, at the same error.
    assert (small >= rejected).all() and small.sum() >= rejected.sum() + (groups > 1)
    assert 1 - (1 - mass[small].sum()) ** groups <= 1 - confidence


def test_large_counts_have_a_p_value() -> None:
    found = certify_each({"a": ClassCounts(3 * 10**9, 10**10, 0, 1)}, 0.9, 0.1, 0.95)["a"]
    assert found.certificate.verdict == "rejected" and found.p_undercovered == 0.0


def test_limits_that_are_just_met_are_met() -> None:
    counts = ClassCounts(290, 300, 20, 400)
    made = certify_counts(counts, Requirement(max_fpr=0.1, min_coverage=0.9))
    met = Requirement(max_fpr=made.fpr_at_most, min_coverage=made.coverage_at_least)
    assert certify_counts(counts, met).verdict == "certified"


@pytest.mark.parametrize(
    ("counts", "limit", "code"),
    [
        ((290, 300, 20, 400), 0.1, "limits_kept"),
        ((290, 300, 200, 400), 0.1, "limit_missed"),
        ((28, 30, 2, 40), 0.1, "limits_unsettled"),
        ((28, 30, 2, 40), None, "no_limit"),
    ],
)
def test_a_reason_has_a_code(counts: tuple[int, ...], limit: float | None, code: str) -> None:
    asked = Requirement(min_coverage=0.9, max_fpr=limit)
    assert certify_counts(ClassCounts(*counts), asked).to_dict()["reason_code"] == code


def closed(table: Mapping[str, ClassCounts], wanted: Requirement) -> dict[str, str]:
    """Return what closed testing proves, of each kind of verdict by itself with the whole error."""
    error = 1.0 - wanted.confidence
    p: dict[str, dict[str, float]] = {"certified": {}, "rejected": {}}
    for name, item in table.items():
        caught, alarms = item.caught, item.false_alarms
        low, high = (
            binom(item.n_hallucinated, wanted.min_coverage),
            binom(item.n_faithful, wanted.max_fpr),
        )
        # Certified by both tests, rejected by either, for which each has half.
        p["certified"][name] = max(low.sf(caught - 1), high.cdf(alarms))
        p["rejected"][name] = 2.0 * min(low.cdf(caught), high.sf(alarms - 1))
    said = dict.fromkeys(table, "inconclusive")
    for verdict, name in product(p, table):
        subsets = (
            [name, *more]
            for size in range(len(table))
            for more in combinations(sorted({*table} - {name}), size)
        )
        if all(min(p[verdict][one] for one in some) * len(some) <= error for some in subsets):
            said[name] = verdict
    return said


def test_groups_get_the_verdicts_that_closed_testing_proves() -> None:
    rng, seen = np.random.default_rng(5), Counter[str]()
    wanted = Requirement(0.2, 0.8, 0.9)
    for _ in range(25):
        shares = rng.choice([0.75, 0.86, 0.87, 0.94], 4)
        table = {
            name: ClassCounts(
                int(rng.binomial(120, share)), 120, int(rng.binomial(120, 0.98 - share)), 120
            )
            for name, share in zip("abcd", shares, strict=True)
        }
        made = {name: item.certificate for name, item in certify_groups(table, wanted).items()}
        assert {name: item.verdict for name, item in made.items()} == closed(table, wanted)
        alone = certify_groups({"a": table["a"]}, wanted)["a"].certificate
        assert alone == certify_counts(table["a"], wanted)
        for item in made.values():
            # What is printed agrees with the verdict.
            kept = item.coverage_at_least >= 0.8 and item.fpr_at_most <= 0.2
            missed = item.coverage.upper < 0.8 or item.fpr.lower > 0.2
            assert (kept, missed) == (item.verdict == "certified", item.verdict == "rejected")
            seen[item.verdict] += 1
    assert min(seen.values()) >= 3 and len(seen) == 3
    eased = {"a": ClassCounts(120, 120, 0, 120), "b": ClassCounts(103, 120, 5, 120)}
    second = certify_groups(eased, wanted)["b"].certificate
    assert (second.verdict, second.confidence) == ("certified", pytest.approx(0.9))
    assert certify_counts(eased["b"], replace(wanted, confidence=0.95)).verdict == "inconclusive"
