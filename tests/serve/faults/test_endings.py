from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from calibrail import ReadOptions, calibrate
from calibrail.guardrail import Guardrail
from tests.chat_server import ChatServer, verdicts
from tests.command_line import calibrail
from tests.serve.faults.kept import decides_as_ever, lines_of, nothing_is_invented, verified
from tests.serve.load import Load
from tests.serve.process import Service, until

Bodies = Iterator[dict[str, Any]]


def _some_answers(n: int, then: Any) -> Any:
    """Do something once so many answers have come."""

    def meanwhile(load: Load) -> None:
        until(lambda: len(load.exchanges) >= n, f"{n} answers")
        then()

    return meanwhile


@pytest.mark.parametrize("sync", [False, True])
def test_what_was_answered_before_kill_9_is_in_the_log(
    file: Path, guardrail: Guardrail, bodies: Bodies, tmp_path: Path, sync: bool
) -> None:
    log, options = tmp_path / "log", ["--log-sync"] if sync else []
    with Service(file, "--log", log, *options) as service:
        load = Load(service.port, bodies, connections=64)
        exchanges = load.run(_some_answers(300, service.kill))
    assert any(exchange.answer is None for exchange in exchanges)
    # The folder verifies as it was left, up to the last whole line.
    n_decided, _ = nothing_is_invented(exchanges, guardrail, log)
    assert n_decided >= 300
    with Service(file, "--log", log, *options) as service:
        again = Load(service.port, islice(bodies, 100), connections=8).run()
        assert service.terminate() == 0
    assert nothing_is_invented([*exchanges, *again], guardrail, log)[0] == n_decided + 100


def test_a_line_cut_off_by_the_end_is_told_and_all_before_it_stand(
    file: Path, guardrail: Guardrail, bodies: Bodies, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with Service(file, "--log", log) as service:
        exchanges = Load(service.port, islice(bodies, 20), connections=1).run()
        service.kill()
    (path,) = log.glob("*.jsonl")
    whole = path.read_bytes()
    os.truncate(path, len(whole) - 40)
    done = calibrail("log", "verify", log)
    assert path.name in done.stdout + done.stderr
    assert len(lines_of(log).keys() & {x.sent["id"] for x in exchanges}) == 19
    with Service(file, "--log", log) as service:
        more = Load(service.port, islice(bodies, 5), connections=1).run()
        assert service.terminate() == 0
    assert nothing_is_invented(more, guardrail, None)[0] == 5
    assert lines_of(log).keys() >= {exchange.sent["id"] for exchange in more}


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_under_load_drops_nothing_that_was_accepted(
    file: Path, guardrail: Guardrail, bodies: Bodies, tmp_path: Path, workers: int
) -> None:
    log = tmp_path / "log"
    with Service(file, "--log", log, "--workers", workers) as service:
        load = Load(service.port, bodies, connections=200)
        exchanges = load.run(
            _some_answers(400, lambda: service.process.send_signal(signal.SIGTERM))
        )
        assert service.end() == 0, service.stderr
        until(lambda: not service.processes(), "gone, workers and all")
        assert "Traceback" not in service.stderr, service.stderr
    n_decided, _ = nothing_is_invented(exchanges, guardrail, log)
    answered = {x.sent["id"] for x in exchanges if x.answer and x.answer.status == 200}
    # What was decided was given: no request was taken on and then forgotten.
    assert verified(log).keys() - {""} == answered
    assert n_decided == len(answered) >= 400


def test_sigterm_waits_for_answers_that_a_judge_has_yet_to_give(
    facts: list[dict[str, Any]], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with ChatServer(verdicts(lambda text: len(text) % 7 / 7), served="judge-1") as judge:
        spec = f"judge:model=judge,mode=logprob,base_url={judge.url}"
        path = tmp_path / "judge.json"
        calibrate("example:facts", spec, alpha=0.3, reading=ReadOptions(limit=200)).freeze().save(
            path
        )
        judge.reset()
        judge.latency = 0.5
        sent = [{"id": f"late-{n}", **body} for n, body in enumerate(facts[:40])]
        with Service(path, "--log", log) as service:

            def meanwhile(load: Load) -> None:
                # Some are at the endpoint, the others wait.
                until(lambda: len(judge.seen) >= 4, "4 requests at the judge")
                service.process.send_signal(signal.SIGTERM)

            exchanges = Load(service.port, iter(sent), connections=40).run(meanwhile)
            assert service.end() == 0, service.stderr
        assert all(x.answer and x.answer.status == 200 for x in exchanges)
        judge.latency = 0.0
        assert nothing_is_invented(exchanges, Guardrail.load(path), log) == (40, 0)


def test_a_worker_that_dies_is_replaced_and_nothing_passes_for_it(
    file: Path, guardrail: Guardrail, bodies: Bodies, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with Service(file, "--log", log, "--workers", 2) as service:
        before = set(service.processes())
        (victim, *_) = (pid for pid in _with_lines(log) if pid in before)
        load = Load(service.port, islice(bodies, 2_000), connections=16)
        exchanges = load.run(_some_answers(100, lambda: os.kill(victim, signal.SIGKILL)))
        until(lambda: len(set(service.processes()) - before) >= 1, "replaced")
        service.wait_until_ready()
        decides_as_ever(service, guardrail, {**next(bodies), "id": "afterwards"})
        assert nothing_is_invented(exchanges, guardrail, log)[0] >= 100
        assert service.terminate() == 0


def _with_lines(log: Path) -> list[int]:
    """Return the processes that have a file in the log folder, by its name."""
    return [int(path.name.split("-")[1]) for path in log.glob("*.jsonl")]
