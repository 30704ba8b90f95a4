from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from calibrail.guardrail import Guardrail
from tests.command_line import calibrail
from tests.serve.faults.kept import nothing_is_invented, verified
from tests.serve.load import Exchange, Load
from tests.serve.process import Service

Bodies = Iterator[dict[str, Any]]

#: Runs before anything else in the process: its clock says what a file adds to the machine's.
CLOCK = """
import datetime, os, time

machine, said = time.time, os.environ["TESTS_CLOCK"]

def added():
    with open(said) as file:
        return float(file.read() or 0)

class Moved(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=added())

datetime.datetime = Moved
time.time = lambda: machine() + added()
"""


def test_a_clock_that_jumps_changes_neither_decisions_nor_their_order(
    file: Path, guardrail: Guardrail, bodies: Bodies, tmp_path: Path
) -> None:
    log, clock = tmp_path / "log", tmp_path / "clock"
    (tmp_path / "sitecustomize.py").write_text(CLOCK)
    clock.write_text("0")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    moved = {"PYTHONPATH": path, "TESTS_CLOCK": str(clock)}
    exchanges: list[Exchange] = []
    with Service(file, "--log", log, "--deadline", 20, environment=moved) as service:
        for seconds in (0, -86_400, 86_400 * 400, -3_600):
            beside = tmp_path / "clock.new"
            beside.write_text(str(seconds))
            beside.replace(clock)
            exchanges += Load(service.port, islice(bodies, 30), connections=3).run()
        assert service.ask("GET", "/readyz").status == 200
        assert service.terminate() == 0
    assert nothing_is_invented(exchanges, guardrail, log) == (120, 0)
    lines = sorted((x for some in verified(log).values() for x in some), key=lambda x: x["seq"])
    asked = [x.sent["id"] for x in exchanges]
    # Of four jumps the order is that of the answers, whatever the hours say.
    order = [line["id"] for line in lines if "id" in line and line["id"] in set(asked)]
    assert [order.index(name) // 30 for name in asked] == [n // 30 for n in range(120)]
    times = [line["time"] for line in lines]
    assert times != sorted(times)
    # Whoever verifies is told.
    done = calibrail("log", "verify", log)
    assert "clock" in done.stdout + done.stderr
