"""How does a watch read a log on, and what does it keep on the way?"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calibrail.errors import DataError, InputError, file_errors
from calibrail.guardrail.decision_log.cursor import Cursor, Tally
from calibrail.guardrail.decision_log.tail import LogSource, read_on
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.monitoring.monitor import Monitor
from calibrail.monitoring.rows import Rows
from calibrail.monitoring.status import log_status, status
from calibrail.settings.watch import WatchOptions
from calibrail.workflow.alarm_texts import AlarmTexts
from calibrail.workflow.watch import STATE, Watch
from calibrail.workflow.watch_file import WatchFile
from calibrail.workflow.watch_labels import WatchLabels
from calibrail.workflow.watched_lines import none_used, rows_of, usable

#: Seconds between two looks at a log that grows, two times that the status is written while it
#: does, two times that the page is, and two times that a long log is saved on the way.
_LOOK: Final = 1.0
_STATUS: Final = 5.0
_PAGE: Final = 60.0
_ON_THE_WAY: Final = 30.0

_LOCK: Final = ".lock"


@dataclass(frozen=True, slots=True)
class Watched:
    """What is watched.

    Attributes
    ----------
    config : FrozenConfig
        The guardrail.
    sources : tuple of Path or "-"
        Its log.
    names : tuple of str
        How the guardrail's file and the log are called in commands.
    """

    config: FrozenConfig
    sources: tuple[LogSource, ...]
    names: tuple[str, ...]


class Watching:
    """A watch that goes on from what its folder holds.

    Parameters
    ----------
    watched : Watched
        The guardrail and its log.
    options : WatchOptions
        How it is watched.
    labels : WatchLabels
        What people say of the answers that were drawn.
    reference : tuple of Path or "-", optional
        A log of its own that the traffic is compared with.
    folder : Path, optional
        Where the watch is kept; None keeps nothing.

    Raises
    ------
    InputError
        The folder holds another watch.
    DataError
        The folder is damaged, or the reference cannot be used.
    """

    def __init__(
        self,
        watched: Watched,
        options: WatchOptions,
        labels: WatchLabels,
        reference: tuple[LogSource, ...] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._watched, self._options, self._labels, self._folder = watched, options, labels, folder
        self._texts = AlarmTexts(watched.sources)
        asked = {
            **options.to_dict(),
            **labels.limits,
            "reference_log": None if reference is None else [str(item) for item in reference],
        }
        digest = watched.config.digest
        found = None
        if folder is not None:
            found = WatchFile.read(folder / STATE, watched.config, asked)
        if found is None:
            tally = Tally()
            rows = None if reference is None else _read_rows(watched.config, reference, tally)
            monitor = Monitor(watched.config, options, reference=rows)
            # What was wrong with the reference is wrong with the watch.
            named = Tally(found=tally.found, findings=tally.findings)
            found = WatchFile(digest, asked, monitor, tally=named)
        if folder is not None:
            found.refuse_other_labels(folder / STATE, labels.digest)
        self._file = found

    @property
    def n_lines(self) -> int:
        """How many lines of the log were read so far."""
        return self._file.tally.lines

    def read(self, patience: float | None = None) -> Iterator[int]:
        """Take up what stands in the log by now, in blocks; yield how many rows each one had."""
        config, file = self._watched.config, self._file
        for block in read_on(self._watched.sources, file.cursor, file.tally, patience=patience):
            lines = usable(block, config, file.tally)
            if lines:
                file.monitor.update(rows_of(lines))
                known = [line.time for line in lines if line.moment == line.moment and line.time]
                ends = [item for item in (file.first, file.last) if item is not None] + known
                if ends:
                    file.first, file.last = min(ends), max(ends)
            yield len(lines)

    def read_all(self) -> None:
        """Take up all that stands in the log; a long one is saved on the way.

        Raises
        ------
        DataError
            No line there can be used.
        """
        saved = time.monotonic()
        for _ in self.read():
            if self._folder is not None and time.monotonic() - saved > _ON_THE_WAY:
                self._save_state(self._folder)
                saved = time.monotonic()
        if (why := none_used(self._file.tally, self._watched.config)) is not None:
            raise DataError(why)

    def follow(self, stop: threading.Event) -> Watch:
        """Take up what comes until told to stop, or until standard input ends; write as it goes.

        The status is written every few seconds while anything comes, the page every minute.
        """
        if self._folder is None:
            raise InputError("a watch that goes on needs a folder to write into")
        written = _Written(self._folder)
        ends = all(source == "-" for source in self._watched.sources)
        over = False
        while not over:
            for n in self.read(patience=_LOOK):
                written.fresh = written.fresh or n > 0
                if stop.is_set():
                    break
                # Standard input must be read on: what waits in its buffer would be lost.
                if written.due():
                    written.write(self.result())
            written.fresh = self._new_labels() or written.fresh
            over = ends or stop.is_set() or stop.wait(_LOOK)
            if not over and written.due():
                written.write(self.result())
        watch = self.result()
        watch.save(self._folder)
        return watch

    def result(self) -> Watch:
        """Return what the watch says now."""
        file, watched = self._file, self._watched
        self._labels.keep_read(file.cursor, watched.sources)
        traffic = dict(file.monitor.traffic())
        traffic["alarms"] = self._texts.fill(traffic["alarms"])
        timeline = file.monitor.timeline()
        promise = self._labels.promise(self._options, file.decided)
        file.decided = promise["decided"] if promise["state"] == "broken" else None
        if promise["n_labels"]:
            file.labels = self._labels.digest or file.labels
        content = status(
            watched.config.digest,
            {"name": watched.config.score.name, "params": watched.config.score.params},
            self._options,
            log_status(file.tally, file.cursor, file.first, file.last),
            traffic,
            timeline,
            promise,
            self._labels.prevalence(self._options, timeline),
            self._labels.status(),
        )
        folder = self._labels.folder
        return Watch(
            content, file.to_bytes(), watched.names, None if folder is None else str(folder)
        )

    def _new_labels(self) -> bool:
        """Take up labels that came meanwhile; return whether there may be any."""
        if not self._labels.changed():
            return False
        if self._folder is not None:
            try:
                self._file.refuse_other_labels(self._folder / STATE, self._labels.digest)
            except InputError as error:
                self._labels.refuse(error)
        return True

    def _save_state(self, folder: Path) -> None:
        Watch.save_state(self._file.to_bytes(), folder)


class _Written:
    """When a watch was last written into its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._status, self._page = folder, -_PAGE, -_PAGE
        self.fresh = True

    def due(self) -> bool:
        """Whether there is something new, and it was not written just now."""
        return self.fresh and time.monotonic() - self._status > _STATUS

    def write(self, watch: Watch) -> None:
        page = time.monotonic() - self._page > _PAGE
        watch.save(self._folder, page=page)
        self._status = time.monotonic()
        self._page = self._status if page else self._page
        self.fresh = False


def _read_rows(config: FrozenConfig, sources: Sequence[LogSource], tally: Tally) -> Rows:
    """Return all decisions of a guardrail in a log that serves as the reference."""
    lines = [
        line for block in read_on(sources, Cursor(), tally) for line in usable(block, config, tally)
    ]
    if not lines:
        raise DataError(
            f"the reference {', '.join(map(str, sources))} holds no decision of this guardrail; "
            "name a log of it, or leave it out"
        )
    return rows_of(lines)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let one process at a time write a watch into a folder, where the system has locks.

    Raises
    ------
    DataError
        Another one does, or the folder cannot be written.
    """
    missing = [item for item in (folder, *folder.parents) if not item.exists()]
    with file_errors(f"cannot write into {folder}", "; name another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DataError(
                    f"another process keeps its watch in {folder}; end it, or name another folder"
                ) from error
        yield
    except BaseException:
        # Where nothing was written, nothing is left behind.
        if missing and [item.name for item in folder.iterdir()] == [_LOCK]:
            with suppress(OSError):
                (folder / _LOCK).unlink()
                for item in missing:
                    item.rmdir()
        raise
    finally:
        os.close(handle)
