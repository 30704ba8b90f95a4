"""The monitor command: reads a decision log on, and keeps the state of the watch."""

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from threading import Event
from typing import Any, Final, Literal, Self, TypeAlias

from calibrail.atomic_files import read_regular, write_atomically
from calibrail.errors import DataError, InputError, file_errors
from calibrail.formatting import Shown
from calibrail.guardrail.decision_log.lines import (
    files_of,
    first_line,
    parse_line_if_sound,
    place_of,
)
from calibrail.guardrail.decision_log.reader import (
    Cursor,
    LogCounts,
    LogSource,
    log_sources,
    read_on,
)
from calibrail.guardrail.file import FrozenConfig
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.labelling.store import Lock
from calibrail.monitoring.monitor import Monitor, log_status, status
from calibrail.monitoring.rows import Rows
from calibrail.options import Requirement, fields
from calibrail.options.fields import cli_or_python
from calibrail.options.keywords import options_from_keywords
from calibrail.options.runtime import WatchedBy, WatchOptions
from calibrail.pipelines.monitor_inputs import JudgeLabels, WatchLabels, none_used, rows_of, usable
from calibrail.pipelines.run import frozen_config, json_parts, write_figures, write_page
from calibrail.report.documents import monitor as words

#: Files in the folder of a watch, in the order in which they are written.
STATE: Final = "state.json"
STATUS: Final = "status.json"
PAGE: Final = "watch.html"


@dataclass(frozen=True, slots=True, repr=False)
class Watch(Shown):
    """What a watch has found so far.

    Attributes
    ----------
    content : mapping
        What ``status.json`` holds.
    state : bytes
        What it needs to go on, as ``state.json`` holds it.
    names : tuple of str
        The guardrail's file and its logs, as commands name them.
    labels : str or None
        The folder of labels.
    """

    shown_as = "watch"

    content: Mapping[str, Any]
    state: bytes
    names: tuple[str, ...] = ("guardrail.json", "LOG")
    labels: str | None = None

    @property
    def n(self) -> int:
        """How many decisions were watched."""
        return int(self.content["n"])

    @property
    def alarm(self) -> bool:
        """Whether the traffic differs from that of the first reference."""
        return bool(self.content["traffic"]["alarm"])

    @property
    def promise(self) -> Literal["kept", "undecided", "broken"]:
        """Whether the promise is kept, by the labels so far."""
        state: Literal["kept", "undecided", "broken"] = self.content["promise"]["state"]
        return state

    def to_dict(self) -> dict[str, Any]:
        """Return what ``status.json`` holds."""
        return dict(self.content)

    def details(self) -> dict[str, Any]:
        """Return what the document takes beside the content."""
        return {"guardrail": self.names[0], "logs": self.names[1:], "labels": self.labels}

    def save(self, folder: str | PathLike[str], *, page: bool = True) -> Path:
        """Write the watch into a folder, from which a later one goes on.

        The state is written first: a process that is killed before the status stands there writes
        the same one the next time. Where this very watch stands there already, nothing is written.

        Parameters
        ----------
        folder : path
            Made where it is missing.
        page : bool
            Whether ``watch.html`` and its figures are written, too.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        DataError
            It cannot be written.
        """
        path = fields.path(folder, "folder")
        with _writing(path):
            status = b"".join(json_parts(self.content))
            if self._stands_in(path, status, page=page):
                return path
            self.save_state(self.state, path)
            write_atomically(path / STATUS, status, durable=True)
            if page:
                document = words.document(self.content, **self.details())
                write_figures(document, path / "figures")
                # Last: a page that is newer than the status is whole.
                write_page(document, path / PAGE)
        return path

    def _stands_in(self, folder: Path, status: bytes, *, page: bool) -> bool:
        """Return whether a folder holds the same watch, and a page of it where one is wanted."""
        state_file, status_file, page_file = (folder / name for name in (STATE, STATUS, PAGE))
        if not all(
            path.exists() for path in (state_file, status_file, *([page_file] if page else []))
        ):
            return False
        if page and page_file.stat().st_mtime_ns < status_file.stat().st_mtime_ns:
            return False
        return state_file.read_bytes() == self.state and status_file.read_bytes() == status

    @staticmethod
    def save_state(state: bytes, folder: Path) -> None:
        """Write what a watch needs to go on; it survives a power cut."""
        with _writing(folder):
            write_atomically(folder / STATE, state, durable=True)


def _writing(folder: Path) -> Any:
    return file_errors(f"cannot write the watch into {folder}", "; make room, or name another one")


