"""Write a file whole or not at all; private temp folders."""

import errno
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Final

#: No folder of anybody else's holds a file of this name.
_LOCK: Final = ".calibrail-lock"
#: And none has a name that ends so.
_OWN: Final = ".calibrail-unfinished"
_NEW: Final = ".new-"
_BINARY: Final = getattr(os, "O_BINARY", 0)
#: A pipe would otherwise be opened only once somebody writes to it. Windows has none here.
_AT_ONCE: Final = getattr(os, "O_NONBLOCK", 0)


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
    for folder in parent.glob(f"{escape(prefix)}*{_OWN}"):
        with suppress(OSError):
            own = sys.platform != "win32" and folder.stat().st_uid == os.getuid()
            if own and not folder.is_symlink():
                # Whoever was killed while it was removed may have left it without its lock.
                with suppress(FileNotFoundError), (folder / _LOCK).open("r+b") as lock:
                    lock_file(lock.fileno())
                shutil.rmtree(folder)
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    with suppress(OSError):
        lock_file(handle)
    # It is looked for by this name. Windows renames no folder in which a file is open.
    folder = folder if sys.platform == "win32" else folder.rename(f"{folder}{_OWN}")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def lock_file(handle: int, *, wait: bool = False) -> None:
    """Lock an open file; an ``OSError`` where another process holds it, or there are no locks."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Let one process at a time read and write in a folder, where the system has such locks."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        # A file system of a network may know no locks.
        with suppress(OSError):
            lock_file(handle, wait=True)
        yield
    finally:
        os.close(handle)


def append_whole(path: Path, raw: bytes, *, durable: bool = False) -> None:
    """Add lines to a file in one piece, or leave it as it was; whoever writes at once waits.

    They begin a new line where an earlier one was cut off.

    Parameters
    ----------
    path : Path
        The file; it is made where it is missing, and need not be readable.
    raw : bytes
        The lines.
    durable : bool
        Whether they survive a power cut.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY, 0o666)
    try:
        with suppress(OSError):
            lock_file(handle, wait=True)
        before = os.fstat(handle).st_size
        # A pipe has no size, and is not read.
        if before:
            with suppress(OSError), path.open("rb") as file:
                file.seek(-1, os.SEEK_END)
                raw = raw if file.read() == b"\n" else b"\n" + raw
        try:
            write_whole(handle, raw, durable=durable)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(handle, before)
            raise
    finally:
        os.close(handle)


def write_whole(handle: int, raw: bytes, *, durable: bool) -> None:
    """Write bytes to an open file, however many the system takes at a time."""
    rest = memoryview(raw)
    while rest:
        rest = rest[os.write(handle, rest) :]
    if durable:
        os.fsync(handle)


def write_atomically(
    path: Path,
    raw: bytes | Iterable[bytes],
    *,
    durable: bool = False,
    beside: Path | None = None,
    mode: int = 0o666,
    new: bool = False,
) -> None:
    """Write a file, or the parts of one, whole or not at all: else the old file stays in place.

    Parameters
    ----------
    path : Path
        Its folder is made where it is missing.
    raw : bytes, or iterable of bytes
        The content, or its parts.
    durable : bool
        Whether the content is to be on the disk before the old file goes: it then survives a power
        cut, too.
    beside : Path, optional
        Folder, of the same file system, where it stands until it is whole; that of ``path`` when
        left out.
    mode : int
        Who may read and write a new file, less what the umask takes; one that is replaced keeps
        its own.
    new : bool
        Whether a file that is there is an error (``FileExistsError``), even one that another
        process makes at this moment.
    """
    path = Path(os.path.realpath(path))
    if _is_written_through(path) and not new:
        with path.open("wb") as file:
            file.writelines((raw,) if isinstance(raw, bytes) else raw)
        return
    # ``tempfile`` would make it for nobody else, whatever the umask says. A name has 255 bytes.
    temporary = (beside or path.parent) / f".{path.name[:50]}.{secrets.token_hex(8)}"
    with new_folder(path.parent):
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
        try:
            with suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(path.stat().st_mode))
            with os.fdopen(handle, "wb") as file:
                file.writelines((raw,) if isinstance(raw, bytes) else raw)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            if new:
                # A rename would replace what has come in between.
                os.link(temporary, path)
            else:
                os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the path at which a file is to be made; it takes its place when the block ends.

    An error that leaves the block leaves the old file as it was, and whatever ends the process
    leaves nothing that the next one does not remove. A link stays one; what is no file, such as a
    pipe or ``/dev/null``, gets the content.

    Parameters
    ----------
    path : Path
        Its folder is made where it is missing.
    """
    path = Path(os.path.realpath(path))
    holder: AbstractContextManager[str | Path] = own_folder(path.parent, f".{path.name[:50]}.")
    if _is_written_through(path):
        holder = tempfile.TemporaryDirectory()
    with new_folder(path.parent), holder as folder:
        yield (made := Path(folder) / "made")
        _put(made, path)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a folder for files; they take their places in another one when the block ends.

    An error that leaves the block leaves the other folder as it was.

    Parameters
    ----------
    path : Path
        The other folder, made where it is missing.
    """
    with new_folder(path), own_folder(path, _NEW) as folder:
        yield folder
        made = [item for item in sorted(folder.rglob("*")) if item != folder / _LOCK]
        places = {item: Path(os.path.realpath(path / item.relative_to(folder))) for item in made}
        for item, place in places.items():
            if place.exists() and place.is_dir() != item.is_dir():
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(place))
        for item, place in places.items():
            if item.is_dir():
                place.mkdir(exist_ok=True)
            else:
                _put(item, place)


def final_place(path: Path) -> Path:
    """Return where a file will stand that is made in a `whole_folder`."""
    return Path(*(part for part in path.parts if not part.startswith(_NEW)))


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Make a folder, and those around it, where missing; those that an error leaves empty go."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for folder in made:
                folder.rmdir()
        raise


def _put(made: Path, path: Path) -> None:
    """Let a file that was made take its place, with the mode of the one that it replaces."""
    if _is_written_through(path):
        with made.open("rb") as content, path.open("wb") as file:
            shutil.copyfileobj(content, file)
        return
    with suppress(FileNotFoundError):
        made.chmod(stat.S_IMODE(path.stat().st_mode))
    try:
        os.replace(made, path)
    except OSError as error:
        # A link may lead to another file system.
        if error.errno != errno.EXDEV:
            raise
        write_atomically(path, made.read_bytes())


def _is_written_through(path: Path) -> bool:
    return path.exists() and not path.is_file()


def read_regular(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a regular file.

    Parameters
    ----------
    path : Path
        The file, or a link to one.
    most : int, optional
        No more bytes are read. Without it all are, and a file of more than 1 GiB is refused.

    Raises
    ------
    OSError
        If it cannot be read, is too large, or is a pipe, a device or a folder. None of them is
        waited for.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE)) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if most is None and state.st_size > 2**30:
            raise OSError(errno.EINVAL, "it is larger than 1 GiB")
        return file.read(most)
