"""What is left of a run on a Ray cluster when an actor, a node or the driver dies?

Two nodes, a logical CPU each. Shards are held in a phase while it is done, so that what dies was
there at that moment. ``make test-cluster`` runs these: they take minutes.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrail.engine.ray import run_on_ray
from calibrail.engine.shards import perform, write_result
from calibrail.options import EngineOptions
from tests.engine.ray_driver import jobs_of
from tests.engine.toy_task import PHASES
from tests.installed import need

if not os.environ.get("CALIBRAIL_CLUSTER"):
    pytest.skip("takes minutes: make test-cluster", allow_module_level=True)
need("ray")
ROOT = Path(__file__).resolve().parents[2]
#: Where nodes and drivers find calibrail and these tests.
WHERE = os.pathsep.join(map(str, [ROOT / "src", ROOT, *sys.path]))
#: Seconds after which something will not happen any more.
LONGEST = 120.0
N_SHARDS, N_ROWS = 10, 25


@dataclass
class Run:
    """A folder of shards, and the driver that has them computed."""

    folder: Path
    address: str
    drivers: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, **options: Any) -> subprocess.Popen[str]:
        options = {"ray_address": self.address, "workers": 2} | options
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.ray_driver", self.folder, json.dumps(options)],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": WHERE},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.drivers.append(driver)
        return driver

    def fail(self) -> str:
        """Wait for a driver that gives up; return what it says."""
        _, said = self.drivers[-1].communicate(timeout=LONGEST)
        assert self.drivers[-1].returncode == 1
        return said

    def finish(self) -> dict[int, dict[str, Any]]:
        """Wait for the driver; return the outcomes by shard, of which each has one."""
        printed, noise = self.drivers[-1].communicate(timeout=LONGEST)
        assert self.drivers[-1].returncode == 0, noise
        outcomes = [json.loads(line) for line in printed.splitlines()]
        by_number = {outcome["number"]: outcome for outcome in outcomes}
        assert len(by_number) == len(outcomes)
        return by_number

    def plan(self, what: str, times: int = 1) -> None:
        (self.folder / what).write_text(str(times))

    def release(self, phase: str) -> None:
        (self.folder / f"hold-{phase}").unlink()

    def held(self, phase: str, n: int = 1) -> list[dict[str, Any]]:
        """Wait until so many shards are held in a phase; return by whom."""
        wait_for(lambda: len(list(self.folder.glob(f"held-{phase}-*"))) >= n, self.drivers[-1])
        return [json.loads(p.read_text()) for p in self.folder.glob(f"held-{phase}-*")]

    def results(self) -> dict[int, bytes]:
        return {number: out.read_bytes() for number, out in self.standing().items()}

    def standing(self) -> dict[int, Path]:
        return {job.number: job.result for job in jobs_of(self.folder) if job.result.exists()}

    def left_over(self) -> list[Path]:
        return list(self.folder.rglob("*.attempt-*"))


def wait_for(happened: Callable[[], Any], driver: subprocess.Popen[str] | None = None) -> None:
    until = time.monotonic() + LONGEST
    while not happened():
        if driver is not None and driver.poll() is not None:
            pytest.fail(f"the driver ended: {driver.communicate()}")
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.1)


def stat_of(pid: int) -> list[str]:
    """Return state, parent and more of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def lives(pid: int) -> bool:
    """Return whether a process is there, and more than what its parent has yet to be told."""
    try:
        return stat_of(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def shards(folder: Path, n: int = N_SHARDS) -> Path:
    for shard in range(n):
        rows = {"shard": [shard] * N_ROWS, "value": [shard * N_ROWS + i for i in range(N_ROWS)]}
        write_result(folder / "inputs" / f"{shard}.parquet", pa.table(rows))
    return folder


@contextmanager
def own_cluster(**head: Any) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", WHERE)
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            yield cluster
        finally:
            cluster.shutdown()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with own_cluster(num_cpus=1) as cluster:
        yield cluster


@pytest.fixture
def second(cluster: Any) -> Iterator[Any]:
    """The second node; it may be removed."""
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield node
    if node in cluster.worker_nodes:
        cluster.remove_node(node)


@pytest.fixture
def run(cluster: Any, tmp_path: Path) -> Iterator[Run]:
    run = Run(shards(tmp_path), cluster.address)
    yield run
    for driver in run.drivers:
        driver.kill()
        driver.communicate()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, bytes]:
    """What one process alone makes of the shards."""
    folder = shards(tmp_path_factory.mktemp("alone"))
    read, replace = pq.read_table, os.replace
    for job in jobs_of(folder):
        assert perform(job.task, job.input, job.result) is None
    assert (pq.read_table, os.replace) == (read, replace)
    return {job.number: job.result.read_bytes() for job in jobs_of(folder)}


