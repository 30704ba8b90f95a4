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
from dataclasses import dataclass, field
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
from calibrail.serve.metrics import DEFINED, TOGETHER
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


def watch_folder(root: Path, name: str, digest: str) -> Path:
    """Return the folder of a guardrail's watch.

    Raises
    ------
    ValueError
        If the digest is none.
    """
    if (match := _DIGEST.fullmatch(digest)) is None:
        raise ValueError(f"{digest!r:.80} is no digest of a guardrail")
    return root / name / match[1]


def deciding_folder(root: Path, name: str) -> Path | None:
    """Return the monitor folder of the guardrail served under a name; None until it is loaded."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads((root / name / DECIDING).read_bytes())
        folder = watch_folder(root, name, content["guardrail"])
        return folder if (folder / GUARDRAIL).is_file() else None
    return None


def record_deciding(root: Path, loaded: Loaded) -> None:
    """Write down that a guardrail decides, and its copy; what is there already stays.

    Raises
    ------
    OSError
        Nothing can be written there.
    """
    folder = watch_folder(root, loaded.name, loaded.digest)
    deciding = json.dumps({"guardrail": loaded.digest}).encode() + b"\n"
    copy, pointer = folder / GUARDRAIL, folder.parent / DECIDING
    if not copy.is_file():
        write_atomically(copy, loaded.guardrail.config.to_bytes())
    if not (pointer.is_file() and pointer.read_bytes() == deciding):
        write_atomically(pointer, deciding)


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
        #: By the digest of what decides, the samples of its status.
        self._samples: dict[str, list[_Sample]] = {}
        self._failed = ""

    def read(self) -> None:
        """Take what the watches have written since; where that fails it is said once."""
        failed = ""
        for loaded in self._guardrails:
            try:
                record_deciding(self._root, loaded)
                self._samples[loaded.digest] = self._read_status(loaded)
            except FileNotFoundError:
                self._samples.pop(loaded.digest, None)
            except Exception as error:
                # Whatever stands there: files that change are looked at in the same group.
                failed = f"the watch of {loaded.name} cannot be read or begun: {error}"
        if failed and failed != self._failed:
            _log.error("%s", failed)
        self._failed = failed

    def collect(self) -> Iterator[Metric]:
        """Yield what was last read; what a status lacks has no sample."""
        families: dict[str, Metric] = {}
        for name, item in DEFINED["watch"].items():
            kind = CounterMetricFamily if item.get("counts") else GaugeMetricFamily
            labels = ["guardrail", *item.get("labels", [])]
            families[name] = kind(f"calibrail_watch_{name}", item["help"], labels=labels)
        for loaded in self._guardrails:
            for (name, *more), value in self._samples.get(loaded.digest, _NEVER):
                families[name].add_metric([loaded.name, *more], value)  # type: ignore[attr-defined]
        yield from (family for family in families.values() if family.samples)

    def _read_status(self, loaded: Loaded) -> "list[_Sample]":
        path = watch_folder(self._root, loaded.name, loaded.digest) / STATUS
        with path.open("rb") as file:
            content, moment = json.load(file), os.fstat(file.fileno()).st_mtime
        if not str(content["schema"]).startswith(SCHEMA):
            raise ValueError(f"{path} is no status of a watch")
        if content["guardrail"] != loaded.digest:
            return _NEVER
        samples = [(("updated_timestamp_seconds",), moment), *_samples(content)]
        return [(labels, float(value)) for labels, value in samples if value is not None]


#: The name of a metric with its further label, and a value.
_Sample = tuple[tuple[str, ...], float]
#: What a watch says that has not written yet.
_NEVER: Final[list[_Sample]] = [(("updated_timestamp_seconds",), 0.0)]


def _samples(status: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield metric and further label, and the value, of each figure in a status."""
    traffic, promise = status.get("traffic") or {}, status.get("promise") or {}
    yield ("rows",), status.get("n")
    if (alarms := traffic.get("alarms")) is not None:
        yield ("traffic_alarms",), traffic.get("n_alarms") or len(alarms)
    yield ("traffic_alarm",), traffic.get("alarm")
    for feature, value in traffic.get("now", {}).items():
        yield ("log_e", feature), value
    if threshold := traffic.get("threshold"):
        yield ("log_e_alarm",), math.log(threshold)
    if (state := promise.get("state")) in _STATES:
        yield ("promise_broken",), state == "broken"
        for each in _STATES:
            yield ("promise_state", each), state == each
    yield ("lately_alarm",), (promise.get("lately") or {}).get("alarm")
    for rate, holder in (("coverage", promise), ("fpr", promise), ("prevalence", status)):
        for bound in ("lower", "upper"):
            yield (rate, bound), (holder.get(rate) or {}).get(bound)
    yield ("labels",), promise.get("n_labels")
    yield ("labels_pending",), promise.get("n_pending")
    yield ("log_whole",), (status.get("log") or {}).get("whole")


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


