"""Shards on a Ray cluster.

Only names travel: an actor reads a shard's rows from storage that all nodes share, and puts the
result there, whole or not at all. So nothing is lost with an actor, a node or the driver, and
whoever takes up a shard that was finished finds its result.
"""

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from calibrail.engine.processes import threads_each
from calibrail.engine.shard_actor import UNSEEN, ShardActor, is_visible
from calibrail.engine.shards import Job, Outcome, ShardTask, error_line
from calibrail.errors import DataError, InputError
from calibrail.models.hardware import cores
from calibrail.options.fields import spell_option
from calibrail.options.runtime import EngineOptions

#: Logical CPUs of a cluster on this machine at least: Ray Data runs tasks of its own beside actors.
_LEAST_CPUS: Final = 4
#: Seconds until a node of the cluster has said whether it is fit.
_LONGEST_EXAM: Final = 60.0
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
                inputs = [(job.number, job.input, job.result) for job in alike]
                yield from _on_cluster(ray, n_cores, alike[0].task, inputs, options)


def _on_cluster(
    ray: Any,
    n_cores: float,
    task: ShardTask,
    inputs: Sequence[tuple[int, Path, Path]],
    options: EngineOptions,
) -> Iterator[Outcome]:
    for folder in {input.parent for _, input, _ in inputs}:
        for marker in folder.glob("*.attempt-*"):
            marker.unlink(missing_ok=True)
    _examine_nodes(ray, inputs[0][1])
    results = {number: result for number, _, result in inputs}
    pool = _pool(ray, n_cores, options)
    with closing(_answers(ray, task, inputs, pool, options.gpus)) as answers:
        for answer in answers:
            yield _outcome(answer, results)


def _answers(
    ray: Any,
    task: ShardTask,
    inputs: Sequence[tuple[int, Path, Path]],
    pool: tuple[int, int],
    gpus: float,
) -> Generator[dict[str, Any], None, None]:
    """Let a pool of actors compute shards; give what they answer, as they answer."""
    least, most = (min(size, len(inputs)) for size in pool)
    rows = [
        {"number": number, "input": str(input), "result": str(result)}
        for number, input, result in inputs
    ]
    context = ray.data.DataContext.get_current().copy()
    context.enable_progress_bars = context.print_on_execution_start = False
    with ray.data.DataContext.current(context), _gives_up(ray):
        # A block a shard: an actor answers by the block, and then takes up the next one.
        shards = ray.data.from_items(rows, override_num_blocks=len(rows))
        answers = shards.map_batches(
            ShardActor,
            fn_constructor_args=(ray.cloudpickle.dumps(task), version("calibrail")),
            batch_size=1,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
            num_cpus=1,
            num_gpus=gpus or None,
        )
        for block in answers.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            yield from block.to_pylist()


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
        why_not = (
            f"does not see what others wrote: {spell_option(EngineOptions, 'shards')} must name a "
            "folder on storage that all nodes share, by the same path on each"
        )
    return DataError(f"the node {node} {why_not}")


@contextmanager
def _cluster(options: EngineOptions) -> Iterator[tuple[Any, float]]:
    """Join a cluster, or start one on this machine, and leave it at the end; yield Ray, and cores.

    Whoever is connected already stays so: then this is the cluster.
    """
    with _environment(_QUIET | {name: os.environ[name] for name in _QUIET if name in os.environ}):
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise InputError(
                f"{spell_option(EngineOptions, 'engine', 'ray')} needs {error.name}: "
                "pip install 'calibrail[ray]'"
            ) from error
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        if ray.is_initialized():
            yield ray, ray.cluster_resources().get("CPU", 1.0)
            return
        with _keeps_signals():
            _connect(ray, options)
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
    with _environment(_BRISK | {"PYTHONPATH": path}), threads_each(max(1, cores() // most)):
        ray.init(
            address="local", num_cpus=max(_LEAST_CPUS, most + 1), include_dashboard=False, **quiet
        )
    if options.gpus and not ray.cluster_resources().get("GPU"):
        ray.shutdown()
        raise InputError(
            f"{spell_option(EngineOptions, 'gpus', options.gpus)}: this machine has no GPU that "
            f"Ray "
            "can see; leave it out, or name a cluster that has one"
        )


def _join(ray: Any, address: str, quiet: Mapping[str, Any]) -> None:
    host, colon, port = address.rpartition(":")
    if "//" in address or not (address == "auto" or (colon and port.isdigit())):
        raise InputError(
            f"{spell_option(EngineOptions, 'ray_address')} must be auto, or HOST:PORT, on a node "
            f"of "
            f"the cluster; got {address}. From elsewhere: ray job submit"
        )
    try:
        if port != "auto":
            # Ray would try for minutes where nothing answers.
            socket.create_connection((host, int(port)), _LONGEST_KNOCK).close()
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError, OverflowError) as error:
        raise InputError(
            f"no Ray cluster can be joined at {address} ({error_line(error)}); this machine must "
            "be one of its nodes: ray status shows whether it is"
        ) from error


def _pool(ray: Any, n_cores: float, options: EngineOptions) -> tuple[int, int]:
    """Return how many actors there are at least, and at most."""
    workers = options.workers
    if workers is None:
        shares = ray.cluster_resources().get("GPU", 0.0) / options.gpus if options.gpus else n_cores
        workers = max(1, int(min(n_cores, shares)))
    return workers if isinstance(workers, tuple) else (workers, workers)


def _examine_nodes(ray: Any, file: Path) -> None:
    """Ask each node whether it can compute shards, before any of them does."""

    # Travels by value: a node without calibrail can answer, too.
    def examined(wanted: str, file: Any) -> str | None:
        try:
            from calibrail.engine.shard_actor import UNSEEN, is_visible, other_version
        except ImportError as error:
            return (
                f"cannot import calibrail ({error}); install calibrail[ray] {wanted} on all nodes"
            )
        return other_version(wanted) or (None if is_visible(file) else UNSEEN)

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    if len(nodes) < 2:
        return
    affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    exam = ray.remote(num_cpus=0, max_retries=0)(examined)
    asked = {
        exam.options(scheduling_strategy=affinity(node["NodeID"], soft=False)).remote(
            version("calibrail"), file
        ): node["NodeManagerHostname"]
        for node in nodes
    }
    told, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_LONGEST_EXAM)
    for answer in told:
        # A node that goes meanwhile says nothing, and an actor says what a later one is.
        with suppress(ray.exceptions.RayError):
            if why_not := ray.get(answer):
                raise _unfit(asked[answer], why_not)


@contextmanager
def _gives_up(ray: Any) -> Iterator[None]:
    try:
        yield
    except ray.exceptions.RayError as error:
        raise DataError(
            f"Ray gave up ({error_line(error)}); what is finished is kept: the same command goes on"
        ) from error


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables within this block."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in changes:
            os.environ.pop(name, None)
        os.environ.update({name: before[name] for name in changes if name in before})


@contextmanager
def _keeps_signals() -> Iterator[None]:
    """Keep what this process does on SIGTERM: Ray would put an exit of its own there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
