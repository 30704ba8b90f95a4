"""What the harness that runs every command does by itself: no command is run here."""

from __future__ import annotations

import importlib
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from calibrail.guardrail.decision_log.verify import verify_log


@pytest.fixture
def every_command(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("every_command")


@pytest.fixture
def place(every_command: ModuleType, tmp_path: Path) -> Any:
    return every_command.Place(tmp_path / "work", tmp_path / "results", "python", tmp_path)


def test_every_command_of_calibrail_is_run(every_command: ModuleType, repository: Path) -> None:
    text = (every_command.HERE / "every_command.txt").read_text("utf-8")
    lines = [line.split() for lines in every_command.scenes(text).values() for line in lines]
    run = {words[0].strip("!") for words in lines}
    # Importing the commands takes longer than all of these tests.
    page = (repository / "docs" / "cli.md").read_text("utf-8")
    there = set(re.findall(r"^\| `calibrail ([a-z-]+)", page, re.MULTILINE))
    assert len(there) == 23 and there - run == set()
    for noun, *actions in (
        ("cache", "clear", "show"),
        ("guardrail", "card", "verify"),
        ("log", "export", "verify"),
    ):
        assert sorted({words[1] for words in lines if words[0] == noun}) == actions


@pytest.mark.parametrize("name", ["every_command.txt", "every_command_artifacts.txt"])
def test_own_lines_are_known_and_no_folder_stands_twice(
    every_command: ModuleType, name: str
) -> None:
    text = (every_command.HERE / name).read_text("utf-8")
    found = every_command.scenes(text)
    assert len(found) == sum(line.startswith("[") for line in text.splitlines())
    own = [line.split()[0][1:] for lines in found.values() for line in lines if line[0] == "!"]
    assert set(own) <= set(every_command.OWN)


def test_moments_of_this_run_become_words_and_others_stay(place: Any) -> None:
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    place.words["/tmp/x"] = "WORK"
    assert place.settled(f'"{now}" in /tmp/x') == '"NOW" in WORK'
    assert place.settled("at 2025-03-01T00:10:00Z") == "at 2025-03-01T00:10:00Z"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("scoring: 10 answers, 3 s so far\nwrote run", ["wrote run"]),
        ("cost of rad: 75.2 s per 1,000 answers", ["cost of rad: TIME per 1,000 answers"]),
        ("cost of x: 253 ms per 1,000 answers", ["cost of x: TIME per 1,000 answers"]),
        ("score 0.83 of 20 samples, 5 hallucinated", ["score 0.83 of 20 samples, 5 hallucinated"]),
    ],
)
def test_durations_become_words(
    every_command: ModuleType, place: Any, tmp_path: Path, said: str, kept: list[str]
) -> None:
    every_command._keep(place, tmp_path, '{"seconds": 1}', said, 4, "certify g x")
    assert json.loads((tmp_path / "said.json").read_text("utf-8")) == kept
    assert json.loads((tmp_path / "ended.json").read_text("utf-8"))["code"] == 4
    assert (tmp_path / "printed.json").exists()


def test_a_log_is_whole(every_command: ModuleType, tmp_path: Path) -> None:
    row = {"id": "a", "outcome": "pass", "score": 0.1, "threshold": 0.5, "p_value": 0.2}
    lines = [
        {"kind": "opened", "chain": every_command.CHAIN, "file": 1, "others": {}},
        {"guardrail": "sha256:0", "name": "g", **row, "reason": "ä below"},
        {"kind": "closed", "others": {}},
    ]
    written = every_command.chained(lines, every_command.BEGIN, timedelta(minutes=10))
    (tmp_path / f"{every_command.CHAIN}.0001.jsonl").write_bytes(b"".join(written))
    check = verify_log(tmp_path).to_dict()
    assert (check["verdict"], check["n_decisions"]) == ("whole", 1)


def test_a_sheet_is_filled_with_the_truth(
    every_command: ModuleType, place: Any, tmp_path: Path
) -> None:
    rows = [{"question": "Where?", "response": f"In {name}."} for name in "abcd"]
    truth = {every_command.known_by("Where?", f"In {name}. "): 1 for name in "abcd"}
    (tmp_path / "work" / "prepared").mkdir(parents=True)
    (tmp_path / "work" / "prepared" / "truth.json").write_text(json.dumps(truth), "utf-8")
    every_command.write_rows(tmp_path / "sheet.jsonl", rows)
    every_command.own_fill(place, tmp_path, tmp_path, "sheet.jsonl", "2")
    lines = (tmp_path / "sheet.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["label"] for line in lines] == [1, 0, 1, None]


def test_signatures_by_a_key_made_anew_are_not_compared(
    every_command: ModuleType, place: Any, tmp_path: Path
) -> None:
    (tmp_path / "g.json.dsse").write_text('{"keyid": "0a1b"}', "utf-8")
    every_command.keep_file(place, tmp_path / "g.json.dsse", tmp_path / "one" / "g.json.dsse")
    assert (tmp_path / "one" / "g.json.dsse.json").exists()
    place.words["0a1b"] = "KEYID"
    every_command.keep_file(place, tmp_path / "g.json.dsse", tmp_path / "two" / "g.json.dsse")
    assert list((tmp_path / "two").iterdir()) == []
