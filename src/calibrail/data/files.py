"""Files and folders: opened, decompressed, JSON read row by row."""

import atexit
import gzip
import io
import json
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import lru_cache, partial
from glob import glob
from itertools import chain, islice, starmap
from pathlib import Path
from typing import IO, Any, Final, NamedTuple
from zipfile import BadZipFile, ZipFile, ZipInfo

from calibrail.data.aliases import NAMES, aliases_of
from calibrail.data.example import WHOLE_ROW, RowProblem, SourceRow, TableItem, shorten
from calibrail.data.traces import EXPORTS
from calibrail.data.values import DEPTH, JsonLimitError, load_json
from calibrail.errors import DataError, errors_as, file_errors
from calibrail.options import ReadOptions
from calibrail.options.fields import spell_option

#: The name that stands for standard input.
STANDARD_INPUT: Final = "-"

#: Suffix to the kind of table.
SUFFIXES: Final[dict[str, str]] = {
    f".{ending}": kind for kind, named in NAMES["suffixes"].items() for ending in named.split()
}

#: Bytes of a row of JSON; a longer one is told and passed over.
ROW_LIMIT: Final = 1 << 26
#: Columns of a table, or fields of a row of JSON; lines with nothing in them, where they are more
#: than two of three.
MOST_COLUMNS, MOST_EMPTY = 1 << 14, 1 << 20
#: So many times its size a compressed file may unpack to, beyond so many bytes.
MOST_RATIO: Final = 200
SMALL: Final = 1 << 28

#: Suffixes that say how a file is compressed; its beginning decides.
_SQUEEZED: Final = (".gz", ".zst", ".zstd")

#: What parts the cells of CSV.
DELIMITERS: Final = (",", ";", "\t", "|")

#: Bytes of a file whose lines are counted one by one.
COUNTED: Final = 4 << 20

_ZIP: Final = b"PK\x03\x04"
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"

#: How a file of Arrow begins; a stream begins as its messages do.
ARROW: Final = b"ARROW1"
_STREAM: Final = b"\xff\xff\xff\xff"

#: How the format names zstd, which zipfile reads from Python 3.14 on.
_ZSTD_IN_ZIP: Final = 93

#: Byte order marks of encodings that are read as UTF-8 is; the longer ones first.
_MARKS: Final = {
    **dict.fromkeys((b"\xff\xfe\0\0", b"\0\0\xfe\xff"), "utf-32"),
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "utf-16"),
}

#: How files begin that are compressed otherwise, which is not read.
_COMPRESSED: Final = {
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    _ZIP: "zip (a workbook, or an archive)",
}


def suffix_of(path: Path) -> str:
    """Return the suffix that names the format, in lower case, without one of compression.

    >>> suffix_of(Path("rows.JSONL.gz")), suffix_of(Path("rows.csv.zst"))
    ('.jsonl', '.csv')
    """
    squeezed = path.suffix.lower() in _SQUEEZED
    return (path.with_suffix("") if squeezed else path).suffix.lower()


def open_bytes(path: Path, encoding: str | None = None) -> IO[bytes]:
    """Open a file for reading, through gzip or zstd where it begins like that, whatever its name.

    What is written in another encoding, and UTF-16 or UTF-32 in any case, comes as UTF-8.

    Raises
    ------
    DataError
        The file cannot be opened, or is compressed with something else; or, while it is read, its
        compressed part is damaged.
    """
    with file_errors(f"cannot open {path}"):
        with path.open("rb") as begun:
            head = begun.read(64)
        # Of a file that nothing was read of yet, the whole is read without a copy.
        stream: IO[bytes] = io.BufferedReader(_NamedFile(path), 1 << 16)
    if head.startswith(_ZIP) and path.suffix.lower() == ".eval":
        return io.BufferedReader(_EvalLog(path, stream))
    for begins, kind in _COMPRESSED.items():
        if head.startswith(begins):
            stream.close()
            raise DataError.on("compressed", path=path, kind=kind)
    if head.startswith((_GZIP, _ZSTD)):
        stream = io.BufferedReader(_Unpacked(path, stream, head))
        head = stream.peek(64)[:64]
    encoding = encoding or _wide_encoding(head)
    return io.BufferedReader(_Recoded(stream, encoding)) if encoding else stream


