"""Monitors of served guardrails: the processes that run them, and their status in /metrics.

``WATCH/NAME/deciding.json`` says which guardrail decides under a name; what is known of it stands
in ``WATCH/NAME/`` and the first digits of its digest, with a copy of the guardrail, so that a file
that is refused, or swapped, is never taken for what decides.

Nothing that decides waits for them: they read what the decision log holds, in processes of their
own, and the thread that keeps them touches nothing else.
"""

import contextlib
import json
import logging
import math
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from calibrail.atomic_files import write_atomically
from calibrail.errors import InputError
from calibrail.options.fields import spell_option
from calibrail.options.runtime import ServeOptions
from calibrail.serve.guardrails import Guardrails, Loaded
from calibrail.serve.metrics import TOGETHER
from calibrail.serve.schemas import TOKEN_VARIABLE

#: In the folder of a watch: the guardrail, what was found, and the answers that people label.
GUARDRAIL: Final = "guardrail.json"
STATUS: Final = "status.json"
AUDIT: Final = "audit"
#: Which guardrail decides under a name.
DECIDING: Final = "deciding.json"
#: Of a status that is understood.
SCHEMA: Final = "calibrail.watch/"

_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{12})[0-9a-f]{52}")
_STATES: Final = ("kept", "undecided", "broken")
_BOUNDS: Final = ("lower", "upper")

_log: Final = logging.getLogger("calibrail.serve")


def require_writable(root: Path) -> None:
    """Make the folder of all watches.

    Raises
    ------
    InputError
        If nothing can be written there.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        given = spell_option(ServeOptions, "monitor", root)
        raise InputError(
            f"{given}: nothing can be written there: {error.strerror or error}; name a folder that "
            "this user may write to"
        ) from error


def watch_folder(root: Path, name: str, digest: str) -> Path | None:
    """Return the folder of a guardrail's watch; None where the digest is none."""
    match = _DIGEST.fullmatch(digest)
    return None if match is None else root / name / match[1]


