"""Are strata, components, agreement, reliability and leaks what they claim to be?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.metrics import roc_auc_score

from calibrail.conformal import holm
from calibrail.data.example import Example
from calibrail.data.sketches import Sketcher
from calibrail.errors import InputError
from calibrail.evaluation import auroc
from calibrail.evaluation.audit import audit_scores, by_column, thirds
from calibrail.evaluation.audit.components import components
from calibrail.evaluation.audit.detector_pairs import agreement, overlap_at
from calibrail.evaluation.audit.leakage import Leakage, copies, giveaway, repeated, shared
from calibrail.evaluation.audit.reliability import calibration_error, reliability, tenths
from calibrail.evaluation.audit.strata import corrected, heterogeneity, stratify

N = 1200
RNG = np.random.default_rng(0)
LABELS = np.tile([0, 1], N // 2).astype(np.int8)
ALONE = np.arange(N)
NOTHING = Leakage((), (), (), 0)


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
    found = stratify(by_column("m", column), values, values, LABELS, ALONE)
    assert [row.name for row in found.strata] == ["m0", "m1", "m2"]
    for index, row in enumerate(found.strata):
        here = np.arange(N) % 3 == index
        high, low = values[here & (LABELS == 1)], values[here & (LABELS == 0)]
        assert row.auroc == auroc(high, low)
        pooled = np.sqrt((np.var(high, ddof=1) + np.var(low, ddof=1)) / 2)
        assert row.cohens_d.estimate == pytest.approx((high.mean() - low.mean()) / pooled)


def test_heterogeneity_is_cochrans_q_where_groups_stay_within_strata() -> None:
    members = np.repeat([0, 1, 2], N // 3)
    values = RNG.normal(size=N) + LABELS * np.array([0.2, 1.0, 1.5])[members]
    division = by_column("m", [str(k) for k in members])
    test = heterogeneity(division, values, LABELS, ALONE)
    logits, weights = [], []
    for k in range(3):
        here = members == k
        area = auroc(values[here & (LABELS == 1)], values[here & (LABELS == 0)])
        a = area.estimate
        upper, lower = np.log(area.upper / (1 - area.upper)), np.log(area.lower / (1 - area.lower))
        logits.append(np.log(a / (1 - a)))
        weights.append(((upper - lower) / (2 * 1.959964)) ** -2)
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
        p = heterogeneity(division, values, labels, clusters).p_value
        rejected += p < 0.05
    assert rejected / 300 < 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 300)


def test_small_strata_take_no_part_and_holm_corrects_the_rest() -> None:
    values = RNG.normal(size=N) + LABELS
    lonely = ["rare" if k < 6 else f"m{k % 2}{(k // 2) % 2}" for k in range(N)]
    divisions = [by_column("a", lonely), by_column("b", [str((k // 2) % 3) for k in range(N)])]
    found = corrected([stratify(d, values, values, LABELS, ALONE) for d in divisions])
    assert "rare" in found[0].test.left_out
    assert all(item.test.p_holm is None or item.test.p_holm <= 1.0 for item in found)
    known = [item.test for item in found if item.test.p_value is not None]
    expected = holm([item.p_value for item in known])
    assert [item.p_holm for item in known] == pytest.approx(expected.tolist())
    tiny = by_column("c", ["x"] * 1190 + ["y"] * 10)
    assert heterogeneity(tiny, values, LABELS, ALONE).reason is not None


def test_components_name_the_angle_that_separates() -> None:
    angles = {
        "theta_rq": 1.0 - 0.3 * LABELS + 0.2 * RNG.normal(size=N),
        "theta_rc": 0.8 + 0.02 * LABELS + 0.2 * RNG.normal(size=N),
    }
    found = components("encoder", angles, LABELS, ALONE)
    assert found.driver == "theta_rq"
    by_name = {row.name: row for row in found.rows}
    expected = roc_auc_score(LABELS, -angles["theta_rq"])
    assert by_name["theta_rq"].auroc.estimate == pytest.approx(expected)
    ratio = roc_auc_score(LABELS, -angles["theta_rq"] / (angles["theta_rc"] + 1e-8))
    assert by_name["ratio"].auroc.estimate == pytest.approx(ratio)
    nothing = {name: np.full(N, np.nan) for name in angles}
    assert components("encoder", nothing, LABELS, ALONE) is None


def test_agreement_by_hand() -> None:
    x = np.arange(10.0)
    y = x.copy()
    y[[0, 9]] = y[[9, 0]]
    assert overlap_at(x, y, 0.2).overlap == 0.5
    assert overlap_at(x, np.zeros(10), 0.2).overlap == pytest.approx(0.2)
    both = {"a": RNG.normal(size=N), "b": RNG.normal(size=N)}
    both["b"][:5] = np.nan
    (pair,) = agreement(both, LABELS, ALONE)
    assert pair.n == N - 5
    assert abs(pair.spearman.estimate) < 4.0 / np.sqrt(N)
    assert pair.spearman.lower < pair.spearman.estimate < pair.spearman.upper
    assert [item.by_chance for item in pair.top] == pytest.approx([0.05, 0.1, 0.2], abs=0.001)
    (flat,) = agreement({"a": np.ones(N), "b": both["b"]}, LABELS, ALONE)
    assert flat.spearman.estimate is None and flat.pearson.reason


def test_reliability_of_a_calibrated_score() -> None:
    p = RNG.random(N)
    labels = (RNG.random(N) < p).astype(np.int8)
    found = reliability(p, labels, ALONE)
    order = np.argsort(p)
    parts = np.array_split(order, 10)
    scaled = (p - p.min()) / (p.max() - p.min())
    expected = sum(len(i) * abs(scaled[i].mean() - labels[i].mean()) for i in parts) / N
    assert found.ece_scaled == pytest.approx(expected)
    assert found.ece_isotonic < 3.0 * found.by_chance
    skewed = reliability(p**6, labels, ALONE)
    assert skewed.ece_scaled > 0.2
    assert skewed.ece_isotonic == pytest.approx(found.ece_isotonic, abs=1e-3)
    assert found.rising
    assert not reliability(-p, labels, ALONE).rising


def test_reliability_of_odd_scores() -> None:
    assert reliability(np.full(N, np.nan), LABELS, ALONE) is None
    flat = reliability(np.zeros(N), LABELS, ALONE)
    assert len(flat.deciles) == 1 and flat.ece_scaled == 0.0
    huge = reliability(np.where(LABELS == 1, 1e308, -1e308), LABELS, ALONE)
    assert huge.ece_scaled == 0.0
    one = reliability(np.arange(4.0), LABELS[:4], np.zeros(4, np.int64))
    assert one.ece_isotonic is None and one.reason
    bins = tenths(np.arange(20.0), np.full(20, 0.5), np.tile([0, 1], 10).astype(np.int8))
    assert calibration_error(bins) == 0.0


def test_copies_are_found_across_labels_groups_and_splits() -> None:
    text = "The tower of {} is one hundred metres high and was built by monks long ago in spring"
    texts = [text.format(k) for k in ("Ard", "Ard", "Belm")] + ["Nothing of the kind at all"]
    sketcher = Sketcher()
    for item in texts:
        sketcher.add(Example(question="How high is it, then, and who built it?", response=item))
    sides = {"label": np.array([0, 1, 1, 0]), "group": np.array([1, 1, 2, 3])}
    found = {item.across: item for item in copies(sketcher.finish(), sides, list("abcd"))}
    assert found["label"].n == 3 and found["label"].exact == 2
    assert found["group"].n == 3 and found["group"].exact == 0
    assert ("a", "b") in found["label"].pairs


def test_shared_texts_and_ids() -> None:
    digests = np.array([1, 1, 2, 0, 2], np.uint64)
    found = shared("answer", digests, np.array([0, 1, 1, 0, 1], np.int8))
    assert (found.n_distinct, found.n_repeated, found.n_both, found.n_answers_both) == (2, 2, 1, 2)
    assert shared("answer", np.zeros(3, np.uint64), np.zeros(3, np.int8)) is None
    assert repeated(["a", "a", "b", "", ""]) == 1


def test_a_group_that_gives_the_label_away() -> None:
    members = np.repeat(np.arange(100), 4)
    pure = np.repeat(RNG.integers(0, 2, 100), 4).astype(np.int8)
    assert giveaway("group", members, pure).auroc.estimate == 1.0
    paired = np.tile([0, 1], 200).astype(np.int8)
    found = giveaway("group", np.repeat(np.arange(200), 2), paired)
    assert (found.auroc.estimate, found.n_mixed, found.n_alike) == (0.0, 200, 0)
    alone = giveaway("group", np.full(400, -1), paired)
    assert alone.auroc.estimate is None and alone.n_values == 0


def test_audits_are_refused_without_what_they_need() -> None:
    with pytest.raises(InputError, match="at least one detector"):
        audit_scores({}, labels=LABELS, clusters=ALONE, leakage=NOTHING)
    with pytest.raises(InputError, match="must have 1200"):
        audit_scores({"a": np.zeros(3)}, labels=LABELS, clusters=ALONE, leakage=NOTHING)
    with pytest.raises(InputError, match="both classes"):
        zeros = np.zeros(N, np.int8)
        audit_scores({"a": np.zeros(N)}, labels=zeros, clusters=ALONE, leakage=NOTHING)


def test_undefined_scores_rank_by_policy_and_are_counted() -> None:
    values = RNG.normal(size=N) + LABELS
    values[LABELS == 1] = np.where(RNG.random(N // 2) < 0.3, np.nan, values[LABELS == 1])
    found = {
        policy: audit_scores(
            {"a": values}, labels=LABELS, clusters=ALONE, leakage=NOTHING, undefined=policy
        )
        for policy in ("flag", "pass")
    }
    areas = {policy: item.detectors[0].auroc.estimate for policy, item in found.items()}
    assert areas["flag"] > areas["pass"]
    count = int(np.isnan(values).sum())
    for item in found.values():
        assert item.detectors[0].n_undefined == {"hallucinated": count, "faithful": 0}
        assert any(said.code == "undefined" for said in item.conclusions)
        assert item.detectors[0].reliability.n_undefined == count
