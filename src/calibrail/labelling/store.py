"""How does a line reach the disk, and what is there after a crash?"""

import json
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from calibrail.errors import DataError, file_errors
from calibrail.writing import write_atomically

try:
    import fcntl
except ImportError:  # Windows: one process at a time in a folder
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file: its number, from 1, and what it holds."""

    number: int
    content: Mapping[str, Any]


class _Held:
    """A file held open: so long no other file can take its place unnoticed, with its number."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, self._handle)
        self.state = os.fstat(self._handle)

    def read_from(self, start: int) -> bytes:
        """Return everything from a byte on."""
        os.lseek(self._handle, start, os.SEEK_SET)
        return b"".join(iter(lambda: os.read(self._handle, 1 << 20), b""))


class Log:
    """A file of JSON lines that grows at its end, read as it grows.

    Each line is on the disk when ``append`` returns. A line that a crash has torn is cut off when
    the file is read next. Hold the folder's lock for every call.

    Parameters
    ----------
    path : Path
        May not exist yet.
    problems : list of str, optional
        Takes what is wrong with lines that cannot be read, which are left out then; without it the
        first of them is refused.
    """

    def __init__(self, path: Path, problems: list[str] | None = None) -> None:
        self.path, self._problems = path, problems
        self._end = self._number = 0
        self._held: _Held | None = None
        self._rewritten = False
        self.torn: str | None = None

    def appended(self) -> list[Line] | None:
        """Return what was added since the last call; None where the file was written anew.

        After None the next call returns all lines.

        Raises
        ------
        DataError
            A line is not JSON; its number is named.
        """
        if self._rewritten:
            self.forget()
            return None
        try:
            state = self.path.stat()
        except FileNotFoundError:
            if self._held is None:
                return []
            self.forget()
            return None
        if self._held is not None and (
            not os.path.samestat(self._held.state, state) or state.st_size < self._end
        ):
            self.forget()
            return None
        if state.st_size == self._end:
            return []
        with file_errors(f"cannot read {self.path}"):
            self._held = self._held or _Held(self.path)
            raw = self._held.read_from(self._end)
        whole, _, rest = raw.rpartition(b"\n")
        if rest and self._mend(rest):
            whole = raw
        lines = [self._line(text) for text in whole.split(b"\n")] if whole else []
        self._end = self.path.stat().st_size
        return [line for line in lines if line is not None]

    def forget(self) -> None:
        """Read from the start next time."""
        self._end = self._number = 0
        self._held, self._rewritten = None, False

    def append(self, lines: Iterable[Mapping[str, Any]], *, durable: bool = True) -> None:
        """Add lines in one piece; everything before must have been read.

        Raises
        ------
        DataError
            The disk is full, or the folder may not be written to. The file is as it was.
        """
        raw = b"".join(encoded(line) for line in lines)
        failed = f"cannot write to {self.path}"
        with file_errors(failed, "; nothing of it was stored: make room, and go on"):
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                before = os.fstat(handle).st_size
                try:
                    written = os.write(handle, raw)
                    if written < len(raw):
                        os.write(handle, raw[written:])
                    if durable:
                        os.fsync(handle)
                except BaseException:
                    os.ftruncate(handle, before)
                    raise
            finally:
                os.close(handle)

    def rewrite(self, raw: bytes | Iterable[bytes]) -> None:
        """Write the whole file anew, or leave it as it was."""
        failed = f"cannot write {self.path}"
        # Windows replaces no file that is open.
        self._held, self._rewritten = None, True
        with file_errors(failed, "; it is as it was: make room, and go on"):
            write_atomically(self.path, raw, durable=True)

    def _mend(self, rest: bytes) -> bool:
        """End a last line that lacks its end, or cut it off; return whether it was whole."""
        try:
            whole = isinstance(json.loads(rest), dict)
        except ValueError:
            whole = False
        with file_errors(f"cannot mend the last line of {self.path}"):
            if whole:
                with self.path.open("ab") as stream:
                    stream.write(b"\n")
            else:
                self.torn = rest.decode("utf-8", "replace")
                os.truncate(self.path, self.path.stat().st_size - len(rest))
        return whole

    def _line(self, raw: bytes) -> Line | None:
        self._number += 1
        if not raw.strip():
            return None
        where = f"{self.path}, line {self._number}"
        try:
            content = json.loads(raw)
        except ValueError as error:
            self._refuse(f"{where} is not JSON ({error}); restore the line, or take it out", error)
            return None
        if not isinstance(content, dict):
            self._refuse(f"{where} must hold a JSON object; take it out")
            return None
        return Line(self._number, content)

    def _refuse(self, why: str, error: Exception | None = None) -> None:
        if self._problems is None:
            raise DataError(why) from error
        self._problems.append(why)


def encoded(line: Mapping[str, Any]) -> bytes:
    """Return a line of a file of JSON lines; infinite numbers as Python spells them."""
    text = json.dumps(line, ensure_ascii=False, separators=(", ", ": "))
    return text.encode("utf-8", "surrogatepass") + b"\n"


class Lock:
    """One writer at a time in a folder, among threads and processes.

    On Windows only among threads: one process at a time may label there.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._threads = path, threading.RLock()
        self._stream: IO[bytes] | None = None
        self._depth = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Wait until nobody else is writing, and keep others waiting within the block."""
        with self._threads:
            if self._depth == 0 and fcntl is not None:
                with file_errors(f"cannot write into {self._path.parent}", "; name another folder"):
                    self._stream = self._path.open("ab")
                    fcntl.flock(self._stream, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0 and self._stream is not None:
                    self._stream.close()
                    self._stream = None
