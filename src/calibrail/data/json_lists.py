"""Where in a JSON file does the list of its rows start, and which list is that?"""

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Final, NamedTuple

from calibrail.data.aliases import aliases_of
from calibrail.data.files import open_bytes, suffix_of
from calibrail.data.json_text import load_json
from calibrail.data.traces import EXPORTS
from calibrail.errors import DataError
from calibrail.settings import ReadOptions
from calibrail.settings.option import option_of

#: Bytes that may stand before anything else.
BOM: Final = b"\xef\xbb\xbf"

_CHUNK: Final = 1 << 20
#: So much of a file is looked at to find out how its rows are wrapped.
_HEAD: Final = 1 << 16
#: A whole string, or what opens, closes and parts; a quote alone begins a string that goes on.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\],]', re.DOTALL)

_OF_LINES: Final = (".jsonl", ".ndjson")

#: Names of a list of rows, wherever it stands in the one object; and of lists within a row.
_LISTS: Final = frozenset(
    {"examples", "data", "rows", "items", "results", "samples", "instances", "records", "entries"}
)
_FIELDS: Final = frozenset(
    {
        *("contexts", "context", "passages", "documents", "docs", "evidence", "knowledge"),
        *("retrieved_contexts", "retrieval_context", "labels", "annotations", "spans"),
        *("claims", "answers", "sentences", "messages"),
    }
)


class _Listed(NamedTuple):
    """A list of objects within the one object: where it starts, and the names in its first one."""

    starts: int
    names: tuple[str, ...]


class _Scanned(NamedTuple):
    """The names in a file's one object, its lists of objects, and where its lists of lists start.

    A list within an object within it goes by both names, with a point between them.
    """

    names: list[str]
    lists: dict[str, _Listed]
    tables: dict[str, int]


def list_start(path: Path, name: str | None = None) -> int | None:
    """Return the position of the ``[`` of the list of rows, or None where lines hold the rows.

    That is a file's one array, or a list of objects within one object: the only one, else the only
    one whose objects are of a tool's export, hold answers or labels; or a frame's list of rows.

    Parameters
    ----------
    path : Path
        The file.
    name : str or None
        The list to read, of several within one object.

    Raises
    ------
    DataError
        Several lists may be meant, or there is none of that name; or the file is UTF-16 or UTF-32.
    """
    with open_bytes(path) as stream:
        head = stream.read(_HEAD)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path} is not UTF-8 (it starts like UTF-16 or UTF-32): save it as UTF-8")
    text = head.removeprefix(BOM).lstrip()
    lines = suffix_of(path) in _OF_LINES
    lists: dict[str, _Listed] = {}
    if text.startswith(b"["):
        if name is None:
            return None if lines else len(head) - len(text)
    elif text.startswith(b"{"):
        first, _, rest = text.partition(b"\n")
        if not (rest.strip() and (lines or _parses(first))):
            lists = _wrapped(_scan(path), lines)
    if name is not None:
        if name not in lists:
            raise DataError(
                f"{path} holds no list of rows {name!r}; its lists: {', '.join(lists) or 'none'}"
            )
        return lists[name].starts
    for likely in (_exported, _of_answers):
        if len(lists) > 1:
            lists = {key: item for key, item in lists.items() if likely(item.names)} or lists
    if len(lists) > 1:
        raise DataError(
            f"{path} holds several lists of rows: {', '.join(lists)}; choose one with "
            f"{option_of(ReadOptions, 'options', {'list': next(iter(lists))})}"
        )
    return next((item.starts for item in lists.values()), None)


def is_spread(path: Path) -> bool:
    """Say whether objects stand over several lines each, as pretty printers write them."""
    with open_bytes(path) as stream:
        head = stream.read(_HEAD).removeprefix(BOM).lstrip()
    first, _, rest = head.partition(b"\n")
    # A line that was cut off after its brace has another object below it.
    return first.strip() == b"{" and rest.lstrip().startswith(b'"')


def frame_columns(path: Path, begins: int) -> int | None:
    """Return where the names of the columns start, where the rows that begin there are lists.

    So does pandas write a frame with ``orient="split"``, and MLflow its tables.
    """
    with open_bytes(path) as stream:
        if not stream.read(_HEAD).removeprefix(BOM).lstrip().startswith(b"{"):
            return None
    scanned = _scan(path)
    return scanned.tables.get("columns") if scanned.tables.get("data") == begins else None


