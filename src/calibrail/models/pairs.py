"""What does a model of text pairs say about a long and a short text, whatever their length?"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.batches import batches
from calibrail.models.layout import Tokens
from calibrail.models.location import Location
from calibrail.models.reading import ReadingModel
from calibrail.models.windows import Window, cut

Pair = tuple[str, str]


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


class PairModel(ReadingModel[Pair, PairHead, Best]):
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

    #: Results to keep: about 200 MB.
    budget = 500_000
    n_pairs = n_truncated = 0

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

    def settle(self, pairs: Iterable[Pair]) -> None:
        """Compute pairs again, each by itself: what its value is then no batch can change.

        For a caller that draws a line, and whose value lies within ``tolerance`` of it.
        """
        for pair in pairs:
            self.compute([pair])

    def texts(self, item: Pair) -> Pair:
        """Return both texts."""
        return item

    def compute(self, items: Sequence[Pair]) -> None:
        """Read pairs in batches of their windows, and keep the best values of each."""
        length, head = self.length, self.head
        longs, shorts = zip(*items, strict=True)
        if not self.long_first:
            longs, shorts = shorts, longs
        windows: list[Window] = []
        ends = []
        for tokens in head.read(longs, shorts):
            of_pair, short_cut = cut(tokens, length, self.window)
            self.n_truncated += short_cut
            windows += of_pair
            ends.append(len(windows))
        values = self._values(windows)
        start = 0
        for pair, end in zip(items, ends, strict=True):
            top = start + values[start:end].argmax(axis=0)
            best = Best(
                values=tuple(values[start:end].max(axis=0).tolist()),
                spans=tuple((windows[index].start, windows[index].end) for index in top),
                n_windows=end - start,
            )
            self.keep(pair, best)
            start = end
        self.n_pairs += len(items)

    def _values(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        values: dict[int, NDArray[np.float64]] = {}
        for batch in batches([len(window.ids) for window in windows]):
            rows = self.head.values([windows[index] for index in batch])
            if not np.isfinite(rows).all():
                raise ModelError(
                    f"{self.model} gives values that are no numbers in {self.dtype}; "
                    'use dtype="float32"'
                )
            values.update(zip(batch, rows, strict=True))
            self.n_passes += 1
        return np.array([values[index] for index in range(len(windows))])
