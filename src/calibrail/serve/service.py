"""Queue, shared forward passes, deadlines, log and readiness of one process.

A thread that is free to score takes at once all that waits: nothing is held back to fill a batch,
and a batch forms by itself from what arrives while another one is scored. That its make-up does not
matter to any decision is the guardrail's own promise.
"""

import asyncio
import contextlib
import contextvars
import hmac
import logging
import math
import os
import re
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from calibrail.atomic_files import append_whole, read_regular
from calibrail.data.example import Example
from calibrail.errors import CalibrailError, InputError, LogError, errors_as
from calibrail.guardrail.decision import DeadlineError, Decision
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.guardrail.runtime import Guardrail
from calibrail.options.runtime import ServeOptions
from calibrail.serialization import logged_on_one_line
from calibrail.serve.guardrails import NAME, Guardrails, Loaded, WatchedFiles
from calibrail.serve.metrics import TOGETHER, Metrics
from calibrail.serve.schemas import TOKEN_VARIABLE, ServiceProblem
from calibrail.serve.watch_status import Statuses

Result = TypeVar("Result")

_log: Final = logging.getLogger("calibrail.serve")


for _name in (_log.name, "uvicorn.error"):
    logging.getLogger(_name).addFilter(logged_on_one_line)

#: Threads that ask an endpoint: a slow reply holds up those that share its batch, not all others.
ASKING_THREADS: Final = 8
#: Characters after which a batch takes no more: what is late is dropped only between two of them.
_TOGETHER: Final = 2**20
#: Who asks, by the name of its token; empty where there are no names.
CLIENT: Final = contextvars.ContextVar("client", default="")


@dataclass(slots=True, eq=False)
class PendingAnswer:
    """One answer that waits for its decision.

    Attributes
    ----------
    done : Future
        Its decision, once it is given.
    example : Example
        The answer.
    loaded : Loaded
        The guardrail that it came to; another one that is swapped in does not decide it.
    alone : bool
        Whether it is scored by itself.
    kept : bool
        Whether its decision is kept as soon as there is one.
    settled : bool
        Set under the lock by worker or timeout, whichever is first; that one gives the decision.
    client : str
        Who asked.
    """

    done: asyncio.Future[Decision]
    example: Example
    loaded: Loaded
    alone: bool
    kept: bool
    settled: bool = False
    client: str = field(default_factory=lambda: CLIENT.get())

    @property
    def size(self) -> int:
        """Characters that are to be read."""
        item = self.example
        return sum(map(len, (item.question, item.response, *item.contexts, *item.samples)))


@dataclass(slots=True, eq=False)
class StreamStep:
    """What is to be done in turn for an answer that is still being written."""

    loaded: Loaded
    work: Callable[[], Any]
    done: Future[Any] = field(default_factory=Future)
    alone: bool = True
    settled: bool = False
    size: int = 0


def settle(done: Future[Result], work: Callable[[], Result]) -> None:
    """Do some work in this thread, and give a future what comes of it."""
    if done.set_running_or_notify_cancel():
        try:
            done.set_result(work())
        except BaseException as error:
            # SystemExit or KeyboardInterrupt would end whoever waits.
            done.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))


class WorkQueue:
    """Answers that wait for the same threads."""

    def __init__(self, lock: threading.Lock, n_threads: int) -> None:
        self.ready = threading.Condition(lock)
        self.waiting: deque[PendingAnswer | StreamStep] = deque()
        self.n_threads, self.threads = n_threads, list[threading.Thread]()
        #: When each thread that is at work began its batch.
        self.began: dict[int, float] = {}

    def take(self, most: int) -> list[PendingAnswer | StreamStep]:
        """Return the first answer, and with it others that may share its batch."""
        first = self.waiting.popleft()
        batch, left = [first], list[PendingAnswer | StreamStep]()
        size = first.size
        while self.waiting and len(batch) < most and size < _TOGETHER and not first.alone:
            answer = self.waiting.popleft()
            shares = answer.loaded is first.loaded and not answer.alone
            size += answer.size if shares else 0
            (batch if shares else left).append(answer)
        self.waiting.extendleft(reversed(left))
        return batch

    def drop_settled(self) -> None:
        """Forget answers that were decided otherwise."""
        self.waiting = deque(answer for answer in self.waiting if not answer.settled)


