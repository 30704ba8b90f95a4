"""Does everything printed speak of a column in its own name, numbers and direction?"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from calibrail import Guardrail
from tests.command_line import calibrail

pytestmark = pytest.mark.painted

#: Values of the column lie from 101 to 199, so that one with a sign before it was turned round.
TURNED = re.compile(r"(?:-|\N{MINUS SIGN})1\d\d\b")
COLUMN = ("--score-column", "trust", "--higher", "faithful", "--alpha", 0.2)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "answers.csv"
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "group", "label", "trust", "coarse", "topic"])
        for row in range(600):
            label = row % 2
            trust = round(float(np.clip(150 - 12 * label + 10 * rng.normal(), 101, 199)), 3)
            coarse = 110 + 10 * int(trust > 140) + 10 * int(trust > 155)
            rows.writerow([f"a{row}", f"g{row // 4}", label, trust, coarse, f"t{row % 3}"])
    return path


def printed(*arguments: object) -> str:
    done = calibrail(*arguments)
    assert done.returncode in (0, 3, 4), done.stderr
    return " ".join((done.stdout + done.stderr).split())


def speaks_its_numbers(text: str) -> None:
    """No value of the column is negated in what is shown; figures and scripts included."""
    text = re.sub(r' (?:d|points|transform)="[^"]*"', "", text)  # coordinates
    # Nor is the number of the folder of a test one.
    assert not TURNED.findall(re.sub(r"pytest-\d+", "pytest", text))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--assume-independent",), ["its trust is at most 1", "counted from the highest"]),
        (("--guarantee", "pac"), ["its trust is at most 1"]),
        (("--beta", 0.2), ["An answer passes when its trust is above 1", "is flagged below 1"]),
        (("--by", "topic"), ["its own threshold on the trust"]),
        (("--clustered",), ["its trust is at most 1", "Groups that count once"]),
        (("--risk", "recall>=0.7", "--risk", "fpr<=0.8"), ["its trust is at most 1"]),
    ],
)
def test_a_report_speaks_the_direction_of_the_column(
    answers: Path, tmp_path: Path, options: tuple[str, ...], says: list[str]
) -> None:
    shown = printed("calibrate", answers, *COLUMN, *options, "-o", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    speaks_its_numbers(shown)
    speaks_its_numbers(page)
    for sentence in says:
        assert sentence in " ".join(page.split())
    assert "trust (higher = more likely faithful)" in page
    exported = printed("export", tmp_path / "run", "-o", tmp_path / "guardrail.json")
    speaks_its_numbers(exported)
    assert "guardrail.json: trust, " in exported


def test_the_slider_and_its_figure_run_as_the_column_does(answers: Path, tmp_path: Path) -> None:
    printed("calibrate", answers, *COLUMN, "-o", tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["column_threshold"] == -report["threshold"] > 100
    offered = json.loads(re.search(r'id="operating-points"[^>]*>(.*?)</script>', page)[1])
    points, used = offered["points"], offered["points"][offered["in_use"]]
    thresholds = [point[0] for point in points]
    assert thresholds == sorted(thresholds) and thresholds[0] > 100
    # The higher the threshold, the more lies at or below it and is flagged.
    assert [point[1] for point in points] == sorted(point[1] for point in points)
    assert used[0] == report["column_threshold"]
    assert used[1] == pytest.approx(report["test"]["coverage"]["estimate"], abs=1e-6)
    assert "Answers at or left of the dashed line are flagged" in page


def test_scores_are_kept_beside_the_values_of_the_column(answers: Path, tmp_path: Path) -> None:
    printed(
        "score", answers, "--score", "column:column=trust,higher=faithful", "-o", tmp_path / "s"
    )
    table = pq.read_table(tmp_path / "s")
    given = [float(row["trust"]) for row in csv.DictReader(answers.open())]
    assert table["trust__column"].to_pylist() == given
    assert table["trust"].to_pylist() == [-value for value in given]


def test_decisions_speak_the_direction_of_the_column(answers: Path, tmp_path: Path) -> None:
    frozen, written = tmp_path / "guardrail.json", tmp_path / "decisions.jsonl"
    printed("calibrate", answers, *COLUMN, "-o", tmp_path / "run")
    printed("export", tmp_path / "run", "-o", frozen)
    printed("check", frozen, answers, "-o", written)
    for line in map(json.loads, written.open(encoding="utf-8")):
        assert line["column"] == "trust"
        assert (line["column_value"], line["column_threshold"]) == (
            -line["score"],
            -line["threshold"],
        )
        flagged = line["column_value"] <= line["column_threshold"]
        assert (line["outcome"] == "flag") == flagged
        relation = "at most" if flagged else "above"
        assert re.fullmatch(rf"trust 1[\d.]+ is {relation} the threshold 1[\d.]+", line["reason"])
    explained = printed("explain", frozen, "--response", "x", "--column", "trust=120.5")
    assert explained.startswith("FLAG trust trust 120.5 is at most the threshold 1")
    decision = Guardrail.load(frozen).check(columns={"trust": 180})
    speaks_its_numbers(repr(decision))
    assert "trust=180, threshold=1" in repr(decision)


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "--score-column", "coarse"),
        ("shift", "--by", "topic"),
        ("audit", "--by", "topic", "--score-column", "coarse"),
    ],
)
def test_the_other_pages_speak_it_too(
    answers: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    name, *options = command
    column = COLUMN[:4] if name == "audit" else COLUMN
    shown = printed(name, answers, *column, *options, "-o", tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    speaks_its_numbers(shown)
    speaks_its_numbers(page)
    assert "trust" in shown


def test_a_wrong_direction_is_told_in_the_numbers_of_the_column(
    answers: Path, tmp_path: Path
) -> None:
    wrong = ("--score-column", "trust", "--higher", "hallucinated", "--alpha", 0.2)
    shown = printed("calibrate", answers, *wrong, "-o", tmp_path)
    assert "faithful answers score higher than hallucinated ones" in shown
    assert "(--higher)" in shown
