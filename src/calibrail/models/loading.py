"""How is a transformers model opened, in a stated precision and running no code but our own?"""

import importlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from calibrail.errors import InputError, ModelError
from calibrail.models.backends import GPU_TOKENS, GRAPH, INSTALL, INT8, Runtime, torch_device
from calibrail.models.exporting import Exportable, export
from calibrail.models.graphs import TOKENIZER_FOLDER, kept
from calibrail.models.location import Location, digests, locate
from calibrail.models.network import Network
from calibrail.models.sessions import GraphSession
from calibrail.models.store import BATCH_TOKENS

#: How far a probability may move with the batch in which an input runs; measured on a six-layer
#: model: 1.4e-6, 5e-3 and 7e-4. In int8 each input runs by itself.
TOLERANCES: Final = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3, "int8": 1e-5}

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


@dataclass(eq=False)
class LocalModel:
    """Base of the models that are opened when first needed and count their forward passes.

    Parameters
    ----------
    model : str
        Hub name or folder.
    revision : str or None
        Revision of a hub model.
    dtype : {"float32", "bfloat16", "float16", "int8"}
        Precision of the weights. Another precision is another score.
    window : int or None
        Most tokens of the long text a pass; None for what fits.
    backend, device : str, str or None
        See ``Runtime``.
    """

    #: Forward passes so far (batches).
    n_passes = 0
    #: Seconds so far in which it was opened: libraries imported, files verified, read and exported.
    seconds_opening = 0.0
    _is_opening = False
    #: Digests of the files as they were when they were first looked at.
    _first_seen = None

    model: str
    revision: str | None = None
    dtype: str = "float32"
    window: int | None = None
    backend: str = "torch"
    device: str | None = None

    def __post_init__(self) -> None:
        model, revision, window = self.model, self.revision, self.window
        #: What computes it.
        self.runtime = Runtime(self.backend, self.dtype, self.device)
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
        return {**named, **self.verified(), "dtype": self.dtype, **self.runtime.fingerprint()}

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
            if architecture.configuration is not None:
                name, figures = architecture.configuration
                options["config"] = getattr(transformers, name)(**figures)
            module, report = getattr(transformers, architecture.kind).from_pretrained(
                str(folder), dtype=self.torch_dtype(), **closed, **options
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
            module.to(self.torch_device()).eval()
        return Network(module, tokenizer, self.model)

    def open_graph(self, purpose: str, make: Callable[[], Exportable]) -> tuple[GraphSession, Any]:
        """Open the model as it was exported, once, and return it with its tokenizer.

        Parameters
        ----------
        purpose : str
            What it is to be, for messages; what is exported depends on it.
        make : callable
            Opens the model by torch; called where it was not exported before.

        Raises
        ------
        ModelError
            If a library is missing, the files cannot be loaded, or it cannot be exported.
        """
        self.runtime.require()
        with self.loading(purpose, "transformers") as transformers:
            made_of = {
                **self.verified(),
                "purpose": purpose,
                "graph": GRAPH,
                "quantisation": INT8 if self.dtype == "int8" else None,
                "backend": self.backend,
                "transformers": transformers.__version__,
            }
            entry = kept(made_of, lambda folder: export(make(), folder, self.runtime, self.model))
            session = GraphSession(entry, self.runtime)
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                str(entry / TOKENIZER_FOLDER), local_files_only=True, trust_remote_code=False
            )
        return session, tokenizer

    def torch_dtype(self) -> Any:
        """Return the precision in which torch opens the model: float32 for what is exported."""
        import torch

        return getattr(torch, self.dtype if self.runtime.is_torch else "float32")

    def torch_device(self) -> str:
        """Return the device on which torch opens the model: the processor for what is exported."""
        return torch_device(self.device) if self.runtime.is_torch else "cpu"

    def most_rows(self, length: int, *, on_gpu: bool) -> int:
        """Return how many inputs of so many tokens run together."""
        if self.runtime.alone:
            return 1
        return max(1, (GPU_TOKENS if on_gpu else BATCH_TOKENS) // length)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Count the time as time of opening, once where one opening holds another."""
        if self._is_opening:
            yield
            return
        self._is_opening, started = True, time.perf_counter()
        try:
            yield
        finally:
            self._is_opening = False
            self.seconds_opening += time.perf_counter() - started

    @contextmanager
    def loading(self, purpose: str, library: str) -> Iterator[Any]:
        """Yield a library that loads models; its errors name the model and what it should be.

        Raises
        ------
        ModelError
            If the library or one that it needs is missing, the files cannot be loaded, or they
            are not those that were verified, before or after.
        """
        with self.opening():
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