#: Takes what one guardrail decided before it is given, in any thread; raises where it cannot be
#: kept.
Keep = Callable[[Loaded, Sequence[tuple[Example, Decision]], Sequence[str]], None]


class Batcher:
    """Decides about the answers of many requests.

    Made within a running event loop; the threads run what ``contextvars`` hold then.

    Parameters
    ----------
    options : ServeOptions
        How many answers are scored together at most, how many wait, and until when.
    keep : callable
        Takes decisions before they are given.
    metrics : Metrics
        Counts batches, and what waits.
    """

    def __init__(self, options: ServeOptions, keep: Keep, metrics: Metrics) -> None:
        self._max_batch, self._most = options.max_batch, options.queue
        self._deadline, self._keep, self._metrics = options.deadline, keep, metrics
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._lanes: dict[str, WorkQueue] = {}
        self._late = ThreadPoolExecutor(1, "late")
        #: Answers that wait or are scored, and those that are still being written.
        self.depth = self._n_written = 0
        #: Answers that came together and are answered together.
        self._open: dict[int, Sequence[PendingAnswer]] = {}
        #: Set once nothing more is waited for.
        self.given_up = asyncio.Event()
        self._closed = False

    def stuck(self, deadlines: float = 1.0) -> bool:
        """Return whether all threads of some lane have been at one batch for so many deadlines."""
        late = time.monotonic() - deadlines * self._deadline
        with self._lock:
            full = [lane for lane in self._lanes.values() if len(lane.began) == lane.n_threads]
            return any(max(lane.began.values()) < late for lane in full)

    async def decide(
        self, loaded: Loaded, examples: Sequence[Example], *, alone: bool = False, kept: bool = True
    ) -> list[Decision]:
        """Return the decision about each answer, in their order.

        Parameters
        ----------
        loaded : Loaded
            What decides.
        examples : sequence of Example
            The answers.
        alone : bool
            Whether each is scored by itself.
        kept : bool
            Whether decisions are kept one by one; otherwise the caller keeps them.

        Raises
        ------
        Problem
            If there is no room, or a decision cannot be kept.
        """
        future = self._loop.create_future
        answers = [PendingAnswer(future(), item, loaded, alone, kept) for item in examples]
        with self._lock:
            self._make_room(len(examples))
            lane = self._lane(loaded)
            lane.waiting.extend(answers)
            lane.ready.notify(len(examples))
        late = f"no decision within {self._deadline:g} s"
        timer = self._loop.call_later(self._deadline, self._expire, answers, late)
        self._open[id(answers)] = answers
        try:
            return await asyncio.gather(*(answer.done for answer in answers))
        finally:
            del self._open[id(answers)]
            if all(answer.settled for answer in answers):
                timer.cancel()

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place for an answer that is still being written; half of them are for these.

        Raises
        ------
        Problem
            If there is no room.
        """
        most = max(1, self._most // 2)
        with self._lock:
            if self._n_written >= most:
                why = f"{most:,} answers are being written, as many as may be"
                raise ServiceProblem.of("queue_full", why=why)
            self._make_room(1)
            self._n_written += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_written -= 1
                self._make_room(-1)

    async def step(self, loaded: Loaded, work: Callable[[], Result]) -> Result:
        """Do what one sentence of an answer needs, in its turn, and return what it gives.

        Raises
        ------
        TimeoutError
            If it is not done by the deadline. What was begun goes on, and nobody hears of it.
        """
        step = StreamStep(loaded, work)
        with self._lock:
            lane = self._lane(loaded)
            lane.waiting.append(step)
            lane.ready.notify()
        try:
            async with asyncio.timeout(self._deadline):
                result: Result = await asyncio.wrap_future(step.done)
                return result
        except TimeoutError:
            raise DeadlineError(f"no decision within {self._deadline:g} s") from None
        finally:
            with self._lock:
                step.settled = True
                lane.drop_settled()

    def give_up(self) -> None:
        """Decide all that is open by the failure policy, at once."""
        self.given_up.set()
        for answers in tuple(self._open.values()):
            self._expire(answers, "no decision before the service was stopped")

    def _make_room(self, n: int) -> None:
        if self.depth + n > self._most:
            why = f"{self.depth:,} answers wait, of {self._most:,} at most"
            raise ServiceProblem.of("queue_full", why=why)
        self.depth += n
        self._metrics.waiting(self.depth)

    def _lane(self, loaded: Loaded) -> WorkQueue:
        """Return where answers to a guardrail wait; threads that ended are started anew."""
        name, n = (loaded.name, ASKING_THREADS) if loaded.asks else ("", 1)
        lane = self._lanes.setdefault(name, WorkQueue(self._lock, n))
        lane.threads = [thread for thread in lane.threads if thread.is_alive()]
        for number in range(len(lane.threads), n):
            run, called = self._context.copy().run, f"scorer {name or 'local'} {number}"
            thread = threading.Thread(None, run, called, (self._work, lane), daemon=True)
            lane.threads.append(thread)
            thread.start()
        return lane

    def _work(self, lane: WorkQueue) -> None:
        while True:
            with self._lock:
                lane.ready.wait_for(lambda: lane.waiting or self._closed)
                if not lane.waiting:
                    return
                batch = lane.take(self._max_batch)
                lane.began[threading.get_ident()] = time.monotonic()
            try:
                if isinstance(batch[0], StreamStep):
                    settle(batch[0].done, batch[0].work)
                else:
                    self._decide([item for item in batch if isinstance(item, PendingAnswer)])
            except BaseException:
                # What has no decision by its deadline is decided by the failure policy.
                _log.exception("a batch of answers could not be decided")
            finally:
                with self._lock:
                    del lane.began[threading.get_ident()]
            # What was asked is not kept alive while nothing else comes.
            del batch

    def _decide(self, batch: list[PendingAnswer]) -> None:
        guardrail = batch[0].loaded.guardrail
        examples = [answer.example for answer in batch]
        self._metrics.observe("batch_size", len(batch), batch[0].loaded.name)
        decisions = _decisions(guardrail, examples, alone=batch[0].alone)
        with self._lock:
            mine = [pair for pair in zip(batch, decisions, strict=True) if not pair[0].settled]
            for answer, _ in mine:
                answer.settled = True
        if mine:
            self._give(mine)

    def _give(self, decided: Sequence[tuple[PendingAnswer, Decision]]) -> None:
        """Keep decisions, then hand them to the requests."""
        problem: Exception | None = None
        try:
            if kept := [pair for pair in decided if pair[0].kept]:
                pairs = [(item.example, decision) for item, decision in kept]
                # They came to the same guardrail.
                self._keep(kept[0][0].loaded, pairs, [item.client for item, _ in kept])
        except Exception as error:
            problem = error
        self._loop.call_soon_threadsafe(self._deliver, decided, problem)

    def _deliver(
        self, decided: Sequence[tuple[PendingAnswer, Decision]], problem: Exception | None
    ) -> None:
        with self._lock:
            self._make_room(-len(decided))
        for answer, decision in decided:
            # Whoever asked may be gone.
            if answer.done.done():
                continue
            if problem is not None:
                answer.done.set_exception(problem)
            else:
                answer.done.set_result(decision)

    def _expire(self, answers: Sequence[PendingAnswer], late_for: str) -> None:
        """Take what has no decision out of the queue, and decide it by the failure policy."""
        with self._lock:
            late = [answer for answer in answers if not answer.settled]
            for answer in late:
                answer.settled = True
            for lane in self._lanes.values():
                lane.drop_settled()
        error = DeadlineError(late_for)
        decided = [(item, item.loaded.guardrail.failed(item.example, error)) for item in late]
        if decided:
            self._late.submit(self._context.copy().run, self._give, decided)

    async def emptied(self, seconds: float) -> bool:
        """Wait until nothing waits or is scored; return whether that came about in time."""
        end = time.monotonic() + seconds
        while self.depth and time.monotonic() < end:
            await asyncio.sleep(0.01)
        return not self.depth

    def close(self) -> None:
        """End the threads that wait for answers: there are no more."""
        with self._lock:
            self._closed = True
            for lane in self._lanes.values():
                lane.ready.notify_all()
        self._late.shutdown(wait=False)


def _decisions(guardrail: Guardrail, examples: list[Example], *, alone: bool) -> list[Decision]:
    """Decide about answers, whatever a detector raises: foreign code may want to end the thread."""
    try:
        return guardrail.decide(examples, alone=alone)
    except BaseException as error:
        if len(examples) == 1:
            return [guardrail.failed(examples[0], error)]
    return [_decisions(guardrail, [example], alone=alone)[0] for example in examples]


#: Deadlines after which a detector that is still at one batch is taken to hang.
LOST: Final = 5
#: Bytes that must find room before a log that failed is tried with decisions again.
_ROOM: Final = 2**16


class Service:
    """The guardrails, the queue and the log of one process.

    Made within a running event loop.

    Parameters
    ----------
    options : ServeOptions
        The limits.
    guardrails : Guardrails
        What decides.
    log : DecisionLog or None
        Where decisions are kept before they are given.
    """

    def __init__(
        self, options: ServeOptions, guardrails: Guardrails, log: DecisionLog | None = None
    ) -> None:
        self.options, self.guardrails = options, guardrails
        self.tokens = Tokens(options.tokens, options.workers)
        self.draining = False
        #: By guardrail; held while its file is loaded.
        self.reloading = {name: asyncio.Lock() for name in guardrails.files}
        self._log, self._log_error, self._noted = log, "", ""
        with errors_as(CalibrailError, OSError, "cannot_count", folder=os.environ.get(TOGETHER)):
            self.metrics = Metrics(lambda: not self.unready())
            for loaded in guardrails:
                self.metrics.expect(loaded)
        self.statuses: Statuses | None = None
        if options.monitor is not None:
            self.statuses = Statuses(options.monitor, guardrails)
            self.metrics.show(self.statuses)
        self.batcher = Batcher(options, self.keep, self.metrics)

    def dead(self) -> ServiceProblem | None:
        """Return the problem that nothing but starting the process anew would help against."""
        return ServiceProblem.of("stuck") if self.batcher.stuck(LOST) else None

    def keep(
        self,
        loaded: Loaded,
        decided: Sequence[tuple[Example, Decision]],
        clients: Sequence[str] = (),
        *,
        kind: str = "check",
        released: Sequence[bool] | None = None,
    ) -> None:
        """Write decisions to the log before they are given, and count them.

        Parameters
        ----------
        loaded : Loaded
            What decided.
        decided : sequence of (Example, Decision)
            The answers.
        clients : sequence of str
            Who asked about each; about all of them whoever asks now, if left out.
        kind : str
            What was asked.
        released : sequence of bool, optional
            Of a selection, whether each answer is released.

        Raises
        ------
        Problem
            If they cannot be written; they must not be given then.
        """
        if self._log is not None:
            made = partial(Entry.of, loaded.guardrail, name=loaded.name, kind=kind)
            who = clients or [CLIENT.get()] * len(decided)
            shown: Sequence[bool | None] = released or [None] * len(decided)
            told = zip(decided, shown, who, strict=True)
            entries = [made(*pair, released=out, client=name) for pair, out, name in told]
            try:
                self._log.write(entries)
            except LogError as error:
                self.metrics.count("log_errors")
                self.metrics.count("failures", loaded.name, "log", by=len(entries))
                self._log_error = str(error)
                raise ServiceProblem.of("not_logged") from error
            self._log_error = ""
            self.metrics.count("log_lines", by=len(entries))
        self.metrics.decided(loaded, (decision for _, decision in decided))

    def unready(self) -> ServiceProblem | None:
        """Return what keeps the service from deciding; may write to the disk."""
        if self.draining:
            return ServiceProblem.of("stopping")
        if self.batcher.stuck():
            return ServiceProblem.of("stuck")
        for loaded in self.guardrails:
            signature = loaded.guardrail.signature
            if signature is not None and (why := signature.outdated(str(loaded.path))):
                return ServiceProblem.of("outdated", why=why)
        if self._log_error and self._log is not None:
            try:
                with tempfile.TemporaryFile(dir=self._log.folder) as file:
                    file.write(bytes(_ROOM))
            except OSError:
                return ServiceProblem.of("log_failed", error=self._log_error)
            self._log_error = ""
        return None

    def note_head(self) -> None:
        """Note elsewhere with which line the log ends, if that is another one than before."""
        path = self.options.log_heads
        if self._log is None or path is None or (head := self._log.head[1]) == self._noted:
            return
        try:
            append_whole(path, f"{head} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}\n".encode())
            self._noted = head
        except OSError as error:
            _log.error("the log's last line cannot be noted in %s: %s", path, error)

    async def close(self) -> bool:
        """Finish what waits, and end the threads; return whether all was decided in time."""
        finished = await self.batcher.emptied(self.options.drain)
        if finished:
            self.batcher.close()
        if self._log is not None:
            self._log.close()
        return finished


@dataclass(slots=True, eq=False)
class TokenHolder:
    """Somebody who may ask, so many times a minute.

    Attributes
    ----------
    name : str
        What the log calls it.
    rate : float
        Requests a minute in this process.
    left : float
        Requests that it may make at once.
    at : float
        When that was so, by ``time.monotonic``.
    """

    name: str
    rate: float
    left: float
    at: float = field(default_factory=time.monotonic)

    def wait(self) -> float:
        """Return 0 and count a request, or the seconds after which one is taken."""
        if math.isinf(self.rate):
            return 0.0
        now, most = time.monotonic(), max(1.0, self.rate)
        self.left, self.at = min(most, self.left + (now - self.at) * self.rate / 60), now
        if self.left < 1.0:
            return (1.0 - self.left) * 60 / self.rate
        self.left -= 1.0
        return 0.0


class Tokens:
    """Who may ask: the one token of the environment, or the clients of a file that is read again.

    Parameters
    ----------
    path : Path or None
        The file. A client with two lines has two tokens, as while one takes the other's place.
    n_processes : int
        Processes that share what a client may ask.

    Raises
    ------
    InputError
        If the file holds no token, something else, or stands beside the one of the environment.
    """

    def __init__(self, path: Path | None, n_processes: int = 1) -> None:
        self._path, self._n = path, n_processes
        single = token()
        #: The clients by their tokens.
        self._clients: dict[bytes, TokenHolder] = {}
        if path is not None and single is not None:
            raise InputError.on("tokens_twice", variable=TOKEN_VARIABLE, path=path)
        if single is not None:
            self._clients = {single.encode(): TokenHolder("", math.inf, math.inf)}
        if path is not None:
            self._file = WatchedFiles(path)
            self._read(path)

    @property
    def needed(self) -> bool:
        """Whether a request needs a token."""
        return bool(self._clients)

    def find(self, given: bytes) -> TokenHolder | None:
        """Return whose token it is; how long that takes tells nothing of the tokens."""
        known = tuple(self._clients.items())
        found = [client for token, client in known if hmac.compare_digest(given, token)]
        return found[-1] if found else None

    def look(self) -> None:
        """Read the file if it is another one; one that is wrong leaves the clients as they are."""
        try:
            if self._path is not None and self._file.changed():
                self._file.take()
                self._read(self._path)
                _log.warning("%s: read again", self._path)
        except InputError as error:
            _log.error("%s; the tokens from before stay valid", error)

    def _read(self, path: Path) -> None:
        with errors_as(InputError, (OSError, ValueError), "tokens_unreadable", path=path):
            lines = read_regular(path).decode("utf-8-sig").splitlines()
        before = {client.name: client for client in self._clients.values()}
        clients = dict[bytes, TokenHolder]()
        for n, line in enumerate(lines, 1):
            parts = line.split()
            if not parts or parts[0].startswith("#"):
                continue
            # A token is a secret: no message repeats the line.
            why = ""
            if not 2 <= len(parts) <= 3:
                why = f"there are {len(parts)} words"
            elif not NAME.fullmatch(parts[0]) or not re.fullmatch("[!-~]+", parts[1]):
                why = "the name, or the token, has other characters"
            elif parts[1].encode() in clients:
                why = "another line has the same token"
            elif len(parts) == 3 and not re.fullmatch(r"(?=.*[1-9])\d{1,9}(\.\d+)?", parts[2]):
                why = "the third is no number above 0"
            if why:
                raise InputError.on("tokens_line", n=n, path=path, why=why)
            name, secret, rate = *parts[:2], float([*parts, "inf"][2]) / self._n
            old = before.get(name, TokenHolder(name, rate, rate))
            new = old if old.rate == rate else TokenHolder(name, rate, rate)
            before[name] = clients[secret.encode()] = new
        if not clients:
            raise InputError.on("tokens_none", path=path)
        self._clients = clients


def token() -> str | None:
    """Return the token that requests must bring, None where the environment has none.

    A line's end behind it, as files of secrets have it, is no part of it.

    Raises
    ------
    InputError
        If no client could send it.
    """
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return None
    secret = given.removesuffix("\n").removesuffix("\r")
    if not re.fullmatch("[!-~]+", secret):
        # It is a secret: the message does not repeat it.
        what = "is set, but holds nothing" if not secret.strip() else "holds other characters"
        raise InputError.on("token_unusable", variable=TOKEN_VARIABLE, what=what)
    return secret
