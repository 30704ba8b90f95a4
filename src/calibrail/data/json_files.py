"""JSON lines, JSON arrays, wrapped lists."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import starmap
from pathlib import Path
from typing import IO, Final, NamedTuple

from calibrail.data.aliases import aliases_of
from calibrail.data.files import open_bytes, suffix_of
from calibrail.data.rows import WHOLE_ROW, RowProblem, SourceRow, TableItem, shorten
from calibrail.data.traces import EXPORTS
from calibrail.data.values import JsonLimitError, load_json
from calibrail.errors import DataError
from calibrail.options import ReadOptions
from calibrail.options.fields import spell_option

#: Bytes that may stand before anything else.
BOM: Final = b"\xef\xbb\xbf"

_JSON_LISTS_CHUNK: Final = 1 << 20
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
            f"{spell_option(ReadOptions, 'options', {'list': next(iter(lists))})}"
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
        while chunk := stream.read(max(_JSON_LISTS_CHUNK, len(buffer))):
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
                    listed = mark == 0x5B and len(keys) == len(marks) and _objects_json_lists(marks)
                    marks.append(mark)
                    expects_name = _objects_json_lists(marks)
                    if expects_first := listed:
                        starts = offset + at
                elif mark == 0x2C:
                    expects_name = _objects_json_lists(marks)
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


def _objects_json_lists(marks: Sequence[int]) -> bool:
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
    while n and (read := stream.read(min(n, _JSON_LISTS_CHUNK))):
        holds = holds or bool(read.removeprefix(BOM).strip())
        n -= len(read)
    return holds


_CHUNK: Final = 1 << 20
_MARK: Final = re.compile(rb'\\.|["{}\[\],]', re.DOTALL)


def json_rows(path: Path, list: object = None) -> Iterator[TableItem]:
    r"""Yield the objects of a file of JSON lines, or of one JSON list, in constant memory.

    Lines end at the byte ``\n`` and nowhere else: U+2028 and its kin belong to the text. Lines of
    nothing but white space are passed over, though they count as lines. A file that starts
    with ``[`` and is not named ``.jsonl`` or ``.ndjson`` is read as an array, one that holds lists
    of rows within an object as one of these; rows are then numbered by element. Lone surrogates in
    escapes become U+FFFD, since no other program could write them out again.

    Parameters
    ----------
    path : Path
        The file.
    list : str or None
        Name of the list to read, of several within one object.

    Raises
    ------
    DataError
        The file cannot be opened, or it is UTF-16 or UTF-32; or it holds several lists of rows, or
        none of that name.
    """
    begins = list_start(path, None if list is None else str(list))
    if begins is not None:
        elements = filter(None, map(bytes.strip, _elements(path, begins)))
        columns = frame_columns(path, begins)
        parse = parse_object if columns is None else _of_frame(path, columns)
        yield from starmap(parse, enumerate(elements, start=1))
        return
    if is_spread(path):
        yield from _unfolded(starmap(parse_object, enumerate(_objects(path), start=1)))
        return
    yield from _unfolded(_lines(path))


def _unfolded(rows: Iterator[TableItem]) -> Iterator[TableItem]:
    """Yield rows; those of a frame that pandas wrote column by column, as it does if not asked."""
    for item in rows:
        columns = item.values if isinstance(item, SourceRow) and item.number == 1 else {}
        first = next(iter(columns.values()), None)
        keys = first.keys() if isinstance(first, dict) else ()
        if (
            not keys
            or not all(
                isinstance(cells, dict) and cells.keys() == keys for cells in columns.values()
            )
            or not all(key.isdecimal() for key in keys)
        ):
            yield item
        else:
            for number, key in enumerate(keys, start=1):
                yield SourceRow(number, {name: cells[key] for name, cells in _cells(columns)})


def _cells(columns: Mapping[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    for name, cells in columns.items():
        if isinstance(cells, dict):
            yield name, cells


def _lines(path: Path) -> Iterator[TableItem]:
    with open_bytes(path) as stream:
        for number, line in enumerate(stream, start=1):
            if number == 1:
                line = line.removeprefix(BOM)
            if line.isspace() or not line:
                continue
            yield parse_object(number, line)


def parse_object(number: int, raw: bytes) -> TableItem:
    """Return the JSON object in ``raw`` as row ``number``, or what is wrong with it."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        seen = raw[max(0, error.start - 20) : error.start + 20]
        remedy, where = "save the file as UTF-8", f"byte {error.start + 1} of the row"
        return RowProblem(number, WHOLE_ROW, "invalid UTF-8", shorten(seen), where, remedy)
    try:
        value = load_json(text)
    except JsonLimitError as error:
        return RowProblem(number, WHOLE_ROW, str(error), shorten(text), "", _WITHIN)
    except ValueError as error:
        detail = str(error).split(":")[0]
        if isinstance(error, json.JSONDecodeError):
            detail = f"{error.msg} at character {error.pos + 1}"
        return RowProblem(number, WHOLE_ROW, "broken JSON", shorten(text), detail, _ONE_OBJECT)
    if not isinstance(value, dict):
        return RowProblem(number, WHOLE_ROW, "not an object", shorten(value), "", _ONE_OBJECT)
    return SourceRow(number, value)


def _of_frame(path: Path, columns: int) -> Callable[[int, bytes], TableItem]:
    """Return what parses a row of a frame, a list of as many values as there are columns."""
    names = [str(json.loads(name)) for name in _elements(path, columns)]

    def parse(number: int, raw: bytes) -> TableItem:
        made = parse_object(number, b'{"row": ' + raw + b"}")
        if isinstance(made, RowProblem):
            return made
        cells = made.values["row"]
        if not isinstance(cells, list) or len(cells) != len(names):
            remedy = "give every row a value for each column"
            return RowProblem(
                number, WHOLE_ROW, "wrong number of cells", shorten(cells), "", remedy
            )
        return SourceRow(number, dict(zip(names, cells, strict=True)))

    return parse


_WITHIN: Final = "leave that field out, or write it as a text"
_ONE_OBJECT: Final = "write one JSON object on each line"


def _elements(path: Path, begins: int) -> Iterator[bytes]:
    """Yield the elements of one JSON array, cut at its commas without parsing the whole of it."""
    buffer = b""
    scanned = depth = begin = 0
    in_string = ended = False
    with open_bytes(path) as stream:
        wrapped = skip(stream, begins)
        while not ended:
            chunk = stream.read(_CHUNK)
            buffer = buffer[begin:] + chunk
            scanned, begin = scanned - begin, 0
            # A backslash at the very end waits for the byte that it escapes.
            stop = len(buffer) - (1 if chunk and buffer.endswith(b"\\") else 0)
            for match in _MARK.finditer(buffer, scanned, stop):
                mark = match.group()
                if mark == b'"':
                    in_string = not in_string
                elif in_string or len(mark) > 1:
                    continue
                elif mark in b"[{":
                    depth += 1
                    if depth == 1:
                        begin = match.end()
                elif mark != b"," or depth == 1:
                    depth -= mark != b","
                    if depth <= 1 and (mark == b"," or depth == 0):
                        yield buffer[begin : match.start()]
                        begin = match.end()
                        if depth == 0:
                            ended = True
                            break
            else:
                scanned = stop
                ended = not chunk
        rest = b"" if wrapped else buffer[begin:] + stream.read(_CHUNK)
    if rest.strip():
        yield rest


def _objects(path: Path) -> Iterator[bytes]:
    """Yield the objects of a file that stand over several lines each, one after the other."""
    buffer = b""
    scanned = depth = begin = 0
    in_string = False
    with open_bytes(path) as stream:
        while chunk := stream.read(_CHUNK):
            buffer = buffer[begin:] + chunk
            scanned, begin = scanned - begin, 0
            stop = len(buffer) - (1 if buffer.endswith(b"\\") else 0)
            for match in _MARK.finditer(buffer, scanned, stop):
                mark = match.group()
                if mark == b'"':
                    in_string = not in_string
                elif in_string or mark == b"," or len(mark) > 1:
                    continue
                else:
                    depth += 1 if mark in b"[{" else -1
                    if depth <= 0:
                        yield buffer[begin : match.end()].removeprefix(BOM).strip()
                        begin, depth = match.end(), 0
            scanned = stop
    if rest := buffer[begin:].strip():
        yield rest
