"""What does the name of a source stand for?"""

import hashlib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Final

from calibrail.data.formats import Opened, open_path, open_rows
from calibrail.data.hub import open_hub
from calibrail.errors import DataError
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
        Nothing of that name is there, or its format cannot be guessed.
    """
    name = str(source)
    if name.startswith(EXAMPLE):
        return open_path(example_path(name.removeprefix(EXAMPLE)), reading)
    if name.startswith(HUB):
        table = open_hub(name.removeprefix(HUB))
        guessed = replace(reading, format=None) if reading.format == "hf" else reading
        return open_rows(table.rows, table.files(), "hf", guessed)
    return open_path(Path(source), reading)


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
        try:
            with path.open("rb") as stream:
                digests[path.name] = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if len(paths) == 1:
        return next(iter(digests.values()))
    listing = "".join(f"{name}\0{digest}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256(listing.encode()).hexdigest()
