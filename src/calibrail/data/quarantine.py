"""Where do rows go that cannot be used?"""

import json
from pathlib import Path
from typing import IO

from calibrail.data.rows import Problem
from calibrail.errors import file_errors


class Quarantine:
    """Appends one JSON line a problem to a file that only exists once there is a problem.

    A file that an earlier run left at the same path is removed first, so that the file never
    speaks of other data than the run's.

    Parameters
    ----------
    path : Path or None
        None counts nothing and writes nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._stream: IO[str] | None = None
        if path is not None:
            with file_errors(f"cannot replace {path}"):
                path.unlink(missing_ok=True)

    def add(self, problem: Problem) -> None:
        """Write ``problem`` as `Problem.entry` has it."""
        if self.path is None:
            return
        if self._stream is None:
            with file_errors(f"cannot write {self.path}"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._stream = self.path.open("w", encoding="utf-8", newline="\n")
        self._stream.write(json.dumps(problem.entry()) + "\n")

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._stream is not None:
            self._stream.close()
