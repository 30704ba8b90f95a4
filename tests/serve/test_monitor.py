"""A real service that is watched, and watches that die, hang and are killed."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

import calibrail
from calibrail.guardrail import Guardrail
from calibrail.serve.watch_status import watch_folder
from tests.serve.conftest import ANSWER, NOVEL
from tests.serve.process import Service, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


def folder_of(root: Path, guardrail: Path) -> Path:
    folder = watch_folder(root, guardrail.stem, Guardrail.load(guardrail).config.digest)
    assert folder is not None
    return folder


def test_no_decision_suffers_from_a_watch_that_dies_or_a_status_that_hangs(
    surface: Path, tmp_path: Path
) -> None:
    root = tmp_path / "watch"
    folder = folder_of(root, surface)
    # The watch cannot keep its state and ends; who reads the status waits for ever.
    (folder / "state.json").mkdir(parents=True)
    os.mkfifo(folder / "status.json")
    given = ("--log", tmp_path / "log", "--monitor", root, "--workers", 2)
    with Service(surface, *given) as service:
        until(lambda: "the watch of surface ended with" in service.stderr, "ended")
        for answer in (ANSWER, NOVEL) * 10:
            assert service.check(answer).json()["id"] == answer["id"]
        for path in ("/healthz", "/readyz", "/metrics"):
            assert service.ask("GET", path).status == 200
        name = 'calibrail_watch_updated_timestamp_seconds{guardrail="surface"}'
        assert service.metric(name) == 0.0
        assert service.terminate() == 0
        assert f"surface is watched in {folder}" in service.stderr
        until(lambda: not service.processes(), "gone")


def test_what_is_logged_is_watched_across_kills_and_another_guardrail(
    surface: Path, column: Path, tmp_path: Path
) -> None:
    root, log, path = tmp_path / "watch", tmp_path / "log", tmp_path / "faq.json"
    path.write_bytes(surface.read_bytes())
    folder = folder_of(root, path)
    rows = 'calibrail_watch_rows_total{guardrail="faq"}'
    with Service(path, "--log", log, "--monitor", root) as service:

        def watching() -> list[int]:
            return [
                pid for pid in service.processes() if b"calibrail.serve.watch_status" in said(pid)
            ]

        def check(n: int) -> None:
            for number in range(n):
                assert service.check({**ANSWER, "id": str(number)}).status == 200

        def watched(n: int) -> None:
            until(lambda: service.metric(rows) == n, f"{n} watched", lambda: service.stderr)

        check(12)
        until(lambda: (folder / "status.json").exists(), "watched", lambda: service.stderr)
        (first,) = watching()
        os.kill(first, signal.SIGKILL)
        check(5)
        watched(17)
        until((folder / "watch.html").exists, "written", lambda: service.stderr)
        assert "the watch of faq ended with -9; decisions go on" in service.stderr
        path.write_bytes(column.read_bytes())
        after = folder_of(root, path)
        until(after.exists, "swapped", lambda: service.stderr)
        assert service.check({"columns": {"risk": 0.5}}).status == 200
        watched(1)
        # One that hangs holds nobody up, and is killed in the end.
        for pid in watching():
            os.kill(pid, signal.SIGSTOP)
        assert service.check({"columns": {"risk": 0.5}}).status == 200
        assert service.ask("GET", "/healthz").status == 200
        assert service.terminate() == 0
        until(lambda: not service.processes(), "gone")
    status = json.loads((folder / "status.json").read_bytes())
    alone = calibrail.monitor(folder / "guardrail.json", log)
    assert (status["n"], status["log"]["whole"]) == (17, True) == (alone.n, True)
    assert status["traffic"] == alone.to_dict()["traffic"]
    assert json.loads((after / "status.json").read_bytes())["n"] == 1
    assert (folder / "watch.html").is_file()


def said(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
