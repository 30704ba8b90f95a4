"""Which inputs run together, so that a batch neither wastes its padding nor outgrows memory?"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

Item = TypeVar("Item")

#: Padded tokens per batch: enough to keep the cores busy, small enough for the caches.
BATCH_TOKENS: Final = 4096


def batches(
    lengths: Sequence[int], most_rows: Callable[[int], int] | None = None
) -> Iterator[list[int]]:
    """Yield indices of inputs of similar length together, longest first.

    Parameters
    ----------
    lengths : sequence of int
        Tokens of each input.
    most_rows : callable, optional
        How many inputs of a length a batch may hold; by default as many as ``BATCH_TOKENS`` allow.
    """
    batch: list[int] = []
    most = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if len(batch) >= most:
            if batch:
                yield batch
            batch = []
            longest = max(lengths[index], 1)
            most = max(1, most_rows(longest) if most_rows else BATCH_TOKENS // longest)
        batch.append(index)
    if batch:
        yield batch


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
