"""A real service that is watched, and watches that die, hang and are killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from calibrail.guardrail import Guardrail
from calibrail.serve.watches import place
from tests.serve.conftest import ANSWER, NOVEL
from tests.serve.process import Service, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


def folder_of(root: Path, guardrail: Path) -> Path:
    folder = place(root, guardrail.stem, Guardrail.load(guardrail).config.digest)
    assert folder is not None
    return folder


@pytest.mark.parametrize("workers", [1, 2])
def test_no_decision_suffers_from_a_watch_that_dies_or_a_status_that_hangs(
    surface: Path, tmp_path: Path, workers: int
) -> None:
    root = tmp_path / "watch"
    folder = folder_of(root, surface)
    # The watch cannot keep its state and ends; who reads the status waits for ever.
    (folder / "state.json").mkdir(parents=True)
    os.mkfifo(folder / "status.json")
    given = ("--log", tmp_path / "log", "--monitor", root, "--workers", workers)
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