def _wide_encoding(head: bytes) -> str | None:
    """Return which UTF of several bytes a letter a file begins with; None of any other."""
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    # Without a mark every other byte is 0 where letters are those of English.
    for place, encoding in enumerate(("utf-16-be", "utf-16-le")):
        if 4 * head[place::2].count(0) > len(head) and not head[1 - place :: 2].count(0):
            return encoding
    return None


@contextmanager
def seekable(path: Path) -> Iterator[Path | IO[bytes]]:
    """Give a file that can be read from any place: itself, or what is compressed in it.

    The latter is unpacked for as long as it is read, where temporary files are kept.
    """
    with ExitStack() as open_files:
        stream = open_files.enter_context(open_bytes(path))
        if not isinstance(getattr(stream, "raw", None), _Unpacked):
            yield path
            return
        with file_errors(f"cannot unpack {path}", "; TMPDIR names another folder for that"):
            unpacked = open_files.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(stream, unpacked, 1 << 20)
            unpacked.seek(0)
        yield unpacked


class _NamedFile(io.FileIO):
    """A file whose errors name it; else what is written meanwhile would be blamed for them."""

    def readinto(self, buffer: Any) -> int:
        with file_errors(f"cannot read {self.name}"):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with file_errors(f"cannot read {self.name}"):
            return super().readall()


class _Unpacked(io.RawIOBase):
    """The uncompressed bytes of a file, whose damage is an error that names it."""

    def __init__(self, path: Path, stream: IO[bytes], head: bytes) -> None:
        self._path, self._stream = path, stream
        self._size, self._n_unpacked = os.fstat(stream.fileno()).st_size, 0
        self._inner: Any
        if head.startswith(_GZIP):
            self._inner = gzip.GzipFile(fileobj=stream)
        else:
            import pyarrow as pa

            # Reads frame after frame, as much at a time as is asked for.
            self._inner = pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        damage = (OSError, EOFError, zlib.error)
        with errors_as(DataError, damage, "file_damaged", path=self._path):
            raw = self._inner.read(len(buffer))
        self._n_unpacked += len(raw)
        refuse_unpacked(self._path, self._n_unpacked, self._size)
        buffer[: len(raw)] = raw
        return len(raw)

    def close(self) -> None:
        self._inner.close()
        self._stream.close()
        super().close()


class _Recoded(_Unpacked):
    """The text of a file in UTF-8; bytes that its encoding does not know stay as they are."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        errors = "replace" if encoding.startswith("utf-") else "surrogateescape"
        self._stream, self._rest = stream, b""
        self._inner = io.TextIOWrapper(stream, encoding, errors, "")

    def readinto(self, buffer: Any) -> int:
        raw = self._rest or self._more()
        n = min(len(raw), len(buffer))
        buffer[:n], self._rest = raw[:n], raw[n:]
        return n

    def _more(self) -> bytes:
        return bytes(self._inner.read(1 << 13).encode("utf-8", "surrogateescape"))


class _EvalLog(_Recoded):
    """The samples of an Inspect log, which is a zip with a file of JSON for each, as one list."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self._path, self._stream, self._rest = path, stream, b""
        self._inner = self._pieces(path.stat().st_size)

    def _more(self) -> bytes:
        broken = (BadZipFile, EOFError, RuntimeError, OSError, UnicodeDecodeError, zlib.error)
        with errors_as(DataError, broken, "file_damaged", path=self._path):
            return next(self._inner, b"")

    def _pieces(self, size: int) -> Iterator[bytes]:
        n_unpacked = 0
        with ZipFile(self._stream) as log:
            # A sample that was written again counts as it was written last.
            parts = {part.filename: part for part in log.infolist()}
            samples = [parts[name] for name in parts if re.fullmatch(r"samples/.+\.json", name)]
            for number, part in enumerate(samples):
                yield b"," if number else b"["
                opened = self._zstd(part) if part.compress_type == _ZSTD_IN_ZIP else log.open(part)
                while piece := opened.read(1 << 16):
                    n_unpacked += len(piece)
                    refuse_unpacked(self._path, n_unpacked, size)
                    yield piece
        yield b"]" if samples else b"[]"

    def _zstd(self, part: ZipInfo) -> Any:
        """Open a part that is compressed with zstd."""
        import pyarrow as pa

        self._stream.seek(part.header_offset + 26)
        lengths = [int.from_bytes(self._stream.read(2), "little") for _ in range(2)]
        self._stream.seek(sum(lengths), io.SEEK_CUR)
        packed = pa.BufferReader(self._stream.read(part.compress_size))
        return pa.CompressedInputStream(packed, "zstd")


