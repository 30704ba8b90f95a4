"""Where is an exported model kept, and is it still what was exported?"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from calibrail.errors import ModelError
from calibrail.models.call_limits import cache_folder

SCHEMA: Final = "calibrail.graph/1"
#: Files of an entry.
GRAPH_FILE: Final = "model.onnx"
TOKENIZER_FOLDER: Final = "tokenizer"
_MANIFEST: Final = "manifest.json"


def graphs_folder() -> Path:
    """Return the folder of all entries, in the user's cache folder."""
    return cache_folder() / "graphs"


def entry_key(made_of: Mapping[str, Any]) -> str:
    """Return what an entry is called: a digest of what it is made of."""
    text = json.dumps(made_of, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def kept(made_of: Mapping[str, Any], make: Callable[[Path], None]) -> Path:
    """Return the folder of an entry, all of whose files are as they were written.

    Parameters
    ----------
    made_of : mapping
        Digests, recipe and versions, as JSON; another mapping is another entry.
    make : callable
        Writes the files into an empty folder; called where there is no entry or a damaged one.

    Raises
    ------
    ModelError
        If the cache folder cannot be written.

    Notes
    -----
    An entry is made beside its place and renamed, so that it is there whole or not at all; of two
    processes that make the same one the first one's stays.
    """
    entry = graphs_folder() / entry_key(made_of)
    if is_whole(entry):
        return entry
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=entry.parent, prefix=f".{entry.name}."))
    except OSError as error:
        raise ModelError(
            f"exported models are kept in {entry.parent}, which cannot be written ({error}); set "
            "XDG_CACHE_HOME to a folder that can"
        ) from error
    try:
        make(beside)
        manifest = {"schema": SCHEMA, "made_of": dict(made_of), "files": digests_of(beside)}
        text = json.dumps(manifest, indent=2, sort_keys=True)
        (beside / _MANIFEST).write_text(text + "\n", encoding="utf-8")
        beside.chmod(0o755)
        _take_place(beside, entry)
    except OSError as error:
        raise ModelError(f"cannot keep an exported model in {entry.parent}: {error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return entry


def digests_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder but the manifest, by its path there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / _MANIFEST:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[path.relative_to(folder).as_posix()] = digest
    return found


def is_whole(entry: Path) -> bool:
    """Return whether an entry is there with all its files as they were written."""
    try:
        manifest = json.loads((entry / _MANIFEST).read_bytes())
        return (
            isinstance(manifest, dict)
            and manifest.get("schema") == SCHEMA
            and entry_key(manifest["made_of"]) == entry.name
            and manifest["files"] == digests_of(entry)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _take_place(beside: Path, entry: Path) -> None:
    """Rename a new entry to its place; a damaged one goes, a whole one of another process stays."""
    for _ in range(3):
        try:
            os.rename(beside, entry)
        except OSError:
            if is_whole(entry):
                return
            damaged = Path(tempfile.mkdtemp(dir=entry.parent, prefix=".damaged."))
            # Another process may have taken it away already.
            if entry.exists():
                os.replace(entry, damaged / "entry")
            shutil.rmtree(damaged, ignore_errors=True)
        else:
            return
    raise OSError(f"{entry} is replaced by others again and again")