SCHEMA: Final = "calibrail.watch_state/1"

_REMEDY: Final = "; restore it, or name a new folder"


@dataclass(slots=True)
class WatchFile:
    """What stands in ``state.json``.

    Attributes
    ----------
    guardrail : str
        Digest of the guardrail.
    asked : mapping
        What the watch was begun with, and no later call may change: its options, the limits, the
        reference.
    monitor : Monitor
        What the traffic was like so far.
    cursor : Cursor
        How far the log was read.
    tally : Tally
        What was met in it.
    first, last : str or None
        Earliest and latest time of what was used.
    labels : str or None
        Digest of what was agreed on about the folder of labels; None before the first label.
    decided : mapping or None
        With which label the promise was seen to be broken: that stands, whatever becomes of labels.
    """

    guardrail: str
    asked: Mapping[str, Any]
    monitor: Monitor
    cursor: Cursor = field(default_factory=Cursor)
    tally: LogCounts = field(default_factory=LogCounts)
    first: str | None = None
    last: str | None = None
    decided: Mapping[str, Any] | None = None
    labels: str | None = None

    def refuse_other_labels(self, path: Path, labels: str | None) -> None:
        """Refuse labels of another folder: the error would be spent once more on them.

        Raises
        ------
        InputError
            The watch was begun with the labels of another folder.
        """
        if None not in (self.labels, labels) and labels != self.labels:
            raise InputError(
                f"{path} is of a watch that was begun with the labels of another folder; name that "
                "folder (a copy of it will do), or a new one for the watch"
            )

    def to_bytes(self) -> bytes:
        """Return the file's bytes: the same for the same watch."""
        content = {
            "schema": SCHEMA,
            "guardrail": self.guardrail,
            "asked": dict(self.asked),
            "from": self.first,
            "to": self.last,
            "decided": self.decided,
            "labels": self.labels,
            "cursor": self.cursor.to_dict(),
            "log": self.tally.to_dict(),
            "monitor": json.loads(self.monitor.to_state()),
        }
        text = json.dumps(
            content, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":")
        )
        return f"{text}\n".encode()

    @classmethod
    def read(cls, path: Path, guardrail: FrozenConfig, asked: Mapping[str, Any]) -> Self | None:
        """Return what a folder holds of the same watch; None where it holds none.

        Raises
        ------
        InputError
            It is the watch of another guardrail, or was begun with other options.
        DataError
            The file is damaged, or cannot be read.
        """
        with file_errors(f"cannot read {path}", _REMEDY):
            if not path.exists():
                return None
            raw = read_regular(path)
        with _damaged(path):
            content = json.loads(raw)
            schema, before = content["schema"], (content["guardrail"], dict(content["asked"]))
        if schema != SCHEMA:
            raise DataError(
                f"{path} is of another version of calibrail: its schema is {schema!r:.60}, and "
                f"this one writes {SCHEMA!r}; name a new folder"
            )
        _refuse_other(path, before, (guardrail.digest, asked))
        with _damaged(path):
            return cls(
                guardrail.digest,
                asked,
                Monitor.restore(json.dumps(content["monitor"]), guardrail),
                Cursor.from_dict(content["cursor"]),
                LogCounts.from_dict(content["log"]),
                content["from"],
                content["to"],
                content["decided"],
                content.get("labels"),
            )


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    """Say that a file is damaged where it cannot be understood."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is damaged: it holds no state of a watch{_REMEDY}") from error


_Begun = tuple[str, Mapping[str, Any]]


def _refuse_other(path: Path, before: _Begun, now: _Begun) -> None:
    """Refuse a watch of another guardrail, or one that was begun with other options."""
    folder = path.parent
    if before[0] != now[0]:
        raise InputError(
            f"{path} is the watch of another guardrail: its digest is {before[0]!s:.19}..., and "
            f"that of the one given {now[0]:.19}...; name a new folder in place of {folder}"
        )
    for name, value in now[1].items():
        if (then := before[1].get(name)) != value:
            raise InputError(
                f"{path} is of a watch that was begun with {_spelled(name)} {json.dumps(then)}; it "
                f"is {json.dumps(value)} now. Give the same again, or name a new folder in place "
                f"of {folder}"
            )


def _spelled(name: str) -> str:
    return cli_or_python(f"--{name.replace('_', '-')}", name)


_SEQ: Final = re.compile(rb', "seq": (\d+), "previous": "')
#: Bytes at the end of a line that hold its number and its hashes.
_END: Final = 250

#: Where a line stands: its chain, and its number there.
_Place = tuple[str, int]


class AlarmTexts:
    """Looks up lines of a log by chain and number, each once.

    Parameters
    ----------
    sources : sequence of Path or "-"
        The log: its folders and files.
    """

    def __init__(self, sources: Sequence[LogSource]) -> None:
        self._sources = sources
        self._known: dict[_Place, Mapping[str, Any] | None] = {}

    def fill(self, alarms: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return alarms with the texts of their examples, where the log has them."""
        named = [_place(item) for alarm in alarms for item in alarm["examples"]]
        wanted = set(named) - self._known.keys()
        if wanted:
            self._known |= dict.fromkeys(wanted) | dict(self._found(wanted))
        return [
            {**alarm, "examples": [self._with_text(item) for item in alarm["examples"]]}
            for alarm in alarms
        ]

    def _with_text(self, example: Mapping[str, Any]) -> dict[str, Any]:
        text = self._known.get(_place(example))
        return dict(example) if text is None else {**example, "text": dict(text)}

    def _found(self, wanted: set[_Place]) -> Iterator[tuple[_Place, Mapping[str, Any]]]:
        chains: dict[str, dict[int, Path]] = {}
        for source in self._sources:
            if source == "-":
                continue
            if source.is_dir():
                for chain, number, path in files_of(source):
                    chains.setdefault(chain, {})[number] = path
            elif (place := place_of(source.name)) is not None:
                chains.setdefault(place[0], {})[place[1]] = source
        for chain, files in chains.items():
            numbers = sorted(seq for name, seq in wanted if name == chain)
            for path, seqs in _spread(numbers, [files[number] for number in sorted(files)]):
                # A file that was moved meanwhile has no texts for this page.
                with suppress(OSError):
                    yield from (((chain, seq), text) for seq, text in _texts(path, seqs))


