"""What does the name of a source stand for?"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import starmap
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard

from calibrail.data.files import STANDARD_INPUT, standard_input
from calibrail.data.formats import Opened, open_files, open_path, open_rows
from calibrail.data.rows import Row
from calibrail.errors import DataError, file_errors
from calibrail.settings import ReadOptions

#: Prefix of the data that ships with the package.
EXAMPLE: Final = "example:"

#: Prefix of data sets on the Hugging Face hub.
HUB: Final = "hf:"


#: What is read by its name: one, or several that are read as one.
Named: TypeAlias = str | Path | Sequence[str | Path]


def is_named(source: object) -> TypeGuard[Named]:
    """Say whether a source is named, and not examples in memory.

    >>> is_named("a.jsonl"), is_named(["a.jsonl", "b.jsonl"]), is_named([])
    (True, True, False)
    """
    if isinstance(source, str | Path):
        return True
    if not isinstance(source, list | tuple):
        return False
    return bool(source) and all(isinstance(item, str | Path) for item in source)


def spoken(source: Named) -> str:
    """Return how messages and reports call a source.

    >>> spoken("-"), spoken(["a", "b", "c", "d", "e"])
    ('standard input', 'a, b, c and 2 more')
    """
    if isinstance(source, str | Path):
        return "standard input" if str(source) == STANDARD_INPUT else str(source)
    rest = f" and {len(source) - 3} more" if len(source) > 3 else ""
    return ", ".join(map(spoken, source[:3])) + rest


def open_source(source: Named, reading: ReadOptions) -> Opened:
    """Open a path, several, ``-``, ``example:NAME`` or ``hf:NAME[:SPLIT]``.

    Raises
    ------
    DataError
        Nothing of that name is there, its format cannot be guessed, or the package ``datasets``,
        which loads what is on the hub, is not installed or cannot load it.
    """
    if not isinstance(source, str | Path):
        if len(source) > 1:
            return open_files([_file(item) for item in source], reading)
        (source,) = source
    name = str(source)
    if name.startswith(HUB):
        table = _download(name.removeprefix(HUB))
        guessed = replace(reading, format=None) if reading.format == "hf" else reading
        cached = tuple(Path(str(item["filename"])) for item in table.cache_files)
        return open_rows(lambda: starmap(Row, enumerate(table, start=1)), cached, "hf", guessed)
    return open_path(_file(source), reading)


def _file(name: str | Path) -> Path:
    if str(name).startswith(HUB):
        raise DataError(f"{name} cannot be read together with other files; download it first")
    if str(name).startswith(EXAMPLE):
        return example_path(str(name).removeprefix(EXAMPLE))
    return standard_input() if str(name) == STANDARD_INPUT else Path(name)


def _download(reference: str) -> Any:
    """Load ``NAME`` or ``NAME:SPLIT``, by default the split ``test``, with ``datasets``."""
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            f"reading hf:{reference} needs the package datasets: pip install datasets"
        ) from error
    name, _, split = reference.partition(":")
    try:
        return datasets.load_dataset(name, split=split or "test")
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"cannot load {name!r} (split {split or 'test'!r}) from the hub: {error}; the split "
            "can be named: hf:NAME:SPLIT"
        ) from error


def example_path(name: str) -> Path:
    """Return the file of ``example:name``.

    Raises
    ------
    DataError
        The package ships no such example; the message lists those that it ships.
    """
    folder = Path(str(files("calibrail.data"))) / "examples"
    shipped = {path.stem: path for path in sorted(folder.glob("*.jsonl"))}
    if name not in shipped:
        known = ", ".join(f"{EXAMPLE}{stem}" for stem in shipped) or "none"
        raise DataError(f"there is no example data {name!r}; shipped with the package: {known}")
    return shipped[name]


def digest_files(paths: tuple[Path, ...]) -> str:
    """Return the SHA-256 of one file, or of the sorted names and digests of several.

    Raises
    ------
    DataError
        A file cannot be read.
    """
    digests = file_digests(paths)
    if len(digests) == 1:
        return digests[0][1]
    listing = "".join(f"{name}\0{digest}\n" for name, digest in sorted(digests))
    return hashlib.sha256(listing.encode()).hexdigest()


def file_digests(paths: tuple[Path, ...]) -> list[tuple[str, str]]:
    """Return the name and the SHA-256 of each file.

    Raises
    ------
    DataError
        A file cannot be read.
    """
    digests = []
    for path in paths:
        with file_errors(f"cannot read {path}"), path.open("rb") as stream:
            digests.append((path.name, hashlib.file_digest(stream, "sha256").hexdigest()))
    return digests