def table_kind(path: Path) -> str:
    """Return the kind of table that a file's name or else its beginning shows, or "".

    A name without a known suffix is read as Parquet, Arrow, JSON or CSV if it begins like that.
    """
    if kind := SUFFIXES.get(suffix_of(path), ""):
        return kind
    with open_bytes(path) as stream:
        head = stream.read(4096)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"PAR1"):
        return "parquet"
    if text.startswith((ARROW, _STREAM)):
        return "arrow"
    if text.startswith((b"{", b"[")):
        return "jsonl"
    first = text.partition(b"\n")[0]
    # No text holds NUL, but in two bytes a character: a pickle, a database.
    binary = b"\0" in first and not text.startswith((b"\xff\xfe", b"\xfe\xff"))
    return "csv" if not binary and any(mark.encode() in first for mark in DELIMITERS) else ""


def count_rows(paths: Sequence[Path]) -> int | None:
    """Return about how many rows files hold, by their lines or what Parquet says of itself.

    Exact for Parquet, and for files of up to `COUNTED` bytes; what is larger is taken to go on as
    it begins. None where it cannot be told at once: one JSON value over several lines, or a large
    file that is compressed.
    """
    total = 0
    for path in paths:
        rows = None
        with suppress(OSError, ValueError, DataError):
            kind = table_kind(path)
            if kind == "parquet":
                import pyarrow.parquet as pq

                rows = pq.read_metadata(path).num_rows
            elif kind in ("jsonl", "csv"):
                rows = _count_lines(path, kind)
        if rows is None:
            return None
        total += rows
    return total if paths else None


def _count_lines(path: Path, kind: str) -> int | None:
    """Return about how many lines with a row of its own a file has; see `count_rows`."""
    with open_bytes(path) as stream:
        head, goes_on = stream.read(COUNTED), bool(stream.read(1))
        unpacked = isinstance(getattr(stream, "raw", None), _Unpacked)
    begins = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    first = begins.partition(b"\n")[0]
    # Of objects over several lines, lines tell nothing.
    spread = kind == "jsonl" and first != begins and not first.rstrip().endswith(b"}")
    if spread or begins.startswith(b"[") or (goes_on and unpacked):
        return None
    # A line break within quotes ends no row of CSV.
    parts = head.split(b'"')[::2] if kind == "csv" else [head]
    lines = sum(part.count(b"\n") for part in parts)
    if goes_on:
        lines = round(lines * path.stat().st_size / len(head))
    else:
        lines += not head.endswith(b"\n") and head != b""
    return lines - (kind == "csv")


def data_files(folder: Path) -> tuple[Path, ...]:
    """Return the data files of a folder in the order of their names, all of one kind.

    Those of its sub-folders count where it has none itself; hidden files never do, nor what the
    library datasets writes beside its own.

    Raises
    ------
    DataError
        There is none, or they are of several kinds.
    """
    files: list[Path] = []
    for listed in (folder.iterdir(), folder.rglob("*")):
        files = sorted(p for p in listed if suffix_of(p) in SUFFIXES and p.is_file())
        hidden = (".", "_", _OPENED)
        files = [p for p in files if not p.relative_to(folder).as_posix().startswith(hidden)]
        files = [p for p in files if p.name not in _OF_DATASETS]
        if files:
            break
    kinds = Counter(SUFFIXES[suffix_of(path)] for path in files)
    if len(kinds) > 1:
        raise DataError.on("folder_of_formats", folder=folder, listed=_listed(files))
    if not files:
        there, named = _listed(sorted(folder.iterdir())), ", ".join(SUFFIXES)
        raise DataError.on("folder_without_data", folder=folder, there=there, named=named)
    return tuple(files)


def _listed(files: Sequence[Path]) -> str:
    rest = f" and {len(files) - 10} more" if len(files) > 10 else ""
    return (", ".join(path.name for path in files[:10]) or "nothing") + rest


#: What stands beside the files that the library datasets saves.
_OF_DATASETS: Final = ("state.json", "dataset_info.json", "dataset_dict.json")
#: How the file begins that Excel keeps beside a workbook for as long as it is open.
_OPENED: Final = "~$"


def is_pattern(path: Path) -> bool:
    """Say whether a name stands for all files that fit it."""
    return bool(re.search(r"[*?\[]", str(path))) and not path.exists()


