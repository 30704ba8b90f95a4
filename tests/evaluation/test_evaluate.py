"""Does a report hold the right numbers, the right verdict and exactly the warnings that apply?"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from calibrail.errors import InputError
from calibrail.evaluation import Report, Sample
from calibrail.evaluation.scored_answers import one_of_each
from tests.measured import measure

Floats = NDArray[np.float64]


class Data:
    """Pairs of one faithful and one hallucinated answer, half of the pairs in each part."""

    def __init__(self, pairs: int = 600, shift: float = 3.0, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.labels = np.tile([0, 1], pairs).astype(np.int8)
        self.codes = np.repeat(np.tile([1, 2], pairs // 2), 2).astype(np.int8)
        self.groups = np.repeat(np.arange(pairs), 2).astype(np.int64)
        self.values = rng.normal(size=2 * pairs) + shift * self.labels
        self.noise = rng.normal(size=2 * pairs)

    def part(self, code: int, label: int) -> NDArray[np.bool_]:
        return (self.codes == code) & (self.labels == label)

    def report(self, values: Floats | None = None, **options: Any) -> Report:
        values = self.values if values is None else values
        groups, tolerance = options.pop("groups", None), options.pop("tolerance", 0.0)
        return measure(Sample(values, self.labels, self.codes, groups, tolerance), **options)


def codes_of(report: Report) -> set[str]:
    return {finding.code for finding in report.warnings}


def message(report: Report, code: str) -> str:
    return next(finding.message for finding in report.warnings if finding.code == code)


def test_counts_follow_from_the_definition() -> None:
    data = Data(shift=1.5)
    report = data.report()
    source = np.sort(data.values[data.part(1, 1)])
    threshold = source[30 - 1]  # floor(0.1 * 301)
    assert report.threshold == threshold
    assert (report.rank, report.n_calibration, report.promise.alpha) == (30, 300, 0.1)
    assert report.test.coverage.count == int(np.sum(data.values[data.part(2, 1)] >= threshold))
    assert report.test.fpr.count == int(np.sum(data.values[data.part(2, 0)] >= threshold))
    test = data.codes == 2
    right = (data.values[test] >= threshold) == (data.labels[test] == 1)
    assert report.test.accuracy.estimate == pytest.approx(right.mean())
    area = roc_auc_score(data.labels[test], data.values[test])
    assert report.test.auroc.estimate == pytest.approx(area)
    assert report.test.coverage.method == "wilson"
    assert report.min_coverage == pytest.approx(0.9)


def test_tolerance_flags_near_ties() -> None:
    data = Data()
    strict, wide = data.report(), data.report(tolerance=100.0)
    assert wide.test.fpr.estimate == 1.0
    assert strict.test.fpr.count < wide.test.fpr.count


def test_round_trip_is_exact_strict_and_deterministic() -> None:
    data = Data(shift=0.5)
    data.values[::7] = np.nan
    options: dict[str, Any] = {
        "max_fpr": 0.3,
        "groups": data.groups,
        "baselines": {"length": data.noise, "empty": np.full(len(data.noise), np.nan)},
        "others": {"second": data.values + data.noise},
        "data": {"source": "x.jsonl", "share": float("nan")},
        "score": {"name": "toy", "params": {"k": 3}},
    }
    report = data.report(**options)
    text = report.to_json()
    assert report.to_json() == data.report(**options).to_json()
    parsed = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert parsed["schema"] == "calibrail.report/1"
    assert parsed["data"]["share"] is None
    again = Report.from_dict(parsed)
    assert again.to_json() == text
    assert again.test == report.test
    assert again.baselines == report.baselines
    with pytest.raises(InputError, match="schema must be"):
        Report.from_dict({**parsed, "schema": "other/1"})
    with pytest.raises(InputError, match="missing or an unknown field"):
        Report.from_dict({**parsed, "surprise": 1})


def test_verdicts() -> None:
    data = Data(pairs=2000, shift=3.0)
    assert data.report(max_fpr=0.2, min_coverage=0.85).verdict == "certified"
    assert data.report(max_fpr=0.01, min_coverage=0.85).verdict == "rejected"
    assert data.report(min_coverage=0.85).verdict == "inconclusive"
    assert data.report(min_coverage=0.999).verdict == "rejected"
    assert data.report(max_fpr=0.2, guarantee="pac").verdict == "certified"
    assert data.report(max_fpr=0.01, guarantee="pac").verdict == "rejected"


def test_a_marginal_threshold_that_stays_inconclusive_says_why() -> None:
    report = Data(pairs=600).report(max_fpr=0.2)
    assert report.verdict == "inconclusive"
    assert "A marginal threshold aims at 90%, so about half" in report.reason
    assert (
        "ask for the guarantee pac on new answers, or require that less is caught" in report.reason
    )
    assert report.certificate["reason"] == report.reason


def test_a_verdict_that_false_alarms_leave_open_does_not_speak_of_coverage() -> None:
    data = Data(pairs=2000)
    limit = data.report().test.fpr.estimate
    report = data.report(max_fpr=limit, min_coverage=0.85)
    assert report.verdict == "inconclusive"
    assert "pac" not in report.reason


def test_the_fpr_bound_uses_calibration_examples_only_where_it_may() -> None:
    data = Data()
    alone = np.arange(len(data.values), dtype=np.int64)

    def n(**options: Any) -> int:
        report = data.report(guarantee="pac", max_fpr=0.2, **options)
        return int(report.certificate["fpr"]["n"])

    assert n() == 600
    assert n(groups=alone) == 600
    assert n(groups=data.groups) == 300  # a pair shares its group
    assert n(min_coverage=0.95) == 300  # more than the threshold promises: both from the test


def test_a_certificate_is_withheld_where_the_test_part_contradicts_it() -> None:
    data = Data(pairs=2000, shift=4.0)
    sound = data.report(guarantee="pac", max_fpr=0.5)
    assert sound.verdict == "certified"
    assert sound.test.coverage_band is not None
    lost = sound.test.coverage.count - sound.test.coverage_band.lowest + 1
    caught = data.part(2, 1) & (data.values >= sound.threshold)
    data.values[np.flatnonzero(caught)[:lost]] = -9.0
    report = data.report(guarantee="pac", max_fpr=0.5)
    assert report.verdict == "inconclusive"
    assert "hallucinations in the test set were caught" in report.reason


def test_too_few_examples() -> None:
    small = Data(pairs=80)
    assert "too_few_examples" in codes_of(small.report())
    assert "40 hallucinated" in message(small.report(), "too_few_examples")
    assert "number 1 of only" in message(Data().report(alpha=0.005), "too_few_examples")


def test_few_distinct_scores_names_the_attainable_coverages() -> None:
    data = Data()
    binary = (data.values > 2.5).astype(np.float64)
    report = data.report(binary)
    share = np.mean(binary[data.part(1, 1)])
    assert f"{100 * share:.1f}".removesuffix(".0") in message(report, "few_distinct_scores")
    assert "100%" in message(report, "few_distinct_scores")
    assert "few_distinct_scores" not in codes_of(data.report(np.round(data.values, 1)))


def test_reversed_direction_is_named_and_not_flipped() -> None:
    data = Data()
    report = data.report(-data.values)
    assert "reversed_direction" in codes_of(report)
    assert report.test.auroc.estimate is not None
    assert report.test.auroc.estimate < 0.1
    assert "reversed_direction" not in codes_of(data.report(data.noise))


def test_flags_everything() -> None:
    data = Data()
    assert "flags_everything" in codes_of(data.report(np.zeros(len(data.values))))
    few = data.report(alpha=0.001, allow_flag_all=True)
    assert few.flag_all
    assert few.threshold is None
    assert "flags_everything" in codes_of(few)
    assert "flags_everything" not in codes_of(data.report(data.noise))


def test_a_baseline_beats_only_by_auroc_and_fewer_false_alarms() -> None:
    data = Data(shift=1.0)
    strong = data.noise + 4.0 * data.labels
    report = data.report(baselines={"length": strong, "noise": data.noise})
    assert "length beats the detector" in message(report, "baseline_beats_detector")
    assert [row.beats_detector for row in report.baselines] == [True, False]
    # A better AUROC without fewer false alarms is not enough.
    coarse = np.where(data.labels == 1, np.round(strong > 4.0), 0.0)
    report = data.report(baselines={"coarse": coarse})
    row = report.baselines[0]
    assert row.fpr is not None
    assert row.fpr.estimate == 1.0
    difference = row.auroc_difference
    assert difference is not None
    assert difference.lower is not None
    assert not row.beats_detector
    same = data.report(baselines={"same": data.values})
    assert "not_shown_to_beat_baseline" in codes_of(same)
    assert "baseline_beats_detector" not in codes_of(same)


def test_a_baseline_that_cannot_be_calibrated_has_its_reason() -> None:
    data = Data()
    report = data.report(baselines={"none": np.full(len(data.values), np.nan)}, undefined="pass")
    row = report.baselines[0]
    assert row.fpr is None
    assert row.reason
    assert not row.beats_detector


def test_coverage_outside_band() -> None:
    data = Data()
    shifted = data.values.copy()
    shifted[data.part(2, 1)] -= 2.0
    report = data.report(shifted)
    assert "below the" in message(report, "coverage_outside_band")
    assert report.test.coverage_band is not None
    assert not report.test.coverage_band.inside
    assert "coverage_outside_band" not in codes_of(data.report())
    # Ties only add coverage: above the band is then no finding.
    assert "coverage_outside_band" not in codes_of(data.report(np.zeros(len(data.values))))


def test_undefined_scores_count_by_the_policy() -> None:
    data = Data()
    holes = data.values.copy()
    lost = np.flatnonzero(data.part(2, 0))[:30]
    holes[lost] = np.nan
    flagged, passed = data.report(holes), data.report(holes, undefined="pass")
    assert flagged.undefined["test"] == {"hallucinated": 0, "faithful": 30}
    assert "30 test answers" in message(flagged, "undefined_scores")
    assert flagged.test.fpr.count - passed.test.fpr.count == 30
    assert flagged.test.fpr.n == passed.test.fpr.n == 300
    assert flagged.test.auroc.estimate is not None
    assert passed.test.auroc.estimate is not None
    assert flagged.test.auroc.estimate < passed.test.auroc.estimate


def test_clustered() -> None:
    data = Data()
    assert "clustered" not in codes_of(data.report(groups=data.groups))  # one of each class
    fours = (data.groups // 4).astype(np.int64)
    report = data.report(groups=fours)
    assert report.certificate["coverage"]["n"] == len(np.unique(fours[data.codes == 2]))


def test_paper_rank_undercovers() -> None:
    data = Data(pairs=100)
    text = message(data.report(alpha=0.05, guarantee="paper"), "paper_rank_undercovers")
    assert "94.1%" in text
    assert "n = 50" in text
    assert "paper_rank_undercovers" not in codes_of(data.report(alpha=0.05))


@pytest.mark.parametrize("groups", [[-2, -7, -2], [5, 5, -9], [2**62, 2**62, 3], [10**9, 1, 1]])
def test_groups_of_any_number_give_one_answer_each(groups: list[int]) -> None:
    chosen = one_of_each(np.full(3, True), np.array([2, 1, 3]), np.array(groups))
    alone = sum(group < 0 for group in groups)
    assert chosen.sum() == alone + len({group for group in groups if group >= 0})
    assert not one_of_each(np.full(3, False), np.arange(3), np.array(groups)).any()
