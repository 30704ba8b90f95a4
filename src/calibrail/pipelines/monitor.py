"""The monitor command: reads a decision log on, and keeps the state of the watch."""

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from threading import Event
from typing import Any, Final, Literal, Self, cast

from calibrail.atomic_files import new_folder, read_regular, whole_folder, write_atomically
from calibrail.data import outputs
from calibrail.errors import DataError, InputError, errors_as, file_errors
from calibrail.formatting import Scale, ShownContent
from calibrail.guardrail.decision_log import reader
from calibrail.guardrail.decision_log.reader import Cursor, LogCounts, Logs, LogSource
from calibrail.guardrail.decision_log.writer import files_of, parse_line_if_sound, place_of
from calibrail.guardrail.file import FrozenConfig
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.labelling.ledger import Lock
from calibrail.monitoring.monitor import Monitor
from calibrail.monitoring.prevalence import possible_share
from calibrail.options import Requirement, fields, keywords, runtime
from calibrail.options.fields import cli_or_python
from calibrail.pipelines import monitor_inputs
from calibrail.pipelines.monitor_inputs import JudgeLabels, OwnDecisions, WatchLabels
from calibrail.pipelines.run import frozen_config, write_figures, write_page
from calibrail.report.documents import monitor as words
from calibrail.report.messages import say
from calibrail.serialization import given_back, json_parts, plain

#: Files in the folder of a watch, in the order in which they are written.
STATE: Final = "state.json"
STATUS: Final = "status.json"
PAGE: Final = "watch.html"
SCHEMA: Final = "calibrail.watch_state/1"
STATUS_SCHEMA: Final = "calibrail.watch/1"

_LOCK: Final = ".lock"
_REMEDY: Final = "; restore it, or name a new folder"

#: Seconds between two looks at a log that grows, two times that the status is written while it
#: does, and two times that the page is.
_LOOK: Final = 1.0
_STATUS: Final = 5.0
_PAGE: Final = 60.0

#: The number of a line, which stands among its last bytes.
_SEQ: Final = re.compile(rb', "seq": (\d+), "previous": "')
_END: Final = 250

#: Where a line stands: its chain, and its number there.
_Place = tuple[str, int]


