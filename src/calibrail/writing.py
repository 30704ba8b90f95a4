"""How is a file written so that it is there whole or not at all?"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from calibrail.own_folder import own_folder


def write_atomically(
    path: Path,
    raw: bytes | Iterable[bytes],
    *,
    durable: bool = False,
    beside: Path | None = None,
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
    """
    path = path.resolve()
    if _is_written_through(path):
        with path.open("wb") as file:
            file.writelines((raw,) if isinstance(raw, bytes) else raw)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=beside or path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines((raw,) if isinstance(raw, bytes) else raw)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


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
    path = path.resolve()
    if _is_written_through(path):
        with tempfile.TemporaryDirectory() as folder:
            yield (made := Path(folder) / "made")
            with made.open("rb") as content, path.open("wb") as file:
                shutil.copyfileobj(content, file)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with own_folder(path.parent, f".{path.name}.") as folder:
        yield (made := folder / "made")
        os.replace(made, path)


def _is_written_through(path: Path) -> bool:
    return path.exists() and not path.is_file()
