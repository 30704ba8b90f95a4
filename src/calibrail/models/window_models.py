"""Models that read windows, pairs of texts."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.batching import batches
from calibrail.models.loading import Architecture, Item, ReadingModel, Result
from calibrail.models.networks import AnyNetwork, Exportable, GraphNetwork, padded
from calibrail.models.windows import TokenPair, Window, cut, read


class WindowHead(Protocol):
    """An opened model that reads windows."""

    network: AnyNetwork

    @staticmethod
    def forward(module: Any, inputs: dict[str, Any]) -> tuple[Any, ...]:
        """Return what torch computes of one batch; this is what is exported."""

    def values(self, windows: Sequence[Window]) -> Collection[NDArray[np.float64]]:
        """Return the values of each window of one batch."""


AnyHead = TypeVar("AnyHead", bound=WindowHead)
Head = TypeVar("Head", bound=WindowHead)


class WindowModel(ReadingModel[Item, Head, Result]):
    """Base of the models that read a long text in windows, and can be exported.

    Parameters
    ----------
    model, revision, dtype, window
        See ``LocalModel``. A ``window`` beyond what the model states is possible for models that
        know relative positions only (T5, DeBERTa-v3).
    """

    #: Axes of the output whose length varies: inputs, or inputs and tokens.
    axes: ClassVar[tuple[int, ...]] = (0,)

    @cached_property
    def length(self) -> int:
        """How many tokens are read at a time, all texts and special tokens included."""
        stated = self.place.positions()
        if self.window is None or self.window < stated:
            return stated
        if not self.place.is_relative():
            raise InputError(
                f"window must be below the {stated} tokens that {self.model} reads at a time; "
                f"got {self.window}"
            )
        return self.window + stated // 2

    def samples(self, head: Head) -> list[Window]:
        """Return windows of several lengths, on which an exported model must agree with torch."""
        raise NotImplementedError

    def open_head(
        self, architecture: Architecture, make: Callable[[AnyNetwork], AnyHead]
    ) -> AnyHead:
        """Load the model, by torch or as it was exported, and return what reads its outputs."""
        if self.runtime.is_torch:
            return make(self.open_network(architecture))
        exportable = partial(self._exportable, architecture, make)
        session, tokenizer = self.open_graph(architecture.purpose, exportable)
        return make(GraphNetwork(session, tokenizer, self.model))

    def _exportable(
        self, architecture: Architecture, make: Callable[[AnyNetwork], Any]
    ) -> Exportable:
        import torch

        options = {**architecture.options, "attn_implementation": "eager"}
        network = self.open_network(replace(architecture, options=options))
        head = make(network)
        windows = self.samples(head)
        batches_of = [
            {name: torch.from_numpy(rows) for name, rows in padded(part, network.tokenizer).items()}
            for part in (windows[:1], windows[1:2], windows)
        ]
        return Exportable(
            network.module, network.tokenizer, head.forward, batches_of, {"logits": self.axes}
        )

    def outputs(self, windows: Sequence[Window]) -> list[NDArray[np.float64]]:
        """Return what the head makes of each window, computed in batches of similar length.

        Raises
        ------
        ModelError
            If a value is no number: the precision is too low for the model.
        """
        values: dict[int, NDArray[np.float64]] = {}
        network = self.head.network

        def compute(batch: list[int]) -> tuple[list[int], Collection[NDArray[np.float64]]]:
            return batch, self.head.values([windows[index] for index in batch])

        rows_together = partial(self.most_rows, on_gpu=network.on_gpu)
        chosen = batches([len(window.ids) for window in windows], rows_together)
        for batch, rows in map(compute, chosen):
            if not all(np.isfinite(row).all() for row in rows):
                raise ModelError(
                    f"{self.model} gives values that are no numbers in {self.dtype}; "
                    'use dtype="float32"'
                )
            values.update(zip(batch, rows, strict=True))
            self.n_passes += 1
        return [values[index] for index in range(len(windows))]


Pair = tuple[str, str]

#: Pairs of several lengths, on which an exported model must agree with torch.
SAMPLES: Final = (
    ("The bridge over the river was opened in 1932.", "The bridge is old."),
    ("Two dogs are running across a field. " * 8, "A cat sleeps in the old tower."),
    ("The museum is closed on Mondays. " * 3, "It is closed."),
)


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


class PairHead:
    """An opened model that reads pairs; its values are its logits.

    Parameters
    ----------
    network : Network or GraphNetwork
        The model.
    prompt : str
        With ``{long}`` before ``{short}``; empty for the tokenizer's own template for two texts.
    long_first : bool
        Whether the long text is the first one of a pair.
    """

    def __init__(self, network: AnyNetwork, prompt: str = "", *, long_first: bool = True) -> None:
        self.network, self.prompt, self.long_first = network, prompt, long_first

    def read(self, longs: Sequence[str], shorts: Sequence[str]) -> list[TokenPair]:
        """Tokenise pairs as the model was trained to read them."""
        tokenizer = self.network.tokenizer
        return read(tokenizer, longs, shorts, self.prompt, long_first=self.long_first)

    def logits(self, windows: Sequence[Window]) -> Any:
        """Return the outputs for one batch as a tensor, shape (windows, outputs)."""
        return self.network.first(windows, self.forward)

    @staticmethod
    def forward(module: Any, inputs: dict[str, Any]) -> tuple[Any, ...]:
        """Return what torch computes of one batch; this is what is exported."""
        return (module(**inputs).logits,)

    def values(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the values of one batch, shape (windows, kinds)."""
        return np.asarray(self.logits(windows).double().cpu())


class PairModel(WindowModel[Pair, PairHead, Best]):
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

    #: Results to keep: about 200 MB.
    budget = 500_000
    n_pairs = n_truncated = 0

    def settle(self, pairs: Iterable[Pair]) -> None:
        """Compute pairs again, each by itself: what its value is then no batch can change.

        For a caller that draws a line, and whose value lies within ``tolerance`` of it.
        """
        for pair in pairs:
            self.compute([pair])

    def samples(self, head: PairHead) -> list[Window]:
        """Return pairs of several lengths."""
        longs, shorts = zip(*SAMPLES, strict=True)
        tokens = head.read(*((longs, shorts) if head.long_first else (shorts, longs)))
        return [cut(pair, self.length, None)[0][0] for pair in tokens]

    def compute(self, items: Sequence[Pair]) -> None:
        """Read pairs in batches of their windows, and keep the best values of each."""
        longs, shorts = zip(*items, strict=True)
        if not self.head.long_first:
            longs, shorts = shorts, longs
        by_pair = []
        for tokens in self.head.read(longs, shorts):
            windows, short_cut = cut(tokens, self.length, self.window)
            self.n_truncated += short_cut
            by_pair.append(windows)
        values = np.array(self.outputs(list(chain.from_iterable(by_pair))))
        ends = np.cumsum([len(windows) for windows in by_pair])
        for pair, windows, rows in zip(items, by_pair, np.split(values, ends[:-1]), strict=True):
            spans = tuple((windows[top].start, windows[top].end) for top in rows.argmax(axis=0))
            self.keep(pair, Best(tuple(rows.max(axis=0).tolist()), spans, len(windows)))
        self.n_pairs += len(items)
