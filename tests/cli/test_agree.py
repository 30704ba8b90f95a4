"""Does ``calibrail agree`` print what it found, which number to trust, and why?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import calibrail
from calibrail.cli import evidence as command
from calibrail.errors import DataError, InputError
from calibrail.pipelines.agree import agree
from calibrail.scores.registry import build_column
from tests.answers import rows, write
from tests.pipelines.test_agree import COLUMNS, SCORES, judged

APP = typer.Typer()
APP.command(name="agree")(command.agree_command)
LABELS = ("--human", "human", "--judge", "judge")
FLAGS = ("--score-column", "detector", "--higher", "hallucinated", "--threshold", "0.75")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(APP, [*map(str, arguments)], env={"COLUMNS": "80"})


def words(result: Result) -> str:
    return " ".join(result.stdout.split())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return write(tmp_path / "answers.jsonl", judged())


def test_agreement_comes_first_then_four_estimates_then_which_to_trust(answers: Path) -> None:
    done = run(answers, *LABELS, *FLAGS)
    assert done.exit_code == 0, done.output
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    result = agree(answers, **COLUMNS, **SCORES)
    text = words(done)
    shared = result.agreement.agreement
    assert f"agree on {100 * shared.estimate:.1f}% of those".replace(".0%", "%") in text
    parts = ("Judge and people agree", "Finds hallucinated (sensitivity)", "Cohen's kappa")
    parts += ("McNemar", "Four estimates", "What each takes for granted", "Which to trust", "Next:")
    order = [text.index(part) for part in parts]
    assert order == sorted(order)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Caught ")]
    for _, found in result.rates["coverage"]:
        known = found.measure.estimate
        shown = "none" if known is None else f"{100 * known:.1f}".removesuffix(".0") + "%"
        assert shown in line
    assert line.count("*") == 1 and line.rstrip().endswith("*")
    assert "not by proof" in text and "the judge never errs" in text
    assert "Caught: Pred.-powered (*); like the human labels alone" in text
    assert "calibrail certify on human labels alone" in text


def test_json_is_the_result(answers: Path) -> None:
    done = run(answers, *LABELS, *FLAGS, "--confidence", 0.9, "--json")
    assert done.exit_code == 0
    expected = agree(answers, **COLUMNS, **SCORES, confidence=0.9).to_dict()
    assert json.loads(done.stdout) == json.loads(json.dumps(expected))


def test_labels_alone_name_what_is_next(answers: Path) -> None:
    text = words(run(answers, *LABELS))
    assert "Hallucinated" in text and "Caught" not in text
    assert "Next: Name what flags answers (--guardrail" in text


def test_a_guardrail_flags(answers: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "calibration.jsonl", rows(200))
    column = build_column("detector", higher="hallucinated")
    frozen = calibrail.calibrate(source, column, alpha=0.2).freeze()
    frozen.save(tmp_path / "guardrail.json")
    done = run(answers, *LABELS, "--guardrail", tmp_path / "guardrail.json", "--json")
    expected = agree(answers, **COLUMNS, guardrail=frozen).to_dict()
    assert json.loads(done.stdout) == json.loads(json.dumps(expected))


def test_few_human_labels_and_what_is_missing_are_explained(tmp_path: Path) -> None:
    items = judged(100)
    kept = 0
    for item in items:
        if item["human"] is not None:
            kept += 1
            item["human"] = item["human"] if kept <= 12 else None
    text = words(run(write(tmp_path / "few.jsonl", items), *LABELS, *FLAGS))
    # 12 human labels say little, and the interval says so.
    assert "39.1 to 95.7%" in text and "its interval is 16% narrower than the exact one" in text
    for item in items:
        item["human"] = 0 if item["human"] == 0 else None
    text = words(run(write(tmp_path / "one.jsonl", items), *LABELS, *FLAGS))
    assert "Missing or cut off" in text
    assert "Caught, Human only: people call no answer hallucinated." in text
    assert "Caught: none of them; people call no answer hallucinated." in text
    assert "Next: Draw rows at random" in text


def test_rows_that_cannot_be_used_are_noted(tmp_path: Path) -> None:
    items = judged(50)
    items[0]["human"] = "maybe"
    source = write(tmp_path / "answers.jsonl", items)
    done = run(source, *LABELS)
    assert done.exit_code == 0 and "1 unusable row: see quarantine.jsonl" in done.stderr
    assert json.loads((tmp_path / "quarantine.jsonl").read_text())["value"] == "'maybe'"
    strict = run(source, *LABELS, "--strict")
    assert isinstance(strict.exception, DataError) and "field human" in str(strict.exception)


def test_options_that_belong_together(answers: Path) -> None:
    done = run(answers, *LABELS, "--threshold", 1)
    assert isinstance(done.exception, InputError)
    assert run(answers, "--human", "human").exit_code == 2
