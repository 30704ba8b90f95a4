"""Do verdicts rest on one answer of each group and class, in every command and unasked?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import calibrail
from calibrail.options import Promise
from tests.command_line import calibrail as run_command

COLUMN = ("--score-column", "s", "--higher", "hallucinated")


def write(path: Path, groups: int = 150, seed: int = 0) -> Path:
    """Write alike answers of groups of one to nine; ``t`` crosses groups, ``u`` does not."""
    rng = np.random.default_rng(seed)
    rows = ["id,g,s,label,t,u"]
    for group in range(groups):
        size, effect = int(rng.integers(1, 10)), rng.normal()
        for place in range(size):
            label = int(rng.random() < 0.5)
            score = 2.5 * label + 0.9 * effect + 0.4 * rng.normal()
            rows.append(
                f"{seed}-{group}-{place},q{group},{score:.5f},{label},t{place % 2},u{group % 2}"
            )
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("grouped") / "answers.csv")


def calibrated(data: Path, folder: Path, *more: str) -> dict[str, Any]:
    options = ("--group-column", "g", *COLUMN, "--alpha", "0.2", "--guarantee", "marginal")
    done = run_command("calibrate", str(data), *options, "-o", str(folder), *more)
    assert done.returncode in (0, 3, 4), done.stderr
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def groups_of(folder: Path, label: int) -> tuple[int, int]:
    """Return the test rows of one class that count, and how many groups they are of."""
    table = pq.read_table(folder / "scores.parquet").to_pydict()
    rows = [
        group
        for group, truth, part in zip(table["group"], table["label"], table["split"], strict=True)
        if part == "test" and truth == label
    ]
    return len(rows), len(set(rows))


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
def test_every_number_rests_on_one_answer_of_each_group_and_class(
    data: Path, tmp_path: Path, guarantee: str
) -> None:
    asked = ("--max-fpr", "0.9", "--guarantee", guarantee, "--calibration-share", "0.5")
    report = calibrated(data, tmp_path, *asked)
    assert report["promise"]["clustered"] is True
    for label, side in ((1, "coverage"), (0, "fpr")):
        n, n_groups = groups_of(tmp_path, label)
        assert n == n_groups == report["test"][side]["n"]
    assert report["certificate"]["coverage"]["n"] == report["test"]["coverage"]["n"]
    # A reader who counts by hand finds the same.
    table = pq.read_table(tmp_path / "scores.parquet").to_pydict()
    key = next(name for name in table if name not in ("id", "group", "label", "split"))
    rows = zip(table[key], table["label"], table["split"], strict=True)
    test = [(score, label) for score, label, part in rows if part == "test"]
    caught = sum(score >= report["threshold"] for score, label in test if label)
    assert caught == report["test"]["coverage"]["count"]
    message = next(w["message"] for w in report["warnings"] if w["code"] == "clustered")
    assert "not independent" in " ".join(message.split())


def test_a_comparison_uses_the_thresholds_and_answers_of_a_calibration(
    data: Path, tmp_path: Path
) -> None:
    alone = calibrated(data, tmp_path / "run", "--max-fpr", "0.9")
    options = ("--group-column", "g", *COLUMN, "--alpha", "0.2", "--max-fpr", "0.9")
    options += ("--guarantee", "marginal")
    run_command("compare", str(data), *options, "-o", str(tmp_path / "compare"))
    content = json.loads((tmp_path / "compare" / "compare.json").read_text())
    beside = content["detectors"][0]
    for field in ("threshold", "n_calibration", "promise"):
        assert beside[field] == alone[field]
    whole, shown = (
        pq.read_table(tmp_path / name / "scores.parquet").to_pydict() for name in ("run", "compare")
    )
    tested = [part == "test" for part in whole["split"]]
    assert [part in ("test", "confirming") for part in shown["split"]] == tested
    # What it shows is of the half that chooses, with whole groups on either side.
    rows = list(zip(*(shown[key] for key in ("group", "s", "label", "split")), strict=True))
    sides = ({row[0] for row in rows if row[3] == part} for part in ("test", "confirming"))
    assert not set.intersection(*sides)
    for rate, truth in (("coverage", 1), ("fpr", 0)):
        chosen = [s for _, s, label, part in rows if (label, part) == (truth, "test")]
        count = sum(s >= alone["threshold"] for s in chosen)
        for found in (beside["test"][rate], beside["certificate"][rate]):
            assert (found["count"], found["n"]) == (count, len(chosen))


def test_values_of_a_column_get_thresholds_from_one_answer_of_each_group(
    data: Path, tmp_path: Path
) -> None:
    crossing = calibrated(data, tmp_path / "t", "--by", "t", "--max-fpr", "0.9")
    nested = calibrated(data, tmp_path / "u", "--by", "u", "--max-fpr", "0.9")
    for report in (crossing, nested):
        assert all(row["own"] for row in report["by_group"]["rows"])
        n = sum(row["coverage"]["n"] for row in report["by_group"]["rows"])
        assert n == report["test"]["coverage"]["n"]
    # Where groups cross values, the verdict about all answers counts a group once nevertheless.
    assert crossing["certificate"]["coverage"]["n"] < crossing["test"]["coverage"]["n"]
    assert nested["certificate"]["coverage"]["n"] == nested["test"]["coverage"]["n"]


def test_risks_rest_on_one_answer_of_each_group(data: Path, tmp_path: Path) -> None:
    report = calibrated(data, tmp_path, "--risk", "precision>=0.6", "--risk", "recall>=0.5")
    table = pq.read_table(tmp_path / "scores.parquet").to_pydict()
    parts = list(zip(table["group"], table["split"], strict=True))
    for part in ("calibration", "test"):
        groups = [group for group, place in parts if place == part]
        assert len(groups) == len(set(groups))
    assert (
        report["risks"]["measured"][0]["test"]["n"]
        <= report["test"]["n_hallucinated"] + (report["test"]["n_faithful"])
    )


def test_independence_is_assumed_aloud(data: Path, tmp_path: Path) -> None:
    report = calibrated(data, tmp_path, "--max-fpr", "0.9", "--assume-independent")
    assert report["promise"]["clustered"] is False
    assert "--assume-independent" in report["reason"] and "share a group" in report["reason"]
    n, n_groups = groups_of(tmp_path, 1)
    assert n == report["test"]["coverage"]["n"] > n_groups
    codes = [warning["code"] for warning in report["warnings"]]
    assert "assumed_independent" in codes and "clustered" not in codes


def test_fresh_answers_count_once_a_group_and_class(data: Path, tmp_path: Path) -> None:
    run = calibrail.calibrate(
        data,
        "column:column=s,higher=hallucinated",
        Promise(0.2),
        reading=calibrail.ReadOptions(group_column="g"),
    )
    guardrail, fresh = run.freeze(), write(tmp_path / "fresh.csv", seed=1)
    limits: dict[str, Any] = {"max_fpr": 0.9, "min_coverage": 0.5}
    once = calibrail.certify(guardrail, fresh, by="t", **limits)
    rows = [line.split(",") for line in fresh.read_text().splitlines()[1:]]
    assert once.certificate.coverage.n == len({row[1] for row in rows if row[3] == "1"})
    assert once.certificate.fpr.n == len({row[1] for row in rows if row[3] == "0"})
    assert once.groups is not None
    alike = {(row[1], row[4]) for row in rows if row[3] == "1"}
    assert sum(item.certificate.coverage.n for item in once.groups.values()) == len(alike)
    assert once.n_set_aside == len(rows) - once.certificate.coverage.n - once.certificate.fpr.n
    shuffled = tmp_path / "shuffled.csv"
    lines = fresh.read_text().splitlines()
    shuffled.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    again = calibrail.certify(guardrail, shuffled, by="t", **limits)
    assert (again.certificate, again.groups) == (once.certificate, once.groups)
    every = calibrail.certify(guardrail, fresh, assume_independent=True, **limits)
    assert every.certificate.coverage.n + every.certificate.fpr.n == len(rows)
    assert "--assume-independent" in every.certificate.reason and every.assumed_independent > 0


def test_which_answer_counts_has_nothing_to_do_with_order_or_score(tmp_path: Path) -> None:
    """Answers that share their texts, sorted by score: the first of each must not be the one."""
    rng, counted = np.random.default_rng(5), []
    rows = []
    for group in range(120):
        for label in (0, 1):
            scores = rng.normal(1.2 * label, size=8)
            rows += [(f"Question {group}?", label, float(score)) for score in scores]
    for place, (up, label_first) in enumerate([(1, 0), (-1, 0), (1, 1)]):
        ordered = sorted(rows, key=lambda row: (row[1] ^ label_first, up * row[2]))
        data = tmp_path / f"{place}.csv"
        lines = [f"{question},{label},{score:.6f}" for question, label, score in ordered]
        data.write_text("\n".join(["question,label,s", *lines]) + "\n")
        reading = calibrail.ReadOptions(group_column="question")
        score, asked = "column:column=s,higher=hallucinated", {"alpha": 0.2, "max_fpr": 0.5}
        run = calibrail.calibrate(data, score, guarantee="marginal", reading=reading, **asked)
        counted.append((run.report.test.coverage, run.report.test.fpr))
        fresh = run.freeze()
        limits: dict[str, Any] = {"max_fpr": 0.5, "fresh": True, "reading": reading}
        assert calibrail.certify(fresh, data, **limits).certificate.fpr.n <= 120
    assert counted[0] == counted[1] == counted[2]
    truth = np.mean([score >= run.report.threshold for _, label, score in rows if not label])
    assert counted[0][1].lower < truth < counted[0][1].upper


def test_one_answer_of_each_class_is_two_for_a_risk_about_both(tmp_path: Path) -> None:
    rng, data = np.random.default_rng(2), tmp_path / "pairs.csv"
    rows = ["id,g,s,label"]
    for group in range(300):
        effect = rng.normal()
        rows += [f"{group}-{k},q{group},{2.5 * k + effect:.5f},{k}" for k in (0, 1)]
    data.write_text("\n".join(rows) + "\n")
    report = calibrated(data, tmp_path / "run", "--risk", "accuracy>=0.6")
    assert report["test"]["n_hallucinated"] + report["test"]["n_faithful"] == 150
    assert "clustered" in [warning["code"] for warning in report["warnings"]]
    assert calibrated(data, tmp_path / "other", "--max-fpr", "0.9")["test"]["n_faithful"] == 150


def test_no_number_of_flips_is_promised_where_a_flip_changes_what_counts(
    data: Path, tmp_path: Path
) -> None:
    report = calibrated(data, tmp_path, "--max-fpr", "0.9", "--min-coverage", "0.4")
    assert report["verdict"] == "certified" and report["certificate"]["flips"] is None
