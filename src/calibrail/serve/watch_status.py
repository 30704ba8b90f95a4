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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from calibrail.atomic_files import write_atomically
from calibrail.errors import InputError, error_text, errors_as
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
    option = spell_option(ServeOptions, "monitor", root)
    with errors_as(InputError, OSError, "watches_not_writable", option=option):
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass


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
#: Seconds between two starts of a watch that ends by itself.
_PAUSE: Final = 30.0
#: Seconds to save its state in, after which a watch is killed: it goes on from the state before.
_GRACE: Final = 5.0

#: Makes the command that watches in a folder.
Command = Callable[[Path], list[str]]


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
    note : callable
        Takes what a person should know.
    """

    def __init__(
        self, root: Path, names: Iterable[str], command: Command, note: Callable[[str], None]
    ) -> None:
        self._root, self._names, self._command = root, list(names), command
        self._note = note
        self._stopped = threading.Event()
        #: By guardrail: its process, and when another one may be started.
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._again: dict[str, float] = {}
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
        _end(*self._processes.values())

    def _run(self) -> None:
        while not self._stopped.is_set():
            for name in self._names:
                try:
                    self._look_at(name)
                except Exception as error:
                    # Nobody would see that the thread has ended.
                    said = f"the watch of {name} cannot be started: {error!r}"
                    if said not in self._said:
                        self._said.add(said)
                        self._note(said)
            self._stopped.wait(_STEP)

    def _look_at(self, name: str) -> None:
        """Start the process that watches what decides now, or replace it, where that is due."""
        if (folder := deciding_folder(self._root, name)) is None:
            return
        process, command = self._processes.get(name), self._command(folder)
        if process is not None and (code := process.poll()) is not None:
            del self._processes[name]
            self._note(error_text("watch_ended", name=name, code=code, pause=_PAUSE))
        elif process is not None and process.args != command:
            # Another guardrail decides, or there are labels now.
            _end(process)
            del self._processes[name], self._again[name]
        if name not in self._processes and time.monotonic() >= self._again.get(name, 0.0):
            self._processes[name] = _begun(command)
            self._again[name] = time.monotonic() + _PAUSE


def _begun(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    variables = dict(os.environ, OMP_NUM_THREADS="1")
    for name in (TOKEN_VARIABLE, TOGETHER):
        variables.pop(name, None)
    # Standard input ends with this process; a terminal's Ctrl-C is for this one alone.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=variables, process_group=0
    )


def _end(*processes: "subprocess.Popen[bytes]") -> None:
    for process in processes:
        process.terminate()
    end = time.monotonic() + _GRACE
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, end - time.monotonic()))
        process.kill()
        process.wait()


def monitor(log: Path, base_rate: float | None = None) -> Command:
    """Return what makes the command that watches a decision log."""
    more = () if base_rate is None else ("--base-rate", repr(base_rate))

    def command(folder: Path) -> list[str]:
        # -P: what lies in the folder that the service was started in is not imported.
        words = [sys.executable, "-P", "-m", "calibrail.serve.watch_status", "monitor"]
        words += [str(folder / GUARDRAIL), str(log), "-o", str(folder), "--follow", *more]
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
