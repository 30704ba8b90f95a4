"""Actor that computes shards on a node of a Ray cluster."""

import os
import pickle
import socket
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pyarrow as pa

from calibrail.engine.shards import MOST_ATTEMPTS, ShardTask, error_line, perform

#: Seconds until every node of a network file system sees a file that the driver wrote.
_PATIENCE: Final = 10.0
#: What an actor says of a shard. ``unfit`` is why its node can compute none at all: one of the
#: codes below, or what went wrong.
_ANSWER: Final = pa.schema(
    {
        "number": pa.int64(),
        "error": pa.string(),
        "attempts": pa.int64(),
        "node": pa.string(),
        "unfit": pa.string(),
    }
)
#: The node does not see the rows of a shard.
UNSEEN: Final = "unseen"
_DIED: Final = f"the process that computed it died {MOST_ATTEMPTS} times; is there memory enough?"


class ShardActor:
    """What holds a task, and its models, on a node of the cluster.

    Parameters
    ----------
    pickled : bytes
        The task.
    wanted : str
        The driver's version of calibrail.
    """

    def __init__(self, pickled: bytes, wanted: str) -> None:
        self._unfit = other_version(wanted)
        if self._unfit is None:
            try:
                self._task: ShardTask = pickle.loads(pickled)
            except Exception as error:
                self._unfit = f"cannot load what is to be computed ({error_line(error)})"

    def __call__(self, shard: pa.Table) -> pa.Table:
        """Compute the one shard of which the row holds the number and the paths."""
        (row,) = shard.to_pylist()
        input, result = Path(row["input"]), Path(row["result"])
        unfit = self._unfit or (None if result.is_file() or is_visible(input) else UNSEEN)
        error, attempts = (None, 0) if unfit else self._compute(input, result)
        answer = [row["number"], error, attempts, socket.gethostname(), unfit]
        return pa.table([[value] for value in answer], _ANSWER)

    def _compute(self, input: Path, result: Path) -> tuple[str | None, int]:
        try:
            attempt = _begin_attempt(input)
        except OSError as error:
            return f"{socket.gethostname()} cannot write beside {input}: {error.strerror}", 1
        given_up = attempt > MOST_ATTEMPTS
        failure = _DIED if given_up else perform(self._task, input, result)
        for marker in _markers(input)[:attempt]:
            marker.unlink(missing_ok=True)
        return failure, min(attempt, MOST_ATTEMPTS)


def other_version(wanted: str) -> str | None:
    """Return why this node's calibrail cannot do what the driver's asks."""
    if (here := version("calibrail")) == wanted:
        return None
    return f"has calibrail {here}, and the driver {wanted}; install the same on all nodes"


def is_visible(file: Path) -> bool:
    """Return whether this machine sees, after a while at last, a file that another one wrote."""
    until = time.monotonic() + _PATIENCE
    while not file.is_file():
        if time.monotonic() > until:
            return False
        with suppress(OSError):
            # A network file system looks again where a folder is listed.
            os.listdir(file.parent)
        time.sleep(0.2)
    return True


def _begin_attempt(input: Path) -> int:
    """Leave a marker that outlives this process; return which attempt begins with it."""
    for attempt, marker in enumerate(_markers(input), 1):
        # The storage itself makes or refuses it, whatever this node remembers of the folder.
        with suppress(FileExistsError), marker.open("x"):
            return attempt
    return MOST_ATTEMPTS + 1


def _markers(input: Path) -> list[Path]:
    return [input.with_name(f"{input.name}.attempt-{n + 1}") for n in range(MOST_ATTEMPTS)]
