"""Each distinct input once, in bounded memory, and many of them at the same time."""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from inspect import signature
from threading import Event, Lock
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from calibrail.errors import variable_set
from calibrail.models.hardware import waited_for

Item = TypeVar("Item")
Result = TypeVar("Result")
Model = TypeVar("Model")
P = ParamSpec("P")

#: Padded tokens per batch: enough to keep the cores busy, small enough for the caches.
BATCH_TOKENS: Final = 4096
#: Share of the longest input's length from which another one stands in the same batch, and tokens
#: of padding that cost less than a further batch.
_SIMILAR, _PADDING = 0.8, 8


def text_key(*texts: str) -> bytes:
    """Return 16 bytes per text that stand for them; the texts themselves need not be kept."""
    return b"".join(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        for text in texts
    )


def run_key(keys: Iterable[bytes]) -> bytes:
    """Return what stands for inputs that run together, in their order; no `text_key` is like it."""
    return b"run" + hashlib.blake2b(b"".join(keys), digest_size=16).digest()


class _Recent(Generic[Result]):
    """Results by key, the least recently used ones dropped beyond a budget; for any thread."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._size = 0
        self._kept: dict[bytes, tuple[Result, int]] = {}
        self._lock = Lock()

    def entry(self, key: bytes, *, is_use: bool = False) -> tuple[Result, int] | None:
        with self._lock:
            if is_use and key in self._kept:
                self._kept[key] = self._kept.pop(key)
            return self._kept.get(key)

    def put(self, key: bytes, result: Result, size: int) -> None:
        with self._lock:
            self._size += size - self._kept.pop(key, (None, 0))[1]
            self._kept[key] = (result, size)
            while self._size > self._budget and len(self._kept) > 1:
                self._size -= self._kept.pop(next(iter(self._kept)))[1]


#: What is kept apart from the rest, by the store that it would be in.
_apart: ContextVar[dict["ResultStore[Any]", _Recent[Any]] | None] = ContextVar(
    "apart", default=None
)


#: Whether what ran together in such a block is taken up where the same runs together again.
_repeats: ContextVar[bool] = ContextVar("repeats", default=False)


@contextmanager
def isolated_cache() -> Iterator[None]:
    """Compute, within the block, as if nothing were known; what was known stays for all others.

    A model's last digits depend on what ran beside an input. What is computed here depends on
    nothing that this or another thread has computed before, and is forgotten at the end.
    """
    with variable_set(_apart, {}), variable_set(_repeats, False):
        yield


@contextmanager
def single_input_batches() -> Iterator[None]:
    """Do as `apart` does, but run no inputs together twice that ran together in such a block.

    The same inputs, run together, give the same results to the last digit. Within `apart` nothing
    is taken up.
    """
    repeats = _apart.get() is None or _repeats.get()
    with isolated_cache(), variable_set(_repeats, repeats):
        yield


class ResultStore(Generic[Result]):
    """Results by key, the least recently used ones dropped beyond a budget; see also `apart`.

    Parameters
    ----------
    budget : int
        Sum of the results' sizes at most.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._shared = _Recent[Any](budget)

    @property
    def _results(self) -> _Recent[Result]:
        if (own := _apart.get()) is None:
            return self._shared
        return own.setdefault(self, _Recent(self._budget))

    def get(self, key: bytes) -> Result | None:
        """Return a result, or None; it counts as used."""
        return (self._results.entry(key, is_use=True) or (None, 0))[0]

    def peek(self, key: bytes) -> Result | None:
        """Return a result, or None; it does not count as used."""
        return (self._results.entry(key) or (None, 0))[0]

    def get_or(self, key: bytes, compute: Callable[[], None]) -> Result:
        """Return a result; where it was dropped, ``compute`` puts it back before."""
        if (result := self.get(key)) is None:
            compute()
            result = self.get(key)
        assert result is not None
        return result

    def put(self, key: bytes, result: Result, size: int = 1) -> None:
        """Keep a result; the newest one is kept even if it exceeds the budget by itself."""
        self._results.put(key, result, size)

    def repeat(self, run: bytes) -> bool:
        """Take up the results of inputs that ran together in a block `alone`; return if it can.

        Parameters
        ----------
        run : bytes
            What `run_key` gives.
        """
        known = self._shared.entry(run, is_use=True)
        if not _repeats.get() or known is None:
            return False
        for key, (result, size) in known[0].items():
            self._results.put(key, result, size)
        return True

    def note(self, run: bytes, keys: Iterable[bytes]) -> None:
        """Keep, in a block `alone`, the results of inputs that ran together for `repeat`."""
        if _repeats.get():
            found = {key: entry for key in keys if (entry := self._results.entry(key))}
            self._shared.put(run, found, sum(size for _, size in found.values()))

    def clear(self) -> None:
        """Forget everything."""
        if (own := _apart.get()) is None:
            self._shared = _Recent(self._budget)
        else:
            own.pop(self, None)