def fitting_files(pattern: Path) -> list[Path]:
    """Return the files that fit a pattern such as ``runs/**/*.jsonl``, or else folders, sorted.

    Raises
    ------
    DataError
        None does.
    """
    fitting = sorted(map(Path, glob(str(pattern), recursive=True)))
    fitting = [path for path in fitting if not path.name.startswith(_OPENED)]
    if not fitting:
        raise DataError(f"no file fits the pattern {pattern}")
    return [path for path in fitting if path.is_file()] or fitting


#: Copies of what came in through pipes, by the pipe, since data is read more than once.
_COPIES: Final[dict[object, Path]] = {}


def unpiped(path: Path) -> Path:
    """Return a path as it is; of a pipe and of standard input a file with what came in through it.

    That is read once, until more is written into it, and the file removed when the process ends.
    """
    standard = str(path) == STANDARD_INPUT
    if standard and (sys.stdin is None or sys.stdin.isatty()):
        raise DataError("- stands for standard input, and nothing is piped into it")
    if not standard and not path.is_fifo():
        return path
    if (pipe := sys.stdin if standard else _state(path)) not in _COPIES:
        opened = nullcontext(sys.stdin.buffer) if standard else path.open("rb")
        with opened as stream, tempfile.NamedTemporaryFile(prefix="stdin_", delete=False) as file:
            shutil.copyfileobj(stream, file)
        pipe = sys.stdin if standard else _state(path)
        _COPIES[pipe] = Path(file.name)
        atexit.register(_COPIES[pipe].unlink, missing_ok=True)
    return _COPIES[pipe]


def _state(pipe: Path) -> tuple[int, ...]:
    """Return what tells a pipe from another one, and from itself once more is written into it."""
    return (*pipe.stat()[1:3], pipe.stat().st_mtime_ns)


#: Bytes that may stand before anything else.
BOM: Final = b"\xef\xbb\xbf"

#: So much of a file is looked at to find out how its rows are wrapped.
_HEAD: Final = 1 << 16
#: A whole string, or what opens, closes and parts; a quote alone begins a string that goes on.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\],]', re.DOTALL)

_OF_LINES: Final = (".jsonl", ".ndjson")

#: Names of a list of rows, wherever it stands in the one object; and of lists within a row.
_LISTS, _FIELDS = (frozenset(NAMES["lists"][kind].split()) for kind in ("rows", "of_a_row"))


class RowList(NamedTuple):
    """A list of rows: where its ``[`` stands, the names in its first object.

    ``columns`` is where the names of the columns start, where the rows are lists of cells.
    """

    starts: int
    names: tuple[str, ...] = ()
    columns: int | None = None


class _Scanned(NamedTuple):
    """The names in a file's one object, its lists of objects, and where its lists of lists start.

    A list within an object within it goes by both names, with a point between them.
    """

    names: list[str]
    lists: dict[str, RowList]
    tables: dict[str, int]


def find_list(path: Path, name: str | None = None) -> RowList | None:
    """Return the list that holds a file's rows, or None where lines hold them.

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
        Several lists may be meant, or there is none of that name.
    """
    head = _head(path)
    text = head.lstrip()
    lines = suffix_of(path) in _OF_LINES
    lists: dict[str, RowList] = {}
    if text.startswith(b"[") and name is None:
        return None if lines else RowList(len(head) - len(text))
    if text.startswith(b"{"):
        first, _, rest = text.partition(b"\n")
        if not (rest.strip() and (lines or _load(first) is not None)):
            status = path.stat()
            lists = _wrapped(_scanned(path, status.st_mtime_ns, status.st_size), lines)
    if name is not None:
        if name not in lists:
            held = ", ".join(lists) or "none"
            raise DataError.on("no_list_of_rows", path=path, name=name, held=held)
        return lists[name]
    for likely in (_exported, _of_answers):
        if len(lists) > 1:
            lists = {key: item for key, item in lists.items() if likely(item.names)} or lists
    if len(lists) > 1:
        option = spell_option(ReadOptions, "options", {"list": next(iter(lists))})
        raise DataError.on("several_lists", path=path, lists=", ".join(lists), by=option)
    return next(iter(lists.values()), None)


