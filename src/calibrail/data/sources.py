"""What does the name of a source stand for?"""

import hashlib
from dataclasses import replace
from importlib.resources import files
from itertools import starmap
from pathlib import Path
from typing import Any, Final

from calibrail.data.formats import Opened, open_path, open_rows
from calibrail.data.rows import Row
from calibrail.errors import DataError, file_errors
from calibrail.settings import ReadOptions

#: Prefix of the data that ships with the package.
EXAMPLE: Final = "example:"

#: Prefix of data sets on the Hugging Face hub.
HUB: Final = "hf:"


def open_source(source: str | Path, reading: ReadOptions) -> Opened:
    """Open a path, ``example:NAME`` or ``hf:NAME[:SPLIT]``.

    Raises
    ------
    DataError
        Nothing of that name is there, its format cannot be guessed, or the package ``datasets``,
        which loads what is on the hub, is not installed or cannot load it.
    """
    name = str(source)
    if name.startswith(EXAMPLE):
        return open_path(example_path(name.removeprefix(EXAMPLE)), reading)
    if name.startswith(HUB):
        table = _download(name.removeprefix(HUB))
        guessed = replace(reading, format=None) if reading.format == "hf" else reading
        cached = tuple(Path(str(item["filename"])) for item in table.cache_files)
        return open_rows(lambda: starmap(Row, enumerate(table, start=1)), cached, "hf", guessed)
    return open_path(Path(source), reading)


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
    digests = {}
    for path in paths:
        with file_errors(f"cannot read {path}"), path.open("rb") as stream:
            digests[path.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    if len(paths) == 1:
        return next(iter(digests.values()))
    listing = "".join(f"{name}\0{digest}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256(listing.encode()).hexdigest()
