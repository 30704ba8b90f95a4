"""Import of the one detector that a user names in the working folder.

Nothing else is imported from there. Libraries try to import modules that need not be installed, and
whoever can write into the folder could hand them a file of such a name; so the folder is on no
Python path, and only the modules of a detector that was named are found in it.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from calibrail.errors import InputError, error_text

#: Names the folder, for the processes that a command starts, too.
VARIABLE: Final = "CALIBRAIL_WORKING_FOLDER"

#: Says that no code of somebody's own is loaded, here and in the processes that are started.
_FORBIDDEN: Final = "CALIBRAIL_FORBID_OWN_CODE"

#: Keeps the folder that a Python process is started in off its path.
_SAFE: Final = "PYTHONSAFEPATH"


class _SourceLoader(SourceFileLoader):
    """Compiles the source, of which the SHA-256 is known, and reads no bytecode beside it."""

    def path_stats(self, path: Any) -> Any:
        raise OSError("no bytecode is read")


class _DetectorFinder(MetaPathFinder):
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
def working_folder(folder: Path) -> Iterator[None]:
    """Let detectors that are named stand in a folder, here and in the processes started meanwhile.

    These processes have the folder that they are started in not on their Python path.
    """
    before = {name: os.environ.get(name) for name in (VARIABLE, _SAFE, _FORBIDDEN)}
    os.environ |= {VARIABLE: str(folder), _SAFE: "1"}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def forbid_own_code() -> None:
    """Load no detector by its module, and no plug-in, until the command ends."""
    os.environ[_FORBIDDEN] = "1"


def is_own_code_forbidden() -> bool:
    """Say whether `forbid_own_code` was called for this command, here or in its parent."""
    return bool(os.environ.get(_FORBIDDEN))


def refuse_own_code(what: str) -> None:
    """Raise where code of somebody's own may not be loaded.

    Raises
    ------
    InputError
        It was forbidden.
    """
    if is_own_code_forbidden():
        raise InputError(error_text("own_code_forbidden", what=what))


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

    It stays where calibrail itself was found in it.
    """
    if sys.flags.safe_path or not sys.path:
        return
    first, here = Path(sys.path[0] or ".").resolve(), Path.cwd().resolve()
    if first == here != Path(__file__).resolve().parents[1]:
        del sys.path[0]
