"""How is a transformers model opened, in a stated precision and running no code but our own?"""

import importlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from calibrail.errors import InputError, ModelError
from calibrail.models.location import INSTALL, Location, digests, locate
from calibrail.models.windows import Window

#: How far a probability may move with the batch in which an input runs; measured on a six-layer
#: model: 1.4e-6, 5e-3 and 7e-4.
TOLERANCES: Final = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}

#: What files that are no model make a library raise.
UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError, RuntimeError)


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


@dataclass(frozen=True, slots=True)
class Network:
    """An opened model with its tokenizer.

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

    def inputs(self, windows: Sequence[Window]) -> dict[str, Any]:
        """Return one batch as tensors, padded on the right to the longest window."""
        import torch

        def padded(rows: Iterable[Sequence[int]], filler: int = 0) -> Any:
            columns = list(zip_longest(*rows, fillvalue=filler))
            return torch.tensor(columns, dtype=torch.long, device=self.module.device).T.contiguous()

        ids = [window.ids for window in windows]
        inputs = {
            "input_ids": padded(ids, self.tokenizer.pad_token_id or 0),
            "attention_mask": padded([1] * len(row) for row in ids),
        }
        if "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = padded(window.types for window in windows)
        return inputs

    def run(self, windows: Sequence[Window], **options: Any) -> Any:
        """Return what the model makes of one batch."""
        import torch

        with torch.inference_mode():
            return self.module(**self.inputs(windows), **options)


@dataclass(eq=False)
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

    #: Forward passes so far (batches).
    n_passes = 0
    #: Digests of the files as they were when they were first looked at.
    _first_seen = None

    model: str
    revision: str | None = None
    dtype: str = "float32"
    window: int | None = None

    def __post_init__(self) -> None:
        model, revision, dtype, window = self.model, self.revision, self.dtype, self.window
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

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the results; reads files, loads no torch.

        Raises
        ------
        ModelError
            If the model is not on this machine and the hub cannot be reached, or its files are
            others than those that this process has looked at before.
        """
        named = {"model": self.place.name, "revision": self.place.revision}
        return {**named, **self.verified(), "dtype": self.dtype}

    def file_digests(self) -> dict[str, str]:
        """Return the digests of all files that are read when the model is opened."""
        return digests(self.place.folder)

    def verified(self) -> dict[str, str]:
        """Return the digests of the files, which stay those that this process looked at first.

        One model serves all who name it, so that what is in memory, or is still to be opened for
        one of them, must be what every one of them was told.

        Raises
        ------
        ModelError
            If the files are others now.
        """
        here = self.file_digests()
        if self._first_seen is None:
            self._first_seen = here
        if here != (before := self._first_seen):
            changed = "; ".join(
                f"{name}: {value:.16}... then, {here.get(name, 'none'):.16}... now"
                for name, value in before.items()
                if here.get(name) != value
            )
            raise ModelError(
                f"the files of {self.model} in {self.place.folder} were changed while this process "
                f"runs ({changed}). What it has opened goes on; start it again to take up the new "
                "files, or restore the old ones"
            )
        return dict(here)

    @property
    def tolerance(self) -> float:
        """How far two computations of the same value may differ, in batches of other make-up."""
        return TOLERANCES[self.dtype]

    @cached_property
    def place(self) -> Location:
        """Where the model lies."""
        return locate(self.model, self.revision)

    def open_network(self, architecture: Architecture) -> Network:
        """Open the model from its folder, and from nowhere else.

        Raises
        ------
        ModelError
            If torch or transformers is missing, the files cannot be loaded, weights are absent
            (they would be made up at random), or there is no fast tokenizer.
        """
        folder = self.place.folder
        closed = {"local_files_only": True, "trust_remote_code": False}
        options = {**architecture.options, "use_safetensors": True, "output_loading_info": True}
        with self.loading(architecture.purpose, "transformers") as transformers:
            import torch

            if architecture.configuration is not None:
                name, figures = architecture.configuration
                options["config"] = getattr(transformers, name)(**figures)
            module, report = getattr(transformers, architecture.kind).from_pretrained(
                str(folder), dtype=getattr(torch, self.dtype), **closed, **options
            )
            take_into_memory(module)
            name, folder = architecture.tokenizer or ("AutoTokenizer", folder)
            tokenizer = getattr(transformers, name).from_pretrained(str(folder), **closed)
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
        if not tokenizer.is_fast:
            raise ModelError(f"{self.model} has no fast tokenizer, which tells where words lie")
        module.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        return Network(module, tokenizer, self.model)

    @contextmanager
    def loading(self, purpose: str, library: str) -> Iterator[Any]:
        """Yield a library that loads models; its errors name the model and what it should be.

        Raises
        ------
        ModelError
            If the library or one that it needs is missing, the files cannot be loaded, or they
            are not those that were verified, before or after.
        """
        try:
            import torch  # noqa: F401
            from huggingface_hub.errors import StrictDataclassError
            from safetensors import SafetensorError
            from transformers.utils import logging

            opened = importlib.import_module(library)
        except ImportError as error:
            raise ModelError(f"{self.model} needs the models extra: {INSTALL}") from error
        logging.disable_progress_bar()
        self.verified()
        try:
            yield opened
        except (*UNREADABLE, ImportError, SafetensorError, StrictDataclassError) as error:
            raise ModelError(
                f"{self.model} in {self.place.folder} cannot be loaded as {purpose}: {error}"
            ) from error
        # Between the look before and the reading, other files may have taken their place.
        self.verified()


def take_into_memory(module: Any) -> None:
    """Copy what a module computes with out of its files, where it is only mapped.

    Otherwise a file that is overwritten later changes a model that is already open.
    """
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()
