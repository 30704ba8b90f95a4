from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import binom

from calibrail.conformal import Counts, holm
from calibrail.errors import InputError
from tests.conformal.counted import certify, certify_each

CHECK = settings(max_examples=30, deadline=None)

SIDE = st.integers(0, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
COUNTS = st.builds(lambda hits, alarms: Counts(*hits, *alarms), SIDE, SIDE)
TABLES = st.dictionaries(st.text(min_size=1, max_size=3), COUNTS, min_size=1, max_size=6)
P = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(0.0, 1.0))


@CHECK
@given(P, st.randoms())
def test_holm_is_ordered_between_none_and_bonferroni_and_ignores_order(
    p: np.ndarray[Any, Any], random: Any
) -> None:
    adjusted = holm(p)
    assert (adjusted >= p).all() and (adjusted <= np.minimum(p * len(p), 1.0)).all()
    assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()
    order = list(range(len(p)))
    random.shuffle(order)
    assert np.array_equal(holm(p[order]), adjusted[order])


def test_holm_of_nothing_is_nothing() -> None:
    assert holm([]).shape == (0,)
    assert holm([0.2]).tolist() == [0.2]


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([math.nan], "p_values must not hold NaN"),
        ([-0.1], r"p_values must lie in \[0, 1\]"),
        ([math.inf, 0.5], r"p_values must lie in \[0, 1\]"),
        ([[0.1]], r"p_values must have shape \(n,\)"),
        (["a"], "p_values must hold numbers"),
    ],
)
def test_holm_names_bad_input(p: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        holm(p)


@CHECK
@given(TABLES, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.5, 0.99))
def test_each_group_has_the_certificate_of_its_share_of_the_error(
    table: dict[str, Counts], required: float, limit: float, confidence: float
) -> None:
    found = certify_each(table, required, limit, confidence)
    assert list(found) == list(table)
    level = 1 - (1 - confidence) / len(table)
    raw = []
    for name, item in table.items():
        counts = (item.caught, item.n_hallucinated, item.false_alarms, item.n_faithful)
        expected = certify(*counts, required, limit, level)
        assert found[name].certificate.to_dict() == expected.to_dict()
        raw.append(binom.cdf(item.caught, item.n_hallucinated, required))
    adjusted = [item.p_undercovered for item in found.values()]
    assert adjusted == pytest.approx(holm(raw).tolist(), abs=1e-9)
    json.dumps({name: item.to_dict() for name, item in found.items()}, allow_nan=False)


@CHECK
@given(TABLES, st.floats(0.5, 0.95))
def test_coverage_that_is_rejected_has_a_small_adjusted_p_value(
    table: dict[str, Counts], required: float
) -> None:
    for item in certify_each(table, required, None, 0.9).values():
        if item.certificate.verdict == "rejected":
            assert item.p_undercovered <= 0.1 / 2 + 1e-9


def test_one_group_is_a_plain_certificate() -> None:
    found = certify_each({"all": Counts(290, 300, 20, 400)}, 0.9, 0.1, 0.95)["all"]
    expected = certify(290, 300, 20, 400, 0.9, 0.1, 0.95)
    assert found.certificate.to_dict() == expected.to_dict()
    assert found.p_undercovered == pytest.approx(binom.cdf(290, 300, 0.9))


def test_more_groups_make_each_verdict_harder() -> None:
    counts = Counts(284, 300, 20, 400)
    alone = certify_each({"a": counts}, 0.9, 0.1, 0.95)["a"]
    among = certify_each({str(i): counts for i in range(50)}, 0.9, 0.1, 0.95)["0"]
    assert alone.certificate.verdict == "certified"
    assert among.certificate.verdict == "inconclusive"
    assert among.certificate.coverage.lower < alone.certificate.coverage.lower


def test_a_group_without_examples_of_a_class_stays_open() -> None:
    found = certify_each({"empty": Counts(0, 0, 0, 0), "one": Counts(1, 1, 0, 1)}, 0.9, 0.1, 0.95)
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
        table = {str(i): Counts(caught, n, 0, 0) for i in range(groups)}
        found = certify_each(table, truth, None, confidence)["0"]
        rejected[caught] = found.certificate.verdict == "rejected"
        alone = {**{str(i): Counts(n, n, 0, 0) for i in range(1, groups)}}
        lone = certify_each({"0": table["0"], **alone}, truth, None, confidence)["0"]
        small[caught] = lone.p_undercovered <= 1 - confidence
    mass = binom.pmf(np.arange(n + 1), n, truth)
    assert 0.0 < 1 - (1 - mass[rejected].sum()) ** groups <= (1 - confidence) / 2
    # Holm finds at least as much as the corrected bounds do, at the same error.
    assert (small >= rejected).all() and small.sum() >= rejected.sum() + (groups > 1)
    assert 1 - (1 - mass[small].sum()) ** groups <= 1 - confidence


def test_large_counts_have_a_p_value() -> None:
    found = certify_each({"a": Counts(3 * 10**9, 10**10, 0, 1)}, 0.9, 0.1, 0.95)["a"]
    assert found.certificate.verdict == "rejected" and found.p_undercovered == 0.0


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ({}, (0.9, 0.1, 0.95), "counts must hold at least one group"),
        ({"a": Counts(1, 1, 0, 1)}, (1.1, 0.1, 0.95), r"min_coverage must lie in \[0, 1\]"),
        ({"a": Counts(1, 1, 0, 1)}, (0.9, math.nan, 0.95), r"max_fpr must lie in \[0, 1\]"),
        ({"a": Counts(1, 1, 0, 1)}, (0.9, 0.1, 0.0), r"confidence must lie in \(0, 1\)"),
    ],
)
def test_bad_input_is_named(counts: Any, options: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        certify_each(counts, *options)
