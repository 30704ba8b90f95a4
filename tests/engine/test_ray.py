from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrail.engine import ray as engine
from calibrail.engine.shards import Job, Outcome, write_result
from calibrail.errors import DataError, InputError
from calibrail.options.runtime import EngineOptions
from tests.command_line import calibrail
from tests.installed import need

need("ray")


class Counting:
    """A task that counts the rows of a shard, unless there is none."""

    key = "cc"

    def __call__(self, table: pa.Table) -> pa.Table:
        if not table.num_rows:
            raise ValueError("an empty shard")
        return pa.table({"n": [table.num_rows]})


class NotHere:
    """A task that only its driver can have."""

    key = "dd"

    def __reduce__(self) -> Any:
        return (self._arrive, ())

    @staticmethod
    def _arrive() -> None:
        raise ImportError("no module named plugin")


@pytest.fixture
def shard(tmp_path: Path) -> dict[str, Any]:
    write_result(tmp_path / "inputs" / "3.parquet", pa.table({"value": [1, 2]}))
    paths = {"input": tmp_path / "inputs" / "3.parquet", "result": tmp_path / "3.parquet"}
    return {"number": 3} | {name: str(path) for name, path in paths.items()}


def answer(task: Any, shard: dict[str, Any], wanted: str | None = None) -> dict[str, Any]:
    actor = engine.ShardActor(pickle.dumps(task), wanted or version("calibrail"))
    (row,) = actor(pa.Table.from_pylist([shard])).to_pylist()
    return dict(row)


def test_shard_is_computed_and_leaves_nothing_else(shard: dict[str, Any]) -> None:
    told = answer(Counting(), shard)
    assert told.pop("node")
    assert told == {"number": 3, "error": None, "attempts": 1, "unfit": None}
    assert pq.read_table(shard["result"]).to_pylist() == [{"n": 2}]
    assert os.listdir(Path(shard["input"]).parent) == ["3.parquet"]


def test_finished_shard_needs_no_input(shard: dict[str, Any]) -> None:
    answer(Counting(), shard)
    Path(shard["input"]).unlink()
    assert answer(Counting(), shard)["error"] is None


def test_exception_of_the_task_is_told_at_once(shard: dict[str, Any]) -> None:
    write_result(Path(shard["input"]), pa.table({"value": []}))
    told = answer(Counting(), shard)
    assert (told["error"], told["attempts"]) == ("ValueError: an empty shard", 1)
    assert not Path(shard["result"]).exists()


@pytest.mark.parametrize("died", [1, 2, 3])
def test_attempts_outlive_processes(shard: dict[str, Any], died: int) -> None:
    for _ in range(died):
        engine._begin_attempt(Path(shard["input"]))
    told = answer(Counting(), shard)
    assert told["attempts"] == min(died + 1, 3)
    assert (told["error"] is None) == (died < 3) == Path(shard["result"]).exists()
    # Who tries again later has three attempts again.
    assert answer(Counting(), shard)["error"] is None


def test_node_that_cannot_compute_says_why(
    shard: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_PATIENCE", 0.0)
    assert answer(NotHere(), shard)["unfit"] == (
        "cannot load what is to be computed (ImportError: no module named plugin)"
    )
    with pytest.raises(DataError, match=r"the node \S+ has calibrail .*, and the driver 99.0"):
        engine._outcome(answer(Counting(), shard, "99.0"), {})
    Path(shard["input"]).unlink()
    with pytest.raises(DataError, match=r"the node .* storage that all nodes share"):
        engine._outcome(answer(Counting(), shard), {})


def test_result_on_another_disk_is_not_taken_for_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_PATIENCE", 0.0)
    told = {"number": 0, "error": None, "attempts": 1, "unfit": None}
    with pytest.raises(DataError, match="does not see what others wrote"):
        engine._outcome(told, {0: tmp_path / "nowhere.parquet"})


def test_without_ray(monkeypatch: pytest.MonkeyPatch, shard: dict[str, Any]) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    jobs = iter([Job(3, Counting(), Path(shard["input"]), Path(shard["result"]), 1)])
    with pytest.raises(InputError, match=r"pip install 'calibrail\[ray\]'"):
        list(engine.run_on_ray(jobs, EngineOptions(engine="ray")))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://head:10001", "ray job submit"),
        ("head", "must be auto, or HOST:PORT"),
        ("127.0.0.1:1", "no Ray cluster can be joined at 127.0.0.1:1 .*refused"),
    ],
)
def test_address_that_leads_nowhere(shard: dict[str, Any], address: str, message: str) -> None:
    jobs = iter([Job(3, Counting(), Path(shard["input"]), Path(shard["result"]), 1)])
    options = EngineOptions(engine="ray", ray_address=address)
    with pytest.raises(InputError, match=message):
        list(engine.run_on_ray(jobs, options))


def test_from_the_command_line_on_this_machine(tmp_path: Path) -> None:
    words = ["score", "example:facts", "--score", "novelty", "--shard-rows", "150", "-o"]
    alone = calibrail(*words, tmp_path / "alone.parquet", "--shards", tmp_path / "shards")
    command = [sys.executable, "-m", "calibrail", *words, str(tmp_path / "other.parquet")]
    command += ["--engine", "ray", "--workers", "1"]
    on_ray = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (tmp_path / "other.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()
    assert on_ray.stdout == alone.stdout
    # Ray itself says but one thing, which no setting silences.
    noise = [line for line in on_ray.stderr.splitlines() if "RAY_BACKEND_LOG_LEVEL" not in line]
    assert not re.search(r"\bray|\[20\d\d-|WARNING|INFO", "\n".join(noise), re.IGNORECASE)


def test_rows_are_read_as_shards_are_computed(
    shard: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def cluster(_: object) -> Iterator[tuple[None, float]]:
        yield None, 2.0

    def computed(*given: Any) -> Iterator[Outcome]:
        yield from (Outcome(job.number) for job in given[3])

    monkeypatch.setattr(engine, "_cluster", cluster)
    monkeypatch.setattr(engine, "_on_cluster", computed)
    monkeypatch.setattr(engine, "WAVE", 3)
    taken: list[int] = []

    def jobs() -> Iterator[Job]:
        for number in range(8):
            taken.append(number)
            yield Job(number, Counting(), Path(shard["input"]), Path(shard["result"]), 1)

    ended: list[tuple[int, int]] = []
    for outcome in engine.run_on_ray(jobs(), EngineOptions(engine="ray")):
        ended.append((outcome.number, len(taken)))
    assert ended == [(0, 3), (1, 3), (2, 3), (3, 6), (4, 6), (5, 6), (6, 8), (7, 8)]
