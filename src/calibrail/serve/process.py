"""Processes of the service: uvicorn, workers, signals, and files that are read again.

Every process accepts from the same socket, with guardrails, queue and log of its own. The one that
started them decides nothing: it passes signals on, and replaces what ends by itself.

Not by uvicorn's own supervisor: its workers outlive a parent that is killed, one whose file turned
bad ends the whole service, and a worker that hangs keeps the service from ending.
"""

import asyncio
import contextlib
import logging
import math
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import starmap
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

import uvicorn

from calibrail.errors import CalibrailError, InputError, error_text, errors_as
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.guardrail.signing import signature_path
from calibrail.models.llm.transport import CallLimits, account, is_loopback, limit_calls
from calibrail.options.fields import spell_option
from calibrail.options.runtime import ServeOptions
from calibrail.report.messages import remarks, say
from calibrail.serve import HANDLED, exit_on_signal
from calibrail.serve.app import application
from calibrail.serve.guardrails import Guardrails, Loaded, Serials
from calibrail.serve.limits import RequestLimits, protocol
from calibrail.serve.metrics import TOGETHER
from calibrail.serve.schemas import TOKEN_VARIABLE, fields_read, pointer
from calibrail.serve.service import Service, Tokens, settle
from calibrail.serve.watch_status import Watchers, monitor, require_writable, watch_folder
from calibrail.text.words import languages_known
from calibrail.working_folder import environment, signal_handlers

#: Seconds between two looks at the processes.
_STEP: Final = 0.2
#: Seconds before a process that ended at once is started again, and the longest such wait.
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 30.0
#: Seconds beyond the time for what was accepted, after which a process is killed.
_GRACE: Final = 5.0
#: Signals that a terminal sends to all processes at once, and those that begin, too.
_FOR_ALL: Final = (signal.SIGINT, signal.SIGHUP)

#: Takes what a person should know of the guardrails, a line each, once they decide.
Begun = Callable[[Sequence[str]], None]
#: Serves in a process of its own until it is told to end: takes whom to tell that it answers, and
#: returns whether all that was accepted was answered. Picklable, as it travels to the process.
Work = Callable[[Begun], bool]


@dataclass
class _Worker:
    """A process, and the line by which it says what it serves, or why it cannot begin."""

    process: SpawnProcess
    line: Connection
    began: float


class Workers:
    """Processes that do the same work.

    Parameters
    ----------
    work : callable
        What each does.
    n : int
        How many there are.
    drain : float
        Seconds to finish in.
    note : callable
        Takes what a person should know.
    later : callable
        What each does that is started once one has answered.
    """

    def __init__(
        self, work: Work, n: int, drain: float, note: Callable[[str], None], later: Work
    ) -> None:
        self._work, self._n, self._drain, self._note = work, n, drain, note
        self._later = later
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._stopped: float | None = None
        self._failed = False

    def run(self, begun: Begun, stopping: Callable[[], None]) -> bool:
        """Keep the processes at work until SIGTERM or Ctrl-C; return whether all ended in order.

        Parameters
        ----------
        begun : callable
            Called once, when the first process answers.
        stopping : callable
            Called when the processes are told to end, again and again until they have.

        Raises
        ------
        CalibrailError
            If a process cannot begin, before any of them answers.
        """
        made = tempfile.TemporaryDirectory(prefix="calibrail-")
        with made as folder, self._signals(), environment({TOGETHER: folder}):
            try:
                self._keep(begun, stopping)
            finally:
                for worker in self._workers:
                    worker.process.kill()
                    worker.process.join()
        return not self._failed

    def _keep(self, begun: Begun, stopping: Callable[[], None]) -> None:
        answering, pause, again = False, _FIRST_WAIT, 0.0
        while self._stopped is None or self._workers:
            if self._stopped is not None:
                # Closing the listener twice does no harm.
                stopping()
                if time.monotonic() > self._stopped + self._drain + _GRACE:
                    self._failed = True
                    return
            while self._stopped is None and len(self._workers) < self._n:
                if time.monotonic() < again:
                    break
                self._start()
            wait([worker.process.sentinel for worker in self._workers], _STEP)
            for worker in tuple(self._workers):
                message: Sequence[str] | str | None = None
                with contextlib.suppress(EOFError, OSError):
                    message = worker.line.recv() if worker.line.poll() else None
                if isinstance(message, str):
                    if not answering:
                        raise CalibrailError(message)
                    self._note(f"worker {worker.process.pid} cannot begin: {message}")
                elif message is not None and not answering:
                    answering, self._work = True, self._later
                    begun(message)
                if worker.process.is_alive():
                    continue
                self._ended(worker)
                lived = time.monotonic() - worker.began
                pause = _FIRST_WAIT if lived > _LONGEST_WAIT else min(2 * pause, _LONGEST_WAIT)
                again = 0.0 if lived > pause else time.monotonic() + pause

    def _start(self) -> None:
        line, theirs = self._context.Pipe()
        process = self._context.Process(target=_worker, args=(self._work, theirs))
        # The first start would start this, too, and let signals through after that.
        resource_tracker.ensure_running()
        # Signals wait, in the process that is started, too.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_ALL)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._workers.append(_Worker(process, line, time.monotonic()))
        if self._stopped is not None:
            # Told before it was there to hear it.
            self._tell(signal.SIGTERM)

    def _ended(self, worker: _Worker) -> None:
        from prometheus_client.multiprocess import mark_process_dead

        self._workers.remove(worker)
        worker.process.join()
        worker.line.close()
        mark_process_dead(worker.process.pid, os.environ[TOGETHER])  # type: ignore[no-untyped-call]
        if self._stopped is not None:
            # A process that had not begun yet just ends.
            self._failed |= worker.process.exitcode not in (0, -signal.SIGTERM)
        else:
            self._note(error_text("worker_ended", of=worker.process))

    def _signals(self) -> contextlib.AbstractContextManager[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self._stopped = self._stopped or time.monotonic()
            self._tell(signal.SIGTERM)

        def reload(number: int, frame: FrameType | None) -> None:
            self._tell(signal.SIGHUP)

        return signal_handlers({signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload})

    def _tell(self, number: int) -> None:
        for worker in self._workers:
            if worker.process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.process.pid, number)


