"""Are strata divided, measured and tested as they claim to be?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from calibrail.conformal import holm
from calibrail.evaluation.audit_answers import AuditAnswers
from calibrail.evaluation.confounds import by_column, corrected, heterogeneity, stratify, thirds
from calibrail.evaluation.stats.auroc import auroc, ranked

N = 1200
RNG = np.random.default_rng(0)
LABELS = np.tile([0, 1], N // 2).astype(np.int8)
ALONE = np.arange(N)
ANSWERS = AuditAnswers(LABELS, ALONE)


def test_thirds_are_equal_and_keep_ties_together() -> None:
    values = RNG.permutation(N).astype(float)
    division = thirds("length", values)
    assert np.bincount(division.members).tolist() == [N // 3] * 3
    assert division.ranges[0] == (0.0, N // 3 - 1.0)
    tied = thirds("length", np.repeat([1.0, 2.0], [1000, 200]))
    assert tied.names == ("medium", "high")
    assert thirds("length", np.full(10, 3.0)) is None
    assert thirds("length", np.full(10, np.nan)) is None


def test_columns_of_text_numbers_and_nothing() -> None:
    named = by_column("model", ["b", "a", "a", None, ""])
    assert named.names == ("a", "b")
    assert named.members.tolist() == [1, 0, 0, -1, -1]
    assert by_column("x", [1.0, 2.0, 1.0]).names == ("1", "2")
    assert by_column("x", list(np.arange(30.0))).kind == "thirds"
    many = by_column("x", [f"v{k % 40}" for k in range(100)])
    assert len(many.names) == 21 and many.names[-1] == "20 rarer values"
    assert by_column("x", ["same"] * 5) is None
    assert by_column("x", [None] * 5) is None


def test_strata_against_the_measures_themselves() -> None:
    column = [f"m{k % 3}" for k in range(N)]
    values = RNG.normal(size=N) + LABELS
    divided = stratify(by_column("m", column), values, values, ANSWERS)
    assert [row.name for row in divided.strata] == ["m0", "m1", "m2"]
    for index, row in enumerate(divided.strata):
        here = np.arange(N) % 3 == index
        high, low = values[here & (LABELS == 1)], values[here & (LABELS == 0)]
        assert row.auroc == auroc(high, low)


def test_heterogeneity_is_cochrans_q_where_groups_stay_within_strata() -> None:
    members = np.repeat([0, 1, 2], N // 3)
    values = RNG.normal(size=N) + LABELS * np.array([0.2, 1.0, 1.5])[members]
    division = by_column("m", [str(k) for k in members])
    test = heterogeneity(division, values, ANSWERS)
    logits, weights = [], []
    for k in range(3):
        here = members == k
        area = ranked(values[here], LABELS[here])
        a, (variance, _) = area.value, area.variance(np.arange(int(here.sum())))
        logits.append(np.log(a / (1 - a)))
        weights.append((a * (1 - a)) ** 2 / variance)
    mean = np.average(logits, weights=weights)
    q = float(np.sum(np.array(weights) * (np.array(logits) - mean) ** 2))
    assert test.statistic == pytest.approx(q, rel=0.02)
    assert test.p_value == pytest.approx(chi2.sf(test.statistic, 2))
    assert test.df == 2


def test_heterogeneity_keeps_its_level_where_groups_span_strata() -> None:
    """300 null data sets at 5 %: binomial tolerance of 3.5 sigma."""
    rng = np.random.default_rng(1)
    labels, clusters = np.tile([0, 1], 150).astype(np.int8), np.repeat(np.arange(150), 2)
    rejected = 0
    for _ in range(300):
        values = rng.normal(size=300) + np.repeat(rng.normal(size=150), 2) + labels
        division = by_column("m", [str(k) for k in rng.integers(0, 3, 300)])
        p = heterogeneity(division, values, AuditAnswers(labels, clusters)).p_value
        rejected += p < 0.05
    assert rejected / 300 < 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 300)


def test_small_strata_take_no_part_and_holm_corrects_the_rest() -> None:
    values = RNG.normal(size=N) + LABELS
    lonely = ["rare" if k < 6 else f"m{k % 2}{(k // 2) % 2}" for k in range(N)]
    divisions = [by_column("a", lonely), by_column("b", [str((k // 2) % 3) for k in range(N)])]
    divided = corrected([stratify(d, values, values, ANSWERS) for d in divisions])
    assert "rare" in divided[0].test.left_out
    assert all(item.test.p_holm is None or item.test.p_holm <= 1.0 for item in divided)
    known = [item.test for item in divided if item.test.p_value is not None]
    expected = holm([item.p_value for item in known])
    assert [item.p_holm for item in known] == pytest.approx(expected.tolist())
    tiny = by_column("c", ["x"] * 1190 + ["y"] * 10)
    assert heterogeneity(tiny, values, ANSWERS).reason is not None
