"""How are JSON lines read so that no byte of a file can stop the run?"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import starmap
from pathlib import Path
from typing import Final

from calibrail.data.files import open_bytes
from calibrail.data.json_lists import BOM, frame_columns, is_spread, list_start, skip
from calibrail.data.json_text import JsonLimitError, load_json
from calibrail.data.rows import WHOLE_ROW, Problem, Row, TableItem, shorten

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
        columns = item.values if isinstance(item, Row) and item.number == 1 else {}
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
                yield Row(number, {name: cells[key] for name, cells in _cells(columns)})


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
        return Problem(number, WHOLE_ROW, "invalid UTF-8", shorten(seen), where, remedy)
    try:
        value = load_json(text)
    except JsonLimitError as error:
        return Problem(number, WHOLE_ROW, str(error), shorten(text), "", _WITHIN)
    except ValueError as error:
        detail = str(error).split(":")[0]
        if isinstance(error, json.JSONDecodeError):
            detail = f"{error.msg} at character {error.pos + 1}"
        return Problem(number, WHOLE_ROW, "broken JSON", shorten(text), detail, _ONE_OBJECT)
    if not isinstance(value, dict):
        return Problem(number, WHOLE_ROW, "not an object", shorten(value), "", _ONE_OBJECT)
    return Row(number, value)


def _of_frame(path: Path, columns: int) -> Callable[[int, bytes], TableItem]:
    """Return what parses a row of a frame, a list of as many values as there are columns."""
    names = [str(json.loads(name)) for name in _elements(path, columns)]

    def parse(number: int, raw: bytes) -> TableItem:
        made = parse_object(number, b'{"row": ' + raw + b"}")
        if isinstance(made, Problem):
            return made
        cells = made.values["row"]
        if not isinstance(cells, list) or len(cells) != len(names):
            remedy = "give every row a value for each column"
            return Problem(number, WHOLE_ROW, "wrong number of cells", shorten(cells), "", remedy)
        return Row(number, dict(zip(names, cells, strict=True)))

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
