"""The real process: how it starts, listens and ends, alone and as several workers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calibrail.guardrail import Guardrail
from calibrail.guardrail.signing import make_keys
from calibrail.serve import process
from tests.command_line import calibrail
from tests.serve.conftest import ANSWER
from tests.serve.process import Service, request_bytes, until

pytest.importorskip("httpx2")


@pytest.fixture(scope="module")
def folder(surface: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed guardrail, its key, and a place for the log."""
    folder = tmp_path_factory.mktemp("workers")
    make_keys(folder / "key.pem")
    Guardrail.load(surface).save(folder / "surface.json", sign=folder / "key.pem")
    return folder


@pytest.fixture(scope="module")
def two_workers(folder: Path) -> Iterator[Service]:
    trusted = ("--trusted", folder / "key.pub.pem", "--log", folder / "log")
    with Service(folder / "surface.json", "--workers", 2, "--read-timeout", 1, *trusted) as service:
        yield service


def test_several_workers_count_together_and_a_dead_one_is_replaced(
    two_workers: Service, folder: Path
) -> None:
    service = two_workers
    until(lambda: len(list((folder / "log").glob("*.jsonl"))) == 2, "both at work")
    # What is said is said once, by whichever answers first.
    until(lambda: "serving on" in service.stderr, "said")
    assert service.stderr.count("surface: novelty, ") == 1
    assert f"decisions are logged in {folder / 'log'}" in service.stderr
    # Another process in the place of a dead one trusts the same key, whatever becomes of the file.
    (folder / "key.pub.pem").write_text("no key")
    for _ in range(5):
        assert service.check(ANSWER).status == 200
    name = 'calibrail_decisions_total{guardrail="surface",outcome="pass"}'
    assert service.metric(name) == 5

    def workers() -> set[int]:
        mine = [pid for pid in service.processes() if pid != service.process.pid]
        return {pid for pid in mine if b"--multiprocessing-fork" in _command(pid)}

    before = workers()
    assert len(before) == 2
    killed = before.pop()
    os.kill(killed, signal.SIGKILL)
    until(lambda: len(workers() - {killed}) == 2, "replaced")
    until(
        lambda: len(list((folder / "log").glob("*.jsonl"))) == 3, "at work", lambda: service.stderr
    )
    assert service.check(ANSWER).status == 200
    assert f"worker {killed} ended with -9" in service.stderr
    digest = service.ask("GET", "/v1/guardrail").json()["guardrail"]["digest"]
    labels = f'digest="{digest}",guardrail="surface",verdict="inconclusive"'
    until(lambda: service.metric("calibrail_ready") == 1, "ready")
    assert service.metric(f"calibrail_guardrail_info{{{labels}}}") == 1
    assert service.metric('calibrail_guardrail_fpr{bound="upper",guardrail="surface"}') > 0


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_headers_that_trickle_or_never_end_and_what_is_not_http_are_refused(
    two_workers: Service,
) -> None:
    head = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for sent, status in (
        (b"GET /healthz HTTP/1.1\r\nHost: 127", b"408"),
        (b"what is this\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 70_000, b"431"),
        (head + b"Content-Length: 50\r\n\r\n{", b"408"),
        # A connection that was used, and goes on too slowly.
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he", b"408"),
    ):
        assert b"HTTP/1.1 %b " % status in two_workers.raw(sent), sent[:40]


def test_several_workers_end_in_order(two_workers: Service) -> None:
    two_workers.process.send_signal(signal.SIGTERM)
    assert two_workers.process.wait(60) == 0
    assert "Traceback" not in two_workers.stderr


def test_a_signal_at_the_start_ends_it_and_a_hangup_does_not(model: Path, tmp_path: Path) -> None:
    def listening(service: Service) -> None:
        until(lambda: _refuses(service.port) is False, "listening", lambda: service.stderr)

    def bound(service: Service) -> None:
        until(lambda: _is_taken(service.port), "bound", lambda: service.stderr)

    for place, moment in enumerate((bound, listening)):
        log = tmp_path / f"log{place}"
        with Service(model, "--log", log, ready=False) as service:
            moment(service)
            service.process.send_signal(signal.SIGHUP)
            time.sleep(0.05)
            assert service.terminate() == 0
            assert "Traceback" not in service.stderr


def test_a_signal_while_workers_are_started_ends_all_of_them(surface: Path) -> None:
    with Service(surface, "--workers", 4, "--drain", 60, ready=False) as service:
        until(lambda: len(service.processes()) > 2, "begun")
        os.killpg(service.process.pid, signal.SIGINT)
        assert service.end() == 0
        assert "Traceback" not in service.stderr


def test_a_file_that_cannot_be_read_to_its_end_holds_up_no_other_and_not_the_end(
    surface: Path, column: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for path in (first, second):
        path.write_bytes(surface.read_bytes())
    with Service(first, second, "--drain", 60) as service:
        first.unlink()
        # Whoever opens it waits for somebody to write.
        os.mkfifo(first)
        changed = tmp_path / "changed.json"
        changed.write_bytes(column.read_bytes())
        os.replace(changed, second)
        until(lambda: "second: risk, " in service.stderr, "swapped", lambda: service.stderr)
        assert service.terminate() == 0


def test_one_address_is_one_service(surface: Path) -> None:
    with Service(surface, ready=False) as first:
        until(lambda: _is_taken(first.port), "bound", lambda: first.stderr)
        # The first one does not listen yet.
        ended = calibrail("serve", surface, "--port", first.port)
        assert ended.returncode == 1
        assert "cannot listen" in ended.stderr and "serving on" not in ended.stdout
        first.wait_until_ready()
        # A connection that the service ends lingers with the system.
        assert b" 400 " in first.raw(b"what is this\r\n\r\n")
        assert first.terminate() == 0
        with Service(surface, port=first.port) as again:
            assert again.check(ANSWER).status == 200


def _is_taken(port: int) -> bool:
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return True
    return False


def test_what_was_accepted_is_answered_before_the_process_ends(surface: Path) -> None:
    head = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = b'{"contexts": ["a b"], "response": "a"}'
    with Service(surface) as service:
        with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
            length = f"Content-Length: {len(body)}\r\n\r\n".encode()
            connection.sendall(head + length + body[:10])
            time.sleep(0.3)
            service.process.send_signal(signal.SIGTERM)
            time.sleep(0.6)
            connection.sendall(body[10:])
            answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer
        assert service.process.wait(60) == 0
        assert f"serving on {service.url}" in service.stderr


class _Busy(asyncio.Protocol):
    """A client that asks again as soon as it has its answer, and counts answers."""

    n_answers = 0

    def __init__(self, asked: bytes) -> None:
        self._asked, self._come = asked, b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._asked)

    def data_received(self, data: bytes) -> None:
        self._come += data
        head, end, body = self._come.partition(b"\r\n\r\n")
        (length,) = re.findall(rb"content-length: (\d+)", head) or [b"0"]
        if end and len(body) >= int(length):
            assert head.startswith(b"HTTP/1.1 200")
            self.n_answers, self._come = self.n_answers + 1, b""
            self._transport.write(self._asked)


def test_all_who_come_at_once_are_taken_before_the_first_ask_often(surface: Path) -> None:
    asked = request_bytes(json.dumps(ANSWER).encode())

    async def go(port: int) -> list[int]:
        loop = asyncio.get_running_loop()
        made = [loop.create_connection(lambda: _Busy(asked), "127.0.0.1", port) for _ in range(300)]
        clients = [client for _, client in await asyncio.gather(*made)]
        while not all(client.n_answers for client in clients):
            await asyncio.sleep(0.01)
        return [client.n_answers for client in clients]

    with Service(surface) as service:
        answers = asyncio.run(go(service.port))
    assert max(answers) < 5


def test_a_client_that_does_not_read_is_let_go(surface: Path) -> None:
    ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Service(surface, "--read-timeout", 0.5) as service, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", service.port))
        # More than the system keeps for somebody who may read it one day.
        connection.sendall(ask * 1_000)
        time.sleep(2)
        got = 0
        with contextlib.suppress(ConnectionResetError):
            while more := connection.recv(65536):
                got += more.count(b"HTTP/1.1 200 ")
        assert 0 < got < 1_000
        assert service.check(ANSWER).status == 200
        assert "Traceback" not in service.stderr


def test_it_does_not_begin_where_it_cannot_serve(surface: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = calibrail("serve", surface, "--port", port)
    assert ended.returncode == 1
    assert "--port" in ended.stderr
    damaged = tmp_path / "damaged.json"
    damaged.write_bytes(surface.read_bytes()[:-10])
    ended = calibrail("serve", damaged, "--port", 0, "--host", "0.0.0.0")
    assert "MAY ASK" in ended.stderr and "CALIBRAIL_TOKEN" in ended.stderr
    assert ended.returncode == 1
    assert "name the file that" in ended.stderr
    blocked = tmp_path / "file"
    blocked.write_text("")
    ended = calibrail("serve", surface, "--port", 0, "--log", blocked)
    assert ended.returncode == 1
    assert "decision log" in ended.stderr
    ended = calibrail("serve", surface, "--log-sync")
    assert ended.returncode == 2
    assert "--log DIR" in ended.stderr
    with Service(damaged, "--workers", 2, ready=False) as service:
        assert service.process.wait(60) == 1
        assert "name the file that" in service.stderr
        assert "Traceback" not in service.stderr


def test_workers_that_find_no_room_to_count_end_in_one_error(surface: Path, tmp_path: Path) -> None:
    # Room for the folder, and for none of its files.
    disk = f'mount -t tmpfs -o size=64k none {tmp_path} && exec "$@"'
    wrapped = ("unshare", "--map-root-user", "--mount", "sh", "-c", disk, "sh")
    if subprocess.run([*wrapped, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine allows no file systems of one's own (unshare --mount)")
    here: dict[str, Any] = {"wrapped": wrapped, "environment": {"TMPDIR": str(tmp_path)}}
    with Service(surface, "--workers", 2, ready=False, **here) as service:
        assert service.process.wait(60) == 1
        assert re.search(r"^error: cannot make files in .+; make room, or ", service.stderr, re.M)
        assert service.stderr.count("\n") == 1


def test_an_error_of_any_kind_comes_back_from_the_thread_that_reloads() -> None:
    class PanicError(BaseException):
        pass

    def work() -> None:
        raise PanicError("foreign")

    async def go() -> None:
        await asyncio.wait_for(process._in_daemon_thread(work), 30)

    with pytest.raises(RuntimeError, match=r"PanicError\('foreign'\)"):
        asyncio.run(go())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, -1), (65_536, -1)),
        ((1024, 4096), (4096, 4096)),
        ((1024, 1 << 20), (65_536, 1 << 20)),
        ((-1, -1), None),
        ((1 << 20, 1 << 20), None),
    ],
)
def test_as_many_files_may_be_open_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], after: tuple[int, int] | None
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "RLIM_INFINITY", -1)
    monkeypatch.setattr(resource, "getrlimit", lambda _: before)
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    # Nothing is served: it ends right after that.
    monkeypatch.setattr("warnings.filterwarnings", None)
    with pytest.raises(TypeError, match="not callable"):
        process._serve_here({}, *[None] * 5)  # type: ignore[arg-type]
    assert given == ([] if after is None else [after])
