"""Whose code is run: a detector in the working folder that a user names, or a guardrail's file.

Nothing else is imported from there. Libraries try to import modules that need not be installed, and
whoever can write into the folder could hand them a file of such a name; so the folder is on no
Python path, and only the modules of a detector that was named are found in it.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from calibrail.errors import GuardrailError, InputError

#: Names the folder, for the processes that a command starts, too.
VARIABLE: Final = "CALIBRAIL_WORKING_FOLDER"

#: Says whether code that a guardrail names is loaded, here and in the processes that are started:
#: ``no`` for none at all, ``yes`` for that of a file, too, which nobody vouches for.
_OWN_CODE: Final = "CALIBRAIL_OWN_CODE"

#: The guardrail's file that nobody vouches for, while its detector is built.
UNVOUCHED: Final[ContextVar[Path | None]] = ContextVar("unvouched", default=None)

#: Keeps the folder that a Python process is started in off its path.
_SAFE: Final = "PYTHONSAFEPATH"


class _SourceLoader(SourceFileLoader):
    """Compiles the source, of which the SHA-256 is known, and reads no bytecode beside it."""

    def path_stats(self, path: Any) -> Any:
        raise OSError("no bytecode is read")


class _DetectorFinder:
    """Finds the modules of detectors in the folder, and no other: packages that are installed win.

    A module is found while the folder is the one in which it was admitted.
    """

    def __init__(self) -> None:
        self.admitted: set[tuple[str, str]] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the place of an admitted module; what a package holds is found by its own path."""
        folder = os.environ.get(VARIABLE, "")
        if path is not None or (folder, fullname) not in self.admitted:
            return None
        found = PathFinder.find_spec(fullname, [folder])
        if found is not None and isinstance(found.loader, SourceFileLoader):
            found.loader = _SourceLoader(found.loader.name, found.loader.path)
        return found


_FINDER: Final = _DetectorFinder()


@contextmanager
def signal_handlers(handlers: Mapping[int, Any]) -> Iterator[None]:
    """Let signals be handled so within the block; outside the main thread nobody can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables within the block; one that is None is not there."""
    before = {name: os.environ.get(name) for name in changes}
    try:
        _let(changes)
        yield
    finally:
        _let(before)


def _let(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def working_folder(folder: Path) -> AbstractContextManager[None]:
    """Let detectors that are named stand in a folder, here and in the processes started meanwhile.

    These processes have the folder that they are started in not on their Python path. What is said
    of own code within the block ends with it.
    """
    return environment({VARIABLE: str(folder), _SAFE: "1", _OWN_CODE: os.environ.get(_OWN_CODE)})


def settle_own_code(*, allowed: bool, forbidden: bool) -> None:
    """Load code that a guardrail names whoever vouches for it, or none, until the command ends.

    Raises
    ------
    InputError
        Both are asked for.
    """
    if allowed and forbidden:
        raise InputError.on("own_code_both")
    if allowed or forbidden:
        os.environ[_OWN_CODE] = "yes" if allowed else "no"


def is_own_code(said: str) -> bool:
    """Say whether ``yes``, or ``no``, was said of own code here, in a parent or by the user."""
    return os.environ.get(_OWN_CODE) == said


def refuse_own_code(what: str, *, address: bool = False) -> None:
    """Raise where code of somebody's own may not be loaded, or an ``address`` not be asked.

    Raises
    ------
    InputError
        Code was forbidden.
    GuardrailError
        A file names it that nobody vouches for: file and remedies are named.
    """
    if is_own_code("no") and not address:
        raise InputError.on("own_code_forbidden", what=what)
    if (file := UNVOUCHED.get()) is not None:
        raise GuardrailError.on("guardrail_unvouched", file=file, what=what)


def _own_files() -> Path:
    """Return where the SHA-256 of each guardrail is kept that this user made."""
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(root) / "calibrail" / "guardrails"


def note_own_file(sha256: str) -> None:
    """Keep that this user made the guardrail's file of this SHA-256; only the user may read it.

    Raises
    ------
    OSError, RuntimeError
        It cannot be written, or there is no home.
    """
    # Not before it is known that nothing is found in the working folder.
    from calibrail.atomic_files import append_whole

    if is_own_file(sha256):
        return
    path = _own_files()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(0o600)
    append_whole(path, f"{sha256}\n".encode())


def is_own_file(sha256: str) -> bool:
    """Return whether this user made the guardrail's file of this SHA-256, on this machine."""
    with suppress(OSError, RuntimeError, ValueError):
        return sha256 in _own_files().read_text("ascii").split()
    return False


def find_in_folder(module: str) -> ModuleSpec | None:
    """Return the place of a module or a package in the folder, and import nothing.

    None for one within a package, and where no folder was named.
    """
    folder = os.environ.get(VARIABLE)
    return PathFinder.find_spec(module, [folder]) if folder and "." not in module else None


def admit(modules: Iterable[str]) -> None:
    """Let modules be imported from the folder, now and when a function imports them later."""
    if not (folder := os.environ.get(VARIABLE)):
        return
    _FINDER.admitted |= {(folder, name) for name in modules}
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)


def forget_started_folder() -> None:
    """Take the folder off the Python path where ``python -m`` has put it there.

    It stays where calibrail itself was found in it. A detector that is named is found there.
    """
    if sys.flags.safe_path or not sys.path:
        return
    first, here = Path(sys.path[0] or ".").resolve(), Path.cwd().resolve()
    if first == here != Path(__file__).resolve().parents[1]:
        del sys.path[0]
        _let({VARIABLE: str(here), _SAFE: "1"})
