"""How are JSON lines read so that no byte of a file can stop the run?"""

import json
import re
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import Final

from calibrail.data.files import open_bytes, suffix_of
from calibrail.data.json_text import load_json
from calibrail.data.rows import WHOLE_ROW, Problem, Row, TableItem, shorten
from calibrail.errors import DataError

_BOM: Final = b"\xef\xbb\xbf"
_CHUNK: Final = 1 << 20
_MARK: Final = re.compile(rb'\\.|["{}\[\],]', re.DOTALL)
# So much of a file is looked at to find out how its rows are wrapped.
_HEAD: Final = 1 << 16
_ANOTHER: Final = re.compile(rb'\s*,\s*"([^"]+)"\s*:\s*\[\s*\{')

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


def json_rows(path: Path) -> Iterator[TableItem]:
    r"""Yield the objects of a file of JSON lines, or of one JSON array, in constant memory.

    Lines end at the byte ``\n`` and nowhere else: U+2028 and its kin belong to the text. Lines of
    nothing but white space are passed over, though they count as lines. A file that starts
    with ``[`` and is not named ``.jsonl`` or ``.ndjson`` is read as an array; its rows are then
    numbered by element. Lone surrogates in escapes become U+FFFD, since no other program could
    write them out again.

    Raises
    ------
    DataError
        The file cannot be opened, or it is UTF-16 or UTF-32.
    """
    begins = _array_start(path)
    if begins is not None:
        elements = filter(None, map(bytes.strip, _elements(path, begins)))
        yield from starmap(parse_object, enumerate(elements, start=1))
        return
    with open_bytes(path) as stream:
        for number, line in enumerate(stream, start=1):
            if number == 1:
                line = line.removeprefix(_BOM)
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
    except ValueError as error:
        # Numbers of more than 4,300 digits and too many nested brackets end here, too.
        detail = str(error).split(":")[0]
        if isinstance(error, json.JSONDecodeError):
            detail = f"{error.msg} at character {error.pos + 1}"
        return Problem(number, WHOLE_ROW, "broken JSON", shorten(text), detail, _ONE_OBJECT)
    if not isinstance(value, dict):
        return Problem(number, WHOLE_ROW, "not an object", shorten(value), "", _ONE_OBJECT)
    return Row(number, value)


_ONE_OBJECT: Final = "write one JSON object on each line"


def _array_start(path: Path) -> int | None:
    """Return where the file's one array of rows starts, if it is no file of lines.

    Encodings that are not UTF-8 are refused.
    """
    with open_bytes(path) as stream:
        head = stream.read(_HEAD)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path} is not UTF-8 (it starts like UTF-16 or UTF-32): save it as UTF-8")
    text = head.removeprefix(_BOM).lstrip()
    start = len(head) - len(text)
    if text.startswith(b"["):
        return None if suffix_of(path) in _OF_LINES else start
    within = _list_start(text, lines=suffix_of(path) in _OF_LINES)
    return None if within is None else start + within


def _list_start(text: bytes, lines: bool) -> int | None:
    """Return where the list of rows starts in ``{"examples": [{...}, ...], ...}``.

    A file that is named after lines holds such an object on its one line or not at all.
    """
    first, _, rest = text.partition(b"\n")
    if rest.strip() and (lines or _parses(first)):
        return None
    # Bytes that are not UTF-8 keep their number.
    head, position = text.decode("utf-8", "surrogateescape"), 1
    decoder, is_first = json.JSONDecoder(), True
    try:
        while head[:1] == "{":
            key, position = decoder.raw_decode(head, _next(head, position))
            position = _next(head, _next(head, position) + 1)
            opens_list = head[position] == "[" and head[_next(head, position + 1)] == "{"
            if opens_list and (key in _LISTS or (is_first and not lines and key not in _FIELDS)):
                return len(head[:position].encode("utf-8", "surrogateescape"))
            _, position = decoder.raw_decode(head, position)
            position, is_first = _next(head, _next(head, position) + 1), False
    except (ValueError, IndexError, RecursionError):
        return None
    return None


def _next(text: str, position: int) -> int:
    """Return where the next character that is no white space is."""
    while text[position].isspace():
        position += 1
    return position


def _parses(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _elements(path: Path, begins: int) -> Iterator[bytes]:
    """Yield the elements of one JSON array, cut at its commas without parsing the whole of it."""
    buffer = b""
    scanned = depth = begin = 0
    in_string = ended = False
    with open_bytes(path) as stream:
        wrapped = bool(stream.read(begins).removeprefix(_BOM).strip())
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
        rest = buffer[begin:] + stream.read(_CHUNK)
    if wrapped and (other := _ANOTHER.match(rest)):
        raise DataError(
            f"{path} holds several lists of rows; {other.group(1).decode('utf-8', 'replace')!r} is "
            "the second: save each in a file of its own"
        )
    if rest.strip() and not wrapped:
        yield rest
