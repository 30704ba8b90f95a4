"""Files of JSON lines that hold draws and labels, durable line by line.

The files are the record itself, and no database stands behind them: each is checked against the
others by file and line, and people read, compare and restore them by hand.
"""

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from calibrail.atomic_files import write_atomically
from calibrail.errors import DataError, InputError, error_text, file_errors

try:
    import fcntl
except ImportError:  # Windows: one process at a time in a folder
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class StoredLine:
    """One line of a file: its number, from 1, and what it holds."""

    number: int
    content: Mapping[str, Any]


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
        #: Held open: so long no other file can take its place unnoticed, with its number.
        self._held: FileIO | None = None
        self._changed = False
        self.torn: str | None = None

    def read_on(self) -> list[StoredLine] | None:
        """Return what was added since the last call; None where the file was written anew.

        After None the next call returns all lines. After a refused line it returns the same ones.

        Raises
        ------
        DataError
            A line is not JSON; its number is named.
        """
        with file_errors(f"cannot read {self.path}"):
            state = self.path.stat() if self.path.exists() else None
            if self._changed or (
                self._held is not None
                and (
                    state is None
                    or not os.path.samestat(os.fstat(self._held.fileno()), state)
                    or state.st_size < self._end
                )
            ):
                self.forget()
                return None
            if state is None or state.st_size == self._end:
                return []
            self._held = self._held or FileIO(self.path)
            self._held.seek(self._end)
            raw = self._held.readall()
        if rest := raw[raw.rfind(b"\n") + 1 :]:
            raw = self._mend(raw.removesuffix(rest), rest)
        texts = raw.split(b"\n")[:-1]
        lines = [self._line(text, at) for at, text in enumerate(texts, start=self._number + 1)]
        self._end, self._number = self._end + len(raw), self._number + len(texts)
        return [line for line in lines if line is not None]

    def forget(self) -> None:
        """Read from the start next time."""
        self._end = self._number = 0
        self._held, self._changed = None, False

    def distrust(self) -> None:
        """Say next time that the file was written anew, as what was read was not taken in."""
        self._changed = True

    def append(self, lines: Iterable[Mapping[str, Any]], *, durable: bool = True) -> None:
        """Add lines in one piece; everything before must have been read.

        Raises
        ------
        DataError
            The disk is full, or the folder may not be written to. The file is as it was.
        """
        raw = b"".join(map(json_line, lines))
        failed = f"cannot write to {self.path}"
        with file_errors(failed, "; nothing of it was stored: make room, and go on"):
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
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
        self._held, self._changed = None, True
        with file_errors(failed, "; it is as it was: make room, and go on"):
            write_atomically(self.path, raw, durable=True)

    def _mend(self, whole: bytes, rest: bytes) -> bytes:
        """End a last line that lacks its end, or cut it off; return what was added then."""
        with file_errors(f"cannot mend the last line of {self.path}"):
            with suppress(ValueError):
                if isinstance(json.loads(rest), dict):
                    with self.path.open("ab") as stream:
                        stream.write(b"\n")
                    return whole + rest + b"\n"
            self.torn = rest.decode("utf-8", "replace")
            os.truncate(self.path, self._end + len(whole))
        return whole

    def _line(self, raw: bytes, number: int) -> StoredLine | None:
        if not raw.strip():
            return None
        where = f"{self.path}, line {number}"
        try:
            content = json.loads(raw)
            if isinstance(content, dict):
                return StoredLine(number, content)
            why = f"{where} must hold a JSON object; take it out"
        except ValueError as error:
            why = f"{where} is not JSON ({error}); restore the line, or take it out"
        if self._problems is None:
            raise DataError(why)
        self._problems.append(why)
        return None


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
    *("column", "chain", "seq", "time", "batch", "share"),
    *("log_group", "log_language", "question"),
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
        left_out = {name for name in _OPTIONAL if getattr(self, name) is None}
        left_out |= set() if certify else {"score", "flagged", "guess"}
        return {name: value for name, value in asdict(self).items() if name not in left_out}


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
        return {name: v for name, v in asdict(self).items() if v or name not in optional}


def parse_draw(line: StoredLine, path: Path, order: int) -> Draw:
    """Return the draw in a line that must be the next one.

    Raises
    ------
    DataError
        A field is missing or is not what it should be.
    """
    share = line.content.get("probability")
    due = {
        "order": (line.content.get("order") == order, f"must be {order}: no line may be lost"),
        "probability": (_is_share(share), "must lie in (0, 1]"),
    }
    return Draw(**_checked(line, path, Draw, due))


def parse_label(line: StoredLine, path: Path) -> Label:
    """Return the label in a line.

    Raises
    ------
    DataError
        A field is missing or is not what it should be.
    """
    label, annotator, order = (line.content.get(name) for name in ("label", "annotator", "order"))
    spans = line.content.get("spans", [])
    due = {
        "label": (
            not isinstance(label, bool) and label in (0, 1, None),
            "must be 1, 0 or null",
        ),
        "annotator": (
            isinstance(annotator, str) and bool(annotator.strip()),
            "must name who labelled",
        ),
        "order": (type(order) is int, "must be a whole number"),
        "spans": (
            isinstance(spans, list) and all(map(_is_span, spans)),
            "must be a list of [begin, end, text]",
        ),
    }
    content = _checked(line, path, Label, due)
    return Label(**{**content, "spans": tuple(map(tuple, spans))})


def _checked(
    line: StoredLine,
    path: Path,
    kind: type[Draw] | type[Label],
    due: Mapping[str, tuple[bool, str]],
) -> dict[str, Any]:
    """Return the fields of a kind of line; others may stand there, too."""
    known, where = kind.__dataclass_fields__, f"{path}, line {line.number}"
    for name, item in known.items():
        if item.default is MISSING and name not in line.content:
            raise DataError(f"{where} has no {name}; restore the line, or take it out")
    for name, (holds, remedy) in due.items():
        if not holds:
            raise DataError(f"{where}: {name} {remedy}; got {line.content.get(name)!r:.80}")
    return {name: value for name, value in line.content.items() if name in known}


def checked_spans(spans: Iterable[Span], response: str) -> tuple[Span, ...]:
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
            holds = _is_span([start, stop, str(text)])
        except (TypeError, ValueError):
            holds = False
        if not holds:
            raise InputError(error_text("span_shape", span=span))
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


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and value is not True and 0.0 < value <= 1.0
