from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import uvicorn

from calibrail.serve.limits import protocol
from calibrail.serve.process import _Server


def test_a_signal_is_not_lost_where_python_drops_exceptions() -> None:
    program = """
import os, signal, weakref
from calibrail.serve import exit_on_signal
class Gone: pass
gone = Gone()
seen = weakref.ref(gone, lambda _: os.kill(os.getpid(), signal.SIGTERM))
with exit_on_signal():
    del gone
    raise SystemExit(3)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_the_command_ends_before_it_has_imported_what_serves() -> None:
    program = """
import os, signal, sys
from calibrail.cli import app, operate
def begin(*_):
    assert "calibrail.serve.process" not in sys.modules
    os.kill(os.getpid(), signal.SIGTERM)
    raise SystemExit(3)
operate.opt.serving_packages = begin
app(["serve", "guardrail.json"])
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


async def _answering(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


def test_who_stands_in_the_queue_of_the_socket_is_answered_before_it_closes() -> None:
    async def end() -> list[bytes]:
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        waiting = [socket.create_connection(listener.getsockname(), 60) for _ in range(40)]
        for number, connection in enumerate(waiting):
            # Some say nothing yet: they are not waited for.
            if number % 10:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        kind = protocol(10.0, 10.0, lambda status: None)
        config = uvicorn.Config(_answering, http=kind, lifespan="off", timeout_keep_alive=1)
        config.load()
        service: Any = SimpleNamespace(draining=True)
        server = _Server(config, service, lambda: None)
        server.lifespan, server.servers = config.lifespan_class(config), []
        await server.shutdown([listener])
        answers = list[bytes]()
        for connection in waiting:
            with connection:
                answers.append(connection.recv(1 << 16))
        return answers

    answers = asyncio.run(end())
    assert [item.startswith(b"HTTP/1.1 204") for item in answers] == [n % 10 > 0 for n in range(40)]
