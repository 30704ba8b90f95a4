"""Does the comparison of two folders of results see every change that matters, and no other?"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

REPORT: dict[str, Any] = {
    "threshold": 0.1,
    "n": 149,
    "flag_all": False,
    "reason": "It flags all.",
    "groups": [{"name": "a", "fpr": 0.5}, {"name": "b", "fpr": None}],
    "cost": {"seconds": 1.5, "calls": 3},
}


@pytest.fixture
def same_results(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("same_results")


def folder(path: Path, report: Mapping[str, Any], scores: list[float], text: str) -> Path:
    (path / "run").mkdir(parents=True)
    (path / "run" / "report.json").write_text(json.dumps(report), encoding="utf-8")
    pq.write_table(pa.table({"id": ["x", "y"], "score": scores}), path / "run" / "scores.parquet")
    (path / "stdout").write_text(text, encoding="utf-8")
    return path


def test_two_runs_of_one_version_are_the_same(
    same_results: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = folder(tmp_path / "a", REPORT, [0.1, float("nan")], "flags 14% of 1,204")
    later = {
        **REPORT,
        "threshold": 0.1 * (1 + 1e-14),
        "cost": {"seconds": 9.0, "calls": 3},
        "added": 1,
    }
    after = folder(tmp_path / "b", later, [0.1, float("nan")], "Of 1,204 it flags 14%, not 15%")
    assert same_results.main([str(before), str(after)]) == 0
    assert capsys.readouterr().out == "the same\n"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"threshold": 0.1 * (1 + 1e-11)}, "number   report.json threshold: 0.1 -> 0.1000"),
        ({"n": None}, "value    report.json n: 149 -> null"),
        ({"flag_all": 0}, "value    report.json flag_all: false -> 0"),
        ({"reason": "It does not."}, 'text     report.json reason: "It flags all." -> "It does'),
        ({"cost": {"seconds": 1.5}}, "missing  report.json cost.calls: 3"),
        ({"groups": [{"name": "a", "fpr": 0.5}]}, "length   report.json groups: 2 -> 1"),
        (
            {"groups": [{"name": "a", "fpr": 0.6}, {"name": "b", "fpr": None}]},
            "number   report.json groups[*].fpr: 0.5 -> 0.6  [run/report.json]",
        ),
    ],
)
def test_a_changed_field_is_named(
    same_results: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    line: str,
) -> None:
    before = folder(tmp_path / "a", REPORT, [0.1, 0.2], "")
    after = folder(tmp_path / "b", {**REPORT, **change}, [0.1, 0.2], "")
    assert same_results.main([str(before), str(after)]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(line)
    assert printed.endswith("\n1 differences\n")


def test_columns_texts_and_files_are_compared_too(
    same_results: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = folder(tmp_path / "a", REPORT, [0.1, 0.2], "14.0% of 1,204, 3 groups")
    after = folder(tmp_path / "b", REPORT, [0.1, 0.25], "14.1% of 1,204, 3 groups")
    (before / "decisions.jsonl").write_text('{"p": 1}\n', encoding="utf-8")
    (before / "weights.bin").write_bytes(b"\xff\x00")
    (after / "weights.bin").write_bytes(b"\xff\x01")
    assert same_results.main([str(before), str(after), "--ignore", "nothing*"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "no file  decisions.jsonl:   [decisions.jsonl]",
        "number   scores.parquet score[*]: 0.2 -> 0.25  [run/scores.parquet]",
        "numbers gone from the text stdout: 14.0  [stdout]",
        "other bytes weights.bin:   [weights.bin]",
        "4 differences",
    ]
    assert (
        same_results.main([str(before), str(after), *("--ignore", "*[.]*", "--ignore", "st*")]) == 0
    )