def _place(example: Mapping[str, Any]) -> _Place:
    return example.get("chain", ""), example.get("seq", -1)


def _spread(numbers: Sequence[int], paths: Sequence[Path]) -> Iterator[tuple[Path, list[int]]]:
    """Yield the files of a chain in which lines of these numbers stand."""
    if not numbers:
        return
    firsts = [0 if (line := first_line(path)) is None else line.seq for path in paths]
    for at, path in enumerate(paths):
        end = firsts[at + 1] if at + 1 < len(paths) else None
        within = [seq for seq in numbers if firsts[at] <= seq and (end is None or seq < end)]
        if within:
            yield path, within


def _texts(path: Path, seqs: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    wanted = set(seqs)
    with path.open("rb") as file:
        for raw in file:
            # Only the end of a line is looked at: most are not wanted.
            match = _SEQ.search(raw, max(0, len(raw) - _END))
            if match is None or int(match[1]) not in wanted:
                continue
            line = parse_line_if_sound(raw.removesuffix(b"\n"))
            if line is not None and isinstance(line.content.get("response"), str):
                names = ("question", "contexts", "response")
                yield line.seq, {name: line.content.get(name) for name in names}
            if (wanted := wanted - {int(match[1])}) == set():
                return


#: Seconds between two looks at a log that grows, two times that the status is written while it
#: does, two times that the page is, and two times that a long log is saved on the way.
_LOOK: Final = 1.0
_STATUS: Final = 5.0
_PAGE: Final = 60.0
_ON_THE_WAY: Final = 30.0

_LOCK: Final = ".lock"


@dataclass(frozen=True, slots=True)
class MonitorTarget:
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


class MonitorLoop:
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
        watched: MonitorTarget,
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
        watch_file = None
        if folder is not None:
            watch_file = WatchFile.read(folder / STATE, watched.config, asked)
        if watch_file is None:
            tally = LogCounts()
            rows = None if reference is None else _read_rows(watched.config, reference, tally)
            monitor = Monitor(watched.config, options, reference=rows)
            # What was wrong with the reference is wrong with the watch.
            named = LogCounts(found=tally.found, findings=tally.findings)
            watch_file = WatchFile(digest, asked, monitor, tally=named)
        if folder is not None:
            watch_file.refuse_other_labels(folder / STATE, labels.digest)
        self._file = watch_file

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
                Watch.save_state(self._file.to_bytes(), self._folder)
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


def _read_rows(config: FrozenConfig, sources: Sequence[LogSource], tally: LogCounts) -> Rows:
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
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Let one process at a time write a watch into a folder, where the system has locks.

    Raises
    ------
    DataError
        Another one does, or the folder cannot be written.
    """
    missing = [item for item in (folder, *folder.parents) if not item.exists()]
    with file_errors(f"cannot write into {folder}", "; name another folder"):
        folder.mkdir(parents=True, exist_ok=True)
    busy = f"another process keeps its watch in {folder}; end it, or name another folder"
    try:
        with Lock(folder / _LOCK)(busy):
            yield
    except BaseException:
        # Where nothing was written, nothing is left behind.
        if missing and [item.name for item in folder.iterdir()] == [_LOCK]:
            with suppress(OSError):
                (folder / _LOCK).unlink()
                for item in missing:
                    item.rmdir()
        raise


Logs: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


@options_from_keywords(options=WatchOptions, only={"reference": int})
def monitor(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
    logs: Logs,
    output: str | PathLike[str] | None = None,
    options: WatchOptions | None = None,
    *,
    labels: str | PathLike[str] | None = None,
    judge_labels: str | PathLike[str] | None = None,
    reference: Logs | int | None = None,
    follow: Event | None = None,
    arl: int = 100_000,
    delta: float = 0.05,
    seed: int = 0,
    by: WatchedBy | None = None,
    max_fpr: float | None = None,
    min_coverage: float | None = None,
) -> Watch:
    """Watch a guardrail by its decision log: traffic, promise, prevalence.

    Reads what the log holds since the last call with the same ``output``, and writes there what
    it found. A log that is read in parts gives the bytes of one that is read at once, where one
    process wrote it; where several did, they are merged by time within what each call finds.

    Parameters
    ----------
    guardrail : Guardrail or path
        The frozen guardrail that made the decisions; its detector is not needed, nor built.
    logs : path, "-", or sequence of them
        Folders of ``calibrail serve --log``, files of such a folder, or what ``calibrail check``
        wrote; ``-`` is standard input.
    output : path, optional
        Folder of the watch: ``state.json``, ``status.json``, ``watch.html`` and its figures. A
        later call goes on from there. Without it everything is read anew, and nothing is written.
    options : WatchOptions, optional
        What is compared with what, and how often a watch may be wrong.
    labels : path, optional
        Folder of ``calibrail audit-sample``, in which people label.
    judge_labels : path, optional
        A judge's labels of logged answers, by ``id``: of all, or of some chosen without a look at
        any. They count only through bounds on its errors where people labelled, too.
    reference : path, sequence of paths, or int, optional
        A log that the traffic is compared with; or the number of its own first answers that it is.
    follow : threading.Event, optional
        Go on reading what is logged, and writing what is found, until it is set.
    arl, delta, seed, by
        Fields of ``options``, by themselves in its place.
    max_fpr, min_coverage : float, optional
        What the labels are to show, where it is not what the guardrail was to meet.

    Returns
    -------
    Watch
        What was found so far; ``to_dict`` gives the content of ``status.json``.

    Raises
    ------
    InputError
        An option is outside its domain, or the folder holds another watch.
    DataError
        A file cannot be read or written, or no line of the log can be used. Where it is labels
        that cannot count, what the log shows without them is written first; a watch that follows
        names that in its files, and goes on.
    """
    limits = Requirement(max_fpr=max_fpr, min_coverage=min_coverage)
    options = fields.optional(options, WatchOptions, "options")
    assert not isinstance(reference, int)  # which is part of the options
    config, file = frozen_config(guardrail)
    require_answers(config, "monitor")
    sources = log_sources(logs, growing=follow is not None)
    compared = None if reference is None else log_sources(reference)
    folder = None if output is None else fields.path(output, "output")
    named = ("LOG" if item == "-" else str(item) for item in sources)
    names = str(file or "guardrail.json"), *named
    judge = None
    if judge_labels is not None:
        judge = JudgeLabels(fields.path(judge_labels, "judge_labels"), config, sources)
    drawn = None if labels is None else fields.path(labels, "labels")
    with nullcontext() if folder is None else exclusive_lock(folder):
        given = WatchLabels(config, limits, drawn, judge)
        watching = MonitorLoop(
            MonitorTarget(config, sources, names), options, given, compared, folder
        )
        if follow is not None:
            return watching.follow(follow)
        watching.read_all()
        watch = watching.result()
        if folder is not None:
            watch.save(folder)
        if given.error is not None:
            where = (
                "" if folder is None else f". What the log shows without them stands in {folder}"
            )
            raise DataError(f"{given.error}{where}") from given.error
        return watch
