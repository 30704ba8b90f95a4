"""Does a command that was killed at any moment go on where it was, and leave nothing behind?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

#: A detector that writes down whom it was asked about, and stands still where it is told to.
DETECTOR = """
import os, time
from pathlib import Path

HERE = Path(__file__).parent

def slow(example):
    with (HERE / "seen").open("a") as file:
        file.write(f"{example.id} {os.getpid()}\\n")
    stop, end = (HERE / f"{what}-{example.id}" for what in ("stop", "end"))
    while stop.exists():
        time.sleep(0.01)
    if end.exists():
        if not end.read_text():
            end.unlink()
        os.kill(os.getpid(), 9)
    return float(len(example.response))
"""
ROWS = 60
COMMAND = ("score", "data.jsonl", "--score", "slow_detectors:slow", "--score", "rouge_l")
OVER = ("--shards", "S", "--shard-rows", 10)
PROCESSES = ("--engine", "processes", "--workers", 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The scores of a run that nobody disturbed."""
    folder = made(tmp_path_factory.mktemp("whole"))
    assert ended(folder, *OVER).returncode == 0
    return (folder / "scores.parquet").read_bytes()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return made(tmp_path)


def made(folder: Path) -> Path:
    with (folder / "data.jsonl").open("w") as file:
        for index in range(ROWS):
            row = {"id": f"r{index}", "question": "q?", "contexts": ["the Rhine flows"]}
            file.write(json.dumps({**row, "response": f"the Rhine {'flows ' * (index % 7)}"}))
            file.write("\n")
    (folder / "slow_detectors.py").write_text(DETECTOR)
    return folder


def begun(work: Path, *words: object) -> subprocess.Popen[str]:
    line = (*COMMAND, "-o", "scores.parquet", *words)
    return subprocess.Popen(
        [sys.executable, "-B", "-m", "calibrail", *map(str, line)],
        cwd=work,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(work: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; none of its processes outlives it."""
    process = begun(work, *words)
    out, err = process.communicate(timeout=300)
    until(lambda: not of_session(process.pid))
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def seen(work: Path) -> list[tuple[str, int]]:
    """Return whom the detector was asked about since the last time, and in which process."""
    lines = asked(work).splitlines()
    (work / "seen").unlink(missing_ok=True)
    return [(id, int(pid)) for id, pid in map(str.split, lines)]


def asked(work: Path) -> str:
    path = work / "seen"
    return path.read_text() if path.exists() else ""


def until(holds: Callable[[], object]) -> None:
    for _ in range(6000):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it never came to that")


def of_session(leader: int) -> list[int]:
    """Return the living processes that a command started, itself among them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[3] == str(leader) and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


@contextmanager
def stopped(work: Path, id: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """Begin a command, and yield it when its detector stands still at an answer."""
    stop = work / f"stop-{id}"
    stop.touch()
    process = begun(work, *words)
    try:
        until(lambda: f"{id} " in asked(work) or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        until(lambda: not of_session(process.pid))
        stop.unlink()


def results(work: Path) -> list[Path]:
    return sorted((work / "S" / "results").rglob("*.parquet"))


def assert_clean(work: Path) -> None:
    """Nothing but results and the manifest stands in the folder, none of it half written."""
    files = {path for path in (work / "S").rglob("*") if path.is_file()}
    assert files == {*results(work), work / "S" / "manifest.json"}
    assert not list(work.glob("S/inputs/*"))


def test_a_command_killed_while_it_computes(work: Path, whole: bytes) -> None:
    with stopped(work, "r25", *OVER) as process:
        # Its two scores read different things of a shard, and are two results.
        process.kill()
    kept = results(work)
    assert not (work / "scores.parquet").exists()
    seen(work)
    assert ended(work, *OVER).returncode == 0
    assert [id for id, _ in seen(work)] == [f"r{row}" for row in range(20, ROWS)]
    assert (work / "scores.parquet").read_bytes() == whole
    assert set(kept) <= set(results(work)) and len(kept) >= 2
    assert_clean(work)


def test_processes_of_a_killed_command_end_and_the_rest_goes_on(work: Path, whole: bytes) -> None:
    with stopped(work, "r35", *OVER, *PROCESSES) as process:
        until(lambda: "r59 " in asked(work))
        until(lambda: not half_written(work))
        process.kill()
        process.wait()
        # They compute, and nobody wants it any more.
        until(lambda: not of_session(process.pid))
    assert process.pid not in {pid for _, pid in seen(work)}
    assert ended(work, *OVER, *PROCESSES).returncode == 0
    assert [id for id, _ in seen(work)] == [f"r{row}" for row in range(30, 40)]
    assert (work / "scores.parquet").read_bytes() == whole
    assert_clean(work)


def half_written(work: Path) -> bool:
    """Return whether the results of any shard but the one that stands still are missing."""
    return len(results(work)) < 2 * ROWS // 10 - 1


def test_ctrl_c_ends_all_processes_and_keeps_what_is_done(work: Path, whole: bytes) -> None:
    with stopped(work, "r35", *OVER, *PROCESSES) as process:
        until(lambda: not half_written(work))
        # A terminal sends it to every process of the command.
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode not in (0, None)
        assert "Traceback" not in err, err
    assert_clean(work)
    manifest = json.loads((work / "S" / "manifest.json").read_text())
    assert not manifest["complete"]
    seen(work)
    assert ended(work, *OVER).returncode == 0
    assert [id for id, _ in seen(work)] == [f"r{row}" for row in range(30, 40)]
    assert (work / "scores.parquet").read_bytes() == whole


def test_ctrl_c_before_processes_are_there_shows_no_tracebacks(work: Path) -> None:
    process = begun(work, *OVER, *PROCESSES)
    until(lambda: len(of_session(process.pid)) > 1)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    until(lambda: not of_session(process.pid))
    assert process.returncode not in (0, None) and "Traceback" not in err, err


def test_a_worker_that_dies_is_replaced_and_one_shard_given_up(work: Path, whole: bytes) -> None:
    (work / "end-r15").write_text("")  # once
    (work / "end-r47").write_text("always")
    failed = ended(work, *OVER, *PROCESSES)
    assert failed.returncode == 1 and not (work / "scores.parquet").exists()
    assert "1 shard failed. Shard 4, rows 41 to 50: the process that computed it died 3 times" in (
        failed.stderr
    )
    assert "Traceback" not in failed.stderr and not half_written(work)
    assert_clean(work)
    ids = [id for id, _ in seen(work)]
    assert ids.count("r15") == 2 and ids.count("r47") <= 3
    (work / "end-r47").unlink()
    assert ended(work, *OVER, *PROCESSES).returncode == 0
    assert [id for id, _ in seen(work)] == [f"r{row}" for row in range(40, 50)]
    assert (work / "scores.parquet").read_bytes() == whole


def test_texts_of_a_killed_run_without_a_folder_go_with_the_next(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    away = ("--shard-rows", 10, *PROCESSES)
    with stopped(work, "r5", *away) as process:
        process.kill()
    assert [path.name[:17] for path in temporary.iterdir()] == ["calibrail-shards-"]
    assert ended(work, *away).returncode == 0
    assert not list(temporary.iterdir())