@dataclass
class _Watch:
    """The process that watches a guardrail; times are those of the monotonic clock."""

    name: str
    #: When nothing is to be watched any more, and when a process may be started again.
    ends: float = math.inf
    again: float = 0.0
    pause: float = field(default_factory=lambda: _FIRST_WAIT)
    process: subprocess.Popen[bytes] | None = None
    command: list[str] = field(default_factory=list)
    began: float = 0.0
    #: When the process was asked to end.
    asked: float | None = None


class Watchers:
    """The watches of a service: a process for each guardrail, and a thread that keeps them running.

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
        #: By the folder of each.
        self._watches: dict[Path, _Watch] = {}
        self._said: set[str] = set()
        # Not waited for by the process: a disk that hangs would keep it from ending.
        self._thread = threading.Thread(target=self._run, name="watchers", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End all watches; what does not end in time is killed."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(2 * _STEP)
        processes = [watch.process for watch in tuple(self._watches.values()) if watch.process]
        for process in processes:
            process.terminate()
        end = time.monotonic() + _GRACE
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
            process.kill()
            process.wait()

    def _run(self) -> None:
        """Watch each guardrail that decides, and let those go that do not any more."""
        while not self._stopped.is_set():
            with self._going_on("the watches"):
                self._look()
            self._stopped.wait(_STEP)

    def _look(self) -> None:
        now = time.monotonic()
        deciding = {deciding_folder(self._root, name): name for name in self._names}
        for folder, name in deciding.items():
            if folder is not None:
                self._watches.setdefault(folder, _Watch(name)).ends = math.inf
        for folder, watch in self._watches.items():
            if folder not in deciding:
                watch.ends = min(watch.ends, now + self._linger)
            with self._going_on(f"the watch of {watch.name}"):
                self._look_at(folder, watch, now)

    @contextlib.contextmanager
    def _going_on(self, what: str) -> Iterator[None]:
        """Note any error, once, and go on: nobody would see that the thread has ended."""
        try:
            yield
        except Exception as error:
            said = f"{what} could not be looked at: {error!r}"
            if said not in self._said:
                self._said.add(said)
                self._note(said)

    def _look_at(self, folder: Path, watch: _Watch, now: float) -> None:
        """Start, end or replace the process of a watch, where that is due."""
        wanted, command = now < watch.ends, self._command(folder)
        if watch.process is None:
            if wanted and now >= watch.again:
                self._begin(watch, command)
        elif (code := watch.process.poll()) is not None:
            watch.process = None
            if watch.asked is None:
                self._wait(watch, f"ended with {code}", now)
            elif wanted:
                self._note(f"the watch of {watch.name} starts again, with labels from now on")
        elif watch.asked is not None:
            if now > watch.asked + _GRACE:
                watch.process.kill()
        elif not wanted or command != watch.command:
            watch.asked = now
            watch.process.terminate()

    def _begin(self, watch: _Watch, command: list[str]) -> None:
        variables = dict(os.environ, OMP_NUM_THREADS="1")
        for name in (TOKEN_VARIABLE, TOGETHER):
            variables.pop(name, None)
        watch.command, watch.began, watch.asked = command, time.monotonic(), None
        try:
            # Standard input ends with this process; a terminal's Ctrl-C is for this one alone.
            watch.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=variables,
                process_group=0,
            )
        except (OSError, ValueError) as error:
            self._wait(watch, f"cannot be started ({error})", watch.began)

    def _wait(self, watch: _Watch, why: str, now: float) -> None:
        """Start a watch that ended again later, and later each time."""
        well = now - watch.began > _WELL
        watch.pause = _FIRST_WAIT if well else min(2 * watch.pause, _LONGEST_WAIT)
        watch.again = now + watch.pause
        self._note(
            f"the watch of {watch.name} {why}; decisions go on, and it is started again in "
            f"{watch.pause:.0f} s"
        )


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
