from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from calibrail import ReadOptions, SplitOptions, audit, calibrate, certify, compare, read
from calibrail.data.splits import CONFIRMING, TEST
from calibrail.errors import DataError, TooFewExamplesError
from calibrail.pipelines.run import Run, json_parts
from calibrail.scores.registry import DEFAULT_SCORE
from tests.answers import rows, write

SPEC = "column:column=detector,higher=hallucinated"


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return write(tmp_path / "answers.jsonl", rows())


def test_the_run_folder_holds_what_was_computed(answers: Path, tmp_path: Path) -> None:
    run = calibrate(answers, SPEC, alpha=0.1, guarantee="marginal", max_fpr=0.5)
    folder = run.save(tmp_path / "run")
    report = json.loads((folder / "report.json").read_text())
    calibration = json.loads((folder / "calibration.json").read_text())
    table = pq.read_table(folder / "scores.parquet").to_pandas()

    assert report["schema"] == "calibrail.report/1"
    hallucinated = table[(table.label == 1) & (table.split == "calibration")].detector
    expected = np.sort(hallucinated.to_numpy())
    assert calibration["scores"] == expected.tolist()
    assert calibration["n"] == report["n_calibration"] == len(expected)
    assert calibration["rank"] == math.floor(0.1 * (len(expected) + 1))
    threshold = expected[calibration["rank"] - 1]
    assert calibration["threshold"] == report["threshold"] == threshold

    test = table[table.split == "test"]
    caught = int((test[test.label == 1].detector >= threshold).sum())
    alarms = int((test[test.label == 0].detector >= threshold).sum())
    assert report["test"]["coverage"]["count"] == caught
    assert report["test"]["fpr"]["count"] == alarms
    assert report["test"]["n_hallucinated"] == int((test.label == 1).sum())
    assert {item["name"] for item in report["baselines"]} == {
        "length",
        "novelty",
        "novel_count",
        "rouge_l",
        "numbers",
        "entities",
    }
    assert (folder / "report.html").read_text().startswith("<!")


def test_without_a_name_the_default_detector_is_taken(answers: Path) -> None:
    assert calibrate(answers, alpha=0.1).report.to_dict()["score"]["name"] == DEFAULT_SCORE
    detectors = audit(answers, geometry=False).audit.detectors
    assert [detector.name for detector in detectors] == [DEFAULT_SCORE]


def test_no_group_is_on_both_sides(answers: Path) -> None:
    run = calibrate(answers, SPEC, alpha=0.1)
    assert run.table is not None
    assert run.codes is not None
    sides: dict[str, set[int]] = {}
    for group, code in zip(run.table.groups.to_pylist(), run.codes.tolist(), strict=True):
        sides.setdefault(group, set()).add(code)
    assert all(len(side) == 1 for side in sides.values())


@pytest.mark.painted
def test_the_same_input_gives_the_same_bytes(answers: Path, tmp_path: Path) -> None:
    folders = [
        calibrate(answers, SPEC, alpha=0.1).save(tmp_path / name) for name in ("first", "second")
    ]
    for name in ("report.json", "calibration.json", "scores.parquet", "report.html"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_another_seed_gives_another_split(answers: Path) -> None:
    first = calibrate(answers, SPEC, alpha=0.1)
    second = calibrate(answers, SPEC, alpha=0.1, splitting=SplitOptions(seed=1))
    assert first.codes is not None
    assert (first.codes != second.codes).any()


def test_a_saved_run_freezes_like_the_one_in_memory(answers: Path, tmp_path: Path) -> None:
    run = calibrate(answers, SPEC, alpha=0.1)
    loaded = Run.load(run.save(tmp_path / "run"))
    assert loaded.freeze().config.to_bytes() == run.freeze().config.to_bytes()


def test_the_guardrail_counts_as_the_report_did(answers: Path) -> None:
    run = calibrate(answers, SPEC, alpha=0.1)
    assert run.table is not None
    assert run.codes is not None
    examples = list(read(answers, keep=["detector"]))
    decisions = run.freeze().decide(examples)
    test = run.codes == 2
    flagged = np.array([decision.flagged for decision in decisions])
    labels = run.table.labels
    assert int(flagged[test & (labels == 1)].sum()) == run.report.test.coverage.count
    assert int(flagged[test & (labels == 0)].sum()) == run.report.test.fpr.count


def test_the_users_split_is_taken(tmp_path: Path) -> None:
    items = rows()
    for item in items:
        item["part"] = "calibration" if int(item["group"][1:]) % 3 else "test"
    path = write(tmp_path / "a.jsonl", items)
    run = calibrate(path, SPEC, alpha=0.1, splitting=SplitOptions(column="part"))
    assert run.calibration.n == sum(
        item["part"] == "calibration" and item["label"] == 1 for item in items
    )


def test_undefined_scores_are_counted_by_policy(tmp_path: Path) -> None:
    items = rows()
    for item in items[::7]:
        item["detector"] = None
    path = write(tmp_path / "a.jsonl", items)
    flag = calibrate(path, SPEC, alpha=0.2)
    assert flag.calibration.n_undefined > 0
    assert flag.calibration.n == flag.calibration.n_undefined + len(flag.calibration.scores)
    released = calibrate(path, SPEC, alpha=0.3, undefined="pass")
    same = calibrate(path, SPEC, alpha=0.3)
    assert released.calibration.threshold < same.calibration.threshold
    assert sum(flag.report.data["undefined_reasons"].values()) == len(items[::7])


def test_too_few_examples_name_the_minimum(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", rows(20))
    with pytest.raises(TooFewExamplesError, match="at least 19"):
        calibrate(path, SPEC, alpha=0.05)
    run = calibrate(path, SPEC, alpha=0.05, allow_flag_all=True)
    assert run.report.test.fpr.estimate == 1.0
    assert run.freeze().check(columns={"detector": -99.0}).outcome == "flag"


@pytest.mark.parametrize("label", [0, 1])
def test_a_missing_class_is_named(tmp_path: Path, label: int) -> None:
    path = write(tmp_path / "a.jsonl", [item for item in rows() if item["label"] == label])
    missing = "hallucinated" if label == 0 else "faithful"
    with pytest.raises(DataError, match=missing):
        calibrate(path, SPEC, alpha=0.1)


def test_a_column_without_numbers_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{**item, "detector": None} for item in rows()])
    with pytest.raises(DataError, match="detector is undefined for all 240"):
        calibrate(path, SPEC, alpha=0.1)


