"""Who starts the watches of a service, and again where one ends?

Nothing that decides waits for them: they read what the decision log holds, in processes of their
own, and the thread that keeps them touches nothing else.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from calibrail.serve.metrics import TOGETHER
from calibrail.serve.problems import TOKEN_VARIABLE
from calibrail.serve.watches import AUDIT, GUARDRAIL, deciding

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
    """The watch of one guardrail, which runs or waits to be started."""

    name: str
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    command: list[str] = field(default_factory=list)
    began: float = 0.0
    again: float = 0.0
    pause: float = _FIRST_WAIT
    #: When it is to end, since its guardrail decides no more; None while it does.
    ends: float | None = None
    #: When it was told to.
    told: float | None = None


class Watchers:
    """The watches of a service.

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
        self._watches: dict[Path, _Watch] = {}
        self._stopped = threading.Event()
        # Not waited for by the process: a disk that hangs would keep it from ending.
        self._thread = threading.Thread(target=self._run, name="watchers", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End all watches; what does not end in time is killed."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(_GRACE + 2 * _STEP)
        for watch in tuple(self._watches.values()):
            if watch.process is not None:
                watch.process.kill()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._look()
            except Exception as error:
                self._note(f"the watches could not be looked at: {error!r}")
            self._stopped.wait(_STEP)
        self._end()

    def _look(self) -> None:
        now, wanted = time.monotonic(), {}
        for name in self._names:
            if (folder := deciding(self._root, name)) is not None:
                wanted[folder] = name
        for folder, name in wanted.items():
            self._watches.setdefault(folder, _Watch(name, folder)).ends = None
        for folder, watch in tuple(self._watches.items()):
            self._reap(watch)
            if folder not in wanted and watch.ends is None:
                watch.ends = now + self._linger
            if watch.process is None:
                if watch.ends is not None:
                    del self._watches[folder]
                elif now >= watch.again:
                    self._start(watch)
            elif watch.ends is None and self._command(folder) != watch.command:
                if watch.told is None:
                    self._note(f"the watch of {watch.name} starts again, with labels from now on")
                _tell_to_end(watch, now)
            elif watch.ends is not None and now >= watch.ends:
                _tell_to_end(watch, now)

    def _start(self, watch: _Watch) -> None:
        watch.command, watch.began = self._command(watch.folder), time.monotonic()
        watch.told = None
        variables = dict(os.environ, OMP_NUM_THREADS="1")
        for name in (TOKEN_VARIABLE, TOGETHER):
            variables.pop(name, None)
        try:
            # Standard input ends with this process; a terminal's Ctrl-C is for this one alone.
            watch.process = subprocess.Popen(
                watch.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=variables,
                process_group=0,
            )
        except (OSError, ValueError) as error:
            self._wait(watch, f"cannot be started ({error})")

    def _reap(self, watch: _Watch) -> None:
        if watch.process is None or (code := watch.process.poll()) is None:
            return
        if watch.process.stdin is not None:
            watch.process.stdin.close()
        watch.process = None
        if watch.told is None:
            self._wait(watch, f"ended with {code}")

    def _wait(self, watch: _Watch, why: str) -> None:
        lived = time.monotonic() - watch.began
        watch.pause = _FIRST_WAIT if lived > _WELL else min(2 * watch.pause, _LONGEST_WAIT)
        watch.again = time.monotonic() + watch.pause
        self._note(
            f"the watch of {watch.name} {why}; decisions go on, and it is started again in "
            f"{watch.pause:.0f} s"
        )

    def _end(self) -> None:
        running = [watch for watch in self._watches.values() if watch.process is not None]
        while running:
            for watch in running:
                _tell_to_end(watch, time.monotonic())
            time.sleep(_STEP / 10)
            running = [watch for watch in running if watch.process and watch.process.poll() is None]


def _tell_to_end(watch: _Watch, now: float) -> None:
    """Ask a process to end, the first time; kill it if it has not done so after a while."""
    assert watch.process is not None
    if watch.told is None:
        watch.told = now
        watch.process.terminate()
    elif now >= watch.told + _GRACE:
        watch.process.kill()


def monitor(log: Path) -> Command:
    """Return what makes the command that watches a decision log."""

    def command(folder: Path) -> list[str]:
        # -P: what lies in the folder that the service was started in is not imported.
        words = [sys.executable, "-P", "-m", "calibrail.serve.watched", "monitor"]
        words += [str(folder / GUARDRAIL), str(log), "-o", str(folder), "--follow"]
        if (folder / AUDIT / "session.json").is_file():
            words += ["--labels", str(folder / AUDIT)]
        return words

    return command
