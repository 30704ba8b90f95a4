"""Networks that are opened: padded batches in, arrays out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.models.hardware import Forward
from calibrail.models.onnx import GraphSession
from calibrail.models.windows import Window


@dataclass(frozen=True, slots=True)
class Network:
    """A model opened by torch, with its tokenizer.

    Attributes
    ----------
    module : torch.nn.Module
        In evaluation mode.
    tokenizer : transformers tokenizer
        A fast one.
    model : str
        What the user called it, for messages.
    """

    module: Any
    tokenizer: Any
    model: str

    @property
    def on_gpu(self) -> bool:
        """Whether a graphics processor computes."""
        return bool(self.module.device.type != "cpu")

    def inputs(self, windows: Sequence[Window]) -> dict[str, Any]:
        """Return one batch as tensors, padded on the right to the longest window."""
        import torch

        arrays = padded(windows, self.tokenizer)
        return {
            name: torch.from_numpy(rows).to(self.module.device) for name, rows in arrays.items()
        }

    def run(self, windows: Sequence[Window], **options: Any) -> Any:
        """Return what the model makes of one batch."""
        import torch

        with torch.inference_mode():
            return self.module(**self.inputs(windows), **options)

    def first(self, windows: Sequence[Window], forward: Forward) -> Any:
        """Return the first tensor that ``forward`` makes of one batch."""
        import torch

        with torch.inference_mode():
            return forward(self.module, self.inputs(windows))[0]


@dataclass(frozen=True, slots=True)
class GraphNetwork:
    """An exported model with its tokenizer.

    Attributes
    ----------
    session : GraphSession
        What computes it.
    tokenizer : transformers tokenizer
        A fast one.
    model : str
        What the user called it, for messages.
    """

    session: GraphSession
    tokenizer: Any
    model: str

    @property
    def on_gpu(self) -> bool:
        """Whether a graphics processor computes."""
        return self.session.on_gpu

    def first(self, windows: Sequence[Window], forward: Forward) -> Any:
        """Return the first output for one batch, as a tensor: ``forward`` is what was exported."""
        import torch

        return torch.from_numpy(self.session.run(padded(windows, self.tokenizer))[0])


AnyNetwork = Network | GraphNetwork


def padded(windows: Sequence[Window], tokenizer: Any) -> dict[str, NDArray[np.int64]]:
    """Return one batch as arrays of shape (windows, tokens), padded on the right."""
    shape = len(windows), max(len(window.ids) for window in windows)
    arrays = {
        "input_ids": np.full(shape, tokenizer.pad_token_id or 0, dtype=np.int64),
        "attention_mask": np.zeros(shape, dtype=np.int64),
    }
    if has_types := "token_type_ids" in tokenizer.model_input_names:
        arrays["token_type_ids"] = np.zeros(shape, dtype=np.int64)
    for row, window in enumerate(windows):
        n = len(window.ids)
        arrays["input_ids"][row, :n] = window.ids
        arrays["attention_mask"][row, :n] = 1
        if has_types:
            arrays["token_type_ids"][row, :n] = window.types
    return arrays