def shared(kind: Callable[P, Model], *given: P.args, **named: P.kwargs) -> Model:
    """Return the process's one model of a kind with these parameters; nothing is loaded yet.

    Raises
    ------
    InputError
        If a parameter is outside its domain.
    """
    # However they are given, and whether those left out are named or not.
    bound = signature(kind).bind(*given, **named)
    bound.apply_defaults()
    return cast(Model, shared_models(kind, bound.args))


@lru_cache(maxsize=32)
def shared_models(kind: Callable[..., Any], specification: tuple[Hashable, ...]) -> Any:
    """Make a model; the same one for the same specification."""
    return kind(*specification)


#: Who is told which share of the inputs that are run together is done.
_told: ContextVar[Callable[[float], None] | None] = ContextVar("told", default=None)


def progress_listener(told: Callable[[float], None]) -> AbstractContextManager[object]:
    """Tell a callable, within the block, which share of a model's work is done: 0 to 1."""
    return variable_set(_told, told)


def report_progress(share: float) -> None:
    """Say, to whoever wants to know, which share of the work at hand is done."""
    if (told := _told.get()) is not None:
        told(share)


def batches(
    lengths: Sequence[int], most_rows: Callable[[int], int] | None = None
) -> Iterator[list[int]]:
    """Yield indices of inputs of similar length together, longest first.

    What is much shorter than the longest would be padded to its length: it begins a batch of its
    own, which costs less than the padding wherever a few inputs come together.

    Parameters
    ----------
    lengths : sequence of int
        Tokens of each input.
    most_rows : callable, optional
        How many inputs of a length a batch may hold; by default as many as ``BATCH_TOKENS`` allow.
    """
    told, done, total = _told.get(), 0, sum(lengths)

    def run(batch: list[int]) -> Iterator[list[int]]:
        nonlocal done
        yield batch
        done += sum(lengths[index] for index in batch)
        if told is not None:
            told(done / max(1, total))

    batch: list[int] = []
    most = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        longest = lengths[batch[0]] if batch else 1
        if len(batch) >= most or lengths[index] < min(_SIMILAR * longest, longest - _PADDING):
            if batch:
                yield from run(batch)
            batch = []
            length = max(lengths[index], 1)
            most = max(1, most_rows(length) if most_rows else BATCH_TOKENS // length)
        batch.append(index)
    if batch:
        yield from run(batch)


def blocks(
    items: Iterable[Item], size: Callable[[Item], int], most_items: int, most_size: int
) -> Iterator[list[Item]]:
    """Yield consecutive items together, as many as keep to both limits and at least one.

    Parameters
    ----------
    items : iterable
        Consumed once, as far as blocks are taken.
    size : callable
        How much of the second limit an item takes, e.g. its characters.
    most_items, most_size : int
        Items per block, and the sum of their sizes, at most.
    """
    block: list[Item] = []
    total = 0
    for item in items:
        more = size(item)
        if block and (len(block) == most_items or total + more > most_size):
            yield block
            block, total = [], 0
        block.append(item)
        total += more
    if block:
        yield block


def each(
    work: Callable[[Item], Result], items: Sequence[Item], n_threads: int, stop: Event
) -> Iterator[tuple[Item, Result]]:
    """Yield every item with what became of it, as it is ready.

    Whatever ends the loop early (an error, an interrupt), ``stop`` is set, what is under way is
    waited for, and nothing more is begun.

    Parameters
    ----------
    work : callable
        Run in threads; an error that it raises ends the loop.
    items : sequence
        What to work on.
    n_threads : int
        Items at the same time at most.
    stop : Event
        Set when the loop ends.
    """
    if not items:
        return

    def guarded(item: Item) -> list[Result]:
        """Return what became of an item; nothing, where it was stopped before it began."""
        try:
            return [] if stop.is_set() else [work(item)]
        except BaseException:
            # At once: by the time that the loop hears of it, others would have begun.
            stop.set()
            raise

    pool = ThreadPoolExecutor(min(n_threads, len(items)), initializer=waited_for)
    try:
        futures = {pool.submit(guarded, item): item for item in items}
        for future in as_completed(futures):
            item = futures.pop(future)
            for answer in future.result():
                yield item, answer
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