def assert_whole(run: Run, undisturbed: dict[int, bytes]) -> None:
    """Every row once, and the bytes of an undisturbed run."""
    assert run.results() == undisturbed
    assert not run.left_over()
    rows = [
        value
        for job in jobs_of(run.folder)
        for value in pq.read_table(job.result)["value"].to_pylist()
    ]
    assert rows == list(range(N_SHARDS * N_ROWS))


@pytest.mark.usefixtures("second")
def test_nothing_happens(run: Run, undisturbed: dict[int, bytes]) -> None:
    run.start()
    outcomes = run.finish()
    assert [outcomes[n] for n in range(N_SHARDS)] == [
        {"number": n, "error": None, "attempts": 1} for n in range(N_SHARDS)
    ]
    assert_whole(run, undisturbed)


@pytest.mark.usefixtures("second")
@pytest.mark.parametrize("phase", PHASES)
def test_actor_killed(run: Run, undisturbed: dict[int, bytes], phase: str) -> None:
    run.plan(f"hold-{phase}")
    run.start()
    os.kill(run.held(phase, 2)[0]["pid"], signal.SIGKILL)
    run.release(phase)
    outcomes = run.finish()
    assert sorted(outcome["attempts"] for outcome in outcomes.values()) == [1] * 9 + [2]
    assert_whole(run, undisturbed)


@pytest.mark.parametrize("phase", PHASES)
def test_node_removed(
    run: Run, undisturbed: dict[int, bytes], cluster: Any, second: Any, phase: str
) -> None:
    run.plan(f"hold-{phase}")
    run.start()
    (there,) = [who["pid"] for who in run.held(phase, 2) if who["node"] == second.node_id]
    cluster.remove_node(second, allow_graceful=False)
    # Here a node is a few processes: one that crashes takes those of its actors along.
    with suppress(ProcessLookupError):
        os.kill(there, signal.SIGKILL)
    run.release(phase)
    outcomes = run.finish()
    assert sorted(outcome["attempts"] for outcome in outcomes.values()) == [1] * 9 + [2]
    assert_whole(run, undisturbed)


@pytest.mark.usefixtures("second")
def test_driver_killed(run: Run, undisturbed: dict[int, bytes]) -> None:
    for shard in range(4, N_SHARDS):
        run.plan(f"hold-write-{shard}")
    first = run.start()
    run.held("write")
    wait_for(lambda: len(run.results()) == 4, first)
    first.kill()
    first.wait()
    stood = {number: out.stat().st_mtime_ns for number, out in run.standing().items()}
    for shard in range(4, N_SHARDS):
        run.release(f"write-{shard}")
    run.start()
    outcomes = run.finish()
    assert all(outcome["error"] is None for outcome in outcomes.values())
    assert_whole(run, undisturbed)
    again = {number: out.stat().st_mtime_ns for number, out in run.standing().items()}
    assert again | stood == again


@pytest.mark.usefixtures("second")
def test_ctrl_c(run: Run, undisturbed: dict[int, bytes]) -> None:
    run.plan("hold-score")
    driver = run.start()
    pids = [who["pid"] for who in run.held("score", 2)]
    driver.send_signal(signal.SIGINT)
    assert driver.wait(LONGEST) == 130
    wait_for(lambda: not any(map(lives, pids)))
    assert not run.results()
    run.release("score")
    run.start()
    run.finish()
    assert_whole(run, undisturbed)


@pytest.mark.usefixtures("second")
def test_worker_that_dies_twice(run: Run, undisturbed: dict[int, bytes]) -> None:
    run.plan("die-score-4", 2)
    run.start()
    outcomes = run.finish()
    assert {n: outcome["attempts"] for n, outcome in outcomes.items()} == {
        n: 3 if n == 4 else 1 for n in range(N_SHARDS)
    }
    assert_whole(run, undisturbed)


