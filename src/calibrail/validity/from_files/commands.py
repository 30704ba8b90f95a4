"""Where does a simulation work, and how does it run a command?"""

import io
import json
import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from calibrail.settings.option import OPTION, changed

#: Detector that reads the first column of scores of a population's files.
SCORE: Final = "column:column=s0,higher=hallucinated"
#: Where many systems have a disk in memory: labels wait for the disk one by one.
_MEMORY: Final = "/dev/shm"
COLUMNS: Final = ("--score-column", "s0", "--higher", "hallucinated")


@contextmanager
def folder() -> Iterator[Path]:
    """Give a folder of its own to work in, in memory where that is one, and remove it."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="calibrail-", dir=memory) as name, chdir(name):
        yield Path(name)


def command(*words: object) -> dict[str, Any]:
    """Run a command with ``--json`` in this process; return what it printed.

    Raises
    ------
    CalibrailError
        What the command line prints as an error.
    """
    from calibrail.cli import app

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        app([*map(str, words), "--json"], standalone_mode=False)
    content: dict[str, Any] = json.loads(out.getvalue())
    return content


def options(*settings: Any) -> list[str]:
    """Return the words of a command line that stand for settings.

    >>> from calibrail.settings import Promise, Requirement
    >>> options(Promise(alpha=0.2), Requirement(risks=("fpr<=0.2", "recall>=0.8")))
    ['--alpha', '0.2', '--risk', 'fpr<=0.2', '--risk', 'recall>=0.8']
    """
    words: list[str] = []
    for item in settings:
        for name, value in changed(item).items():
            flag = (type(item).__dataclass_fields__[name].metadata[OPTION].flag or name).replace(
                "_", "-"
            )
            if value is True:
                words.append(f"--{flag}")
            for entry in value if isinstance(value, tuple) else () if value is True else (value,):
                words += [f"--{flag}", str(entry)]
    return words
