"""How are results kept, so that each input is computed once and memory stays bounded?"""

import hashlib
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

Result = TypeVar("Result")
Model = TypeVar("Model")

#: Models that a process holds at most.
MOST_MODELS: Final = 32


def text_key(*texts: str) -> bytes:
    """Return 16 bytes per text that stand for them; the texts themselves need not be kept."""
    return b"".join(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        for text in texts
    )


class ResultStore(Generic[Result]):
    """Results by key, the least recently used ones dropped beyond a budget.

    Parameters
    ----------
    budget : int
        Sum of the results' sizes at most.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._size = 0
        self._kept: dict[bytes, tuple[Result, int]] = {}

    def get(self, key: bytes) -> Result | None:
        """Return a result, or None; it counts as used."""
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        self._kept[key] = kept
        return kept[0]

    def peek(self, key: bytes) -> Result | None:
        """Return a result, or None; it does not count as used."""
        kept = self._kept.get(key)
        return None if kept is None else kept[0]

    def get_or(self, key: bytes, compute: Callable[[], None]) -> Result:
        """Return a result; where it was dropped, ``compute`` puts it back before."""
        result = self.get(key)
        if result is None:
            compute()
            result = self.get(key)
        assert result is not None
        return result

    def put(self, key: bytes, result: Result, size: int = 1) -> None:
        """Keep a result; the newest one is kept even if it exceeds the budget by itself."""
        if key in self._kept:
            self._size -= self._kept.pop(key)[1]
        self._kept[key] = (result, size)
        self._size += size
        while self._size > self._budget and len(self._kept) > 1:
            self._size -= self._kept.pop(next(iter(self._kept)))[1]

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._size = 0


def shared(kind: Callable[..., Model], *specification: Hashable) -> Model:
    """Return the process's one model of a kind and specification."""
    model: Model = shared_models(kind, specification)
    return model


@lru_cache(maxsize=MOST_MODELS)
def shared_models(kind: Callable[..., Any], specification: tuple[Hashable, ...]) -> Any:
    """Make a model; the same one for the same specification."""
    return kind(*specification)
