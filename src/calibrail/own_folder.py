"""Which folder belongs to this process alone, and which did processes leave that are no more?"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_LOCK: Final = "lock"


@contextmanager
def own_folder(parent: Path, prefix: str = "run-") -> Iterator[Path]:
    """Yield a new folder that is gone afterwards, and remove those of processes that were killed.

    A process holds a lock as long as it lives, however it ends: what is not locked is nobody's.
    Where a system knows no such locks, folders of killed processes stay.

    Parameters
    ----------
    parent : Path
        The folder around it.
    prefix : str
        What the names of such folders begin with.
    """
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            _remove_abandoned(folder)
    folder, handle = _made(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _made(parent: Path, prefix: str) -> tuple[Path, int]:
    """Return a new folder and its lock, which is held."""
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        handle = None
        with suppress(FileNotFoundError):
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            with suppress(OSError):
                _lock(handle)
            # Before it was locked, somebody may have taken it for abandoned.
            if os.path.samestat(os.fstat(handle), (folder / _LOCK).stat()):
                return folder, handle
        if handle is not None:
            os.close(handle)


def _remove_abandoned(folder: Path) -> None:
    if sys.platform == "win32" or folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return
    try:
        handle = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        # Made a moment ago, or half removed.
        folder.rmdir()
        return
    try:
        _lock(handle)
        shutil.rmtree(folder)
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    """Lock an open file; an ``OSError`` where another process holds it, or there are no locks."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
