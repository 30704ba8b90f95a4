"""What may be written over: nothing that is read, and nothing of somebody else's unasked."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calibrail.atomic_files import read_regular
from calibrail.data.files import STANDARD_INPUT, SUFFIXES, data_files, suffix_of
from calibrail.errors import DataError, InputError
from calibrail.options.fields import cli_or_python

#: What stands in the folder of a run, of any command.
_REPORTS: Final = ("report.json", "compare.json", "audit.json", "shift.json", "status.json")
RUN_FILES: Final = (
    *(*_REPORTS[:4], "calibration.json", "cost.json", "looks.json"),
    *("report.html", "scores.parquet", "sentences.parquet", "state.safetensors"),
    "quarantine.jsonl",
)
#: What may be written into folders, by what their option is called; None for a file.
IN_FOLDER: Final[dict[str | None, tuple[str, ...] | None]] = {
    None: None,
    "RUN": RUN_FILES,
    "WATCH": ("status.json", "state.json", "watch.html"),
}

#: How a file of calibrail says what it is.
_SCHEMA: Final = re.compile(rb'"schema": ?"calibrail\.(\w+)/')
#: Bytes of a file in which that is looked for.
_READ: Final = 1 << 26
#: How a list of unusable rows begins.
_QUARANTINED: Final = b'{"row": '


@dataclass(frozen=True, slots=True)
class Output:
    """A file that is written, or a folder and the files in it.

    Attributes
    ----------
    option : str
        How the caller named it; empty where it was not named.
    path : Path
        The file or folder.
    names : tuple of str, or None
        Of a folder, the files that may be written into it.
    """

    option: str
    path: Path
    names: tuple[str, ...] | None = None

    @property
    def files(self) -> list[Path]:
        """What is written."""
        return [self.path] if self.names is None else [self.path / name for name in self.names]

    def __str__(self) -> str:
        """Return it as it was given."""
        return f"{self.option} {self.path}".strip()


def identity(path: Path) -> object:
    """Return what tells a file or folder from others, however it is spelled; None for a pipe.

    Links, hard ones too, are the file that they lead to. What is not there is known by its place.
    """
    try:
        status = path.stat()
    except (OSError, ValueError):
        return os.path.realpath(path)
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return status.st_dev, status.st_ino
    return None


def kind_of(path: Path) -> str | None:
    """Return what file of calibrail stands at a path: its schema's name, or "key"; else None."""
    try:
        raw = read_regular(path, _READ)
    except (OSError, ValueError):
        return None
    if raw.startswith(b"-----BEGIN "):
        return "key"
    named = _SCHEMA.search(raw) if raw.startswith(b"{") else None
    return None if named is None else named[1].decode()


def refuse_read(outputs: Sequence[Output], read: Iterable[Path]) -> None:
    """Refuse to write over a file that is read, and to write two results into one file.

    Parameters
    ----------
    outputs : sequence of Output
        What is written.
    read : iterable of path
        Files, and folders of them.

    Raises
    ------
    InputError
        Names both.
    """
    folders = [os.path.realpath(item.path) for item in outputs if item.names is not None]
    paths = [Path("/dev/stdin" if str(path) == STANDARD_INPUT else path) for path in read]
    known = {identity(file): file for path in paths for file in _files(path, folders)}
    named = set(map(identity, paths))
    taken: dict[object, Output] = {}
    for output in outputs:
        for file in output.files:
            if (own := identity(file)) is None:
                continue
            # A guardrail in the folder of its run is no part of it.
            if own in known and (own in named or kind_of(file) != "guardrail"):
                raise InputError(
                    f"{output} would be written over {known[own]}, which is read; name another one"
                )
            if own in taken:
                raise InputError(
                    f"{taken[own]} and {output} are the same file; name another one for one of them"
                )
            taken[own] = output


def _files(path: Path, outputs: Sequence[str]) -> Iterator[Path]:
    """Yield a file, or those of a folder: but for what lies in a folder of results within it."""
    if not path.is_dir():
        yield path
        return
    base = os.path.realpath(path)
    with suppress(DataError):
        yield from data_files(path)
        return
    own = [folder for folder in outputs if folder.startswith(base + os.sep)]
    for folder, _, names in os.walk(base):
        if not any(folder == item or folder.startswith(item + os.sep) for item in own):
            yield from (Path(folder, name) for name in names)


def refuse_within(outputs: Sequence[Output], sources: Iterable[Path]) -> None:
    """Refuse what would lie among the data files of a folder: it would be read with them next time.

    Raises
    ------
    InputError
        Names the folder.
    """
    for source in sources:
        if not source.is_dir():
            continue
        try:
            deep = all(identity(file.parent) != identity(source) for file in data_files(source))
        except DataError:
            deep = False
        for output in outputs:
            is_data = output.names is not None or suffix_of(output.path) in SUFFIXES
            place = output.path if output.names is not None else output.path.parent
            above = [place, *(Path(os.path.realpath(place)).parents if deep else ())]
            if is_data and identity(source) in map(identity, above):
                raise InputError(
                    f"{output} would lie in {source}, which is read as data: it would be read with "
                    "it the next time; name a place elsewhere"
                )


def refuse_foreign(outputs: Sequence[Output], *, force: bool = False) -> None:
    """Refuse to replace what somebody else made: a guardrail, or what is no result of a run.

    Raises
    ------
    InputError
        Says what stands there.
    """
    for output in () if force else outputs:
        own = is_run(output)
        for file in output.files:
            kind = kind_of(file)
            if output.names is None and kind is not None:
                _refuse(output, f"a {kind}{' of calibrail' * (kind != 'key')}")
            listed = _is_quarantine(file) or (own and file.name not in _REPORTS)
            if output.names is not None and file.exists() and kind is None and not listed:
                _refuse(output, f"{file.name}, which is no result of a run,")
        draws = output.names is RUN_FILES and not own
        if drawn := next(output.path.glob("figures/*.svg"), None) if draws else None:
            _refuse(output, f"figures/{drawn.name}, which is no result of a run,")


def is_run(output: Output) -> bool:
    """Return whether a folder holds results of calibrail."""
    names = (name for name in output.names or () if name.endswith(".json"))
    return any(kind_of(output.path / name) is not None for name in names)


def refuse_other(path: Path, raw: bytes, *, force: bool = False) -> None:
    """Refuse to replace a file by a guardrail with another content.

    Raises
    ------
    InputError
        Says what stands there.
    """
    if force or not path.is_file() or not path.stat().st_size or path.read_bytes() == raw:
        return
    kind = kind_of(path)
    _refuse(Output("", path), f"another {kind}" if kind else "a file that is no guardrail")


def _is_quarantine(path: Path) -> bool:
    if not path.name.startswith("quarantine") or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(8) in (b"", _QUARANTINED)


def _refuse(output: Output, what: str) -> None:
    force = cli_or_python("--force", "force=True")
    raise InputError(f"{output}: {what} stands there; name another place, or replace it: {force}")