def _worker(work: Work, line: Connection) -> None:
    """Work, and end where whoever started it is gone."""
    for number in _FOR_ALL:
        # Whoever started this one says what is to be done about it.
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FOR_ALL)

    def follow() -> None:
        with contextlib.suppress(EOFError, OSError):
            line.recv()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, name="follows", daemon=True).start()
    try:
        finished = work(line.send)
    except CalibrailError as error:
        line.send(str(error))
        raise SystemExit(1) from None
    raise SystemExit(0 if finished else 1)


def startup_lines(guardrails: Iterable[Loaded], options: ServeOptions) -> list[str]:
    """Return what decides from now on, and where decisions are kept, a line each."""
    lines = []
    for loaded in guardrails:
        lines += [describe_guardrail(loaded), *_recipients(loaded)]
    lines += remarks("serve.log", asdict(options), languages=languages_known())
    if options.monitor is not None:
        for loaded in guardrails:
            folder = watch_folder(options.monitor, loaded.name, loaded.digest)
            lines.append(f"{loaded.name} is watched in {folder}")
    return lines


def _recipients(loaded: Loaded) -> list[str]:
    return [f"{loaded.name} sends the answers to {to}" for to in loaded.guardrail.endpoints]


def describe_guardrail(loaded: Loaded) -> str:
    """Return which guardrail this is, who signed it and how its probes came out, in one line."""
    guardrail, config = loaded.guardrail, loaded.guardrail.config
    return say(
        "serve.guardrail",
        name=loaded.name,
        detector=guardrail.scale.column or config.score.name,
        verdict=say("guardrail.verdict", **config.standing),
        signature=guardrail.signature,
        is_signed=signature_path(loaded.path).exists(),
        probed=guardrail.probed,
        # Of sentences there are more scores than answers.
        noun="probe score" if guardrail.unit == "sentence" else "probe answer",
        digest=loaded.digest,
    )


#: Seconds between two looks at the files.
EVERY: Final = 1.0
#: Seconds between two notes of the log's last line elsewhere.
HEADS_EVERY: Final = 60.0

_log: Final = logging.getLogger("calibrail.serve")
T = TypeVar("T")


async def watch(service: Service) -> None:
    """Look at the files until the task is cancelled; one that hangs holds up no other."""

    async def follow(name: str) -> None:
        if await _in_daemon_thread(service.guardrails.files[name].changed):
            await reload(service, [name])

    async def repeat(work: Callable[[], Awaitable[object]], pause: float) -> None:
        while True:
            try:
                await work()
            except Exception as error:  # Such as no thread left to start: the next look goes on.
                _log.error("a look at the files failed: %r", error)
            await asyncio.sleep(pause)

    async def measure() -> None:
        service.metrics.look()

    async with asyncio.TaskGroup() as group:
        for name in service.guardrails.files:
            group.create_task(repeat(partial(follow, name), EVERY))
        group.create_task(repeat(measure, EVERY))
        looks = [(service.tokens.look, EVERY), (service.note_head, HEADS_EVERY)]
        looks += [] if service.statuses is None else [(service.statuses.read, 2 * EVERY)]
        for look, pause in looks:
            group.create_task(repeat(partial(_in_daemon_thread, look), pause))


