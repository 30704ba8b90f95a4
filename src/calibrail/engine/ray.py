"""Shards on a Ray cluster.

Only names travel: an actor reads a shard's rows from storage that all nodes share, and puts the
result there, whole or not at all. So nothing is lost with an actor, a node or the driver, and
whoever takes up a shard that was finished finds its result.
"""

import logging
import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from calibrail.engine.distributed import threads_each
from calibrail.engine.shards import MOST_ATTEMPTS, Job, Outcome, ShardTask, error_line, perform
from calibrail.errors import DataError, InputError, error_text, errors_as
from calibrail.models.hardware import cores
from calibrail.options.fields import spell_option
from calibrail.options.runtime import EngineOptions
from calibrail.working_folder import environment

#: Logical CPUs of a cluster on this machine at least: Ray Data runs tasks of its own beside actors.
_LEAST_CPUS: Final = 4
#: Seconds until a cluster has answered that there is one.
_LONGEST_KNOCK: Final = 10.0
#: Shards that are handed over at a time: two million answers, whose rows lie in the folder until
#: they are computed. Each time a pool of actors starts anew, within seconds.
WAVE: Final = 512
#: Workers are started when they are needed: at once there is but the pool.
_BRISK: Final = {"RAY_prestart_worker_first_driver": "0", "RAY_enable_worker_prestart": "0"}
#: No usage statistics; and what Ray has to say is in the logs of its session.
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DATA_LOG_LEVEL": "ERROR",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # What the cluster reports would otherwise be printed where results are.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}


def run_on_ray(jobs: Iterator[Job], options: EngineOptions) -> Generator[Outcome]:
    """Compute shards on a Ray cluster; tell how each ended, in any order, as they end.

    An exception of the task ends its shard as failed. A shard whose actor dies (killed, out of
    memory, its node gone) is begun again, three times at most.

    Parameters
    ----------
    jobs : iterator of Job
        Taken, and so read, when those before have ended, `WAVE` of them at a time.
    options : EngineOptions
        Size of the pool, GPUs of each actor, address of the cluster.

    Raises
    ------
    InputError
        If Ray is not installed, no cluster answers at the address, or it lacks what was asked.
    DataError
        If a node does not see the files or has another version of calibrail, or Ray gives up.
    """
    first = next(jobs, None)
    if first is None:
        return
    jobs = chain((first,), jobs)
    with _cluster(options) as (ray, n_cores):
        while wave := list(islice(jobs, WAVE)):
            by_task: dict[str, list[Job]] = {}
            for job in wave:
                by_task.setdefault(job.task.key, []).append(job)
            for alike in by_task.values():
                with closing(_on_cluster(ray, n_cores, alike[0].task, alike, options)) as outcomes:
                    yield from outcomes


def _on_cluster(
    ray: Any, n_cores: float, task: ShardTask, jobs: Sequence[Job], options: EngineOptions
) -> Generator[Outcome]:
    """Let a pool of actors compute shards by the same task; tell how each ended."""
    for folder in {job.input.parent for job in jobs}:
        for marker in folder.glob("*.attempt-*"):
            marker.unlink(missing_ok=True)
    results = {job.number: job.result for job in jobs}
    rows = [{"number": it.number, "input": str(it.input), "result": str(it.result)} for it in jobs]
    least, most = (min(size, len(jobs)) for size in _pool(ray, n_cores, options))
    context = ray.data.DataContext.get_current().copy()
    context.enable_progress_bars = context.print_on_execution_start = False
    try:
        with ray.data.DataContext.current(context):
            # A block a shard: an actor answers by the block, and then takes up the next one.
            shards = ray.data.from_items(rows, override_num_blocks=len(rows))
            answers = shards.map_batches(
                ShardActor,
                fn_constructor_args=(ray.cloudpickle.dumps(task), version("calibrail")),
                batch_size=1,
                batch_format="pyarrow",
                compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
                num_cpus=1,
                num_gpus=options.gpus or None,
            )
            form = {"batch_size": None, "batch_format": "pyarrow", "prefetch_batches": 0}
            for block in answers.iter_batches(**form):
                for answer in block.to_pylist():
                    yield _outcome(answer, results)
    except ray.exceptions.RayError as error:
        raise DataError.on("ray_gave_up", part=error_line(error)) from error


def _outcome(answer: Mapping[str, Any], results: Mapping[int, Path]) -> Outcome:
    """Return how a shard ended, or raise where its node could compute none."""
    number, error = answer["number"], answer["error"]
    if answer["unfit"] is not None:
        raise _unfit(answer["node"], answer["unfit"])
    if error is None and not is_visible(results[number]):
        raise _unfit("that was started here", UNSEEN)
    return Outcome(number, error, answer["attempts"])


def _unfit(node: str, why_not: str) -> DataError:
    """Return why a node can compute no shard, and what helps."""
    if why_not == UNSEEN:
        why_not = error_text("ray_storage_apart", by=spell_option(EngineOptions, "shards"))
    return DataError(f"the node {node} {why_not}")


