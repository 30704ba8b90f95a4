"""How is a transformers model opened, in a stated precision and running no code but our own?"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from calibrail.errors import InputError, ModelError
from calibrail.models.location import INSTALL, Location, locate
from calibrail.models.windows import Window

#: How far a probability may move with the batch in which an input runs; measured on a six-layer
#: model: 1.4e-6, 5e-3 and 7e-4.
TOLERANCES: Final = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}

#: What files that are no model make a library raise.
UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError, RuntimeError)


class LocalModel:
    """Base of the models that are opened when first needed and count their forward passes.

    Parameters
    ----------
    model : str
        Hub name or folder.
    revision : str or None
        Revision of a hub model.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights. Another precision is another score.
    window : int or None
        Most tokens of the long text a pass; None for what fits.
    """

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        dtype: str = "float32",
        window: int | None = None,
    ) -> None:
        if dtype not in tuple(TOLERANCES):
            raise InputError(f"dtype must be one of {', '.join(TOLERANCES)}; got {dtype!r}")
        if not isinstance(model, str):
            raise InputError(f'model must be a string; got {model!r}; write model="{model}"')
        if revision is not None and not isinstance(revision, str):
            raise InputError(f"revision must be a string; got {revision!r}; write it in quotes")
        if window is not None and (isinstance(window, bool) or not isinstance(window, int)):
            raise InputError(f"window must be a number of tokens, or left out; got {window!r}")
        if window is not None and window < 1:
            raise InputError(f"window must be at least 1 token; got {window}")
        self.model, self.revision, self.dtype, self.window = model, revision, dtype, window
        self.n_passes = 0

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the results; reads files, loads no torch.

        Raises
        ------
        ModelError
            If the model is not on this machine and the hub cannot be reached.
        """
        place = self.place()
        return {
            "model": place.name,
            "revision": place.revision,
            **place.digests(),
            "dtype": self.dtype,
        }

    @property
    def tolerance(self) -> float:
        """How far two computations of the same value may differ, in batches of other make-up."""
        return TOLERANCES[self.dtype]

    def place(self) -> Location:
        """Return where the model lies."""
        return locate(self.model, self.revision)

    def open_network(self, architecture: Architecture) -> Network:
        """Load the model; see ``open_network``."""
        return open_network(self.place(), architecture, model=self.model, dtype=self.dtype)


@dataclass(frozen=True, slots=True)
class Network:
    """An opened model with its tokenizer.

    Attributes
    ----------
    module : torch.nn.Module
        In evaluation mode.
    tokenizer : transformers tokenizer
        A fast one.
    device : str
        Where the module lies.
    model : str
        What the user called it, for messages.
    """

    module: Any
    tokenizer: Any
    device: str
    model: str

    def inputs(self, windows: Sequence[Window]) -> dict[str, Any]:
        """Return one batch as tensors, padded on the right to the longest window."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        def padded(rows: list[list[int]], filler: int = 0) -> Any:
            tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
            return pad_sequence(tensors, batch_first=True, padding_value=filler)

        inputs = {
            "input_ids": padded(
                [window.ids for window in windows], self.tokenizer.pad_token_id or 0
            ),
            "attention_mask": padded([[1] * len(window.ids) for window in windows]),
        }
        if "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = padded([window.types for window in windows])
        return {name: tensor.to(self.device) for name, tensor in inputs.items()}

    def run(self, windows: Sequence[Window], **options: Any) -> Any:
        """Return what the model makes of one batch."""
        import torch

        with torch.inference_mode():
            return self.module(**self.inputs(windows), **options)


@dataclass(frozen=True, slots=True)
class Architecture:
    """As what a model is opened.

    Attributes
    ----------
    kind : str
        Class of transformers that opens it.
    purpose : str
        What it is to be, for messages.
    tokenizer : (str, Path), optional
        Class and folder of the tokenizer, where the model's folder does not tell.
    may_lack : collection of str
        Modules whose weights may be absent, since nothing that is asked depends on them.
    strict : bool
        Whether weights that the model has no place for are an error, too.
    configuration : (str, mapping), optional
        Class of transformers and figures of the configuration, where the folder's own is not one
        that transformers knows.
    options : mapping
        Passed to ``from_pretrained``.
    """

    kind: str
    purpose: str
    tokenizer: tuple[str, Path] | None = None
    may_lack: Collection[str] = ()
    strict: bool = False
    configuration: tuple[str, Mapping[str, Any]] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def open_network(place: Location, architecture: Architecture, *, model: str, dtype: str) -> Network:
    """Open a model from a folder, and from nowhere else.

    Parameters
    ----------
    place : Location
        Where it lies.
    architecture : Architecture
        As what it is opened.
    model : str
        What the user called it, for messages.
    dtype : str
        Precision of the weights.

    Raises
    ------
    ModelError
        If torch or transformers is missing, the files cannot be loaded, weights are absent (they
        would be made up at random), or there is no fast tokenizer.
    """
    closed = {"local_files_only": True, "trust_remote_code": False}
    options = dict(architecture.options)
    with loading(model, place.folder, architecture.purpose, "transformers") as transformers:
        import torch

        if architecture.configuration is not None:
            name, figures = architecture.configuration
            options["config"] = getattr(transformers, name)(**figures)
        module, report = getattr(transformers, architecture.kind).from_pretrained(
            str(place.folder),
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            output_loading_info=True,
            **closed,
            **options,
        )
        reader_kind, reader_folder = architecture.tokenizer or ("AutoTokenizer", place.folder)
        reader = getattr(transformers, reader_kind).from_pretrained(str(reader_folder), **closed)
        optional = set(architecture.may_lack)
        wrong = [name for name in report["missing_keys"] if not optional & set(name.split("."))]
        wrong += map(str, report["mismatched_keys"])
        if architecture.strict:
            wrong += report["unexpected_keys"]
        if wrong:
            raise ValueError(
                f"its weights are not those of {type(module).__name__} "
                f"({len(wrong)} do not fit, e.g. {min(wrong)})"
            )
    if not reader.is_fast:
        raise ModelError(f"{model} has no fast tokenizer, which tells where words lie")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module.to(device).eval()
    return Network(module, reader, device, model)


@contextmanager
def loading(model: str, folder: Path, purpose: str, library: str) -> Iterator[Any]:
    """Yield a library that loads models; what it raises names the model, and as what it failed.

    Raises
    ------
    ModelError
        If the library or one that it needs is missing, or the files cannot be loaded.
    """
    try:
        import torch  # noqa: F401
        from huggingface_hub.errors import StrictDataclassError
        from safetensors import SafetensorError
        from transformers.utils import logging

        opened = importlib.import_module(library)
    except ImportError as error:
        raise ModelError(f"{model} needs the models extra: {INSTALL}") from error
    logging.disable_progress_bar()
    try:
        yield opened
    except (*UNREADABLE, ImportError, SafetensorError, StrictDataclassError) as error:
        raise ModelError(f"{model} in {folder} cannot be loaded as {purpose}: {error}") from error