@pytest.mark.usefixtures("second")
def test_worker_that_always_dies_and_one_that_raises(
    run: Run, undisturbed: dict[int, bytes]
) -> None:
    run.plan("die-score-4", 99)
    run.plan("raise-7", 99)
    run.start()
    outcomes = run.finish()
    assert outcomes[4]["error"].startswith("the process that computed it died 3 times")
    assert outcomes[4]["attempts"] == 3
    assert (run.folder / "die-score-4").read_text() == "96"
    assert outcomes[7] == {
        "number": 7,
        "error": "ValueError: shard 7 is poisoned",
        "attempts": 1,
    }
    assert run.results() == {n: raw for n, raw in undisturbed.items() if n not in (4, 7)}
    assert not run.left_over()
    # What made them fail is mended.
    run.plan("die-score-4", 0)
    run.plan("raise-7", 0)
    run.start()
    run.finish()
    assert_whole(run, undisturbed)


@pytest.mark.usefixtures("second")
def test_user_s_own_code_fails_to_arrive(run: Run) -> None:
    """A task that cannot be unpickled on a node is said to be so, once."""
    run.plan("unpickled")
    run.start()
    assert "cannot load what is to be computed (ValueError: not here)" in run.fail()


def test_node_with_another_version(run: Run, cluster: Any, tmp_path: Path) -> None:
    metadata = tmp_path / "other" / "calibrail-9.9.9.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.4\nName: calibrail\nVersion: 9.9.9\n")
    path = f"{metadata.parent.parent}{os.pathsep}{WHERE}"
    other = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": path})
    try:
        run.start()
        assert f"has calibrail 9.9.9, and the driver {version('calibrail')}" in run.fail()
    finally:
        cluster.remove_node(other)


@pytest.fixture
def blind(run: Run) -> Iterator[Callable[[], None]]:
    """What starts a node that has other files where the shards are."""
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("this user may not mount anything")
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        ray_start = f"{sys.executable} -m ray.scripts.scripts start --address={run.address}"
        hidden = f"mount -t tmpfs none {run.folder} && exec {ray_start} --num-cpus=1 --block"
        started.append(
            subprocess.Popen(["unshare", "--mount", "bash", "-c", hidden], stdout=-3, stderr=-3)
        )
        return started[-1]

    yield start
    for node in started:
        node.terminate()
        node.wait(LONGEST)


def test_node_that_does_not_see_the_folder(
    run: Run, cluster: Any, blind: Callable[[], None]
) -> None:
    blind()
    wait_for(lambda: sum(node["Alive"] for node in nodes_of(cluster)) == 2)
    run.start()
    said = run.fail()
    assert "does not see" in said and "storage that all nodes share" in said


def test_node_that_joins_later_and_does_not_see_the_folder(
    run: Run, blind: Callable[[], None]
) -> None:
    run.plan("hold-score")
    run.start()
    run.held("score")
    blind()
    said = run.fail()
    assert "does not see" in said and "storage that all nodes share" in said


def nodes_of(cluster: Any) -> list[dict[str, Any]]:
    return cluster.global_state.node_table()


