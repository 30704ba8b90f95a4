from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.answers import rows, write
from tests.cli.test_commands import COLUMN
from tests.command_line import calibrail


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    answers = write(folder / "answers.jsonl", rows(60))
    for name, spec in (("stretch", "novel_stretch"), ("length", "length")):
        done = calibrail("calibrate", answers, "--score", spec, "--alpha", 0.2, "-o", folder / name)
        assert done.returncode == 0, done.stderr
        assert f"cost of {spec}:" in done.stderr or spec == "length"
        assert (folder / name / "cost.json").is_file()
        assert calibrail("export", folder / name, "-o", folder / f"{name}.json").returncode == 0
    done = calibrail("calibrate", answers, *COLUMN, "--alpha", 0.2, "-o", folder / "column")
    assert calibrail("export", folder / "column", "-o", folder / "column.json").returncode == 0
    return folder


ANSWER = (
    "--question",
    "How high is Mount Ard?",
    "--context",
    "Mount Ard is 320 metres high.",
    "--response",
    "Mount Ard is 320 metres high, loved by wealthy painters.",
)


def test_explain_shows_the_decision_and_what_it_rests_on(folder: Path) -> None:
    done = calibrail("explain", folder / "stretch.json", *ANSWER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(("FLAG", "PASS"))
    assert '"loved by wealthy painters"' in done.stdout
    assert f"(calibrail guardrail card {folder / 'stretch.json'})" in " ".join(done.stdout.split())
    told = calibrail("explain", folder / "stretch.json", *ANSWER, "--json")
    decision = json.loads(told.stdout)
    assert decision["schema"] == "calibrail.explain/1"
    (item,) = decision["evidence"]["items"]
    assert ANSWER[5][item["start"] : item["end"]] == item["text"] == "loved by wealthy painters"


def test_explain_says_what_is_missing(folder: Path) -> None:
    done = calibrail("explain", folder / "stretch.json", "--response", "It is high.")
    assert done.returncode == 0
    assert "there is no context" in done.stdout
    done = calibrail("explain", folder / "length.json", "--response", "It is high.")
    assert "says nothing about parts" in done.stdout
    assert calibrail("explain", folder / "stretch.json").returncode == 2


def test_explain_takes_the_columns_that_a_guardrail_reads(folder: Path) -> None:
    done = calibrail(
        "explain", folder / "column.json", "--response", "x", "--column", "detector=0.5", "--json"
    )
    assert json.loads(done.stdout)["score"] == 0.5
    done = calibrail("explain", folder / "column.json", "--response", "x")
    assert done.stdout.rstrip().endswith('--column "detector=VALUE".')


def test_check_writes_evidence_where_it_is_asked_for(folder: Path) -> None:
    answers = folder / "answers.jsonl"
    for options, there in (((), False), (("--evidence",), True)):
        done = calibrail(
            "check", folder / "stretch.json", answers, *options, "-o", folder / "d.jsonl"
        )
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in (folder / "d.jsonl").open()]
        assert len(lines) == 120
        assert all(("evidence" in line) is there for line in lines)
        if there:
            assert any(line["evidence"]["items"] for line in lines)
