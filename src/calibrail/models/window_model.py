"""How does a model that reads windows run them in batches, by torch or as it was exported?"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.exporting import Exportable
from calibrail.models.loading import Architecture
from calibrail.models.network import AnyNetwork, GraphNetwork, padded
from calibrail.models.reading import Item, ReadingModel, Result
from calibrail.models.sessions import ahead
from calibrail.models.store import batches
from calibrail.models.windows import Window


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
        for batch, rows in ahead(compute, chosen, network.n_workers):
            if not all(np.isfinite(row).all() for row in rows):
                raise ModelError(
                    f"{self.model} gives values that are no numbers in {self.dtype}; "
                    'use dtype="float32"'
                )
            values.update(zip(batch, rows, strict=True))
            self.n_passes += 1
        return [values[index] for index in range(len(windows))]
