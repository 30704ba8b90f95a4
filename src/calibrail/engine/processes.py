"""Shards in worker processes of this machine."""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from calibrail.engine.shards import MOST_ATTEMPTS, Job, Outcome, error_line, perform
from calibrail.errors import DataError
from calibrail.models.hardware import cores
from calibrail.options.fields import spell_option
from calibrail.options.runtime import EngineOptions

#: Jobs that wait for a worker, each: enough that none is idle, few enough to stay small.
_AHEAD: Final = 2

#: Seconds between two looks whether the process that asked is still there.
_LOOK: Final = 1.0

#: Variables by which libraries learn how many threads they may start.
_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def run_in_processes(jobs: Iterator[Job], options: EngineOptions) -> Generator[Outcome]:
    """Run jobs in as many processes as there are workers, and tell how each ended.

    A process that dies takes those beside it along: what they were at is then begun again, one
    job at a time, so that the one which kills its process is known and given up after three times.

    Parameters
    ----------
    jobs : iterator of Job
        Taken as workers become free.
    options : EngineOptions
        ``workers`` of them.

    Raises
    ------
    DataError
        If no process can be started.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # A worker that is being started, and runs its parent's script: the parent says so.
        raise SystemExit(1)
    workers = options.workers if isinstance(options.workers, int) else cores()
    begun: dict[Path, int] = {}
    suspects: deque[Job] = deque()
    while True:
        # Suspects run alone, one after another; the others as many at a time as can be.
        alone = bool(suspects)
        source = (suspects.popleft() for _ in range(len(suspects))) if alone else jobs
        died: list[Job] = []
        yield from _one_pool(source, 0 if alone else workers, begun, died)
        for job in died:
            if begun.get(job.input, 0) >= MOST_ATTEMPTS:
                error = f"the process that computed it died {MOST_ATTEMPTS} times"
                yield Outcome(job.number, f"{error}; is there memory enough?", MOST_ATTEMPTS)
            else:
                suspects.append(job)
        if not (died or alone):
            return


def _one_pool(
    jobs: Iterator[Job], workers: int, begun: dict[Path, int], died: list[Job]
) -> Iterator[Outcome]:
    """Run jobs until there is none left or a process dies; ``died`` gets those that it took.

    Without workers one process takes one job at a time: what dies is what it was at.
    """
    waiting: dict[Future[str | None], Job] = {}
    # Spawned: a forked child would share its parent's locks and connections.
    context = multiprocessing.get_context("spawn")
    pool: ProcessPoolExecutor | None = None
    ended = False
    try:
        while True:
            for job in islice(jobs, max(1, _AHEAD * workers) - len(waiting)):
                if pool is None:
                    started = context.Event()
                    begin = _begin, (os.getpid(), started)
                    pool = ProcessPoolExecutor(max(1, workers), context, *begin)
                try:
                    with _no_interrupt(), threads_each(max(1, cores() // max(1, workers))):
                        future = pool.submit(perform, job.task, job.input, job.result)
                except BrokenProcessPool:
                    died.append(job)
                    break
                waiting[future] = job
                begun[job.input] = begun.get(job.input, 0) + 1
            if not (waiting or died):
                ended = True
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                job = waiting.pop(future)
                try:
                    error = future.result()
                except BrokenProcessPool:
                    died.append(job)
                    continue
                except Exception as failure:
                    error = error_line(failure)
                yield Outcome(job.number, error, begun.pop(job.input))
            if died:
                died += waiting.values()
                if not started.is_set():
                    raise DataError(
                        "no process could be started; what they wrote stands above. A script that "
                        'scores in processes needs `if __name__ == "__main__":` before what it '
                        "does; where there is no file of a script, as in a notebook, give "
                        f"{spell_option(EngineOptions, 'engine', 'local')}"
                    )
                return
    finally:
        # Interrupted or given up: nobody waits for what is being computed.
        if pool is not None:
            for child in [] if ended else list((pool._processes or {}).values()):
                child.kill()
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int, started: Event) -> None:
    """Prepare a worker: it leaves Ctrl-C to its parent, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    started.set()


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Start processes, within the block, to which Ctrl-C means nothing; here it comes after it."""
    came: list[int] = []
    handler, told = None, threading.current_thread() is threading.main_thread()
    if told:
        # Another thread may take the signal, and leave a process half started.
        handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    mask = getattr(signal, "pthread_sigmask", None)
    # What a thread blocks is blocked in the processes that it starts.
    before = mask and mask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if mask:
            mask(signal.SIG_SETMASK, before)
        if told:
            default = signal.default_int_handler
            signal.signal(signal.SIGINT, default if handler is None else handler)
        if came:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables within the block."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def threads_each(each: int) -> AbstractContextManager[None]:
    """Have processes that are started within the block share the cores between them."""
    return environment({name: os.environ.get(name, str(each)) for name in _THREADS})
