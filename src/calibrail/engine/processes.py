"""How is work divided among processes of this machine, any of which may die?"""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from calibrail.engine.task import MOST_ATTEMPTS, Job, Outcome, Task, perform
from calibrail.models.machine import cores
from calibrail.settings.engine import EngineOptions

#: Jobs that wait for a worker, each: enough that none is idle, few enough to stay small.
_AHEAD: Final = 2

#: Seconds between two looks whether the process that asked is still there.
_LOOK: Final = 1.0

#: Variables by which libraries learn how many threads they may start.
_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def run_in_processes(jobs: Iterator[Job], options: EngineOptions) -> Iterator[Outcome]:
    """Run jobs in as many processes as there are workers, and tell how each ended.

    A process that dies takes those beside it along: what they were at is then begun again, one
    job at a time, so that the one which kills its process is known and given up after three times.

    Parameters
    ----------
    jobs : iterator of Job
        Taken as workers become free.
    options : EngineOptions
        ``workers`` of them.
    """
    workers = options.workers if isinstance(options.workers, int) else cores()
    begun: dict[Path, int] = {}
    suspects: deque[Job] = deque()
    with _threads(max(1, cores() // workers)):
        while True:
            # Suspects run alone; the others as many at a time as there are workers.
            alone = bool(suspects)
            source = iter([suspects.popleft()]) if alone else jobs
            died: list[Job] = []
            yield from _one_pool(source, 1 if alone else workers, begun, died)
            for job in died:
                if begun[job.input] >= MOST_ATTEMPTS:
                    error = f"the process that computed it died {MOST_ATTEMPTS} times"
                    yield Outcome(job.number, f"{error}; is there memory enough?", MOST_ATTEMPTS)
                else:
                    suspects.append(job)
            if not (died or alone or suspects):
                return


def _one_pool(
    jobs: Iterator[Job], workers: int, begun: dict[Path, int], died: list[Job]
) -> Iterator[Outcome]:
    """Run jobs until there is none left or a process dies; ``died`` gets those that it took."""
    waiting: dict[Future[str | None], Job] = {}
    # Spawned: a forked child would share its parent's locks and connections.
    context = multiprocessing.get_context("spawn")
    pool: ProcessPoolExecutor | None = None
    others = set(multiprocessing.active_children())
    ended = False
    try:
        while True:
            for job in islice(jobs, _AHEAD * workers - len(waiting)):
                pool = pool or ProcessPoolExecutor(workers, context, _begin, (os.getpid(),))
                begun[job.input] = begun.get(job.input, 0) + 1
                waiting[pool.submit(_perform, job.task, job.input, job.result)] = job
            if not waiting:
                ended = True
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                job = waiting.pop(future)
                try:
                    error = future.result()
                except BrokenProcessPool:
                    died.append(job)
                else:
                    yield Outcome(job.number, error, begun.pop(job.input))
            if died:
                died += waiting.values()
                return
    finally:
        # Interrupted or given up: nobody waits for what is being computed.
        for child in () if ended else set(multiprocessing.active_children()) - others:
            child.terminate()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _perform(task: Task, input: Path, result: Path) -> str | None:
    return perform(task, input, result)


def _begin(parent: int) -> None:
    """Prepare a worker: it leaves Ctrl-C to its parent, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _threads(each: int) -> Iterator[None]:
    """Have processes that are started within the block share the cores between them."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update({name: str(each) for name, value in before.items() if value is None})
    try:
        yield
    finally:
        for name in (name for name, value in before.items() if value is None):
            os.environ.pop(name, None)