@dataclass(frozen=True, slots=True, repr=False)
class Watch(ShownContent):
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
        return cast(Literal["kept", "undecided", "broken"], self.content["promise"]["state"])

    def details(self) -> dict[str, Any]:
        """Return what the document takes beside the content."""
        return {"guardrail": self.names[0], "logs": self.names[1:], "labels": self.labels}

    def save(self, folder: str | PathLike[str], *, page: bool = True) -> Path:
        """Write the watch into a folder, from which a later one goes on.

        The state takes its place first: a process that is killed before the status stands there
        writes the same one the next time.

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
        outputs.refuse_foreign([outputs.Output("", path, outputs.WATCH_FILES)], force=None)
        told = f"cannot write the watch into {path}", "; make room, or name another one"
        with file_errors(*told), whole_folder(path) as made:
            write_atomically(made / STATUS, json_parts(self.content), durable=True)
            if page:
                document = words.document(self.content, **self.details())
                write_figures(document, made / "figures")
                write_page(document, made / PAGE)
            write_atomically(path / STATE, self.state, durable=True)
        return path


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
    tally : LogCounts
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
            raise InputError(say("refused.watch_of_other_labels", path=path))

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
        text = json.dumps(content, sort_keys=True, allow_nan=False, separators=(",", ":"))
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
            schema, digest, then = content["schema"], content["guardrail"], dict(content["asked"])
        if schema != SCHEMA:
            raise DataError.on("watch_of_version", path=path, schema=schema, own=SCHEMA)
        if digest != guardrail.digest:
            raise InputError.on("watch_of_another", path=path, digest=digest, guardrail=guardrail)
        for name, value in asked.items():
            if then.get(name) != value:
                spelled = cli_or_python(f"--{name.replace('_', '-')}", name)
                was, now = json.dumps(then.get(name)), json.dumps(value)
                raise InputError.on("watch_asked", path=path, spelled=spelled, was=was, now=now)
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


def _damaged(path: Path) -> AbstractContextManager[None]:
    """Say that a file is damaged where it cannot be understood."""
    odd = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
    return errors_as(DataError, odd, "watch_damaged", path=path, remedy=_REMEDY)


def _line_texts(
    sources: Sequence[LogSource], wanted: set[_Place]
) -> Iterator[tuple[_Place, dict[str, Any]]]:
    """Yield the texts of lines of a log, where it has them."""
    names = ("question", "contexts", "response")
    for source in sources:
        if source == "-":
            continue
        found = place_of(source.name)
        chained = files_of(source) if source.is_dir() else [(*found, source)] if found else ()
        for chain, _, path in chained:
            left = {seq for name, seq in wanted if name == chain}
            # A file that was moved meanwhile has no texts for this page.
            with suppress(OSError), path.open("rb") as file:
                for raw in file if left else ():
                    # Only the end of a line is looked at: most are not wanted.
                    match = _SEQ.search(raw, max(0, len(raw) - _END))
                    if match is None or int(match[1]) not in left:
                        continue
                    line = parse_line_if_sound(raw.removesuffix(b"\n"))
                    if line is not None and isinstance(line.content.get("response"), str):
                        yield (chain, line.seq), {name: line.content.get(name) for name in names}


def _place(example: Mapping[str, Any]) -> _Place:
    return example.get("chain", ""), example.get("seq", -1)


class MonitorLoop:
    """A watch that goes on from what its folder holds.

    Parameters
    ----------
    config : FrozenConfig
        The guardrail.
    sources : sequence of Path or "-"
        Its log.
    names : tuple of str
        How the guardrail's file and the log are called in commands.
    options : WatchOptions
        How it is watched.
    labels : WatchLabels
        What people say of the answers that were drawn.
    reference : sequence of Path or "-", optional
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
        config: FrozenConfig,
        sources: Sequence[LogSource],
        names: tuple[str, ...],
        options: runtime.WatchOptions,
        labels: WatchLabels,
        reference: Sequence[LogSource] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._config, self._sources, self._names = config, sources, names
        self._own = OwnDecisions(config)
        self._options, self._labels, self._folder = options, labels, folder
        self._texts: dict[_Place, Mapping[str, Any] | None] = {}
        asked = {
            **options.to_dict(),
            **labels.limits,
            "reference_log": None if reference is None else [str(item) for item in reference],
        }
        watch_file = None if folder is None else WatchFile.read(folder / STATE, config, asked)
        if watch_file is None:
            rows, tally = None, LogCounts()
            if reference is not None:
                blocks = reader.read_on(reference, Cursor(), tally)
                lines = [line for block in blocks for line in self._own.usable(block, tally)]
                if not lines:
                    read = ", ".join(map(str, reference))
                    raise DataError.on("reference_holds_none", names=read)
                rows = monitor_inputs.rows_of(lines)
            monitor = Monitor(config, options, reference=rows)
            # What was wrong with the reference is wrong with the watch.
            named = LogCounts(found=tally.found, findings=tally.findings)
            watch_file = WatchFile(config.digest, asked, monitor, tally=named)
        if folder is not None:
            watch_file.refuse_other_labels(folder / STATE, labels.digest)
        self._file = watch_file

    def read(self, patience: float | None = None) -> Iterator[int]:
        """Take up what stands in the log by now, in blocks; yield how many rows each one had."""
        file = self._file
        for block in reader.read_on(self._sources, file.cursor, file.tally, patience=patience):
            lines = self._own.usable(block, file.tally)
            if lines:
                file.monitor.update(monitor_inputs.rows_of(lines))
                known = [line.time for line in lines if line.moment == line.moment and line.time]
                known += [item for item in (file.first, file.last) if item is not None]
                if known:
                    file.first, file.last = min(known), max(known)
            yield len(lines)

    def read_all(self) -> None:
        """Take up all that stands in the log.

        Raises
        ------
        DataError
            No line there can be used.
        """
        for _ in self.read():
            pass
        if (why := monitor_inputs.none_used(self._file.tally, self._config)) is not None:
            raise DataError(why)

    def follow(self, stop: threading.Event) -> Watch:
        """Take up what comes until told to stop, or until standard input ends; write as it goes.

        The status is written every few seconds while anything comes, the page every minute.
        """
        if (folder := self._folder) is None:
            raise InputError("a watch that goes on needs a folder to write into")
        fresh, status_written, page_written = True, -_PAGE, -_PAGE

        def write_what_is_due() -> None:
            nonlocal fresh, status_written, page_written
            now = time.monotonic()
            if fresh and now - status_written > _STATUS:
                page = now - page_written > _PAGE
                self.result().save(folder, page=page)
                status_written = time.monotonic()
                page_written = status_written if page else page_written
                fresh = False

        ends = all(source == "-" for source in self._sources)
        over = False
        while not over:
            for n in self.read(patience=_LOOK):
                fresh = fresh or n > 0
                if stop.is_set():
                    break
                # Standard input must be read on: what waits in its buffer would be lost.
                write_what_is_due()
            fresh = self._new_labels() or fresh
            over = ends or stop.is_set() or stop.wait(_LOOK)
            if not over:
                write_what_is_due()
        watch = self.result()
        watch.save(folder)
        return watch

    def result(self) -> Watch:
        """Return what the watch says now."""
        file, config, labels = self._file, self._config, self._labels
        labels.keep_read(file.cursor, self._sources)
        traffic = dict(file.monitor.traffic())
        score = {"name": config.score.name, "params": config.score.params}
        timeline, scale = file.monitor.timeline(), Scale.of(score)
        for point in timeline if scale.column is not None else ():
            if "score" in point["means"]:
                point["means"]["column_score"] = scale.in_column(point["means"]["score"])
        traffic["alarms"] = [
            scale.beside(alarm) if alarm["feature"] == "score" else alarm
            for alarm in self._with_texts(traffic["alarms"])
        ]
        promise = labels.promise(self._options, file.decided)
        file.decided = promise["decided"] if promise["state"] == "broken" else None
        if promise["n_labels"]:
            file.labels = labels.digest or file.labels
        prevalence = labels.prevalence(self._options, timeline)
        if (compared := traffic["calibration"]) is not None and compared["alarm"]:
            flag_rate, data = prevalence["flags"]["flag_rate"], config.data
            share = data.n_hallucinated and data.n_hallucinated / data.n_examples
            effect = {"flag_rate": flag_rate, "labelled": share, "limits": promise["limits"]}
            effect |= possible_share(flag_rate, promise["limits"])
            traffic["calibration"] = {**compared, "promise": effect}
        # Nothing in it depends on when it was made, or whether the watch was read again.
        # Nor does the order of its keys.
        traffic |= given_back(plain({name: traffic[name] for name in ("alarms", "calibration")}))
        log = self._log_status()
        content = {
            "schema": STATUS_SCHEMA,
            "guardrail": config.digest,
            "score": score,
            **{"n": log["used"], "from": log["from"], "to": log["to"]},
            "traffic": traffic,
            "promise": promise,
            "prevalence": prevalence,
            "labels": labels.status(),
            "log": log,
            "timeline": timeline,
            "options": self._options,
        }
        folder = None if labels.folder is None else str(labels.folder)
        return Watch(plain(content), file.to_bytes(), self._names, folder)

    def _log_status(self) -> dict[str, Any]:
        """Return what became of the log's lines, and the times of those used."""
        file = self._file
        counted = file.tally.to_dict()
        names = ("lines", "used", "skipped", "missing", "found", "findings")
        return {
            **{name: counted[name] for name in names},
            "other_guardrails": counted["others"],
            "whole": file.tally.whole,
            "chains": len(file.cursor.chains),
            "from": file.first,
            "to": file.last,
        }

    def _with_texts(self, alarms: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return alarms with the texts of their examples, each of which is looked up once."""
        wanted = {_place(item) for alarm in alarms for item in alarm["examples"]}
        if wanted := wanted - self._texts.keys():
            self._texts |= dict.fromkeys(wanted) | dict(_line_texts(self._sources, wanted))

        def with_text(example: Mapping[str, Any]) -> dict[str, Any]:
            text = self._texts[_place(example)]
            return dict(example) if text is None else {**example, "text": text}

        return [{**k, "examples": [with_text(it) for it in k["examples"]]} for k in alarms]

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


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Let one process at a time write a watch into a folder, where the system has locks.

    Raises
    ------
    DataError
        Another one does, or the folder cannot be written.
    """
    busy = f"another process keeps its watch in {folder}; end it, or name another folder"
    with ExitStack() as stack:
        is_new = not folder.exists()
        with file_errors(f"cannot write into {folder}", "; name another folder"):
            stack.enter_context(new_folder(folder))
        try:
            with Lock(folder / _LOCK)(busy):
                yield
        except BaseException:
            # Where nothing was written, nothing is left behind.
            if is_new and [item.name for item in folder.iterdir()] == [_LOCK]:
                (folder / _LOCK).unlink()
            raise


@keywords.options_from_keywords(options=runtime.WatchOptions, only={"reference": int})
def monitor(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
    logs: Logs,
    output: str | PathLike[str] | None = None,
    options: runtime.WatchOptions | None = None,
    *,
    labels: str | PathLike[str] | None = None,
    judge_labels: str | PathLike[str] | None = None,
    reference: Logs | int | None = None,
    follow: Event | None = None,
    arl: int = 100_000,
    delta: float = 0.05,
    seed: int = 0,
    by: runtime.WatchedBy | None = None,
    base_rate: float | None = None,
    max_false_alarms: float | None = None,
    min_caught: float | None = None,
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
        Folder of ``calibrail label --from-log``, in which people label.
    judge_labels : path, optional
        A judge's labels of logged answers, by ``id``: of all, or of some chosen without a look at
        any. They count only through bounds on its errors where people labelled, too.
    reference : path, sequence of paths, or int, optional
        A log that the traffic is compared with; or the number of its own first answers that it is.
    follow : threading.Event, optional
        Go on reading what is logged, and writing what is found, until it is set.
    arl, delta, seed, by, base_rate
        Fields of ``options``, by themselves in its place.
    max_false_alarms, min_caught : float, optional
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
    limits = Requirement(max_false_alarms, min_caught)
    options = fields.optional(options, runtime.WatchOptions, "options")
    assert not isinstance(reference, int)  # which is part of the options
    config, file = frozen_config(guardrail)
    require_answers(config, "monitor")
    sources = reader.log_sources(logs, growing=follow is not None)
    compared = None if reference is None else reader.log_sources(reference)
    folder = None if output is None else fields.path(output, "output")
    named = ("LOG" if item == "-" else str(item) for item in sources)
    # As it was given: a page that goes to others holds no path of this machine.
    called = guardrail if isinstance(guardrail, str | PathLike) else file or "guardrail.json"
    names = str(called), *named
    judge = None
    if judge_labels is not None:
        judge = JudgeLabels(fields.path(judge_labels, "judge_labels"), config, sources)
    drawn = None if labels is None else fields.path(labels, "labels")
    if folder is not None:
        target = [outputs.Output("", folder, outputs.WATCH_FILES)]
        read = (file, drawn, judge_labels, *sources, *(compared or ()))
        outputs.refuse_read(target, [Path(item) for item in read if item is not None])
        outputs.refuse_foreign(target, force=None)
    with nullcontext() if folder is None else _exclusive(folder):
        given = WatchLabels(config, limits, drawn, judge)
        watching = MonitorLoop(config, sources, names, options, given, compared, folder)
        if follow is not None:
            return watching.follow(follow)
        watching.read_all()
        watch = watching.result()
        if folder is not None:
            watch.save(folder)
        if given.error is not None:
            where = f". What the log shows without them stands in {folder}" if folder else ""
            raise DataError(f"{given.error}{where}") from given.error
        return watch
