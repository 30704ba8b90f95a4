"""Processes that watch: ended, hung, swapped, given labels, and left alone; with stand-ins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calibrail.serve import watch_status
from calibrail.serve.watch_status import Watchers, monitor
from tests.serve.process import until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals")

#: Writes down its process id, and does as it is told after that.
SCRIPT = """
import os, pathlib, signal, sys, time
folder, what = pathlib.Path(sys.argv[1]), sys.argv[2]
if what == "hangs":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(folder / "pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
if what != "ends":
    time.sleep(1000)
sys.exit(3)
"""
FIRST, SECOND = "sha256:" + "1" * 64, "sha256:" + "2" * 64


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def begin(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Watchers]]:
    """Begin watches with a stand-in that does something; they end with the test."""
    monkeypatch.setattr(watch_status, "_STEP", 0.02)
    monkeypatch.setattr(watch_status, "_GRACE", 0.3)
    begun: list[Watchers] = []

    def start(what: str) -> Watchers:
        def command(folder: Path) -> list[str]:
            audited = [what for name in ("audit",) if (folder / name).exists()]
            return [sys.executable, "-c", SCRIPT, str(folder), what, *audited]

        watching = Watchers(tmp_path, ["faq"], command, said.append)
        begun.append(watching)
        watching.start()
        return watching

    yield start
    for watching in begun:
        watching.stop()


def let_decide(root: Path, digest: str, name: str = "faq") -> Path:
    """Write down that a guardrail decides, as a service does; return the folder of its watch."""
    folder = root / name / digest[7:19]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "guardrail.json").write_text("{}")
    (root / name / "deciding.json").write_text(json.dumps({"guardrail": digest}))
    return folder


def pids(folder: Path) -> list[int]:
    path = folder / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_watch_that_ends_is_started_again_and_no_sooner_than_after_a_pause(
    begin: Callable[..., Watchers],
    tmp_path: Path,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = let_decide(tmp_path, FIRST)
    watching = begin("ends")
    until(lambda: len(said) == 1, "ended")
    assert "the watch of faq ended with 3; decisions go on" in said[0]
    time.sleep(0.2)
    assert len(pids(folder)) == 1
    watching.stop()
    monkeypatch.setattr(watch_status, "_PAUSE", 0.05)
    begin("ends")
    until(lambda: len(pids(folder)) >= 4, "four", lambda: str(said))


def test_what_cannot_be_started_is_said_once_and_the_other_watches_go_on(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_status, "_STEP", 0.02)
    looks: list[str] = []

    def command(folder: Path) -> list[str]:
        looks.append(folder.parent.name)
        if folder.parent.name == "bad":
            raise RuntimeError("unexpected")
        if folder.parent.name == "gone":
            return [str(tmp_path / "nothing")]
        return [sys.executable, "-c", SCRIPT, str(folder), "runs"]

    let_decide(tmp_path, FIRST, "bad")
    let_decide(tmp_path, FIRST, "gone")
    good = let_decide(tmp_path, FIRST, "good")
    watching = Watchers(tmp_path, ["bad", "gone", "good"], command, said.append)
    watching.start()
    until(lambda: looks.count("bad") >= 3 and len(pids(good)) == 1, "gone on")
    watching.stop()
    assert said[0] == "the watch of bad cannot be started: RuntimeError('unexpected')"
    assert said[1].startswith("the watch of gone cannot be started: FileNotFoundError(")
    assert len(said) == 2


@pytest.mark.parametrize("what", ["runs", "hangs"])
def test_all_watches_end_with_the_service(
    begin: Callable[..., Watchers], tmp_path: Path, what: str
) -> None:
    folder = let_decide(tmp_path, FIRST)
    watching = begin(what)
    until(lambda: len(pids(folder)) == 1, "begun")
    watching.stop()
    assert not alive(pids(folder)[0])


def test_what_takes_over_is_watched_in_place_of_what_it_replaced(
    begin: Callable[..., Watchers], tmp_path: Path, said: list[str]
) -> None:
    first = let_decide(tmp_path, FIRST)
    begin("runs")
    until(lambda: len(pids(first)) == 1, "begun")
    second = let_decide(tmp_path, SECOND)
    until(lambda: len(pids(second)) == 1 and not alive(pids(first)[0]), "swapped")
    let_decide(tmp_path, FIRST)
    until(lambda: len(pids(first)) == 2 and not alive(pids(second)[0]), "back")
    assert not said


@pytest.mark.parametrize("what", ["runs", "hangs"])
def test_labels_that_come_are_read_from_then_on(
    begin: Callable[..., Watchers], tmp_path: Path, said: list[str], what: str
) -> None:
    folder = let_decide(tmp_path, FIRST)
    begin(what)
    until(lambda: len(pids(folder)) == 1, "begun")
    (folder / "audit").mkdir()
    until(lambda: len(pids(folder)) == 2, "again", lambda: str(said))
    assert not alive(pids(folder)[0])


def test_the_command_is_that_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    words = monitor(Path("decisions"))(tmp_path)
    assert words[1:] == [
        *("-P", "-m", "calibrail.serve.watch_status", "monitor", str(tmp_path / "guardrail.json")),
        *("decisions", "-o", str(tmp_path), "--follow"),
    ]
    assert monitor(Path("decisions"), 0.05)(tmp_path)[-2:] == ["--base-rate", "0.05"]
    (tmp_path / "audit" / "session.json").touch()
    assert monitor(Path("decisions"))(tmp_path)[-2:] == ["--labels", str(tmp_path / "audit")]


def test_a_watch_ends_where_its_service_is_killed() -> None:
    code = """
import runpy, signal, sys, time
from calibrail.serve import watch_status
def stand_in(*_, **__):
    print("begun", flush=True)
    time.sleep(1000)
runpy.run_module = stand_in
watch_status.main()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        time.sleep(0.05)
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(60) == -signal.SIGTERM
