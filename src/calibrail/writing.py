"""How is a file written so that it is there whole or not at all?"""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


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
