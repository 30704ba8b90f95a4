"""Finished parts of a full simulation, so that one that was interrupted goes on where it stopped.

A part is kept in ``.cache/validity`` under the digest of the code that made it, the package and
the simulations: other code finds none. What it took is kept with it, so that the time stated is
that of all parts, whenever they ran.
"""

import os
import pickle
import platform
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import scipy

import calibrail
from calibrail.atomic_files import write_atomically

_Result = TypeVar("_Result")

#: Names the folder to every process of a full run; nothing is kept where it is not set.
_VARIABLE: Final = "CALIBRAIL_VALIDITY_PARTS"
_CACHE: Final = Path(__file__).resolve().parents[2] / ".cache" / "validity"


def keep_parts() -> None:
    """Let this process and those that it starts keep the parts that they finish."""
    here, package = Path(__file__).parent, Path(calibrail.__file__).parent
    digest = sha256(f"{platform.python_version()} {np.__version__} {scipy.__version__}".encode())
    for root in (here, package):
        for path in sorted(path for kind in ("*.py", "*.toml") for path in root.rglob(kind)):
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    folder = _CACHE / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[_VARIABLE] = str(folder)


def part(key: object, made: Callable[[], _Result]) -> _Result:
    """Return what was kept of a part, or make it and keep it.

    Parameters
    ----------
    key : object
        What tells the part from all others, by its ``repr``.
    made : callable
        Simulates the part.
    """
    if not (folder := os.environ.get(_VARIABLE)):
        return made()
    path = Path(folder) / sha256(repr(key).encode()).hexdigest()[:32]
    if path.exists():
        result: _Result = pickle.loads(path.read_bytes())[0]
        return result
    started = time.process_time()
    result = made()
    write_atomically(path, pickle.dumps((result, time.process_time() - started)))
    return result


def minutes() -> float:
    """Return the minutes of one processor that all parts of this code took, up to now."""
    parts = Path(os.environ[_VARIABLE]).iterdir()
    seconds: list[float] = [pickle.loads(path.read_bytes())[1] for path in parts]
    return sum(seconds) / 60.0
