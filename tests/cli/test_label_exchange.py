"""`calibrail label --export` and `--import`, and the verdict that `label` leaves in the folder."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import calibrail
from tests.labelling.rows import frozen, traces, truth_of, write


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Path, Path]:
    """Return traces and a guardrail."""
    frozen().save(tmp_path / "g.json")
    return write(tmp_path / "traces.jsonl", traces(200)), tmp_path / "g.json"


def filled(path: Path, words: dict[int, str], spoilt: int = 0) -> None:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows: list[dict[str, Any]] = list(csv.DictReader(stream))
    for number, row in enumerate(rows):
        row["label"] = "yes" if number < spoilt else words[truth_of(row["question"])]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_a_verdict_by_way_of_a_spreadsheet(tmp_path: Path, begun: tuple[Path, Path]) -> None:
    path, guardrail = begun
    labels, sheet = tmp_path / "labels", tmp_path / "sheet.csv"
    limits = ("--guardrail", guardrail, "--max-fpr", 0.9, "--min-coverage", 0.4)
    done = calibrail(
        "label",
        path,
        "-o",
        labels,
        *limits,
        "--annotator",
        "ada",
        "--export",
        sheet,
        "--export-n",
        90,
    )
    assert done.returncode == 4, done.stderr
    assert "--import" in done.stdout and str(sheet) in done.stdout
    filled(sheet, {1: "falsch", 0: "richtig"})
    done = calibrail("label", "-o", labels, "--annotator", "ada", "--import", sheet)
    assert done.returncode == 1 and "says neither class" in done.stderr
    means = ("--label-map", "falsch=1,richtig=0")
    done = calibrail(
        "label", "-o", labels, "--annotator", "ada", "--import", sheet, *means, "--json"
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["imported"]["labelled"] == 90 and content["counts"]["verdict"] == "certified"
    verdict = json.loads((labels / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["verdict"] == "certified" and (labels / "index.html").exists()
    done = calibrail("certify", guardrail, "--labels", labels, "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, verdict)


def test_rows_that_are_not_taken_are_named_and_the_others_are_kept(
    tmp_path: Path, begun: tuple[Path, Path]
) -> None:
    path, _ = begun
    labels, sheet = tmp_path / "labels", tmp_path / "sheet.csv"
    calibrail("label", path, "-o", labels, "--export", sheet, "--export-n", 6)
    filled(sheet, {1: "hallucinated", 0: "faithful"}, spoilt=2)
    done = calibrail("label", "-o", labels, "--import", sheet)
    assert done.returncode == 1
    assert "4 labels, 2 not taken" in " ".join(done.stdout.split())
    assert "row 2: label 'yes'" in done.stderr and "row 3: label 'yes'" in done.stderr
    assert len((labels / "labels.jsonl").read_text(encoding="utf-8").splitlines()) == 4


def test_what_labels_mean_is_for_an_import(tmp_path: Path, begun: tuple[Path, Path]) -> None:
    done = calibrail(
        "label", begun[0], "-o", tmp_path / "labels", "--positive", "bad", "--terminal"
    )
    assert done.returncode == 2 and "--import" in done.stderr
    done = calibrail("label", begun[0], "-o", tmp_path / "labels", "--export", tmp_path / "a.json")
    assert done.returncode == 2 and "--export-as" in done.stderr
    done = calibrail(
        "label",
        begun[0],
        "-o",
        tmp_path / "labels",
        "--export",
        tmp_path / "a.json",
        "--export-as",
        "label-studio",
        "--export-n",
        3,
    )
    assert done.returncode == 0 and (tmp_path / "a.xml").exists()


def test_a_second_seed_is_a_further_look(tmp_path: Path, begun: tuple[Path, Path]) -> None:
    path, guardrail = begun
    limits = ("--guardrail", guardrail, "--max-fpr", 0.9, "--min-coverage", 0.4)
    codes = []
    for seed in (0, 1):
        labels, sheet = tmp_path / f"labels{seed}", tmp_path / f"sheet{seed}.csv"
        command = ("label", path, "-o", labels, *limits, "--seed", seed)
        calibrail(*command, "--export", sheet, "--export-n", 120)
        filled(sheet, {1: "hallucinated", 0: "faithful"})
        # Going on without the guardrail named, its looks are found where it was.
        done = calibrail("label", "-o", labels, "--import", sheet)
        codes.append(done.returncode)
    assert codes == [0, 0]
    # The second folder is a further look, with less error left to it.
    looks = [
        json.loads(
            calibrail("certify", guardrail, "--labels", tmp_path / f"labels{seed}", "--json").stdout
        )["look"]
        for seed in (0, 1)
    ]
    assert [look["number"] for look in looks] == [1, 2]
    assert looks[1]["level"] < looks[0]["level"] / 3


def test_of_many_bad_rows_the_first_are_named(tmp_path: Path, begun: tuple[Path, Path]) -> None:
    labels, sheet = tmp_path / "labels", tmp_path / "sheet.csv"
    calibrail("label", begun[0], "-o", labels, "--export", sheet, "--export-n", 30)
    filled(sheet, {1: "hallucinated", 0: "faithful"}, spoilt=25)
    done = calibrail("label", "-o", labels, "--import", sheet)
    assert done.stderr.count("says neither class") == 10
    assert "and 15 more such rows" in done.stderr
