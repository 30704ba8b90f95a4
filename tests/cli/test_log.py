from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from calibrail.guardrail import Decision
from calibrail.guardrail.decision_log import DecisionLog, Entry, verify
from calibrail.guardrail.decision_log.writer import json_fields, seal_line, to_utf8
from tests.command_line import calibrail
from tests.guardrail.decision_log.logs import DIGEST, decision, entry, files


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    with DecisionLog(folder, max_bytes=1500) as chain:
        for number in range(8):
            chain.write([entry(str(number))])
    return folder


def said(text: str) -> str:
    return " ".join(text.split())


def test_a_whole_log_is_said_to_be_whole(log: Path) -> None:
    done = calibrail("log", "verify", log)
    assert done.returncode == 0, done.stderr
    assert "Whole" in done.stdout and "8" in done.stdout
    printed = json.loads(calibrail("log", "verify", log, "--json").stdout)
    assert printed["schema"] == "calibrail.log_check/1"
    assert (printed["verdict"], printed["n_decisions"]) == ("whole", 8)
    head = printed["chains"][0]["hash"]
    assert calibrail("log", "verify", log, "--noted", head).returncode == 0
    done = calibrail("log", "verify", log, "--noted", "0" * 64)
    assert done.returncode == 1 and "which was noted" in said(done.stdout)
    assert calibrail("log", "verify", log, "--noted", "abc").returncode == 2


def test_what_is_broken_is_named_with_file_and_line(log: Path, tmp_path: Path) -> None:
    path = files(log)[0]
    path.write_bytes(path.read_bytes().replace(b'"id": "1"', b'"id": "7"'))
    done = calibrail("log", "verify", log, "--page", tmp_path / "page.html")
    assert done.returncode == 1
    assert f"{path.name}, line 3: was changed" in said(done.stdout).replace("- ", "-")
    assert "Last hash" in (tmp_path / "page.html").read_text()


def test_archived_files_are_named_and_may_be_accepted(log: Path, tmp_path: Path) -> None:
    first = files(log)[0]
    archive = tmp_path / "archive"
    archive.mkdir()
    first.rename(archive / first.name)
    done = calibrail("log", "verify", log)
    assert done.returncode == 1 and "The beginning is missing" in said(done.stdout)
    assert "what its chain held before it is missing: 1 file" in said(done.stdout)
    assert "Broken" not in done.stdout
    assert calibrail("log", "verify", log, "--archived").returncode == 0
    assert calibrail("log", "verify", archive, log).returncode == 0
    # Broken stays broken.
    files(log)[0].write_bytes(b"{}\n" + files(log)[0].read_bytes())
    assert calibrail("log", "verify", log, "--archived").returncode == 1


def test_the_beginning_of_one_workers_chain_is_not_accepted_as_archived(tmp_path: Path) -> None:
    workers = [DecisionLog(tmp_path, max_bytes=1500) for _ in range(2)]
    for number in range(8):
        for chain in workers:
            chain.write([entry(str(number))])
    for chain in workers:
        chain.close()
    for path in sorted(tmp_path.glob(f"{workers[0].chain}.*"))[:-1]:
        path.unlink()
    done = calibrail("log", "verify", tmp_path, "--archived")
    assert done.returncode == 1 and "Broken" in done.stdout
    assert "they were not the oldest" in said(done.stdout)


def test_what_is_wrong_with_the_ends_is_said(tmp_path: Path) -> None:
    workers = [DecisionLog(tmp_path) for _ in range(3)]
    paths = [tmp_path / f"{chain.chain}.0001.jsonl" for chain in workers]
    for chain in workers:
        chain.write([entry()])
    workers[2].close()
    done = calibrail("log", "verify", tmp_path)
    assert done.returncode == 0 and "was opened or closed after that" in said(done.stdout)
    with DecisionLog(tmp_path) as chain:
        chain.write([entry()])
    paths[0].write_bytes(b"")
    paths[1].unlink()
    closing = paths[2].read_bytes().splitlines(keepends=True)[-1]
    paths[2].write_bytes(paths[2].read_bytes() + closing)
    done = calibrail("log", "verify", tmp_path)
    assert done.returncode == 1
    for sentence in (
        "is empty: even the line",
        "recorded it before it was closed",
        "stands after the line that closed the chain",
    ):
        assert sentence in said(done.stdout), done.stdout