async def reload(service: Service, names: list[str] | None = None) -> None:
    """Load files anew, all where none is named; the event loop goes on meanwhile."""
    names = list(service.guardrails.files) if names is None else names
    await asyncio.gather(*(_reload_one(service, name) for name in names))


async def _reload_one(service: Service, name: str) -> None:
    guardrails = service.guardrails
    async with service.reloading[name]:
        before = guardrails.get(name)
        refusal = await _in_daemon_thread(lambda: guardrails.reload(name))
    service.metrics.count("reloads", name, "swapped" if refusal is None else "refused")
    if refusal is None:
        after = guardrails.get(name)
        service.metrics.took_over(before, after)
        _log.warning("%s; decides from now on", describe_guardrail(after))
        for line in _recipients(after):
            _log.warning(line)
        old, new = fields_read(before.guardrail), fields_read(after.guardrail)
        if set(new) != set(old):
            fields = {"new": starmap(pointer, new), "old": starmap(pointer, old)}
            _log.error(say("serve.other_fields", fields, name=name))
    else:
        _log.error(say("serve.refused", name=name, digest=before.digest, reason=refusal.reason))


async def _in_daemon_thread(work: Callable[[], T]) -> T:
    """Return what work returns, in a thread that neither the process nor other work waits for.

    A disk that hangs, or a detector that does while it is tried, would keep the process from
    ending in the threads of ``asyncio.to_thread``.
    """
    done: Future[T] = Future()
    threading.Thread(target=settle, args=(done, work), name="reloads", daemon=True).start()
    return await asyncio.wrap_future(done)


#: Seconds in which connections that wait to be accepted, and requests that were sent before a
#: client knew, are still taken when the service is stopped.
LAST_CALL: Final = 0.3
#: Files and connections that a process may have open, where the system lets it.
MOST_FILES: Final = 65_536
#: Seconds that a connection is kept between two requests. Longer than proxies keep theirs, so that
#: none sends a request on a connection that just ends.
KEEP_ALIVE: Final = 120
#: Connections that may wait to be accepted.
BACKLOG: Final = 2048


