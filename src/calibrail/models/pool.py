"""How is work that waits for others done many at a time, and stopped in good order?"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class _StoppedError(Exception):
    """An item that was not begun any more."""


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

    def guarded(item: Item) -> Result:
        if stop.is_set():
            raise _StoppedError
        try:
            return work(item)
        except BaseException:
            # At once: by the time that the loop hears of it, others would have begun.
            stop.set()
            raise

    pool = ThreadPoolExecutor(max_workers=min(n_threads, len(items)))
    try:
        futures = {pool.submit(guarded, item): item for item in items}
        for future in as_completed(futures):
            try:
                result = future.result()
            except _StoppedError:
                # What stopped it comes, too.
                continue
            yield futures.pop(future), result
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