def _head(path: Path) -> bytes:
    """Return the beginning of a file; of objects on lines, at least the whole first one."""
    with open_bytes(path) as stream:
        head = stream.read(_HEAD).removeprefix(BOM)
        if head.lstrip().startswith(b"{"):
            line = stream.readline(ROW_LIMIT)
            if (rest := stream.read(_HEAD)).strip():
                head += line + rest
    return head


def _whole(path: Path) -> bytes:
    with open_bytes(path) as stream:
        return stream.read().removeprefix(BOM)


def _wrapped(scanned: _Scanned, lines: bool) -> dict[str, RowList]:
    """Return the lists within a file's one object that may be its rows.

    An object that is itself a row has lists, too, such as its contexts.
    """
    names, lists, tables = scanned
    if not lines and tables.keys() == {"columns", "data"}:
        return {"data": RowList(tables["data"], columns=tables["columns"])}
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


def _of_answers(names: Sequence[str]) -> bool:
    return any(aliases_of(field, names) for field in ("response", "label"))


@lru_cache(maxsize=64)
def _scanned(path: Path, *version: int) -> _Scanned:
    """Return what this version of a file holds in its first object, without parsing all of it."""
    found = _Scanned([], {}, {})
    # What is open, and the names that lead to where we are.
    marks: list[int] = []
    keys: list[str] = []
    starts = 0
    # What may come: a name in the object, the first element of a list; where that element is.
    expects_name = expects_first = False
    element: int | None = None
    buffer = _whole(path)
    for token in _TOKEN.finditer(buffer):
        at, mark = token.start(), buffer[token.start()]
        if len(marks) > DEPTH or len(found.names) > MOST_COLUMNS:
            break
        if mark == 0x22:
            if token.end() - at == 1:
                break
            if expects_name:
                keys[len(marks) - 1 :] = [str(_load(token.group()))]
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
            expects_first = mark == 0x5B and len(keys) == len(marks) and _holds_names(marks)
            marks.append(mark)
            expects_name = _holds_names(marks)
            starts = at if expects_first else starts
        elif mark == 0x2C:
            expects_name = _holds_names(marks)
        elif marks:
            marks.pop()
            if element is not None and len(marks) == len(keys) + 1:
                inner = _load(buffer[element : token.end()])
                names = tuple(inner) if isinstance(inner, dict) else ()
                found.lists[".".join(keys)] = RowList(starts, names)
                element = None
            if not marks:
                break
            expects_first = False
    return found


def _holds_names(marks: Sequence[int]) -> bool:
    """Say whether we are in the one object, or in an object within it."""
    return 0 < len(marks) <= 2 and 0x5B not in marks


def _load(raw: bytes) -> object:
    """Return what JSON spells; None of anything else."""
    with suppress(ValueError):
        return load_json(raw.decode("utf-8", "replace"))
    return None


def json_rows(path: Path, list: object = None) -> Iterator[TableItem]:
    r"""Yield the objects of a file of JSON lines, or of one JSON list.

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
        The file cannot be opened; or it holds several lists of rows, or none of that name.
    """
    found = find_list(path, None if list is None else str(list))
    if found is not None:
        buffer = _whole(path)
        rows = filter(None, map(bytes.strip, _elements(buffer, found.starts)))
        parse = parse_object
        if found.columns is not None:
            names = [str(json.loads(name)) for name in _elements(buffer, found.columns)]
            parse = partial(_parse_cells, names)
        yield from starmap(parse, enumerate(rows, start=1))
        return
    first, _, rest = _head(path).lstrip().partition(b"\n")
    # Of objects that stand over several lines, as pretty printers write them, a line that was cut
    # off after its brace is told by the other object below it.
    if first.strip() == b"{" and rest.lstrip().startswith(b'"'):
        yield from _unfolded(starmap(parse_object, enumerate(_objects(_whole(path)), start=1)))
    else:
        yield from _unfolded(_lines(path))


def _unfolded(rows: Iterator[TableItem]) -> Iterator[TableItem]:
    """Yield rows; those of a frame in one object, by column as pandas writes it, or by index."""
    first = list(islice(rows, 1))
    whole = next((it.values for it in first if isinstance(it, SourceRow) and it.number == 1), {})
    held = [part for part in whole.values() if isinstance(part, dict)]
    keys: Iterable[str] = held[0].keys() if held and len(held) == len(whole) else ()
    alike = bool(keys) and all(part.keys() == keys for part in held)
    found: list[dict[str, Any]] = []
    if alike and all(map(str.isdecimal, keys)):
        found = [{name: part[key] for name, part in zip(whole, held, strict=True)} for key in keys]
    elif alike and all(map(str.isdecimal, whole)):
        found = held
    yield from starmap(SourceRow, enumerate(found, start=1))
    yield from rows if found else chain(first, rows)


