"""What may be written over: nothing that is read, and nothing of somebody else's unasked."""

import csv
import io
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calibrail.atomic_files import read_regular
from calibrail.data.files import STANDARD_INPUT, SUFFIXES, data_files, suffix_of
from calibrail.errors import DataError, InputError, variable_set
from calibrail.options.fields import cli_or_python

#: What stands in the folder of a run, of any command.
_REPORTS: Final = (
    *("report.json", "compare.json", "audit.json", "shift.json", "repeat.json", "versus.json"),
    "status.json",
)
#: What stays in the folder of a run that takes the place of another: the looks at its data, and
#: the rows that its reader has set aside.
_STAYING: Final = ("looks.json", "quarantine.jsonl")
RUN_FILES: Final = (
    *(*_REPORTS[:6], "calibration.json", "chosen.json", "cost.json"),
    *("report.html", "scores.parquet", "sentences.parquet", "state.safetensors"),
    *_STAYING,
)
WATCH_FILES: Final = ("status.json", "state.json", "watch.html")
_LABELS: Final = ("session.json",)
_SHARDS: Final = ("manifest.json",)
#: What may be written into folders, by what their option is called; None for a file.
IN_FOLDER: Final[dict[str | None, tuple[str, ...] | None]] = {
    None: None,
    "RUN": RUN_FILES,
    "WATCH": WATCH_FILES,
    "LABELS": _LABELS,
    "AUDIT": _LABELS,
    "DIR": _SHARDS,
}
#: Folders that hold nothing else.
_ALONE: Final = {RUN_FILES: "run", WATCH_FILES: "watch", _LABELS: "folder of labels"}

