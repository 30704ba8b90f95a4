"""How does the service start, listen, and end without dropping what it accepted?"""

import asyncio
import contextlib
import errno
import gc
import math
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn

from calibrail.errors import CalibrailError, InputError
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.guardrail.runtime import Guardrail
from calibrail.guardrail.units import require_answers
from calibrail.models.call_limits import CallLimits, account, limit_calls
from calibrail.serve import announcing
from calibrail.serve.app import application
from calibrail.serve.ending import HANDLED, ending_at_once
from calibrail.serve.guardrails import Guardrails
from calibrail.serve.limits import Gate, is_loopback
from calibrail.serve.problems import TOKEN_VARIABLE
from calibrail.serve.protocol import protocol
from calibrail.serve.service import Service, token
from calibrail.serve.watchers import Watchers, monitor
from calibrail.serve.watches import writable
from calibrail.serve.watching import reload, watch
from calibrail.serve.workers import Begun, Workers
from calibrail.settings.option import option_of
from calibrail.settings.serving import ServeOptions

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
    if token() is None and not is_loopback(options.host):
        note(
            f"ANYBODY WHO REACHES {options.host} MAY ASK: set {TOKEN_VARIABLE} to a secret that "
            "requests must bring, or bind to 127.0.0.1"
        )
    with _listening(options) as listener, _watching(files, options, note) as start_watches:
        address = _address(listener)

        def begun(lines: Sequence[str]) -> None:
            for line in lines:
                note(line)
            tell(address)
            start_watches()

        work = partial(_serve_here, files, options, load, account().limits, listener)
        if options.workers == 1:
            return work(begun)
        return Workers(work, options.workers, options.drain, note).run(begun, listener.close)


@contextlib.contextmanager
def _watching(
    names: Iterable[str], options: ServeOptions, note: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Yield what begins to watch, where that is asked for; the watches end last."""
    if options.monitor is None or options.log is None:
        yield lambda: None
        return
    writable(options.monitor)
    command = monitor(options.log)
    watchers = Watchers(options.monitor, names, command, options.deadline, note)
    try:
        yield watchers.start
    finally:
        watchers.stop()


def _serve_here(
    files: Mapping[str, Path],
    options: ServeOptions,
    load: Callable[[Path], Guardrail],
    calls: CallLimits,
    listener: socket.socket,
    begun: Begun,
) -> bool:
    """Serve in this process."""
    _open_many_files()
    # What starts, or takes over, says so in its own words.
    warnings.filterwarnings("ignore", "NOT PROBED")
    with ending_at_once(), limit_calls(_within(calls, options.deadline)):
        guardrails = Guardrails(files, load)
        if options.monitor is not None:
            for loaded in guardrails:
                require_answers(loaded.guardrail.config, "--monitor")
        _listen(listener, options)
        log = None
        if options.log is not None:
            log = DecisionLog(options.log, sync=options.log_sync, texts=options.log_text)
        with asyncio.Runner(loop_factory=_loop) as runner:
            return runner.run(_run(guardrails, options, log, listener, begun))


def _open_many_files() -> None:
    """Let as many connections be open as the system allows."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _within(calls: CallLimits, deadline: float) -> CallLimits:
    """Return limits under which no call goes on for long after its answer was given up."""
    return replace(
        calls, timeout=min(calls.timeout, deadline), patience=min(calls.patience, deadline)
    )


def _loop() -> asyncio.AbstractEventLoop:
    """Return the quickest event loop there is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _run(
    guardrails: Guardrails,
    options: ServeOptions,
    log: DecisionLog | None,
    listener: socket.socket,
    begun: Begun,
) -> bool:
    service = Service(options, guardrails, log)
    app = Gate(application(service), service)
    config = uvicorn.Config(
        app,
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
    lines = announcing.begun(guardrails, options)
    server = _Server(config, service, lambda: begun(lines))
    # What was loaded stays: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    watching = asyncio.create_task(watch(service))
    try:
        await server.serve(sockets=[listener])
    finally:
        watching.cancel()
    return await service.close()


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
        if self._service.draining and sig == signal.SIGINT:
            self.force_exit = self.should_exit = True
        self._service.draining = True
        if not self.should_exit:
            self._loop.call_soon_threadsafe(self._stop)

    def _reload(self, number: int, frame: FrameType | None) -> None:
        def start() -> None:
            self._reloading = asyncio.ensure_future(reload(self._service))

        self._loop.call_soon_threadsafe(start)

    def _stop(self) -> None:
        drain = self._service.options.drain
        self._loop.call_later(min(LAST_CALL, drain), self._stop_accepting)
        # What has no decision then is decided by the failure policy, while there is time to say so.
        self._loop.call_later(0.8 * drain, self._service.batcher.give_up)

    def _stop_accepting(self) -> None:
        self.should_exit = True

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
        given = option_of(ServeOptions, "host", options.host)
        raise InputError(f"{given} is no address of this machine: {error}") from error
    family, kind, number, _, address = found[0]
    with socket.socket(family, kind, number) as listener:
        try:
            try:
                # Without SO_REUSEADDR: with it, two that do not listen yet would share an address.
                listener.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                # Connections of a service that has just ended may linger; they are no hindrance.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
        except OSError as error:
            raise _taken(options, error) from error
        yield listener


def _listen(listener: socket.socket, options: ServeOptions) -> None:
    """Let connections come; several processes may do so on the same socket."""
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        raise _taken(options, error) from error
    # What is left of its connections is then no hindrance to the next one.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def _taken(options: ServeOptions, error: OSError) -> CalibrailError:
    return CalibrailError(
        f"cannot listen on {options.host} port {options.port}: {error.strerror}; choose "
        f"another port ({option_of(ServeOptions, 'port', 0)} for a free one)"
    )


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