def _wrapped(scanned: _Scanned, lines: bool) -> dict[str, _Listed]:
    """Return the lists within a file's one object that may be its rows.

    An object that is itself a row has lists, too, such as its contexts.
    """
    names, lists, tables = scanned
    if not lines and tables.keys() == {"columns", "data"}:
        return {"data": _Listed(tables["data"], ())}
    for export in EXPORTS if _LISTS.isdisjoint(lists) else ():
        if export.recognises(names):
            return {key: item for key, item in lists.items() if key in export.lists and not lines}
    is_row = lines or any(aliases_of(field, names) for field in ("question", "response", "label"))
    several = sum(_of_answers(item.names) for key, item in lists.items() if "." not in key) > 1
    return {
        key: item
        for key, item in lists.items()
        if (_exported(item.names) and not lines)
        or (
            "." not in key
            and (key in _LISTS or (key not in _FIELDS and (not is_row or (several and not lines))))
        )
    }


def _exported(names: Iterable[str]) -> bool:
    return any(export.recognises(names) for export in EXPORTS)


def _of_answers(names: Iterable[str]) -> bool:
    names = tuple(names)
    return any(aliases_of(field, names) for field in ("response", "label"))


def _scan(path: Path) -> _Scanned:
    """Return what a file's first object holds; kept for this version of the file."""
    status = path.stat()
    return _scanned(path, (status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=64)
def _scanned(path: Path, version: tuple[int, int]) -> _Scanned:
    """Return what a file's first object holds, without parsing the whole of it."""
    found = _Scanned([], {}, {})
    # What is open, and the names that lead to where we are.
    marks: list[int] = []
    keys: list[str] = []
    starts = 0
    # What may come: a name in the object, the first element of a list; where that element is.
    expects_name = expects_first = False
    element: int | None = None
    buffer, offset = b"", 0
    with open_bytes(path) as stream:
        # An element that is kept, or a string that goes on, may be of any length: read ever more.
        while chunk := stream.read(max(_CHUNK, len(buffer))):
            buffer += chunk
            done = 0
            for match in _TOKEN.finditer(buffer):
                at, mark = match.start(), buffer[match.start()]
                if mark == 0x22:
                    if match.end() - at == 1:
                        break
                    if expects_name:
                        keys[len(marks) - 1 :] = [_name(match.group())]
                        if len(marks) == 1:
                            found.names.append(keys[0])
                        expects_name = False
                    elif expects_first and keys == ["columns"]:
                        found.tables["columns"] = starts
                    expects_first = False
                elif mark in b"{[":
                    if expects_first and mark == 0x7B:
                        element = at
                    elif expects_first and len(keys) == 1:
                        found.tables[keys[0]] = starts
                    listed = mark == 0x5B and len(keys) == len(marks) and _objects(marks)
                    marks.append(mark)
                    expects_name = _objects(marks)
                    if expects_first := listed:
                        starts = offset + at
                elif mark == 0x2C:
                    expects_name = _objects(marks)
                elif marks:
                    marks.pop()
                    if element is not None and len(marks) == len(keys) + 1:
                        inner = _Listed(starts, _keys(buffer[element : match.end()]))
                        found.lists[".".join(keys)] = inner
                        element = None
                    if not marks:
                        return found
                    expects_first = False
                done = match.end()
            if element is not None:
                # The tokens of the element that is kept are met again, from its first one on.
                done, marks, expects_first, element = element, marks[: len(keys) + 1], True, None
            buffer, offset = buffer[done:], offset + done
    return found


def _objects(marks: Sequence[int]) -> bool:
    """Say whether we are in the one object, or in an object within it."""
    return 0 < len(marks) <= 2 and 0x5B not in marks


def _keys(element: bytes) -> tuple[str, ...]:
    try:
        value = load_json(element.decode("utf-8", "replace"))
    except ValueError:
        return ()
    return tuple(value) if isinstance(value, dict) else ()


def _name(raw: bytes) -> str:
    try:
        return str(json.loads(raw))
    except ValueError:
        return raw.decode("utf-8", "replace").strip('"')


def _parses(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def skip(stream: IO[bytes], n: int) -> bool:
    """Read past so many bytes of what may be compressed; return whether they hold anything."""
    holds = False
    while n and (read := stream.read(min(n, _CHUNK))):
        holds = holds or bool(read.removeprefix(BOM).strip())
        n -= len(read)
    return holds
