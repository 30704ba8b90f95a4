"""Where in a JSON file does the list of its rows start, and which list is that?"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import IO, Final, NamedTuple

from calibrail.data.aliases import aliases_of
from calibrail.data.files import open_bytes, suffix_of
from calibrail.data.json_text import load_json
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


def list_start(path: Path, name: str | None = None) -> int | None:
    """Return the position of the ``[`` of the list of rows, or None where lines hold the rows.

    That is a file's one array, or a list of objects within one object: the only one, else the only
    one whose objects hold answers or labels.

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
            status = path.stat()
            lists = _wrapped(path, lines, (status.st_mtime_ns, status.st_size))
    if name is not None:
        if name not in lists:
            raise DataError(
                f"{path} holds no list of rows {name!r}; its lists: {', '.join(lists) or 'none'}"
            )
        return lists[name].starts
    if len(lists) > 1:
        rows = {key: item for key, item in lists.items() if _of_answers(item.names)}
        lists = rows or lists
    if len(lists) > 1:
        raise DataError(
            f"{path} holds several lists of rows: {', '.join(lists)}; choose one with "
            f"{option_of(ReadOptions, 'options', {'list': next(iter(lists))})}"
        )
    return next((item.starts for item in lists.values()), None)


@lru_cache(maxsize=64)
def _wrapped(path: Path, lines: bool, version: tuple[int, int]) -> dict[str, _Listed]:
    """Return the lists within a file's one object that may be its rows; kept for this version.

    An object that is itself a row has lists, too, such as its contexts.
    """
    names, lists = _scanned(path)
    is_row = lines or any(aliases_of(field, names) for field in ("question", "response", "label"))
    several = sum(_of_answers(item.names) for item in lists.values()) > 1
    return {
        key: item
        for key, item in lists.items()
        if key in _LISTS or (key not in _FIELDS and (not is_row or (several and not lines)))
    }


def _of_answers(names: Iterable[str]) -> bool:
    names = tuple(names)
    return any(aliases_of(field, names) for field in ("response", "label"))


def _scanned(path: Path) -> tuple[list[str], dict[str, _Listed]]:
    """Return the names in a file's first object, and the lists of objects among its values."""
    names: list[str] = []
    lists: dict[str, _Listed] = {}
    depth = starts = 0
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
                    if depth == 1 and expects_name:
                        names.append(_name(match.group()))
                        expects_name = False
                    expects_first = False
                elif mark in b"{[":
                    depth += 1
                    if mark == 0x7B and depth == 3 and expects_first:
                        element = at
                    expects_name = depth == 1
                    if expects_first := mark == 0x5B and depth == 2 and bool(names):
                        starts = offset + at
                elif mark == 0x2C:
                    expects_name = expects_name or depth == 1
                else:
                    depth -= 1
                    if depth == 2 and element is not None:
                        lists[names[-1]] = _Listed(starts, _keys(buffer[element : match.end()]))
                        element = None
                    if not depth:
                        return names, lists
                done = match.end()
            if element is not None:
                # The tokens of the element that is kept are met again, from its first one on.
                done, depth, expects_first, element = element, 2, True, None
            buffer, offset = buffer[done:], offset + done
    return names, lists


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
