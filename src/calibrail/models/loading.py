"""How is a transformers model opened, in a stated precision and running no code but our own?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calibrail.errors import InputError, ModelError
from calibrail.models.encoder import DTYPES
from calibrail.models.location import INSTALL, Location, locate
from calibrail.models.windows import Window

#: How far a probability may move with the batch in which an input runs; measured on a six-layer
#: model: 1.4e-6, 5e-3 and 7e-4.
TOLERANCES: Final = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}


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
        if dtype not in DTYPES:
            raise InputError(f"dtype must be one of {', '.join(DTYPES)}; got {dtype!r}")
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
    """

    module: Any
    tokenizer: Any
    device: str

    def inputs(self, windows: Sequence[Window]) -> dict[str, Any]:
        """Return one batch as tensors, padded on the right to the longest window."""
        import torch

        length = max(len(window.ids) for window in windows)
        padding = self.tokenizer.pad_token_id
        filler = 0 if padding is None else padding
        ids = torch.full((len(windows), length), filler)
        mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, window in enumerate(windows):
            n = len(window.ids)
            ids[row, :n] = torch.tensor(window.ids)
            types[row, :n] = torch.tensor(window.types)
            mask[row, :n] = 1
        inputs = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = types
        return {name: tensor.to(self.device) for name, tensor in inputs.items()}


def open_network(
    place: Location,
    kind: str,
    *,
    model: str,
    purpose: str,
    dtype: str,
    tokenizer: tuple[str, Path] | None = None,
    may_lack: Collection[str] = (),
    strict: bool = False,
    configuration: tuple[str, Mapping[str, Any]] | None = None,
    **options: Any,
) -> Network:
    """Open a model from a folder, and from nowhere else.

    Parameters
    ----------
    place : Location
        Where it lies.
    kind : str
        Class of transformers that opens it.
    model, purpose : str
        What the user called it and what it is to be, for messages.
    dtype : str
        Precision of the weights.
    tokenizer : (str, Path), optional
        Class and folder of the tokenizer, where the model's folder does not tell.
    may_lack : collection of str
        Modules whose weights may be absent, since nothing that is asked depends on them.
    strict : bool
        Whether weights that the model has no place for are an error, too.
    configuration : (str, mapping), optional
        Class of transformers and figures of the configuration, where the folder's own is not one
        that transformers knows.
    **options
        Passed to ``from_pretrained``.

    Raises
    ------
    ModelError
        If torch or transformers is missing, the files cannot be loaded, weights are absent (they
        would be made up at random), or there is no fast tokenizer.
    """
    try:
        import torch
        import transformers
        from huggingface_hub.errors import StrictDataclassError
        from safetensors import SafetensorError
        from transformers.utils import logging
    except ImportError as error:
        raise ModelError(f"{model} needs the models extra: {INSTALL}") from error
    logging.disable_progress_bar()
    closed = {"local_files_only": True, "trust_remote_code": False}
    try:
        if configuration is not None:
            options["config"] = getattr(transformers, configuration[0])(**configuration[1])
        module, found = getattr(transformers, kind).from_pretrained(
            str(place.folder),
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            output_loading_info=True,
            **closed,
            **options,
        )
        reader_kind, reader_folder = tokenizer or ("AutoTokenizer", place.folder)
        reader = getattr(transformers, reader_kind).from_pretrained(str(reader_folder), **closed)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        RuntimeError,
        ImportError,
        SafetensorError,
        StrictDataclassError,
    ) as error:
        raise ModelError(
            f"{model} in {place.folder} cannot be loaded as {purpose}: {error}"
        ) from error
    absent = [
        name
        for name in found["missing_keys"]
        if not any(part in may_lack for part in name.split("."))
    ]
    wrong = [*absent, *map(str, found["mismatched_keys"])]
    if strict:
        wrong += found["unexpected_keys"]
    if wrong:
        raise ModelError(
            f"{model} in {place.folder} cannot be loaded as {purpose}: its weights are not those "
            f"of {type(module).__name__} ({len(wrong)} do not fit, e.g. {min(wrong)})"
        )
    if not reader.is_fast:
        raise ModelError(f"{model} has no fast tokenizer, which tells where words lie")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module.to(device).eval()
    return Network(module, reader, device)