def deciding_folder(root: Path, name: str) -> Path | None:
    """Return the monitor folder of the guardrail served under a name; None until it is loaded."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads((root / name / DECIDING).read_bytes())
        found = watch_folder(root, name, content["guardrail"])
        if found is not None and (found / GUARDRAIL).is_file():
            return found
    return None


def record_deciding(root: Path, loaded: Loaded) -> None:
    """Write down that a guardrail decides, and its copy; what is there already stays.

    Raises
    ------
    OSError
        Nothing can be written there.
    """
    folder = watch_folder(root, loaded.name, loaded.digest)
    assert folder is not None
    if not (folder / GUARDRAIL).is_file():
        write_atomically(folder / GUARDRAIL, loaded.guardrail.config.to_bytes())
    said = json.dumps({"guardrail": loaded.digest}).encode() + b"\n"
    pointer = folder.parent / DECIDING
    if not (pointer.is_file() and pointer.read_bytes() == said):
        write_atomically(pointer, said)


def watch_lines(root: Path, guardrails: Iterable[Loaded]) -> list[str]:
    """Return where each guardrail is watched, a line each."""
    return [
        f"{loaded.name} is watched in {watch_folder(root, loaded.name, loaded.digest)}"
        for loaded in guardrails
    ]


class Statuses(Collector):
    """What the watches of all guardrails say, for ``/metrics``.

    Only `read` touches the disk.

    Parameters
    ----------
    root : Path
        The folder of all watches.
    guardrails : Guardrails
        What decides.
    """

    def __init__(self, root: Path, guardrails: Guardrails) -> None:
        self._root, self._guardrails = root, guardrails
        self._known: dict[Path, tuple[tuple[int, ...], Mapping[str, Any], float]] = {}
        self._families: list[Metric] = []
        self._failed = ""
        self._publish()

    def read(self) -> None:
        """Take what the watches have written since; where that fails it is said once."""
        failed = ""
        for loaded in self._guardrails:
            try:
                record_deciding(self._root, loaded)
                self._take(loaded)
            except Exception as error:
                # Whatever stands there: files that change are looked at in the same group.
                failed = f"the watch of {loaded.name} cannot be read or begun: {error}"
        if failed and failed != self._failed:
            _log.error("%s", failed)
        self._failed = failed
        self._publish()

    def collect(self) -> Iterator[Metric]:
        """Yield what was last read."""
        yield from self._families

    def _take(self, loaded: Loaded) -> None:
        folder = watch_folder(self._root, loaded.name, loaded.digest)
        assert folder is not None
        try:
            with (folder / STATUS).open("rb") as file:
                state = os.fstat(file.fileno())
                stamp = (state.st_ino, state.st_size, state.st_mtime_ns)
                if folder in self._known and self._known[folder][0] == stamp:
                    return
                content = json.load(file)
        except FileNotFoundError:
            self._known.pop(folder, None)
            return
        if not isinstance(content, dict) or not str(content.get("schema")).startswith(SCHEMA):
            raise ValueError(f"{folder / STATUS} is no status of a watch")
        if content.get("guardrail") == loaded.digest:
            self._known[folder] = (stamp, content, state.st_mtime)

    def _publish(self) -> None:
        """Make the metrics, so that whoever asks for them waits for nothing."""
        statuses = []
        for loaded in self._guardrails:
            folder = watch_folder(self._root, loaded.name, loaded.digest)
            _, content, moment = self._known.get(folder, ((), {}, 0.0))  # type: ignore[arg-type]
            statuses.append((loaded.name, content, moment))
        self._families = _families(statuses)


#: Metrics of a watch: the help, and the further label of each.
_GAUGES: Final[Mapping[str, tuple[str, str | None]]] = {
    "traffic_alarm": ("Whether traffic has ever changed since the watch began.", None),
    "log_e": ("Evidence that traffic has changed, as a logarithm.", "feature"),
    "log_e_alarm": ("From where on it is an alarm.", None),
    "promise_broken": ("Whether the promise was shown to be broken.", None),
    "promise_state": ("1 for the state the promise is in.", "state"),
    "lately_alarm": ("Whether the newest labels speak against the promise.", None),
    "coverage": ("Caught share, by the ends of its confidence sequence.", "bound"),
    "fpr": ("False alarm rate, likewise.", "bound"),
    "prevalence": ("Share of hallucinations, by its bounds.", "bound"),
    "labels": ("Final labels that the watch has.", None),
    "labels_pending": ("Answers drawn for people that have no label yet.", None),
    "log_whole": ("Whether the decision log is whole as far as it was read.", None),
    "updated_timestamp_seconds": ("When the watch last wrote; 0 for never.", None),
}
_COUNTERS: Final = {
    "rows": "Decisions that the watch has seen.",
    "traffic_alarms": "Times that traffic has changed.",
}


def _families(statuses: Iterable[tuple[str, Mapping[str, Any], float]]) -> list[Metric]:
    """Return the metrics of watches by name, status and time; what a status lacks has no sample."""
    families: dict[str, Metric] = {
        name: CounterMetricFamily(f"calibrail_watch_{name}", help, labels=["guardrail"])
        for name, help in _COUNTERS.items()
    }
    for name, (help, label) in _GAUGES.items():
        labels = ["guardrail", *([label] if label else [])]
        families[name] = GaugeMetricFamily(f"calibrail_watch_{name}", help, labels=labels)
    for guardrail, status, moment in statuses:
        for (name, *labels), value in _samples(status, moment):
            if (number := _number(value)) is not None:
                families[name].add_metric([guardrail, *labels], number)  # type: ignore[attr-defined]
    return [family for family in families.values() if family.samples]


def _samples(status: Mapping[str, Any], moment: float) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield metric and further label, and the value, of each figure in a status."""
    traffic, promise = _part(status, "traffic"), _part(status, "promise")
    yield ("updated_timestamp_seconds",), moment
    yield ("rows",), status.get("n")
    if isinstance(alarms := traffic.get("alarms"), list):
        n = _number(traffic.get("n_alarms"))
        yield ("traffic_alarms",), len(alarms) if n is None else n
    yield ("traffic_alarm",), traffic.get("alarm")
    for feature, value in _part(traffic, "now").items():
        yield ("log_e", str(feature)), value
    threshold = _number(traffic.get("threshold"))
    yield ("log_e_alarm",), math.log(threshold) if threshold and threshold > 0 else None
    if (state := promise.get("state")) in _STATES:
        yield ("promise_broken",), state == "broken"
        for each in _STATES:
            yield ("promise_state", each), state == each
    yield ("lately_alarm",), _part(promise, "lately").get("alarm")
    rates = {name: _part(promise, name) for name in ("coverage", "fpr")}
    for rate, part in {**rates, "prevalence": _part(status, "prevalence")}.items():
        for bound in _BOUNDS:
            yield (rate, bound), part.get(bound)
    yield ("labels",), promise.get("n_labels")
    yield ("labels_pending",), promise.get("n_pending")
    yield ("log_whole",), _part(status, "log").get("whole")


