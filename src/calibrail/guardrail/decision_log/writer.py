"""Appending to a decision log, and beginning its next file."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from calibrail.errors import InputError, LogError
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.decision_log.lines import (
    CLOSED,
    OPENED,
    START,
    chains,
    file_name,
    heads,
    json_fields,
    now,
    seal_line,
    to_utf8,
)
from calibrail.models.hardware import renewed
from calibrail.options import fields as checks
from calibrail.text.words import language_of, languages_known

if TYPE_CHECKING:
    from calibrail.data.example import Example
    from calibrail.guardrail.runtime import Guardrail


@dataclass(frozen=True, slots=True)
class Entry:
    """One decision, as the log takes it.

    Parameters
    ----------
    decision : Decision
        What was decided.
    guardrail : str
        The digest of the guardrail that decided.
    name : str
        Under which name the service has it.
    kind : str
        What was asked: ``check``, or e.g. ``select``. ``opened`` and ``closed`` are the log's own.
    released : bool, optional
        For a selection: whether the answer was released.
    question, response : str
        The texts. Their lengths and language are written; they themselves only where the log keeps
        texts.
    contexts : sequence of str
        Likewise; their number is written.
    group : str, optional
        The answer's group, where the guardrail has thresholds by group; empty for one that the
        guardrail does not know.

    Raises
    ------
    InputError
        If the kind is one of the log's own, or a text is none.
    """

    decision: Decision
    guardrail: str
    name: str = ""
    kind: str = "check"
    released: bool | None = None
    question: str = ""
    contexts: Sequence[str] = ()
    response: str = ""
    group: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind in ("", OPENED, CLOSED):
            raise InputError(
                f"kind must say what was asked, and not be {OPENED!r} or {CLOSED!r}, which are the "
                f"log's own lines; got {self.kind!r:.80}"
            )
        for name in ("question", "response"):
            if not isinstance(text := getattr(self, name), str):
                raise InputError(f"{name} must be a text; got {text!r:.80}")
        if isinstance(self.contexts, str) or not isinstance(self.contexts, Sequence):
            raise InputError(f"contexts must be a list of texts; got {self.contexts!r:.80}")

    @classmethod
    def of(
        cls,
        guardrail: Guardrail,
        example: Example,
        decision: Decision,
        *,
        name: str = "",
        kind: str = "check",
        released: bool | None = None,
    ) -> Self:
        """Return the entry of what a guardrail decided about an answer."""
        grouped = guardrail.rule.groups
        # A name that the guardrail does not know came with the request, and may be any text.
        group = None if grouped is None else grouped.known(guardrail.group_of(example))
        texts = example.question, example.contexts, example.response
        return cls(decision, guardrail.config.digest, name, kind, released, *texts, group)

    def traffic(self) -> dict[str, Any]:
        """Return what is logged of the texts themselves: lengths in characters, and a language.

        All is None where no text came with the decision, as for a score in a column.
        """
        if not (self.question or self.contexts or self.response):
            return dict.fromkeys(("question", "response", "chunks", "language"))
        lengths = {"question": len(self.question), "response": len(self.response)}
        language = language_of(self.response, self.question)
        return {**lengths, "chunks": len(self.contexts), "language": language}


#: What a line's time, its number and its two hashes take at most.
_CHAINED: Final = 280


class DecisionLog:
    """A folder of decisions: appended, never changed, each line chained to the one before it.

    A log belongs to one process, which may write from several threads. Any number of processes may
    share a folder: each writes files of its own. So does a forked child: with its first decision it
    begins a chain of its own.

    Parameters
    ----------
    folder : path
        Made where it is missing.
    sync : bool
        Whether each write is on the disk before `write` returns, so that it survives a power cut.
        Without it a line survives the end of the process, however sudden, but not the machine's.
    texts : bool
        Whether question, contexts and response are kept, what removed sentences say, and the whole
        reason of a decision without a score, which may quote them; see `Decision.without_texts`.
    max_bytes : int
        About how large a file grows before the chain goes on in the next one.

    Raises
    ------
    LogError
        Nothing can be written there.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        sync: bool = False,
        texts: bool = False,
        max_bytes: int = 1 << 26,
    ) -> None:
        self.folder = checks.path(folder, "folder")
        checks.yes_or_no(sync, "sync")
        checks.yes_or_no(texts, "texts")
        self._sync, self._texts = sync, texts
        self._max_bytes = checks.whole(max_bytes, "max_bytes", least=1)
        self._handle, self._closed = -1, False
        self._begin_chain()
        renewed(self)
        with self._disk_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._start_file()
        # The model that tells languages is there before the first decision waits for its line.
        languages_known()

    def _begin_chain(self) -> None:
        self.chain = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._path = self.folder
        self._file = self._size = self._seq = 0
        self._previous, self._moment = START, ""
        self._torn = self._holds_decisions = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as folder and options: it begins a chain of its own there."""
        options: dict[str, Any] = {
            "sync": self._sync,
            "texts": self._texts,
            "max_bytes": self._max_bytes,
        }
        return partial(type(self), **options), (self.folder,)

    def renew_after_fork(self) -> None:
        """Leave the chain to the parent; the child begins its own when it has something to log."""
        if self._handle >= 0 and not self._closed:
            os.close(self._handle)
        self._handle = -1
        self._begin_chain()

    @property
    def texts(self) -> bool:
        """Whether question, contexts and response are kept."""
        return self._texts

    @property
    def head(self) -> tuple[int, str]:
        """Return number and hash of the last line: noted elsewhere, they show a cut-off end."""
        with self._lock:
            return self._seq - 1, self._previous

    def write(self, entries: Sequence[Entry]) -> None:
        """Append decisions: all of them, or none.

        A decision may be given once this has returned, and not before.

        Raises
        ------
        LogError
            They could not be written. What there was before is as it was; a later call may succeed.
        """
        try:
            fields = [self._fields(entry) for entry in entries]
        except ValueError as error:
            raise LogError(f"a decision cannot be logged as JSON: {error}") from error
        with self._lock, self._disk_errors():
            self._append(fields)

    def close(self) -> None:
        """End the log with a line that says so, if there is room; what was written is on the disk.

        Raises
        ------
        LogError
            The disk does not take it.
        """
        with self._lock, self._disk_errors():
            if self._closed or self._handle < 0:
                # A forked child that logged nothing has no file.
                self._closed = True
                return
            try:
                # Where there is no room for it nothing is lost: the end is merely not sure.
                with suppress(OSError):
                    end = {"kind": CLOSED, "others": heads(chains([self.folder]), but=self.chain)}
                    self._append([to_utf8(json_fields(end))], last=True)
                os.fsync(self._handle)
            finally:
                self._closed = True
                os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fields(self, entry: Entry) -> bytes:
        head = {"guardrail": entry.guardrail, "name": entry.name}
        kind = None if entry.kind == "check" else entry.kind
        optional = {"kind": kind, "released": entry.released, "group": entry.group}
        more: dict[str, object] = {k: value for k, value in optional.items() if value is not None}
        more["traffic"] = entry.traffic()
        if self._texts:
            texts = {name: getattr(entry, name) for name in ("question", "contexts", "response")}
            more |= {**texts, "contexts": list(entry.contexts)}
        decision = entry.decision if self._texts else entry.decision.without_texts()
        parts = json_fields(head), decision.line()[1:-1], json_fields(more)
        return to_utf8(", ".join(filter(None, parts)))

    def _append(self, fields: Sequence[bytes], *, last: bool = False) -> None:
        if self._closed:
            raise LogError(f"the decision log in {self.folder} is closed")
        if not fields:
            return
        size = sum(len(item) + _CHAINED for item in fields)
        self._remove_torn_end()
        full = self._size + size > self._max_bytes and self._holds_decisions
        if (full and not last) or not self._is_intact():
            self._start_file()
        seq, previous, moment, lines = self._seq, self._previous, now(), []
        for item in fields:
            line, previous = seal_line(item, seq, previous, moment)
            lines.append(line)
            seq += 1
        raw = b"".join(lines)
        self._torn = True
        try:
            self._write_whole(self._handle, raw)
        except OSError:
            with suppress(OSError):
                self._remove_torn_end()
            raise
        self._torn, self._holds_decisions = False, True
        self._size += len(raw)
        self._seq, self._previous, self._moment = seq, previous, moment

    def _write_whole(self, handle: int, raw: bytes) -> None:
        rest = memoryview(raw)
        while rest:
            rest = rest[os.write(handle, rest) :]
        if self._sync:
            os.fsync(handle)

    def _remove_torn_end(self) -> None:
        """Cut off what a write that failed has left."""
        if self._torn:
            os.ftruncate(self._handle, self._size)
            self._torn = False

    def _is_intact(self) -> bool:
        """Whether the file is where it was and as this process left it.

        Nothing is written to one that was removed, or moved to an archive.
        """
        try:
            state = os.stat(self._path)
        except FileNotFoundError:
            return False
        return state.st_size == self._size and os.path.samestat(state, os.fstat(self._handle))

    def _start_file(self) -> None:
        """Go on in the next file, whose first line records where the other chains end."""
        others, moment = heads(chains([self.folder]), but=self.chain), now()
        # What already has a file's name is left as it is, a link too.
        number = self._file + 1
        while os.path.lexists(path := self.folder / file_name(self.chain, number)):
            number += 1
        content: dict[str, Any] = {"kind": OPENED, "chain": self.chain, "file": number}
        if self._moment:
            content["previous_time"] = self._moment
        content |= {"calibrail": version("calibrail"), "others": others}
        raw, digest = seal_line(to_utf8(json_fields(content)), self._seq, self._previous, moment)
        handle = self._create_file(path, raw)
        if self._handle >= 0:
            os.close(self._handle)
        self._handle, self._path, self._file, self._size = handle, path, number, len(raw)
        self._seq, self._previous, self._moment = self._seq + 1, digest, moment
        self._holds_decisions = False

    def _create_file(self, path: Path, raw: bytes) -> int:
        """Make a file that has its first line from the moment on at which it has its name."""
        made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)
        flags |= getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(made, flags | os.O_CREAT | os.O_EXCL, 0o640)
        try:
            try:
                self._write_whole(handle, raw)
            finally:
                os.close(handle)
            os.rename(made, path)
            made = path
            if self._sync and os.name != "nt":
                # The new file's name survives a power cut, too.
                folder = os.open(self.folder, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
            return os.open(path, flags)
        except BaseException:
            with suppress(OSError):
                made.unlink()
            raise

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LogError(
                f"cannot write to the decision log in {self.folder}: {error.strerror or error}; "
                "make room there, or let this user write there"
            ) from error
