"""What is counted, and what becomes of a service that cannot count."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibrail.serve.metrics import _RoomTaken
from calibrail.serve.service import Service
from tests.serve.conftest import ANSWER

Visiting = Callable[..., None]


def test_a_count_that_fails_costs_no_decision(
    visit: Visiting,
    surface: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def go(client: Any, service: Service) -> None:
        for name in ("Counter", "Histogram", "Gauge"):
            monkeypatch.setattr(f"prometheus_client.metrics.{name}.labels", full)
        monkeypatch.setattr("prometheus_client.metrics.Gauge.set", full)
        for _ in range(2):
            assert (await client.post("/v1/check", json=ANSWER)).json()["outcome"] == "pass"
        batch = {"items": [ANSWER] * 3}
        assert (await client.post("/v1/check/batch", json=batch)).status_code == 200
        assert service.metrics.failed
        ready = await client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json() == {"status": "ready", "metrics": "incomplete"}
        monkeypatch.undo()

    visit(go, surface)
    assert caplog.text.count("what /metrics counts is not complete any more") == 1


def test_counts_find_room_on_the_disk_before_they_are_written_as_memory(tmp_path: Path) -> None:
    path = tmp_path / "counter_1.db"
    file: Any = _RoomTaken(str(path))
    for number in range(401):
        # Sizes are known at first, in the middle of growing, and after that.
        if number % 200 == 0:
            assert path.stat().st_blocks * 512 >= path.stat().st_size >= max(2**16, number * 300)
        file.write_value(f"{number:300}", number, 0.0)
    assert file.read_value(f"{400:300}") == (400, 0.0)
    file.close()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EOPNOTSUPP, errno.EBADF])
def test_a_disk_without_room_leaves_no_file_of_counts_and_one_that_promises_none_serves(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    path = tmp_path / "counter_1.db"
    # An empty file would end every look at what the other processes count.
    if error == errno.ENOSPC:
        with pytest.raises(OSError, match="No space"):
            _RoomTaken(str(path))
        assert not path.exists()
    else:
        file: Any = _RoomTaken(str(path))
        file.write_value("a", 1.0, 0.0)
        assert file.read_value("a") == (1.0, 0.0)
        file.close()
