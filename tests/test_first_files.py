"""Files as people have them: what nobody said is asked or said, and never guessed in silence."""

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import calibrail
from calibrail.cli import app
from calibrail.errors import DataError, GuardrailError


def _rows(n: int = 80) -> list[dict[str, Any]]:
    lot = random.Random(3)
    bad = [i % 3 == 0 for i in range(n)]
    return [
        {"score": round(lot.gauss(0.6 if wrong else 0.4, 0.15), 3), "wrong": int(wrong)}
        for wrong in bad
    ]


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def _called(*words: object) -> Any:
    return CliRunner().invoke(app, list(map(str, words)))


def test_a_judges_labels_do_not_stand_for_peoples(tmp_path: Path) -> None:
    rows = [
        {
            "hallucination": int(r["score"] > 0.5),
            "judge_score": r["score"],
            "human_label": r["wrong"],
        }
        for r in _rows()
    ]
    with pytest.raises(DataError, match=r"contradict each other.*human_label"):
        calibrail.test(_write(tmp_path / "a.csv", rows), threshold=0.5, higher="hallucinated")
    for row in rows:
        row["hallucination"] = row["human_label"]
    done = calibrail.test(
        _write(tmp_path / "b.csv", rows),
        threshold=0.5,
        score_column="judge_score",
        higher="hallucinated",
    )
    assert done.report.test.n_hallucinated == 27


def test_a_score_that_has_the_name_of_a_label_is_none(tmp_path: Path) -> None:
    rows = [
        {"hallucination": r["score"], "human-annotation": ("correct", "hallucinated")[r["wrong"]]}
        for r in _rows()
    ]
    run = calibrail.test(_write(tmp_path / "a.csv", rows), threshold=0.5)
    assert run.report.score["params"]["column"] == "hallucination"
    assert run.report.test.n_hallucinated == 27


@pytest.mark.parametrize(("number", "said"), [(-1, True), (999, True), (0.4, False)])
def test_a_number_that_stands_for_no_score_is_told(
    tmp_path: Path, number: float, said: bool
) -> None:
    rows = [
        {"judge_score": number if i % 10 == 0 else abs(r["score"]), "label": r["wrong"]}
        for i, r in enumerate(_rows())
    ]
    done = _called(
        "test", _write(tmp_path / "a.csv", rows), "--threshold", 0.5, "--higher", "hallucinated"
    )
    assert (f"8 answers have {number:g} in judge_score" in " ".join(done.stdout.split())) is said


def test_a_score_made_from_its_labels_is_told(tmp_path: Path) -> None:
    rows = [
        {"score": r["wrong"], "label": ("factual", "hallucinated")[r["wrong"]]} for r in _rows()
    ]
    done = _called("test", _write(tmp_path / "a.csv", rows), "--higher", "hallucinated")
    assert "score separates the labels without a mistake" in " ".join(done.stdout.split())


@pytest.fixture
def guardrail(tmp_path: Path) -> Path:
    rows = [{"judge_score": r["score"], "label": r["wrong"]} for r in _rows()]
    run = calibrail.test(
        _write(tmp_path / "labelled.csv", rows), threshold=0.5, higher="hallucinated"
    )
    run.freeze().save(tmp_path / "g.json")
    return tmp_path / "g.json"


def test_scores_in_another_unit_are_told(tmp_path: Path, guardrail: Path) -> None:
    for factor, n in ((1, None), (100, 20)):
        rows = [{"judge_score": factor * r["score"]} for r in _rows(20)]
        data = _write(tmp_path / f"{factor}.csv", rows)
        done = _called("check", guardrail, data, "-o", tmp_path / f"{factor}.jsonl")
        assert ("lie beyond all scores" in " ".join(done.stdout.split())) is (n is not None)
        counted = _called("check", guardrail, data, "-o", tmp_path / f"{factor}.jsonl", "--json")
        assert json.loads(counted.stdout).get("beyond") == n


def test_lines_are_not_written_as_a_table(tmp_path: Path, guardrail: Path) -> None:
    done = _called("check", guardrail, tmp_path / "labelled.csv", "-o", tmp_path / "out.csv")
    assert "name it" in str(done.exception) and not (tmp_path / "out.csv").exists()
    words = ("--score", "length", "-o", tmp_path / "out.csv")
    done = _called("score", tmp_path / "labelled.csv", *words)
    assert "name it .parquet" in str(done.exception) and not (tmp_path / "out.csv").exists()


def test_what_is_no_guardrail_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    for path in (tmp_path, tmp_path / "a.csv"):
        with pytest.raises(GuardrailError, match=r"calibrail export RUN -o guardrail\.json"):
            calibrail.Guardrail.load(path)


def test_a_suggested_command_stands_alone_on_its_line(tmp_path: Path) -> None:
    rows = [
        {"score": r["score"], "state": ("Fine", "Odd", "Bad")[i % 3]} for i, r in enumerate(_rows())
    ]
    lines = _called("doctor", _write(tmp_path / "a.csv", rows)).stdout.splitlines()
    assert lines[-1].startswith("  calibrail doctor ") and "(" not in lines[-1]
    assert _called("plan").stdout.splitlines()[-1].endswith("--guarantee pac")


def test_what_is_piped_in_is_called_standard_input() -> None:
    done = CliRunner().invoke(app, ["doctor", "-"], input="\n")
    assert "/tmp" not in done.stderr
