"""What does the name of a source stand for?"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import starmap
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard

from calibrail.data.files import STANDARD_INPUT, standard_input
from calibrail.data.formats import open_files, open_path, open_rows
from calibrail.data.in_memory import InMemory, Rows, describe
from calibrail.data.opened import Opened
from calibrail.data.rows import Row
from calibrail.errors import DataError, file_errors
from calibrail.settings import ReadOptions

#: Prefix of the data that ships with the package.
EXAMPLE: Final = "example:"

#: Prefix of data sets on the Hugging Face hub.
HUB: Final = "hf:"


#: What is read by its name: one, or several that are read as one.
Named: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

#: What every function that reads data takes: names, or data in memory.
Source: TypeAlias = Named | InMemory


def is_named(source: object) -> TypeGuard[Named]:
    """Say whether a source is named, and not examples in memory.

    >>> is_named("a.jsonl"), is_named(["a.jsonl", "b.jsonl"]), is_named([])
    (True, True, False)
    """
    if isinstance(source, str | os.PathLike):
        return True
    if not isinstance(source, list | tuple):
        return False
    return bool(source) and all(isinstance(item, str | os.PathLike) for item in source)


def spoken(source: Source) -> str:
    """Return how messages and reports call a source.

    >>> spoken("-"), spoken(["a", "b", "c", "d", "e"]), spoken([{"label": 1}])
    ('standard input', 'a, b, c and 2 more', 'rows in memory')
    """
    if not is_named(source):
        return describe(source)
    if isinstance(source, str | os.PathLike):
        return "standard input" if str(source) == STANDARD_INPUT else str(source)
    rest = f" and {len(source) - 3} more" if len(source) > 3 else ""
    return ", ".join(map(spoken, source[:3])) + rest


def names_of(source: Source) -> tuple[str, ...]:
    """Return the names of a source as a command line takes them; of data in memory none."""
    if not is_named(source):
        return ()
    return tuple(map(str, [source] if isinstance(source, str | os.PathLike) else source))


def reusable(source: Source) -> Source:
    """Return a source that can be read twice: what can be read once becomes a list."""
    return list(source) if isinstance(source, Iterator) else source


def open_source(source: Source, reading: ReadOptions) -> Opened:
    """Open a path, several, ``-``, ``example:NAME``, ``hf:NAME[:SPLIT]``, or data in memory.

    Raises
    ------
    DataError
        Nothing of that name is there, its format cannot be guessed, or the package ``datasets``,
        which loads what is on the hub, is not installed or cannot load it.
    """
    if not is_named(source):
        return _open_memory(Rows(source), reading)
    if not isinstance(source, str | os.PathLike):
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


def _open_memory(rows: Rows, reading: ReadOptions) -> Opened:
    """Open rows in memory; what comes as examples has calibrail's names already."""
    if rows.format == "examples":
        return Opened(rows.format, False, False, (), rows(), rows.digest, n_rows=rows.n)
    return replace(open_rows(rows, (), rows.format, reading), digest=rows.digest, n_rows=rows.n)


def _file(name: str | os.PathLike[str]) -> Path:
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
