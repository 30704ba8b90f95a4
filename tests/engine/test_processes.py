"""Does a pool of processes outlive what its processes do not?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrail.engine.distributed import _no_interrupt, run_in_processes
from calibrail.engine.shards import Job, Outcome
from calibrail.options import EngineOptions

OPTIONS = EngineOptions(engine="processes", workers=2)


class StubbornError(Exception):
    """An error that another process cannot read."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


@dataclass(frozen=True)
class Toy:
    """Does to its process what the shard says."""

    folder: str
    key: str = "toy"

    def __call__(self, table: pa.Table) -> pa.Table:
        what, number = table["what"][0].as_py(), table["number"][0].as_py()
        marker = Path(self.folder, f"{number}.begun")
        with marker.open("a") as file:
            file.write(f"{os.getpid()}\n")
        match what:
            case "killed once" if len(marker.read_text().split()) < 2:
                os.kill(os.getpid(), signal.SIGKILL)
            case "always killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "ends":
                os._exit(3)
            case "exits":
                sys.exit(0)
            case "raises":
                raise StubbornError("no ", "way\nat all")
            case "sleeps":
                time.sleep(600)
        return table


def jobs(folder: Path, *whats: str) -> list[Job]:
    made = []
    for number, what in enumerate(whats):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table({"what": [what], "number": [number]}), path)
        made.append(Job(number, Toy(str(folder)), path, folder / "out" / path.name, 1))
    return made


def begun(folder: Path, number: int) -> int:
    return len((folder / f"{number}.begun").read_text().split())


def test_what_kills_its_process_is_given_up_and_nothing_else(tmp_path: Path) -> None:
    whats = ["fine", "always killed", "fine", "killed once", "raises", "exits", "ends", "fine"]
    made = jobs(tmp_path, *whats)
    outcomes = sorted(run_in_processes(iter(made), OPTIONS), key=lambda item: item.number)
    died = "the process that computed it died 3 times; is there memory enough?"
    assert [item.number for item in outcomes] == list(range(8))
    assert [item.error for item in outcomes] == [
        *(None, died, None, None),
        *("StubbornError: no way", "SystemExit: 0", died, None),
    ]
    assert [job.result.is_file() for job in made] == [item.error is None for item in outcomes]
    assert begun(tmp_path, 3) == 2
    # What was only waiting when a process beside it died was not computed for that.
    assert begun(tmp_path, 1) <= 3 and begun(tmp_path, 6) <= 3
    # Finished shards are computed once, however many processes died.
    assert all(begun(tmp_path, number) <= 2 for number in (0, 2, 4, 5, 7))


def test_no_process_is_left_where_nobody_waits_any_more(tmp_path: Path) -> None:
    made = jobs(tmp_path, "fine", "sleeps", "sleeps")
    outcomes = run_in_processes(iter(made), OPTIONS)
    assert next(outcomes) == Outcome(0)
    while not (tmp_path / "1.begun").exists() and not (tmp_path / "2.begun").exists():
        time.sleep(0.05)
    pids = [int(pid) for path in tmp_path.glob("*.begun") for pid in path.read_text().split()]
    outcomes.close()
    assert not any(alive(pid) for pid in pids)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a thread")
def test_ctrl_c_that_another_thread_takes_waits_for_the_start_of_a_process() -> None:
    over, steps = threading.Event(), []
    other = threading.Thread(target=over.wait)
    other.start()
    assert other.ident is not None
    try:
        with pytest.raises(KeyboardInterrupt), _no_interrupt():
            signal.pthread_kill(other.ident, signal.SIGINT)
            time.sleep(0.05)
            steps.append("started")
    finally:
        over.set()
        other.join()
    assert steps == ["started"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_reader_ends_the_pool(tmp_path: Path) -> None:
    def reading() -> Iterator[Job]:
        yield from jobs(tmp_path, "fine")
        raise ValueError("row 2 is no row")

    with pytest.raises(ValueError, match="row 2"):
        list(run_in_processes(reading(), OPTIONS))


SCRIPT = """
import calibrail
from calibrail import use_engine
from calibrail.options import EngineOptions
{guard}
with use_engine(EngineOptions(engine="processes", workers=2)):
    calibrail.calibrate("example:facts", "length", alpha=0.2)
"""


@pytest.mark.parametrize("where", ["file", "stdin"])
def test_a_script_without_a_guard_is_told_of_it(tmp_path: Path, where: str) -> None:
    source = SCRIPT.format(guard="")
    (tmp_path / "script.py").write_text(source)
    ran = subprocess.run(
        [sys.executable, "script.py" if where == "file" else "-"],
        input=None if where == "file" else source,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 1
    assert 'A script that scores in processes needs `if __name__ == "__main__":`' in ran.stderr
    if where == "file":
        assert ran.stderr.count("Traceback") == 1


def alive(pid: int) -> bool:
    """Say whether a process runs; one that only waits to be asked how it ended does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
