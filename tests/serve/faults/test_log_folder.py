from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from calibrail.guardrail import Guardrail
from tests.serve.faults.kept import (
    decides_as_ever,
    is_refusal,
    lines_of,
    nothing_is_invented,
    verified,
)
from tests.serve.load import Exchange, Load
from tests.serve.process import Service, until

Bodies = Iterator[dict[str, Any]]

#: Root writes where permissions forbid it, but for this.
BOUND_BY_PERMISSIONS = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
)


def test_a_read_only_folder_is_refused_at_the_start(file: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir(mode=0o555)
    with Service(file, "--log", log, ready=False, wrapped=BOUND_BY_PERMISSIONS) as service:
        assert service.end() != 0
        assert str(log) in service.stderr and "Traceback" not in service.stderr


def test_a_disk_that_fills_up_stops_decisions_until_there_is_room(
    file: Path, guardrail: Guardrail, bodies: Bodies, tmp_path: Path
) -> None:
    log = tmp_path / "disk"
    log.mkdir()
    # A disk of its own that only the service sees: others reach it through its root.
    disk = f'mount -t tmpfs -o size=64k none {log} && exec "$@"'
    wrapped = ("unshare", "--map-root-user", "--mount", "sh", "-c", disk, "sh")
    if subprocess.run([*wrapped, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine allows no file systems of one's own (unshare --mount)")
    with Service(file, "--log", log, wrapped=wrapped) as service:
        seen = Path(f"/proc/{service.process.pid}/root{log}")
        # More decisions than 64 KiB hold.
        exchanges = Load(service.port, islice(bodies, 600), connections=8).run()
        assert len(exchanges) == 600 and all(exchange.answer for exchange in exchanges)
        n_decided, n_refused = nothing_is_invented(exchanges, guardrail, seen)
        assert n_decided >= 50 and n_refused >= 50
        refused = [x.answer for x in exchanges if x.answer and x.answer.status != 200]
        assert {answer.status for answer in refused} == {503}
        assert all(answer.json()["type"].endswith("log-unavailable") for answer in refused)
        # Those that were told nothing stand in no line.
        given = {x.sent["id"] for x in exchanges if x.answer and x.answer.status == 200}
        assert lines_of(seen).keys() - {""} == given
        assert service.ask("GET", "/readyz").status == 503
        assert service.ask("GET", "/healthz").status == 200
        assert service.metric("calibrail_log_errors_total") > 0

        inside = ("nsenter", f"--target={service.process.pid}", "--user", "--mount")
        subprocess.run(
            [*inside, "mount", "-o", "remount,size=4m", str(log)],
            check=True,
        )

        def has_room() -> bool:
            answer = service.check({**next(bodies), "id": "room"})
            return answer.status == 200

        until(has_room, "room again", lambda: service.stderr)
        more = Load(service.port, islice(bodies, 100), connections=8).run()
        assert nothing_is_invented([*exchanges, *more], guardrail, seen)[0] == n_decided + 100
        decides_as_ever(service, guardrail, {**next(bodies), "id": "afterwards"})
        assert service.terminate() == 0


def test_a_folder_that_is_taken_away_stops_decisions_until_it_is_back(
    file: Path, guardrail: Guardrail, bodies: Bodies, tmp_path: Path
) -> None:
    log, away = tmp_path / "log", tmp_path / "away"
    with Service(file, "--log", log, wrapped=BOUND_BY_PERMISSIONS) as service:
        before = Load(service.port, islice(bodies, 10), connections=1).run()
        log.rename(away)
        # In its place a folder that nothing can be written to.
        log.mkdir(mode=0o555)
        without = Load(service.port, islice(bodies, 10), connections=1).run()
        for exchange in without:
            assert exchange.answer is not None
            if exchange.answer.status != 200:
                is_refusal(exchange.answer)
                assert exchange.answer.status == 503
        logged = lines_of(away).keys() | lines_of(log).keys()
        for exchange in without:
            # Whatever is given is in a file: of the folder as it was, at least.
            assert exchange.answer is not None
            assert (exchange.answer.status == 200) == (exchange.sent["id"] in logged)
        log.rmdir()
        away.rename(log)
        until(lambda: service.check({**next(bodies), "id": "back"}).status == 200, "back")
        assert service.terminate() == 0
    nothing_is_invented([*before, *without], guardrail, log)


def test_two_services_share_a_folder(
    file: Path, guardrail: Guardrail, bodies: Bodies, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    exchanges: list[Exchange] = []
    with Service(file, "--log", log) as one, Service(file, "--log", log) as other:
        loads = [Load(port, iter(list(islice(bodies, 150))), 8) for port in (one.port, other.port)]
        exchanges += loads[0].run(lambda _: exchanges.extend(loads[1].run()))
        # One is killed, the other goes on.
        one.kill()
        exchanges += Load(other.port, islice(bodies, 50), connections=8).run()
        assert other.terminate() == 0
    assert nothing_is_invented(exchanges, guardrail, log) == (350, 0)
    assert len(list(log.glob("*.jsonl"))) == 2
    assert sum(map(len, verified(log).values())) >= 350
