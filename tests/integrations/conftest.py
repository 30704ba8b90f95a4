from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

import calibrail
from tests.integrations.scenario import Scenario


@pytest.fixture(scope="session")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    file = tmp_path_factory.mktemp("guardrails") / "guardrail.json"
    calibrail.calibrate("example:facts", score="novelty", alpha=0.1, beta=0.1).freeze().save(file)
    return Scenario(file)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse every connection that leaves this machine: no framework needs one to decide."""
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: Any) -> None:
        local = ("127.", "::1", "localhost")
        if isinstance(address, tuple) and not str(address[0]).startswith(local):
            raise OSError(f"a test must not reach {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)
    yield
