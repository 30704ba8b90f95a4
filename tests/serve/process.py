"""A real ``calibrail serve`` in a process of its own, and the ways to talk to it and to end it."""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.ports import free_port

#: Seconds after which a process that neither answers nor ends is taken for stuck.
STUCK = 120.0


@dataclass(frozen=True)
class Answer:
    """What came back for one request; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """The process, open within a ``with``; nothing of it is left behind.

    Parameters
    ----------
    *arguments
        Of ``calibrail serve``: guardrails and options.
    ready : bool
        Wait for /readyz before the ``with`` begins.
    environment : mapping, optional
        Variables on top of this process's own.
    before : callable, optional
        Runs in the new process before the program, as for ``subprocess.Popen``.
    wrapped : tuple of str
        A command that runs the service, such as a limit on it.
    port : int, optional
        Where one that is gone has listened.
    """

    def __init__(
        self,
        *arguments: object,
        ready: bool = True,
        environment: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
        wrapped: tuple[str, ...] = (),
        port: int | None = None,
    ) -> None:
        self.port = port or free_port()
        self._ready, self._before = ready, before
        program = [sys.executable, "-m", "calibrail", "serve", *map(str, arguments)]
        self._command = [*wrapped, *program, "--port", str(self.port)]
        self._environment = {**os.environ, **(environment or {})}

    def __enter__(self) -> Self:
        # A file, not a pipe: a full pipe would hold the service up.
        self._stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            self._command,
            stdout=self._stderr,
            stderr=self._stderr,
            env=self._environment,
            preexec_fn=self._prepare,
            # A session of its own, so that workers are found and ended with it.
            start_new_session=True,
        )
        try:
            if self._ready:
                self.wait_until_ready()
        except BaseException:
            self._clear()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            print(self.stderr, file=sys.stderr)
        self._clear()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def stderr(self) -> str:
        """What the process and its workers have printed so far."""
        if self._stderr.closed:
            return self._printed
        return os.pread(self._stderr.fileno(), 2**24, 0).decode("utf-8", "replace")

    def processes(self) -> list[int]:
        """Return the process ids of the service and of all that it started."""
        return _members(self.process.pid)

    def wait_until_ready(self) -> None:
        """Wait for /readyz to say 200."""
        until(lambda: self._is_ready(), "ready", lambda: self.stderr)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request on a connection of its own; a body that is not bytes is sent as JSON."""
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        stated = {} if raw is None else {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=STUCK)
        with contextlib.closing(connection):
            connection.request(method, path, raw, {**stated, **(headers or {})})
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read())

    def check(self, body: Any, **headers: str) -> Answer:
        """Ask for one decision."""
        return self.ask("POST", "/v1/check", body, headers)

    def metric(self, name: str) -> float:
        """Return one sample of /metrics by its name and labels, 0 where it is not there yet."""
        for line in self.ask("GET", "/metrics").body.decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def memory(self, field: str = "VmRSS") -> int:
        """Return KiB that the first process holds, or with ``VmHWM`` has held at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition(f"{field}:")[2].split()[0])

    def connect(self) -> socket.socket:
        """Open a plain connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=STUCK)

    def raw(self, sent: bytes, *, half_closed: bool = False) -> bytes:
        """Send bytes as they are; return what comes until the service ends the connection."""
        with self.connect() as connection:
            connection.sendall(sent)
            if half_closed:
                connection.shutdown(socket.SHUT_WR)
            return read_all(connection)

    def kill(self) -> None:
        """End it at once, as ``kill -9`` does, workers and all."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STUCK)

    def terminate(self) -> int:
        """Ask it to end as a container's runtime does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def end(self) -> int:
        """Wait for it to end of itself; return its exit code."""
        try:
            return self.process.wait(STUCK)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the service does not end:\n{self.stderr}") from None

    def _prepare(self) -> None:
        # The kernel ends this process where the one that started it is killed.
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if self._before is not None:
            self._before()

    def _is_ready(self) -> bool:
        if (code := self.process.poll()) is not None:
            raise AssertionError(f"the service ended with {code}:\n{self.stderr}")
        try:
            return self.ask("GET", "/readyz").status == 200
        except OSError:
            return False

    def _clear(self) -> None:
        self.kill()
        until(lambda: not self.processes(), "gone")
        self._printed = self.stderr
        self._stderr.close()


def until(
    holds: Callable[[], bool], what: str, more: Callable[[], str] = lambda: "", pause: float = 0.02
) -> None:
    """Wait for something to hold; it is stuck where it does not come to hold at all."""
    end = time.monotonic() + STUCK
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"never {what}\n{more()}")
        time.sleep(pause)


def read_all(connection: socket.socket) -> bytes:
    """Read until the other side ends the connection."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(2**16):
            pieces.append(piece)
    return b"".join(pieces)


def answers_in(raw: bytes) -> list[Answer]:
    """Take apart the answers that came on one connection."""
    answers = []
    while raw:
        head, _, rest = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }
        size = int(headers["content-length"])
        answers.append(Answer(int(first.split()[1]), headers, rest[:size]))
        raw = rest[size:]
    return answers


def request_bytes(body: bytes, path: str = "/v1/check", *lines: str) -> bytes:
    """Return a request as it goes over the wire."""
    stated = ["Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([f"POST {path} HTTP/1.1", *stated, *lines, "", ""]).encode() + body


def _members(session: int) -> list[int]:
    """Return the living processes of a session."""
    members = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name may hold anything; what follows it does not.
            state, _, _, its_session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                members.append(int(folder.name))
    return members