def test_bad_rows_are_set_aside_and_counted(tmp_path: Path) -> None:
    items: list[object] = [*rows(), "{broken", {"question": "q", "label": 7, "response": "r"}]
    path = write(tmp_path / "a.jsonl", items)  # type: ignore[arg-type]
    quarantine = tmp_path / "quarantine.jsonl"
    run = calibrate(path, SPEC, alpha=0.1, reading=ReadOptions(quarantine=quarantine))
    assert run.data["n_quarantined"] == 2
    assert [json.loads(line)["row"] for line in quarantine.read_text().splitlines()] == [241, 242]
    assert any("cannot be used: 2" in note for note in run.report.notes)


def test_near_duplicates_across_the_split_are_reported(tmp_path: Path) -> None:
    items = rows()
    for item in items:
        item["group"] = item["id"]
        item["response"] = "The very same answer, word for word."
        item["question"] = "The very same question?"
    run = calibrate(write(tmp_path / "a.jsonl", items), SPEC, alpha=0.1)
    assert run.data["near_duplicates"]["exact"] == len(items)
    codes = [warning.code for warning in run.report.warnings]
    assert "near_duplicates" in codes and "near-duplicate" not in " ".join(run.report.notes)


def test_further_scores_stand_beside_the_calibrated_one(answers: Path) -> None:
    run = calibrate(answers, [SPEC, "length"], alpha=0.1)
    assert [row.name for row in run.report.detectors] == ["length"]
    assert "length" not in {row.name for row in run.report.baselines}
    assert run.spec["name"] == "column"


def test_compare_ranks_by_false_alarms_and_keeps_every_field(answers: Path) -> None:
    limits = {"guarantee": "marginal", "max_fpr": 0.9}
    result = compare(answers, [SPEC, "length", "rouge_l"], alpha=0.1, **limits)
    content = result.to_dict()
    rates = [detector["test"]["fpr"]["estimate"] for detector in content["detectors"]]
    assert rates == sorted(rates)
    run = calibrate(answers, SPEC, alpha=0.1, guarantee="marginal", max_fpr=0.9)
    single, codes = run.report.to_dict(), result.codes
    found = next(item for item in content["detectors"] if item["name"] == "detector")
    assert found.keys() == single.keys() | {"name", "partial_auroc"}
    assert found["test"].keys() == single["test"].keys()
    assert found["threshold"] == single["threshold"]
    # The test part is that of a calibration; what is shown is of the half that chooses.
    assert run.codes is not None
    assert np.array_equal(np.isin(codes, (TEST, CONFIRMING)), run.codes == TEST)
    table = result.scored.table
    flagged = table.columns["detector"] >= single["threshold"]
    for rate, label in (("coverage", 1), ("fpr", 0)):
        part = flagged[(codes == TEST) & (table.labels == label)]
        for shown in (found["test"], found["certificate"]):
            assert (shown[rate]["count"], shown[rate]["n"]) == (part.sum(), len(part))
        assert len(part) < single["test"][rate]["n"]
    halves = content["winner"]["halves"]
    assert sum(halves["confirming"].values()) == (codes == CONFIRMING).sum()


def test_certify_leaves_out_what_set_the_threshold(answers: Path, tmp_path: Path) -> None:
    run = calibrate(answers, SPEC, alpha=0.1)
    guardrail = run.freeze()
    again = certify(guardrail, answers, max_fpr=0.9)
    assert again.n_seen_before == run.calibration.n
    assert again.certificate.coverage.count == run.report.test.coverage.count
    assert any("very file" in warning for warning in again.warnings)

    fresh = write(tmp_path / "fresh.jsonl", rows(400, seed=9, prefix="New "))
    result = certify(guardrail, fresh, max_fpr=0.9, min_coverage=0.8)
    assert result.n_seen_before == 0
    assert result.certificate.coverage.n == 400
    assert result.certificate.verdict == "certified"
    assert certify(guardrail, fresh, max_fpr=0.01).certificate.verdict == "rejected"


def test_certify_needs_both_classes(answers: Path, tmp_path: Path) -> None:
    guardrail = calibrate(answers, SPEC, alpha=0.1).freeze()
    only = [item for item in rows(seed=3, prefix="New ") if item["label"] == 1]
    with pytest.raises(DataError, match="no fresh faithful"):
        certify(guardrail, write(tmp_path / "b.jsonl", only), max_fpr=0.9)


def test_a_number_that_json_lacks_is_in_no_file() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        list(json_parts({"a": [0.0, float("nan")]}))
