"""Files, folders, compression, counting rows."""

import atexit
import gzip
import io
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

from calibrail.errors import DataError, error_text, file_errors

#: The name that stands for standard input.
STANDARD_INPUT: Final = "-"

#: Suffix to the kind of table.
SUFFIXES: Final = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}

#: Suffixes that say how a file is compressed; its beginning decides.
_SQUEEZED: Final = (".gz", ".zst", ".zstd")

#: What parts the cells of CSV.
DELIMITERS: Final = (",", ";", "\t", "|")

#: Bytes of a file whose lines are counted one by one.
COUNTED: Final = 4 << 20

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"

#: Byte order marks of encodings that are read as UTF-8 is; the longer ones first.
_MARKS: Final = {
    **dict.fromkeys((b"\xff\xfe\0\0", b"\0\0\xfe\xff"), "utf-32"),
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "utf-16"),
}

#: How files begin that are compressed otherwise, which is not read.
_COMPRESSED: Final = {
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "zip (an Excel workbook, or an archive)",
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
        with path.open("rb") as stream:
            head = stream.read(64)
        # Of a file that nothing was read of yet, the whole is read without a copy.
        stream = path.open("rb")
    for begins, kind in _COMPRESSED.items():
        if head.startswith(begins):
            stream.close()
            raise DataError(error_text("compressed", path=path, kind=kind))
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
        remedy = "; unpack it, and name the file that comes of it"
        with file_errors(f"cannot unpack {path}", remedy):
            unpacked = open_files.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(stream, unpacked, 1 << 20)
        yield unpacked


class _Unpacked(io.RawIOBase):
    """The uncompressed bytes of a file, whose damage is an error that names it."""

    def __init__(self, path: Path, stream: IO[bytes], head: bytes) -> None:
        self._path, self._stream = path, stream
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
        try:
            raw = self._inner.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"{self._path} is damaged: {error}; compress or download it again"
            ) from error
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
        raw = self._rest or self._inner.read(1 << 13).encode("utf-8", "surrogateescape")
        n = min(len(raw), len(buffer))
        buffer[:n], self._rest = raw[:n], raw[n:]
        return n


def table_kind(path: Path) -> str:
    """Return the kind of table that a file's name or else its beginning shows, or "".

    A name without a known suffix is read as Parquet, JSON or CSV if it begins like that.
    """
    if kind := SUFFIXES.get(suffix_of(path), ""):
        return kind
    with open_bytes(path) as stream:
        head = stream.read(4096)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"PAR1"):
        return "parquet"
    if text.startswith((b"{", b"[")):
        return "jsonl"
    first = text.partition(b"\n")[0]
    return "csv" if any(mark.encode() in first for mark in DELIMITERS) else ""


def count_rows(paths: Sequence[Path]) -> int | None:
    """Return about how many rows files hold, by their lines or what Parquet says of itself.

    Exact for Parquet, and for files of up to `COUNTED` bytes; what is larger is taken to go on as
    it begins. None where it cannot be told at once: one JSON value over several lines, or a large
    file that is compressed.
    """
    total = 0
    for path in paths:
        try:
            kind = table_kind(path)
            if kind == "parquet":
                import pyarrow.parquet as pq

                total += pq.read_metadata(path).num_rows
                continue
            rows = _count_lines(path, kind) if kind in ("jsonl", "csv") else None
        except (OSError, ValueError, DataError):
            return None
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

    Those of its sub-folders count where it has none itself; hidden files never do.

    Raises
    ------
    DataError
        There is none, or they are of several kinds.
    """
    files: list[Path] = []
    for listed in (folder.iterdir(), folder.rglob("*")):
        files = sorted(p for p in listed if suffix_of(p) in SUFFIXES and p.is_file())
        files = [p for p in files if not p.relative_to(folder).as_posix().startswith((".", "_"))]
        if files:
            break
    kinds = Counter(SUFFIXES[suffix_of(path)] for path in files)
    if len(kinds) > 1:
        raise DataError(
            f"the folder {folder} holds files of several formats; name the files to read, one or "
            f"several: {_listed(files)}"
        )
    if not files:
        raise DataError(
            f"the folder {folder} holds no data file; it holds "
            f"{_listed(sorted(folder.iterdir()))}, and files named {', '.join(SUFFIXES)} are read, "
            "with .gz or .zst behind that or without"
        )
    return tuple(files)


def _listed(files: Sequence[Path]) -> str:
    rest = f" and {len(files) - 10} more" if len(files) > 10 else ""
    return (", ".join(path.name for path in files[:10]) or "nothing") + rest


def file_labels(files: Sequence[Path]) -> tuple[str, ...]:
    """Return a name for each of several files: its own, or the whole path where two share it."""
    names = Counter(path.name for path in files)
    return tuple(path.name if names[path.name] == 1 else str(path) for path in files)


#: Copies of what came in through standard input, by its stream, since data is read more than once.
_COPIES: Final[dict[object, Path]] = {}


def standard_input() -> Path:
    """Return a file with what came in through standard input; removed when the process ends."""
    if sys.stdin is None or sys.stdin.isatty():
        raise DataError("- stands for standard input, and nothing is piped into it")
    if sys.stdin not in _COPIES:
        with tempfile.NamedTemporaryFile(prefix="standard_input_", delete=False) as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        _COPIES[sys.stdin] = Path(file.name)
        atexit.register(Path(file.name).unlink, missing_ok=True)
    return _COPIES[sys.stdin]
