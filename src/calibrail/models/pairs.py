"""What does a model of text pairs say about a long and a short text, whatever their length?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.layout import Tokens
from calibrail.models.loading import LocalModel
from calibrail.models.location import Location
from calibrail.models.store import text_key
from calibrail.models.windows import WINDOWING, Window, batches, cut

#: Results to keep: about 200 MB.
STORED_PAIRS: Final = 500_000

# Pairs and characters tokenised at a time.
_BLOCK: Final = 2048
_BLOCK_CHARACTERS: Final = 1_000_000


class Best(NamedTuple):
    """The highest value of each kind over the windows of a pair.

    Attributes
    ----------
    values : tuple of float
        One a kind of value.
    spans : tuple of (int, int)
        For each, the characters of the long text that its window covers.
    n_windows : int
        Passes that the pair took.
    """

    values: tuple[float, ...]
    spans: tuple[tuple[int, int], ...]
    n_windows: int


class PairHead(Protocol):
    """An opened model that reads pairs."""

    def read(self, longs: Sequence[str], shorts: Sequence[str]) -> list[Tokens]:
        """Tokenise pairs as the model was trained to read them."""
        ...

    def values(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the values of one batch, shape (windows, kinds)."""
        ...


class ResultStore:
    """Results by key, the least recently used ones dropped beyond a budget.

    Parameters
    ----------
    budget : int
        Sum of the results' sizes at most.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._size = 0
        self._kept: dict[bytes, tuple[Any, int]] = {}

    def get(self, key: bytes) -> Any | None:
        """Return a result, or None; it counts as used."""
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        self._kept[key] = kept
        return kept[0]

    def put(self, key: bytes, result: Any, size: int = 1) -> None:
        """Keep a result; the newest one is kept even if it exceeds the budget by itself."""
        self._size += size - self._kept.pop(key, (None, 0))[1]
        self._kept[key] = (result, size)
        while self._size > self._budget and len(self._kept) > 1:
            self._size -= self._kept.pop(next(iter(self._kept)))[1]

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._size = 0


class PairModel(LocalModel):
    """Base of the models that read two texts together, each distinct pair once.

    Where a pair is too long, only the long text is cut: it is read in overlapping windows, each
    with the whole short text, and the best window counts. A short text that would leave less than
    64 tokens for the long one is cut at its end.

    Parameters
    ----------
    model, revision, dtype, window
        See ``LocalModel``. A ``window`` beyond what the model states is possible for models that
        know relative positions only (T5, DeBERTa-v3).

    Attributes
    ----------
    n_passes : int
        Forward passes so far (batches).
    n_pairs : int
        Pairs computed so far.
    n_truncated : int
        Pairs so far whose short text was cut at its end.
    """

    #: Whether the long text is the first one of a pair.
    long_first = True

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        dtype: str = "float32",
        window: int | None = None,
    ) -> None:
        super().__init__(model, revision, dtype, window)
        self.n_pairs = self.n_truncated = 0
        self._store = ResultStore(STORED_PAIRS)
        self._opened: tuple[PairHead, int] | None = None

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the results; reads files, loads no torch.

        Raises
        ------
        ModelError
            If the model is not on this machine and the hub cannot be reached, or it is none of
            this kind.
        InputError
            If the window is larger than the model.
        """
        place = self.place()
        return {
            **super().fingerprint(),
            **self.describe(place),
            "max_length": self.max_length(place),
            "window": self.window,
            "windowing": WINDOWING,
        }

    def describe(self, place: Location) -> dict[str, Any]:
        """Return the kind of head and its labels, from the model's files alone."""
        raise NotImplementedError

    def open(self, place: Location) -> PairHead:
        """Load the model."""
        raise NotImplementedError

    def max_length(self, place: Location) -> int:
        """Return how many tokens are read at a time, both texts and special tokens included."""
        stated = place.positions()
        if self.window is None or self.window < stated:
            return stated
        if not place.is_relative():
            raise InputError(
                f"window must be below the {stated} tokens that {self.model} reads at a time; "
                f"got {self.window}"
            )
        return self.window + stated // 2

    def prepare(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Compute what is not yet known, in length-sorted batches.

        Parameters
        ----------
        pairs : iterable of (str, str)
            Pairs in the order in which the model reads them.
        """
        unknown = [pair for pair in dict.fromkeys(pairs) if self._store.get(_key(pair)) is None]
        for block in _blocks(unknown):
            self._run(block)

    def best(self, pairs: Sequence[tuple[str, str]]) -> list[Best]:
        """Return the best values over the windows of each pair."""
        self.prepare(pairs)
        return [self._best(pair) for pair in pairs]

    def settle(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Compute pairs again, each by itself: what its value is then no batch can change.

        For a caller that draws a line, and whose value lies within ``tolerance`` of it.
        """
        for pair in pairs:
            self._run([pair])

    def forget(self) -> None:
        """Drop all results, so that the next pair is computed by itself."""
        self._store.clear()

    def _best(self, pair: tuple[str, str]) -> Best:
        found: Best | None = self._store.get(_key(pair))
        if found is None:
            # Dropped since it was prepared: more pairs were asked for than are kept.
            self._run([pair])
            found = self._store.get(_key(pair))
        assert found is not None
        return found

    def _run(self, pairs: Sequence[tuple[str, str]]) -> None:
        if self._opened is None:
            place = self.place()
            length = self.max_length(place)
            self._opened = self.open(place), length
        head, length = self._opened
        side = 0 if self.long_first else 1
        read = head.read([pair[side] for pair in pairs], [pair[1 - side] for pair in pairs])
        windows: list[Window] = []
        ends = []
        for tokens in read:
            own, short_cut = cut(tokens, length, self.window)
            self.n_truncated += short_cut
            windows += own
            ends.append(len(windows))
        values = self._values(head, windows)
        start = 0
        for pair, end in zip(pairs, ends, strict=True):
            own_values, own = values[start:end], windows[start:end]
            top = own_values.argmax(axis=0)
            best = Best(
                values=tuple(own_values.max(axis=0).tolist()),
                spans=tuple((own[index].start, own[index].end) for index in top),
                n_windows=end - start,
            )
            self._store.put(_key(pair), best)
            start = end
        self.n_pairs += len(pairs)

    def _values(self, head: PairHead, windows: Sequence[Window]) -> NDArray[np.float64]:
        result: NDArray[np.float64] | None = None
        for batch in batches([len(window.ids) for window in windows]):
            values = head.values([windows[index] for index in batch])
            if not np.isfinite(values).all():
                raise ModelError(
                    f"{self.model} gives values that are no numbers in {self.dtype}; "
                    'use dtype="float32"'
                )
            if result is None:
                result = np.empty((len(windows), values.shape[1]))
            result[batch] = values
            self.n_passes += 1
        return result if result is not None else np.empty((0, 0))


def _key(pair: tuple[str, str]) -> bytes:
    return text_key(pair[0]) + text_key(pair[1])


def _blocks(pairs: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    block: list[tuple[str, str]] = []
    characters = 0
    for pair in pairs:
        size = len(pair[0]) + len(pair[1])
        if block and (len(block) == _BLOCK or characters + size > _BLOCK_CHARACTERS):
            yield block
            block, characters = [], 0
        block.append(pair)
        characters += size
    if block:
        yield block