@contextmanager
def _cluster(options: EngineOptions) -> Iterator[tuple[Any, float]]:
    """Join a cluster, or start one on this machine, and leave it at the end; yield Ray, and cores.

    Whoever is connected already stays so: then this is the cluster.
    """
    with environment({name: os.environ.get(name, value) for name, value in _QUIET.items()}):
        option = spell_option(EngineOptions, "engine", "ray")
        with errors_as(InputError, ImportError, "ray_missing", option=option):
            import ray
            import ray.data
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        if ray.is_initialized():
            yield ray, ray.cluster_resources().get("CPU", 1.0)
            return
        before = signal.getsignal(signal.SIGTERM)
        _connect(ray, options)
        # Ray puts an exit of its own there; only a main thread has signals.
        with suppress(ValueError):
            signal.signal(signal.SIGTERM, before)
        try:
            # Of a cluster that was started here, CPUs are a number that was given.
            own = options.ray_address is None
            yield ray, cores() if own else ray.cluster_resources().get("CPU", 1.0)
        finally:
            ray.shutdown()


def _connect(ray: Any, options: EngineOptions) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if options.ray_address is not None:
        _join(ray, options.ray_address, quiet)
        return
    workers = options.workers if options.workers is not None else cores()
    most = workers[1] if isinstance(workers, tuple) else workers
    # Workers find calibrail, and what a plug-in brought, where this process does.
    path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path if entry)
    with environment(_BRISK | {"PYTHONPATH": path}), threads_each(max(1, cores() // most)):
        ray.init(
            address="local", num_cpus=max(_LEAST_CPUS, most + 1), include_dashboard=False, **quiet
        )
    if options.gpus and not ray.cluster_resources().get("GPU"):
        ray.shutdown()
        option = spell_option(EngineOptions, "gpus", options.gpus)
        raise InputError.on("ray_without_gpu", option=option)


def _join(ray: Any, address: str, quiet: Mapping[str, Any]) -> None:
    host, colon, port = address.rpartition(":")
    if "//" in address or not (address == "auto" or (colon and port.isdigit())):
        option = spell_option(EngineOptions, "ray_address")
        raise InputError.on("ray_address_form", option=option, address=address)
    try:
        if port != "auto":
            # Ray would try for minutes where nothing answers.
            socket.create_connection((host, int(port)), _LONGEST_KNOCK).close()
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError, OverflowError) as error:
        raise InputError.on("ray_not_joined", address=address, part=error_line(error)) from error


def _pool(ray: Any, n_cores: float, options: EngineOptions) -> tuple[int, int]:
    """Return how many actors there are at least, and at most."""
    workers = options.workers
    if workers is None:
        shares = ray.cluster_resources().get("GPU", 0.0) / options.gpus if options.gpus else n_cores
        workers = max(1, int(min(n_cores, shares)))
    return workers if isinstance(workers, tuple) else (workers, workers)


#: Seconds until every node of a network file system sees a file that the driver wrote.
_PATIENCE: Final = 10.0
_NUMBERS, _TEXTS = ("number", "attempts"), ("error", "node", "unfit")
#: What an actor says of a shard. ``unfit`` is why its node can compute none at all: one of the
#: codes below, or what went wrong.
_ANSWER: Final = pa.schema(dict.fromkeys(_NUMBERS, pa.int64()) | dict.fromkeys(_TEXTS, pa.string()))
#: The node does not see the rows of a shard.
UNSEEN: Final = "unseen"
_DIED: Final = f"the process that computed it died {MOST_ATTEMPTS} times; is there memory enough?"


class ShardActor:
    """What holds a task, and its models, on a node of the cluster.

    Parameters
    ----------
    pickled : bytes
        The task.
    wanted : str
        The driver's version of calibrail.
    """

    def __init__(self, pickled: bytes, wanted: str) -> None:
        self._unfit: str | None = None
        if (here := version("calibrail")) != wanted:
            self._unfit = error_text("ray_versions", here=here, wanted=wanted)
            return
        try:
            self._task: ShardTask = pickle.loads(pickled)
        except Exception as error:
            self._unfit = f"cannot load what is to be computed ({error_line(error)})"

    def __call__(self, shard: pa.Table) -> pa.Table:
        """Compute the one shard of which the row holds the number and the paths."""
        (row,) = shard.to_pylist()
        input, result = Path(row["input"]), Path(row["result"])
        unfit = self._unfit or (None if result.is_file() or is_visible(input) else UNSEEN)
        error, attempts = (None, 0) if unfit else self._compute(input, result)
        answer = [row["number"], attempts, error, socket.gethostname(), unfit]
        return pa.table([[value] for value in answer], _ANSWER)

    def _compute(self, input: Path, result: Path) -> tuple[str | None, int]:
        try:
            attempt = _begin_attempt(input)
        except OSError as error:
            return f"{socket.gethostname()} cannot write beside {input}: {error.strerror}", 1
        failure = _DIED if attempt > MOST_ATTEMPTS else perform(self._task, input, result)
        for marker in _markers(input)[:attempt]:
            marker.unlink(missing_ok=True)
        return failure, min(attempt, MOST_ATTEMPTS)


def is_visible(file: Path) -> bool:
    """Return whether this machine sees, after a while at last, a file that another one wrote."""
    until = time.monotonic() + _PATIENCE
    while not file.is_file():
        if time.monotonic() > until:
            return False
        with suppress(OSError):
            # A network file system looks again where a folder is listed.
            os.listdir(file.parent)
        time.sleep(0.2)
    return True


def _begin_attempt(input: Path) -> int:
    """Leave a marker that outlives this process; return which attempt begins with it."""
    for attempt, marker in enumerate(_markers(input), 1):
        # The storage itself makes or refuses it, whatever this node remembers of the folder.
        with suppress(FileExistsError), marker.open("x"):
            return attempt
    return MOST_ATTEMPTS + 1


def _markers(input: Path) -> list[Path]:
    return [input.with_name(f"{input.name}.attempt-{n + 1}") for n in range(MOST_ATTEMPTS)]
