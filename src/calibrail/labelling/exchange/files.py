"""Which format does a file of answers or labels have?"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

from calibrail.errors import DataError, InputError, file_errors
from calibrail.labelling.exchange import argilla, json_lines, label_studio, spreadsheet
from calibrail.labelling.exchange.given import Given
from calibrail.labelling.tasks import Task
from calibrail.settings.checks import one_of
from calibrail.settings.option import either

Format = Literal["csv", "jsonl", "label-studio", "argilla"]

_BY_SUFFIX: Final[Mapping[str, Format]] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_WRITE: Final[Mapping[str, Callable[[Iterable[Task]], bytes]]] = {
    "csv": spreadsheet.write,
    "jsonl": json_lines.write,
    "label-studio": label_studio.write,
    "argilla": argilla.write,
}


def format_of(path: Path, given: str | None = None) -> Format:
    """Return the format to write a file in: the one named, else the one of its name's ending.

    Raises
    ------
    InputError
        It is unknown.
    """
    if given is not None:
        named: Format = one_of(given, Format, "export_as")
        return named
    found = _BY_SUFFIX.get(path.suffix.lower())
    if found is None:
        names = ", ".join(get_args(Format))
        raise InputError(
            f"the name {path.name!r} does not say in which format to write; end it in .csv or "
            f".jsonl, or name the format ({either('--export-as', 'export_as=')} one of {names})"
        )
    return found


def write(path: Path, tasks: Iterable[Task], format: Format) -> list[Path]:
    """Write answers for another program, with its labelling interface where it takes one.

    Returns
    -------
    list of Path
        The files written.
    """
    files = {path: _WRITE[format](tasks)}
    if format == "label-studio":
        files[path.with_suffix(".xml")] = label_studio.INTERFACE.encode("utf-8")
    for place, raw in files.items():
        with file_errors(f"cannot write {place}", "; name another file"):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(raw)
    return list(files)


def read(path: Path, label: str = "label") -> Iterator[Given]:
    """Yield what the rows of a file say; its content tells its format.

    Parameters
    ----------
    path : Path
        The file.
    label : str
        Column of the labels, of a CSV file.

    Raises
    ------
    DataError
        It cannot be read, or is in none of the formats.
    """
    with file_errors(f"cannot read {path}", "; name a file that holds labels"):
        raw = path.read_bytes()
    if raw.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] not in (b"[", b"{"):
        yield from spreadsheet.read(path, label)
        return
    for where, content in _objects(path, raw):
        try:
            yield from list(_given(content, where))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            remedy = "give it as it was exported, with a label"
            yield Given(where, "", None, problem=f"it cannot be read ({error}); {remedy}")


def _given(content: Any, where: str) -> Iterator[Given]:
    if not isinstance(content, dict):
        raise ValueError(f"an object was expected; got {content!r:.60}")
    if label_studio.is_task(content):
        return label_studio.given(content, where)
    if argilla.is_record(content):
        return argilla.given(content, where)
    return json_lines.given(content, where)


def _objects(path: Path, raw: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the items of a JSON list, or what each of JSON lines holds."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8: {error}; save it as UTF-8") from error
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, list):
        for number, item in enumerate(whole, start=1):
            yield f"{path}, item {number}", item
        return
    if isinstance(whole, dict):
        yield f"{path}, line 1", whole
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            # What follows says that no object was found.
            item = line
        yield f"{path}, line {number}", item
