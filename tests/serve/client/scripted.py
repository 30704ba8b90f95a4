"""A server that answers what a test says, in turn: well, late, wrongly or not at all."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

#: What happens to one connection: its socket and the request that came.
Act = Callable[[socket.socket, bytes], None]

DECISION = {
    "id": "a",
    "outcome": "pass",
    "score": 0.1,
    "threshold": 0.5,
    "p_value": 0.9,
    "reason": "score 0.1 is below the threshold 0.5",
}


def says(body: Any, status: int = 200, **headers: str) -> Act:
    """Answer with a body (JSON unless it is bytes) and close."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(raw)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]

    def act(connection: socket.socket, _: bytes) -> None:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + raw)

    return act


def echoes(change: Callable[[list[Any]], list[Any]] = list, status: int = 200) -> Act:
    """Pass every answer under the id that it came with; the decisions are changed before."""

    def act(connection: socket.socket, request: bytes) -> None:
        sent = json.loads(request.partition(b"\r\n\r\n")[2])
        items = [
            {**DECISION, "id": item["id"], "released": True} for item in sent.get("items", [sent])
        ]
        items = change(items)
        content = {"items": items, "n_released": len(items)} if "items" in sent else items[0]
        says(content, status)(connection, request)

    return act


def hangs_up(connection: socket.socket, _: bytes) -> None:
    """Close without a word."""


def tears(connection: socket.socket, _: bytes) -> None:
    """Close in the middle of the body."""
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"outcome": "pass"')


def trickles(connection: socket.socket, _: bytes) -> None:
    """Send a byte at a time for longer than anyone waits."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
    with contextlib.suppress(OSError):
        for _step in range(100):
            connection.sendall(b" ")
            time.sleep(0.05)


def is_silent(connection: socket.socket, _: bytes) -> None:
    """Say nothing until the client goes."""
    with contextlib.suppress(OSError):
        connection.recv(1)


def problem(status: int, kind: str, **headers: str) -> Act:
    """Answer as the service refuses."""
    content = {"type": f"urn:calibrail:problem:{kind}", "detail": f"this is {kind}"}
    return says({**content, "status": status, "title": kind}, status, **headers)


class Scripted:
    """Takes one connection after the other; the last act is repeated."""

    def __init__(self, *acts: Act) -> None:
        self._acts = list(acts)
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def body(self, number: int = -1) -> Any:
        return json.loads(self.requests[number].partition(b"\r\n\r\n")[2])

    def close(self) -> None:
        # Its number may be that of the next listener's as soon as this one is closed.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                if not (part := connection.recv(1 << 16)):
                    return
                request += part
            head = request.partition(b"\r\n\r\n")[0].lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            while len(request.partition(b"\r\n\r\n")[2]) < length:
                request += connection.recv(1 << 16)
            act = self._acts[min(len(self.requests), len(self._acts) - 1)]
            self.requests.append(request)
            act(connection, request)


@contextlib.contextmanager
def scripted(*acts: Act) -> Iterator[Scripted]:
    server = Scripted(*acts)
    try:
        yield server
    finally:
        server.close()