def test_a_decision_whose_lines_end_was_changed_is_exported(tmp_path: Path) -> None:
    folder, output = tmp_path / "log", tmp_path / "log.parquet"
    DecisionLog(folder).write([entry("1"), entry("2")])
    (path,) = files(folder)
    path.write_bytes(path.read_bytes()[:-1] + b"\x0b")
    assert calibrail("log", "verify", folder).returncode == 1
    assert calibrail("log", "export", folder, "-o", output).returncode == 0
    assert [row["id"] for row in pq.read_table(output).to_pylist()] == ["1", "2"]


def test_a_folder_without_a_log_is_an_error(tmp_path: Path) -> None:
    for place, why in ((tmp_path, "there is no decision log in"), (tmp_path / "x", "No such file")):
        for more in (["verify", place], ["export", place, "-o", tmp_path / "out.parquet"]):
            done = calibrail("log", *more)
            assert done.returncode == 1 and why in done.stderr, done.stderr
    assert not (tmp_path / "out.parquet").exists()


def test_every_decision_becomes_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_ROWS", 3)
    folder, output = tmp_path / "log", tmp_path / "new" / "log.parquet"
    undefined = Decision("u\ud800", "review", None, None, None, "undefined score")
    with DecisionLog(folder, texts=True) as chain:
        chain.write([entry(str(n), question="q", contexts=("c", "d"), response="r") for n in "ab"])
        chain.write([Entry(undefined, DIGEST), Entry(decision("s"), DIGEST, "f", "select", True)])
    done = calibrail("log", "export", folder, "-o", output)
    assert done.returncode == 0 and "4 decisions" in done.stdout
    rows = pq.read_table(output).to_pylist()
    assert [row["id"] for row in rows] == ["a", "b", "u\\ud800", "s"]
    assert [row["kind"] for row in rows] == ["check"] * 3 + ["select"]
    assert [row["released"] for row in rows] == [None] * 3 + [True]
    traffic = ("question_length", "response_length", "chunks", "language", "group")
    assert [rows[0][name] for name in traffic] == [1, 1, 2, None, None]
    assert [rows[2][name] for name in traffic] == [None] * 5
    assert rows[0]["contexts"] == ["c", "d"] and rows[0]["time"].tzinfo is not None
    assert (rows[2]["score"], rows[2]["outcome"]) == (None, "review")
    assert [row["seq"] for row in rows] == [1, 2, 3, 4]
    assert pq.ParquetFile(output).num_row_groups == 2


def test_what_is_no_decision_any_more_is_left_out_and_said(log: Path, tmp_path: Path) -> None:
    path = files(log)[0]
    path.write_bytes(path.read_bytes().replace(b'"id": "1"', b'"id": "7"'))
    last = files(log)[-1]
    last.write_bytes(last.read_bytes()[:-5])
    done = calibrail("log", "export", log, "-o", tmp_path / "log.parquet", "--json")
    assert done.returncode == 1 and "1 line is left out" in done.stderr
    assert json.loads(done.stdout)["decisions"] == 7
    assert [row["id"] for row in pq.read_table(tmp_path / "log.parquet").to_pylist()] == [
        *("0", "2", "3", "4", "5", "6", "7")
    ]


@pytest.mark.parametrize(
    "content",
    [
        {"kind": "opened", "others": {"x": 1}},
        {"kind": "opened", "others": [1]},
        {"kind": "opened", "chain": [], "file": "1"},
        {"kind": ["check"], "id": 1, "score": "high"},
        {"traffic": [1], "id": "a"},
        {"traffic": {"chunks": "many"}, "id": "a"},
        {"id": {"a": 1}},
    ],
    ids=str,
)
def test_a_forged_line_is_no_traceback(log: Path, tmp_path: Path, content: object) -> None:
    line, _ = seal_line(to_utf8(json_fields(content)), 0, "0" * 64, "noon")  # type: ignore[arg-type]
    files(log)[0].write_bytes(line)
    assert calibrail("log", "verify", log).returncode == 1
    done = calibrail("log", "export", log, "-o", tmp_path / "log.parquet")
    assert done.returncode == 0 or "holds what no decision does" in done.stderr