def serve(
    files: Mapping[str, Path],
    options: ServeOptions,
    *,
    load: Callable[[Path], Guardrail],
    tell: Callable[[str], None],
    note: Callable[[str], None],
) -> bool:
    """Serve guardrails until SIGTERM or Ctrl-C.

    Parameters
    ----------
    files : mapping of str to Path
        Guardrail files by name.
    options : ServeOptions
        Where to listen, and the limits.
    load : callable
        Loads, verifies and probes a guardrail; picklable where there are several workers. Calls to
        endpoints keep to the limits that are set around this one.
    tell : callable
        Takes the address, once it answers.
    note : callable
        Takes what a person should know besides.

    Returns
    -------
    bool
        Whether all that was accepted was answered.

    Raises
    ------
    CalibrailError
        If a guardrail must not decide, or the address is taken.
    """
    tokens = Tokens(options.tokens)
    if not tokens.needed and not is_loopback(options.host):
        note(say("serve.open", host=options.host, variable=TOKEN_VARIABLE))
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listening(options))
        host, port = listener.getsockname()[:2]
        watchers = None
        if options.monitor is not None and options.log is not None:
            require_writable(options.monitor)
            command = monitor(options.log, options.base_rate)
            watchers = Watchers(options.monitor, files, command, note)
            stack.callback(watchers.stop)

        def begun(lines: Sequence[str]) -> None:
            for line in lines:
                note(line)
            tell(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
            if watchers is not None:
                watchers.start()

        works = [
            partial(_serve_here, files, asked, load, account().limits, listener)
            # What is allowed at the start is not allowed to a process that replaces another one.
            for asked in (options, replace(options, allow_rollback=False))
        ]
        if options.workers == 1:
            return works[0](begun)
        workers = Workers(works[0], options.workers, options.drain, note, works[1])
        return workers.run(begun, listener.close)


def _serve_here(
    files: Mapping[str, Path],
    options: ServeOptions,
    load: Callable[[Path], Guardrail],
    calls: CallLimits,
    listener: socket.socket,
    begun: Begun,
) -> bool:
    """Serve in this process."""
    # As many connections may be open as the system allows.
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    # What starts, or takes over, says so in its own words.
    warnings.filterwarnings("ignore", "NOT PROBED")
    # No call goes on for long after its answer was given up.
    timeout, patience = min(calls.timeout, options.deadline), min(calls.patience, options.deadline)
    limits = replace(calls, timeout=timeout, patience=patience)
    with exit_on_signal(), limit_calls(limits) as calls_made:
        # A process that replaces another one knows what that one served.
        together = Path(os.environ[TOGETHER]) if options.workers > 1 else None
        serials = Serials(options.log or together, allow_rollback=options.allow_rollback)
        guardrails = Guardrails(files, load, serials)
        if options.monitor is not None:
            for loaded in guardrails:
                require_answers(loaded.guardrail.config, "--monitor")
        # Several processes may do so on the same socket.
        with _address_errors(options):
            listener.listen(BACKLOG)
        # What is left of its connections is then no hindrance to the next one.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        log = None
        if options.log is not None:
            log = DecisionLog(options.log, sync=options.log_sync, texts=options.log_text)

        async def run() -> bool:
            service = Service(options, guardrails, log)
            config = uvicorn.Config(
                RequestLimits(application(service), service),
                http=protocol(options.read_timeout, options.deadline, service.metrics.refused),
                access_log=False,
                log_level="warning",
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=math.ceil(options.drain),
                lifespan="off",
                ws="none",
            )
            lines = startup_lines(guardrails, options)
            server = _Server(config, service, lambda: begun(lines))
            watching = asyncio.create_task(watch(service))
            try:
                await server.serve(sockets=[listener])
            finally:
                watching.cancel()
            finished = await service.close()
            # A judge that is slow would be asked again and again, and keep the process from ending.
            calls_made.end()
            # Elsewhere may be a disk that hangs.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(_in_daemon_thread(service.note_head), _GRACE)
            return finished

        # Not by uvloop, which is no quicker here: it accepts one connection a round, and a round is
        # long where many clients are busy, so that newcomers wait for minutes.
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(run())


class _Server(uvicorn.Server):
    """A server that ends in order on SIGTERM, with nothing left that it accepted."""

    def __init__(
        self, config: uvicorn.Config, service: Service, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._service, self._when_started = service, started
        self._loop = asyncio.get_running_loop()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals that end a process; none is raised again after that."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        for number in HANDLED:
            ending = number in (signal.SIGINT, signal.SIGTERM)
            signal.signal(number, self.handle_exit if ending else self._reload)
        try:
            yield
        finally:
            # It ends; there is nothing more to tell it.
            for number in HANDLED:
                signal.signal(number, signal.SIG_IGN)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Say from now on that connections end, and stop accepting a moment later."""
        drain, later = self._service.options.drain, self._loop.call_later
        if self._service.draining and sig == signal.SIGINT:
            self.force_exit = self.should_exit = True
        self._service.draining = True
        if not self.should_exit:
            stop_after = (min(LAST_CALL, drain), setattr, self, "should_exit", True)
            self._loop.call_soon_threadsafe(later, *stop_after)
            # What has no decision then is decided by the failure policy, while it can be said.
            self._loop.call_soon_threadsafe(later, 0.8 * drain, self._service.batcher.give_up)

    def _reload(self, number: int, frame: FrameType | None) -> None:
        def start() -> None:
            self._reloading = asyncio.ensure_future(reload(self._service))

        self._loop.call_soon_threadsafe(start)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; whoever stands in the queue of the socket by then is taken and answered, too."""
        taken, end = list[Any](), self._loop.time() + LAST_CALL
        kind: Any = self.config.http_protocol_class
        make = partial(kind, self.config, self.server_state, {}, self._loop)
        for listener in sockets or ():
            listener.setblocking(False)
            # Until nobody is left, which is an error, too.
            with contextlib.suppress(OSError):
                while self._loop.time() < end:
                    accepted, _ = listener.accept()
                    _, connection = await self._loop.connect_accepted_socket(make, accepted)
                    taken.append(connection)
        while any(item.cycle is None and not item.transport.is_closing() for item in taken):
            if self._loop.time() > end:
                break
            await asyncio.sleep(0.01)
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._when_started()


@contextlib.contextmanager
def _listening(options: ServeOptions) -> Iterator[socket.socket]:
    """Bind the address before any work is done; nobody is accepted yet."""
    try:
        found = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        given = spell_option(ServeOptions, "host", options.host)
        raise InputError(f"{given} is no address of this machine: {error}") from error
    family, kind, number, _, address = found[0]
    with socket.socket(family, kind, number) as listener:
        with _address_errors(options):
            try:
                # Without SO_REUSEADDR: with it, two that do not listen yet would share an address.
                listener.bind(address)
            except OSError:
                # Connections of a service that has just ended may linger; they are no hindrance.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
        yield listener


def _address_errors(options: ServeOptions) -> contextlib.AbstractContextManager[None]:
    free = spell_option(ServeOptions, "port", 0)
    return errors_as(CalibrailError, OSError, "cannot_listen", asked=options, free=free)