def _part(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = content.get(name)
    return part if isinstance(part, dict) else {}


def _number(value: object) -> float | None:
    # Not every whole number that JSON spells is a float.
    with contextlib.suppress(OverflowError):
        return float(value) if isinstance(value, int | float) else None
    return None


#: Seconds between two looks at the processes.
_STEP: Final = 0.5
#: Seconds before a watch that ended is started again, at first and at most, and those after which
#: one is taken to have run well.
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 300.0
_WELL: Final = 60.0
#: Seconds to save its state in, after which a watch is killed: it goes on from the state before.
_GRACE: Final = 5.0

#: Makes the command that watches in a folder.
Command = Callable[[Path], list[str]]


class Watchers:
    """The watches of a service: a process for each guardrail, and a thread that keeps it running.

    Parameters
    ----------
    root : Path
        The folder of all watches.
    names : iterable of str
        The guardrails.
    command : callable
        Makes the command for a folder.
    linger : float
        Seconds for which a guardrail that was swapped is still watched: for answers under way.
    note : callable
        Takes what a person should know.
    """

    def __init__(
        self,
        root: Path,
        names: Iterable[str],
        command: Command,
        linger: float,
        note: Callable[[str], None],
    ) -> None:
        self._root, self._names, self._command = root, list(names), command
        self._linger, self._note = linger, note
        self._stopped = threading.Event()
        #: By the folder of a watch: its thread, its process, and the moment when it is to end.
        self._threads: dict[Path, threading.Thread] = {}
        self._processes: dict[Path, subprocess.Popen[bytes]] = {}
        self._ends: dict[Path, float] = {}
        # Not waited for by the process: a disk that hangs would keep it from ending.
        self._thread = threading.Thread(target=self._run, name="watchers", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End all watches; what does not end in time is killed."""
        self._stopped.set()
        end = time.monotonic() + _GRACE + 2 * _STEP
        if self._thread.ident is not None:
            for thread in (self._thread, *tuple(self._threads.values())):
                thread.join(max(0.0, end - time.monotonic()))
        for process in tuple(self._processes.values()):
            process.kill()

    def _run(self) -> None:
        """Start a watch for each guardrail that decides, and let those end that do not any more."""
        while not self._stopped.is_set():
            try:
                found = {deciding_folder(self._root, name): name for name in self._names}
            except Exception as error:
                self._note(f"the watches could not be looked at: {error!r}")
            else:
                for folder, name in found.items():
                    if folder is not None:
                        self._ends.pop(folder, None)
                        self._begin(folder, name)
                for folder in self._threads.keys() - found.keys():
                    self._ends.setdefault(folder, time.monotonic() + self._linger)
            self._stopped.wait(_STEP)

    def _begin(self, folder: Path, name: str) -> None:
        thread = self._threads.get(folder)
        if thread is None or not thread.is_alive():
            thread = threading.Thread(target=self._watch, args=(folder, name), daemon=True)
            self._threads[folder] = thread
            thread.start()

    def _watch(self, folder: Path, name: str) -> None:
        """Keep the watch of one guardrail running as long as it is wanted."""
        pause = _FIRST_WAIT
        while self._is_wanted(folder):
            began, command = time.monotonic(), self._command(folder)
            try:
                with self._process(folder, command) as process:
                    while process.poll() is None and self._is_wanted(folder, command):
                        self._stopped.wait(_STEP)
                    ended = process.poll()
            except (OSError, ValueError) as error:
                why = f"cannot be started ({error})"
            else:
                if ended is None:
                    if self._is_wanted(folder):
                        self._note(f"the watch of {name} starts again, with labels from now on")
                    continue
                why = f"ended with {ended}"
            lived = time.monotonic() - began
            pause = _FIRST_WAIT if lived > _WELL else min(2 * pause, _LONGEST_WAIT)
            self._note(
                f"the watch of {name} {why}; decisions go on, and it is started again in "
                f"{pause:.0f} s"
            )
            again = time.monotonic() + pause
            while time.monotonic() < again and self._is_wanted(folder):
                self._stopped.wait(_STEP)

    def _is_wanted(self, folder: Path, command: list[str] | None = None) -> bool:
        """Return whether a guardrail is still watched, and by this command if one is given."""
        wanted = not self._stopped.is_set() and time.monotonic() < self._ends.get(folder, math.inf)
        return wanted and (command is None or self._command(folder) == command)

    @contextlib.contextmanager
    def _process(self, folder: Path, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command; ask it to end afterwards, and kill it if it has not done so in time."""
        variables = dict(os.environ, OMP_NUM_THREADS="1")
        for name in (TOKEN_VARIABLE, TOGETHER):
            variables.pop(name, None)
        # Standard input ends with this process; a terminal's Ctrl-C is for this one alone.
        process = self._processes[folder] = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=variables,
            process_group=0,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            del self._processes[folder]
            if process.stdin is not None:
                process.stdin.close()


def monitor(log: Path) -> Command:
    """Return what makes the command that watches a decision log."""

    def command(folder: Path) -> list[str]:
        # -P: what lies in the folder that the service was started in is not imported.
        words = [sys.executable, "-P", "-m", "calibrail.serve.watch_status", "monitor"]
        words += [str(folder / GUARDRAIL), str(log), "-o", str(folder), "--follow"]
        if (folder / AUDIT / "session.json").is_file():
            words += ["--labels", str(folder / AUDIT)]
        return words

    return command


#: Seconds to end in once the service is gone.
_WATCHED_GRACE: Final = 10.0


def main() -> None:
    """Run the command line on this process's arguments, behind whatever decides on this machine."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    threading.Thread(target=_follow, name="follows", daemon=True).start()
    # As ``python -m calibrail`` does: the service stands below the commands, and imports none.
    runpy.run_module("calibrail", run_name="__main__")


def _follow() -> None:
    """End with the process that holds the other end of standard input, however that one ends."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_WATCHED_GRACE)
    os._exit(1)


if __name__ == "__main__":
    main()
