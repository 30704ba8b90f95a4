"""Files of JSON lines that hold draws and labels, durable line by line.

The files are the record itself, and no database stands behind them: each is checked against the
others by file and line, and people read, compare and restore them by hand.
"""

import json
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from calibrail.atomic_files import write_atomically
from calibrail.errors import DataError, InputError, file_errors

try:
    import fcntl
except ImportError:  # Windows: one process at a time in a folder
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class StoredLine:
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

    def read_on(self) -> list[StoredLine] | None:
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
        raw = b"".join(json_line(line) for line in lines)
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

    def _line(self, raw: bytes) -> StoredLine | None:
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
        return StoredLine(self._number, content)

    def _refuse(self, why: str, error: Exception | None = None) -> None:
        if self._problems is None:
            raise DataError(why) from error
        self._problems.append(why)


def json_line(line: Mapping[str, Any]) -> bytes:
    """Return a line of a file of JSON lines; infinite numbers as Python spells them."""
    text = json.dumps(line, ensure_ascii=False, separators=(", ", ": "))
    return text.encode("utf-8", "surrogatepass") + b"\n"


class Lock:
    """One writer at a time in a folder, among threads and processes.

    On Windows only among threads: one process at a time may write there.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._threads = path, threading.RLock()
        self._stream: IO[bytes] | None = None
        self._depth = 0

    @contextmanager
    def __call__(self, busy: str | None = None) -> Iterator[None]:
        """Wait until nobody else is writing, and keep others waiting within the block.

        Raises
        ------
        DataError
            The lock cannot be written; or another process holds it, and ``busy`` says what then
            is told in place of waiting.
        """
        with self._threads:
            if self._depth == 0 and fcntl is not None:
                with file_errors(f"cannot write into {self._path.parent}", "; name another folder"):
                    self._stream = self._path.open("ab")
                    try:
                        fcntl.flock(self._stream, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
                    except BlockingIOError as error:
                        self._stream.close()
                        raise DataError(str(busy)) from error
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0 and self._stream is not None:
                    self._stream.close()
                    self._stream = None


#: Fields of a draw that stand in its line only where they say something.
_OPTIONAL: Final = (
    "column",
    "chain",
    "seq",
    "time",
    "batch",
    "share",
    "log_group",
    "log_language",
    "question",
)

#: A piece of a response: where it begins and ends, in characters from 0, and its text.
Span: TypeAlias = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Draw:
    """A line of ``draws.jsonl``: one answer drawn.

    Attributes
    ----------
    order : int
        1, 2, ... as drawn.
    unit : int
        1, 2, ...: answers of one group that were drawn together have the same number.
    of : int
        Answers of the unit.
    id, group, digest
        Of the answer.
    probability : float
        With which it was to be handed out.
    handed_out : bool
        Whether the lot fell so.
    score, flagged : float and bool, or None
        What the guardrail says, where one is certified; the score is None where it is undefined.
    guess : float or None
        P(hallucinated) as guessed before the label.
    column : float or None
        What the column of guesses holds.
    plan : str
        Digest of what was agreed on before the first label.
    chain, seq : str and int, or None
        Of an answer drawn from a decision log: its line there; ``digest`` is that of the line.
    time : str or None
        When the line was logged.
    batch : int or None
        1, 2, ...: the call that drew it.
    share : float or None
        Of the lines that the call found, how many it drew.
    log_group : str or None
        Group of the answer, where the guardrail has thresholds by group.
    log_language : str or None
        Language of the answer, where it is known.
    question : str or None
        Digest of the words of its question and chunks, where these were known when it was drawn.
    """

    order: int
    unit: int
    of: int
    id: str
    group: str | None
    digest: str
    probability: float
    handed_out: bool
    score: float | None = None
    flagged: bool | None = None
    guess: float | None = None
    column: float | None = None
    plan: str = ""
    chain: str | None = None
    seq: int | None = None
    time: str | None = None
    batch: int | None = None
    share: float | None = None
    log_group: str | None = None
    log_language: str | None = None
    question: str | None = None

    @property
    def alias(self) -> str:
        """What stands for the id before an annotator, whom an id may tell the label."""
        return f"no{self.order}-{self.digest[:8]}"

    def to_dict(self, *, certify: bool) -> dict[str, Any]:
        """Return the line."""
        left_out = set() if certify else {"score", "flagged", "guess"}
        left_out |= {name for name in _OPTIONAL if getattr(self, name) is None}
        return {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name not in left_out
        }


@dataclass(frozen=True, slots=True)
class Label:
    """A line of ``labels.jsonl``: what one person said of one answer.

    Attributes
    ----------
    id, order, probability
        Of the answer drawn.
    label : {0, 1, None}
        1 hallucinated, 0 faithful, None if that cannot be told.
    annotator : str
        Who says so.
    time : str
        When, in UTC.
    spans : tuple of (int, int, str)
        What nothing supports.
    evidence : bool
        Whether help was asked for.
    settles : bool
        Whether it settles a disagreement.
    """

    id: str
    label: int | None
    annotator: str
    time: str
    probability: float
    order: int
    spans: tuple[Span, ...] = ()
    evidence: bool = False
    settles: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the line; what is optional only where it says something."""
        optional = ("spans", "evidence", "settles")
        content = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in optional or getattr(self, name)
        }
        if self.spans:
            content["spans"] = [list(span) for span in self.spans]
        return content


