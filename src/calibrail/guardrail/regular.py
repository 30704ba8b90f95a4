"""How is a file read that may be something else, which has no end or nobody writes to?"""

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, most: int = -1) -> bytes:
    """Return the bytes of a regular file.

    Parameters
    ----------
    path : Path
        The file, or a link to one.
    most : int
        No more bytes are read; all where it is negative.

    Raises
    ------
    OSError
        If it cannot be read, or is a pipe, a device or a folder. None of them is waited for.
    """
    with open(path, "rb", opener=_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        return file.read(most)


def _at_once(path: str, flags: int) -> int:
    # A pipe would otherwise be opened only once somebody writes to it. Windows has none here.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