#: How a file of calibrail says what it is.
_SCHEMA: Final = re.compile(rb'"schema": ?"calibrail\.(\w+)/')
#: How other files of calibrail begin.
_BEGINNINGS: Final = {
    "key": rb"-----BEGIN ",
    "signature": rb'{"payload": ?"',
    "page": rb"# calibrail |(?s:<!doctype html>.{,2000}?<title>[^<]*: calibrail )"
    rb'|<\?xml [^>]*>\s*<testsuites><testsuite name="calibrail"|<svg [^>]*aria-label="calibrail: ',
    "figure": rb"(?s:(?:<\?xml|%PDF|\x89PNG).*(?:<dc:title>|/Creator \(|Software\x00)calibrail\b)",
}
_TEXT: Final = rb'"(?:[^"\\]|\\.)*"'
_AT: Final = rb', "row": \d+(, "file": %b)?}' % _TEXT
_HANDED_OUT: Final = rb'"no\d+-[0-9a-f]+"'
#: How each line of others looks.
_LINES: Final = {
    "decisions": rb'{"id": %b, "outcome": .*%b' % (_TEXT, _AT),
    "selection": rb'{"id": %b, "released": .*%b' % (_TEXT, _AT),
    "quarantine": rb'{"row": \w+, ("id": %b, )?"field": .*}' % _TEXT,
    "export": rb'{"id": %b, "question": %b, "contexts": \[.*\], "response": %b}'
    % (_HANDED_OUT, _TEXT, _TEXT),
}
#: The last columns of a table of answers that were handed out.
_TO_FILL: Final = ["label", "unsupported", "annotator"]
#: Bytes of a file in which that is looked for, and of the end of a Parquet file.
_READ: Final = 1 << 26
_FOOTER: Final = 1 << 20


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
    kind : str
        Of a file, what is written: an earlier one of it may be replaced.
    """

    option: str
    path: Path
    names: tuple[str, ...] | None = None
    kind: str = ""

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
    """Return what file of calibrail stands at a path, as calibrail wrote it; None for another."""
    try:
        raw = read_regular(path, _READ)
        if raw.startswith(b"PAR1"):
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _FOOTER))
                raw = b"{" + file.read()
    except (OSError, ValueError):
        return None
    named = _SCHEMA.search(raw) if raw.startswith(b"{") else None
    if named is not None:
        return named[1].decode()
    for kind, beginning in _BEGINNINGS.items():
        if re.match(beginning, raw):
            return kind
    lines = raw.splitlines()[: -1 if len(raw) == _READ else None]
    for kind, line in _LINES.items():
        if lines and all(re.fullmatch(line, item) for item in lines):
            return kind
    return "export" if _is_unlabelled(raw) else None


def _is_unlabelled(raw: bytes) -> bool:
    """Return whether answers were handed out in a file of other programs, and it has no label."""
    if re.match(rb'\[\s*{\s*("data": {\s*"answer_)?"?id": %b' % _HANDED_OUT, raw):
        return b'"value": ' not in raw and b'"annotations": ' not in raw
    with suppress(UnicodeDecodeError, csv.Error):
        rows = csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline=""))
        return next(rows, [])[-3:] == _TO_FILL and not any(any(row[-3:]) for row in rows)
    return False


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
                raise InputError.on("written_over_input", output=output, value=known[own])
            if own in taken:
                raise InputError.on("written_twice", value=taken[own], output=output)
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
        deep = False
        with suppress(DataError):
            deep = all(identity(file.parent) != identity(source) for file in data_files(source))
        for output in outputs:
            is_data = output.names is not None or suffix_of(output.path) in SUFFIXES
            place = output.path if output.names is not None else output.path.parent
            above = [place, *(Path(os.path.realpath(place)).parents if deep else ())]
            if is_data and identity(source) in map(identity, above):
                raise InputError.on("written_into_data", output=output, source=source)


#: Whether whoever wrote a command said that what stands there is to be replaced.
_forced: ContextVar[bool] = ContextVar("forced", default=False)


def replacing(forced: bool) -> AbstractContextManager[bool]:
    """Let whatever is written within the block take the place of anything, if that was said."""
    return variable_set(_forced, forced)


def refuse_foreign(
    outputs: Sequence[Output], *, force: bool | None = False
) -> list[tuple[Path, str]]:
    """Refuse to replace what somebody else made, or another result than the one that is written.

    Parameters
    ----------
    outputs : sequence of Output
        What is written.
    force : bool or None
        Whether it is replaced all the same; None where a caller cannot say so.

    Returns
    -------
    list of (Path, str)
        What is replaced: earlier results of the same kind.

    Raises
    ------
    InputError
        Says what stands there.
    """
    for output in outputs:
        if output.names is None and output.path.is_dir():
            example = output.path / "out"
            raise InputError(f"{output} is a folder; name a file in it, e.g. {example}")
        foreign = None if force or _forced.get() else next(_foreign(output), None)
        if foreign is not None:
            remedy = cli_or_python("--force", "" if force is None else "force=True")
            remedy = f", or replace it: {remedy}" * bool(remedy)
            raise InputError(f"{output}: {foreign} stands there; name another place{remedy}")
    return [(item.path, item.kind or "run") for item in outputs if _is_earlier(item)]


def _foreign(output: Output) -> Iterator[str]:
    """Yield what stands in the place of an output and is not an earlier one of it."""
    path = output.path
    if output.names is None:
        for names, folder in _ALONE.items():
            within = path.name in names and output.kind != "quarantine"
            if within and is_run(Output("", path.parent, names)):
                yield f"{path.name} of a {folder}"
        kind = kind_of(path)
        if path.is_file() and path.stat().st_size and kind != output.kind:
            yield _spoken(kind)
        return
    alone = output.names in (RUN_FILES, WATCH_FILES)
    # Whatever became of their manifest, shards stand in a folder of their own.
    own = is_run(output) or (output.names == _SHARDS and (path / "results").is_dir())
    for names, folder in _ALONE.items():
        if alone and names != output.names and is_run(Output("", path, names)):
            yield f"a {folder}"
    for name in output.names:
        listed = kind_of(path / name) is not None or (own and name not in _REPORTS)
        if (path / name).exists() and not listed:
            yield f"{name}, which is no result of a run,"
    if alone and not own and (drawn := next(path.glob("figures/*.svg"), None)):
        yield f"figures/{drawn.name}, which is no result of a run,"


def _spoken(kind: str | None) -> str:
    if kind is None:
        return "a file that is no result of calibrail"
    if kind == "guardrail":
        return "another guardrail"
    article = "" if kind.endswith("s") else "an " if kind[0] in "aeiou" else "a "
    return f"{article}{kind}{' of calibrail' * (kind != 'key')}"


def _is_earlier(output: Output) -> bool:
    if output.names is not None:
        return output.names is RUN_FILES and is_run(output)
    return output.path.is_file() and output.path.stat().st_size > 0


def is_run(output: Output) -> bool:
    """Return whether a folder holds results of calibrail."""
    names = (name for name in output.names or () if name.endswith(".json"))
    return any(kind_of(output.path / name) is not None for name in names)


def remove_earlier(folder: Path, written: Collection[str]) -> None:
    """Remove from the folder of a run what an earlier run of another kind has left there."""
    for name in set(RUN_FILES) - {*written, *_STAYING}:
        (folder / name).unlink(missing_ok=True)


def refuse_other(path: Path, raw: bytes, *, force: bool = False) -> None:
    """Refuse to replace a file by a guardrail with another content.

    Raises
    ------
    InputError
        Says what stands there.
    """
    if not path.is_file() or path.read_bytes() != raw:
        refuse_foreign([Output("", path)], force=force)