def parse_draw(line: StoredLine, path: Path, order: int) -> Draw:
    """Return the draw in a line that must be the next one.

    Raises
    ------
    DataError
        A field is missing or is not what it should be.
    """
    content = _known(line, path, Draw)
    if content["order"] != order:
        raise _wrong(line, path, "order", content["order"], f"must be {order}: no line may be lost")
    share = content["probability"]
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 < share <= 1.0:
        raise _wrong(line, path, "probability", share, "must lie in (0, 1]")
    return Draw(**content)


def parse_label(line: StoredLine, path: Path) -> Label:
    """Return the label in a line.

    Raises
    ------
    DataError
        A field is missing or is not what it should be.
    """
    content = _known(line, path, Label)
    value = content["label"]
    if isinstance(value, bool) or value not in (0, 1, None):
        raise _wrong(line, path, "label", value, "must be 1, 0 or null")
    if not isinstance(content["annotator"], str) or not content["annotator"].strip():
        raise _wrong(line, path, "annotator", content["annotator"], "must name who labelled")
    if isinstance(content["order"], bool) or not isinstance(content["order"], int):
        raise _wrong(line, path, "order", content["order"], "must be a whole number")
    spans = content.pop("spans", [])
    if not isinstance(spans, list) or not all(map(_is_span, spans)):
        raise _wrong(line, path, "spans", spans, "must be a list of [begin, end, text]")
    return Label(**content, spans=tuple((span[0], span[1], span[2]) for span in spans))


def _known(line: StoredLine, path: Path, kind: type[Draw] | type[Label]) -> dict[str, Any]:
    """Return the fields of a kind of line; others may stand there, too."""
    known = kind.__dataclass_fields__
    content = {name: value for name, value in line.content.items() if name in known}
    required = [name for name, item in known.items() if item.default is MISSING]
    if missing := [name for name in required if name not in content]:
        raise DataError(
            f"{path}, line {line.number} has no {missing[0]}; restore the line, or take it out"
        )
    return content


def checked_spans(spans: Sequence[Span], response: str) -> tuple[Span, ...]:
    """Return spans, each of which says what stands there in the response.

    They come in order; those that overlap or touch are one.

    Raises
    ------
    InputError
        One does not; it is named.
    """
    checked = []
    for span in spans:
        try:
            start, stop, text = span
        except (TypeError, ValueError) as error:
            raise InputError(f"a span is (begin, end, text); got {span!r:.80}") from error
        if not (isinstance(start, int) and isinstance(stop, int) and 0 <= start < stop):
            raise InputError(f"a span must begin before it ends; got {span!r:.80}")
        if response[start:stop] != text:
            raise InputError(
                f"the span from {start} to {stop} must hold the text of the response there, "
                f"{response[start:stop]!r:.60}; got {text!r:.60}"
            )
        checked.append((start, stop))
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(checked):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple((start, stop, response[start:stop]) for start, stop in merged)


def _is_span(value: object) -> bool:
    if not isinstance(value, list) or [type(item) for item in value] != [int, int, str]:
        return False
    return bool(0 <= value[0] < value[1])


def _wrong(line: StoredLine, path: Path, field: str, value: object, remedy: str) -> DataError:
    return DataError(f"{path}, line {line.number}: {field} {remedy}; got {value!r:.80}")