def _lines(path: Path) -> Iterator[TableItem]:
    n_empty = 0
    with open_bytes(path) as stream:
        for number, line in enumerate(_bounded_lines(stream), start=1):
            line = line if number > 1 else line.removeprefix(BOM)
            if line.isspace() or not line:
                n_empty = one_more_empty(path, n_empty, number)
            else:
                yield parse_object(number, line)


def one_more_empty(path: Path, n_empty: int, number: int) -> int:
    """Count line ``number``, which holds nothing; refuse a file that has too many of them."""
    if n_empty >= MOST_EMPTY and 3 * n_empty >= 2 * number:
        raise DataError.on("too_many_empty", path=path, most=MOST_EMPTY)
    return n_empty + 1


def refuse_unpacked(path: Path, n_bytes: int, size: int) -> None:
    """Refuse a file of so many bytes that unpacks to more than one of its size should."""
    if n_bytes > max(SMALL, MOST_RATIO * size):
        raise DataError.on("unpacks_to_too_much", path=path, most=MOST_RATIO)


def _bounded_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines; of one that is longer than `ROW_LIMIT` only what shows that."""
    while line := stream.readline(ROW_LIMIT + 1):
        rest = line
        while len(rest) > ROW_LIMIT and not rest.endswith(b"\n"):
            rest = stream.readline(ROW_LIMIT + 1)
        yield line


def parse_object(number: int, raw: bytes) -> TableItem:
    """Return the JSON object in ``raw`` as row ``number``, or what is wrong with it."""
    if len(raw) > ROW_LIMIT + raw.endswith(b"\n"):
        begins, most = raw[:40].decode("utf-8", "replace"), f"over {ROW_LIMIT:,} bytes"
        return RowProblem(number, WHOLE_ROW, "row too long", begins, most, SHORTER)
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
    if len(value) > MOST_COLUMNS:
        return RowProblem(number, WHOLE_ROW, "too many fields", "", f"{len(value):,}", SHORTER)
    return SourceRow(number, value)


def _parse_cells(names: Sequence[str], number: int, raw: bytes) -> TableItem:
    """Return the row of a frame, a list of as many values as there are columns."""
    made = parse_object(number, b'{"row": ' + raw + b"}")
    if isinstance(made, RowProblem):
        return made
    cells = made.values["row"]
    if not isinstance(cells, list) or len(cells) != len(names):
        remedy = "give every row a value for each column"
        return RowProblem(number, WHOLE_ROW, "wrong number of cells", shorten(cells), "", remedy)
    return SourceRow(number, dict(zip(names, cells, strict=True)))


SHORTER: Final = "write one answer on each line, without what is no part of it"
_WITHIN: Final = "leave that field out, or write it once, as a text"
_ONE_OBJECT: Final = "write one JSON object on each line"


def _elements(buffer: bytes, begin: int) -> Iterator[bytes]:
    """Yield the elements of the JSON array that begins there, cut at its commas, not parsed.

    What stands behind a file's one array is an element, too.
    """
    wrapped, depth = buffer[:begin].strip(), 0
    for token in _TOKEN.finditer(buffer, begin):
        mark = token.group()
        if mark == b'"':
            break
        if mark in (b"[", b"{"):
            depth += 1
            begin = token.end() if depth == 1 else begin
        elif mark in (b"]", b"}") or (mark == b"," and depth == 1):
            depth -= mark != b","
            if mark == b"," or depth == 0:
                yield buffer[begin : token.start()]
                begin = token.end()
            if depth == 0:
                if not wrapped:
                    yield buffer[begin:]
                return
    yield buffer[begin:]


def _objects(buffer: bytes) -> Iterator[bytes]:
    """Yield the objects of a file that stand over several lines each, one after the other."""
    depth = begin = 0
    for token in _TOKEN.finditer(buffer):
        mark = token.group()
        if mark == b'"':
            break
        if mark in (b"[", b"{"):
            depth += 1
        elif mark in (b"]", b"}"):
            depth -= 1
            if depth <= 0:
                yield buffer[begin : token.end()].strip()
                begin, depth = token.end(), 0
    if rest := buffer[begin:].strip():
        yield rest