@pytest.fixture(scope="module")
def watched() -> Iterator[Any]:
    """A node of its own whose monitor of memory kills an actor that takes 3 GB and more.

    One node: on one machine, each of two would see what the other one takes.
    """
    known = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total, free = (int(known[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    if free < 8_000_000:
        pytest.skip("needs 8 GB of free memory")
    share = 1 - (free - 3_000_000) / total
    monitor = {"memory_usage_threshold": share, "memory_monitor_refresh_ms": 100}
    with own_cluster(num_cpus=2, _system_config=monitor) as cluster:
        yield cluster


@pytest.mark.parametrize("times", [1, 99])
def test_worker_out_of_memory(
    watched: Any, tmp_path: Path, undisturbed: dict[int, bytes], times: int
) -> None:
    run = Run(shards(tmp_path), watched.address)
    run.plan("eat-4", times)
    run.start(workers=1)
    outcomes = run.finish()
    if times == 1:
        assert outcomes[4] == {"number": 4, "error": None, "attempts": 2}
        assert_whole(run, undisturbed)
    else:
        assert outcomes[4]["error"].startswith("the process that computed it died 3 times")
        assert (run.folder / "eat-4").read_text() == "96"
        assert run.results() == {n: raw for n, raw in undisturbed.items() if n != 4}


@pytest.fixture
def session(cluster: Any, second: Any) -> Iterator[Any]:
    """A connection of the user's own to the cluster."""
    import ray

    ray.init(address=cluster.address, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.parametrize("all_of_them", [True, False])
def test_session_of_the_user_s_stays_and_gets_its_cpus_back(
    session: Any, run: Run, undisturbed: dict[int, bytes], all_of_them: bool
) -> None:
    outcomes = run_on_ray(jobs_of(run.folder), EngineOptions(engine="ray", workers=(1, 2)))
    if all_of_them:
        assert len(list(outcomes)) == N_SHARDS
        assert_whole(run, undisturbed)
    else:
        assert next(outcomes).error is None
        outcomes.close()
    assert session.is_initialized()
    assert session.data.DataContext.get_current().enable_progress_bars
    wait_for(lambda: session.available_resources().get("CPU") == 2.0)


def test_actors_share_a_gpu(run: Run, cluster: Any, undisturbed: dict[int, bytes]) -> None:
    """Ray counts GPUs that it is told of: two actors of half a GPU run beside each other."""
    node = cluster.add_node(num_cpus=3, num_gpus=1)
    try:
        run.plan("hold-score")
        run.start(gpus=0.5, workers=None)
        assert {who["node"] for who in run.held("score", 2)} == {node.node_id}
        run.release("score")
        run.finish()
        assert_whole(run, undisturbed)
    finally:
        cluster.remove_node(node)


def test_cluster_of_this_machine_goes_with_its_driver(
    run: Run, undisturbed: dict[int, bytes]
) -> None:
    run.plan("hold-score")
    driver = run.start(ray_address=None)
    actors = [who["pid"] for who in run.held("score", 2)]
    raylets = {int(stat_of(pid)[1]) for pid in actors}
    driver.kill()
    wait_for(lambda: not any(map(lives, [*actors, *raylets])))
    run.release("score")
    run.start(ray_address=None)
    run.finish()
    assert_whole(run, undisturbed)


def test_gpu_that_this_machine_does_not_have(run: Run) -> None:
    if Path("/dev/nvidia0").exists():
        pytest.skip("this machine has a GPU")
    run.start(ray_address=None, gpus=1.0)
    assert "this machine has no GPU that Ray can see" in run.fail()


@pytest.mark.usefixtures("second")
def test_command_killed_and_started_again(cluster: Any, tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "question": f"Who won race {n}?", "contexts": [f"Ann won race {n}. " * 20]}
        | {"response": f"In race {n} Bob was ahead of Ann. " * (n % 9 + 1)}
        for n in range(6_000)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "answers.parquet")
    page = (ROOT / "docs" / "scale.md").read_text()
    shown = re.findall(r"^calibrail (score .*) --engine ray (.*) -o scores.parquet$", page, re.M)
    ((words, engine),) = shown
    on_ray = engine.replace(" auto ", f" {cluster.address} ").replace("/shared/work", "shards")

    def score(out: str, engine: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "calibrail", *words.split(), "--shard-rows", "300"]
        env = os.environ | {"PYTHONPATH": WHERE}
        return subprocess.Popen([*command, *engine.split(), "-o", out], cwd=tmp_path, env=env)

    def done() -> dict[Path, int]:
        results = (tmp_path / "shards" / "results").rglob("*.parquet")
        return {path: path.stat().st_mtime_ns for path in results}

    first = score("ray.parquet", f"--engine ray {on_ray}")
    wait_for(lambda: len(done()) >= 4)
    first.kill()
    first.wait()
    before = done()
    assert 4 <= len(before) < 20
    assert score("ray.parquet", f"--engine ray {on_ray}").wait(LONGEST) == 0
    assert len(done()) == 20 and done() | before == done()
    assert json.loads((tmp_path / "shards" / "manifest.json").read_text())["complete"]
    assert score("local.parquet").wait(LONGEST) == 0
    assert (tmp_path / "ray.parquet").read_bytes() == (tmp_path / "local.parquet").read_bytes()
    assert not list((tmp_path / "shards" / "inputs").iterdir())
