"""A name with ``~`` or a pattern stands for the files that a shell would give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibrail import read
from calibrail.errors import DataError
from tests.command_line import calibrail


def write(path: Path, *labels: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"question": "q", "contexts": ["c"], "response": f"{path.name} {i}", "label": label}
        for i, label in enumerate(labels)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_pattern_is_all_that_fits_it_in_order_and_errors_name_the_file(tmp_path: Path) -> None:
    for name, label in (("b", 1), ("a", 0), ("deep/c", "odd")):
        write(tmp_path / "runs" / f"{name}.jsonl", label)
    write(tmp_path / "runs/notes.csv", 1)
    assert [e.id for e in read(f"{tmp_path}/runs/*.jsonl")] == ["a.jsonl:row-1", "b.jsonl:row-1"]
    assert [e.response for e in read(f"{tmp_path}/runs/[b-z].jsonl")] == ["b.jsonl 0"]
    with pytest.raises(DataError, match=r"^c\.jsonl, row 1, field label"):
        list(read(f"{tmp_path}/runs/**/*.jsonl", strict=True))
    several = [f"{tmp_path}/runs/b*", tmp_path / "runs" / "a.jsonl"]
    assert [e.response for e in read(several)] == ["b.jsonl 0", "a.jsonl 0"]


def test_a_pattern_that_nothing_fits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file fits the pattern .*\*\.jsonl"):
        read(tmp_path / "*.jsonl")


def test_a_file_whose_name_looks_like_a_pattern_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "run[1].jsonl", 1)
    write(tmp_path / "run1.jsonl", 0)
    assert [e.label for e in read(path)] == [1]


def test_the_home_folder_may_be_spelt_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "a.jsonl", 1, 0)
    assert len(list(read("~/a.jsonl"))) == len(list(read("~/*.jsonl"))) == 2
    done = calibrail("doctor", "~/*.jsonl")
    assert done.returncode == 0 and done.stdout.startswith("*.jsonl (jsonl): 1 hallucinated and 1")


def test_what_a_pattern_stands_for_is_not_written_over(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *([0, 1] * 9))
    before = path.read_bytes()
    done = calibrail("score", f"{tmp_path}/*.jsonl", "--score", "length", "-o", str(path))
    assert done.returncode == 2 and path.read_bytes() == before
    assert "a.jsonl" in done.stderr
