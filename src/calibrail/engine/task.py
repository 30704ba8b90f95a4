"""What is computed of a shard, wherever that happens?"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from calibrail.engine.store import write_result
from calibrail.errors import CalibrailError

#: Who is told, in this process, which share of the shard at hand is done.
told: ContextVar[Callable[[float], None] | None] = ContextVar("told", default=None)

#: How often a shard is begun at most, where the process that computes it dies.
MOST_ATTEMPTS = 3


class Task(Protocol):
    """One function from Arrow to Arrow, with all that it needs to run in another process.

    It is small and can be pickled; what is heavy is loaded where it runs, once.
    """

    @property
    def key(self) -> str:
        """Hexadecimal digits that tell it from every task that could give another result."""

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return what it makes of a shard, row by row, in the order of the rows."""


@dataclass(frozen=True, slots=True)
class Job:
    """One shard that a task is to be applied to.

    Attributes
    ----------
    number : int
        Of the shard, from 0 on.
    task : Task
        What is to be computed.
    input : Path
        Parquet file with the shard's rows; removed once it is not needed any more.
    result : Path
        Where the result is to stand.
    n : int
        Rows.
    """

    number: int
    task: Task
    input: Path
    result: Path
    n: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a shard ended.

    Attributes
    ----------
    number : int
        Of the shard.
    error : str or None
        Why it failed; None where its result stands.
    attempts : int
        How often it was begun.
    """

    number: int
    error: str | None = None
    attempts: int = 1


def perform(task: Task, input: Path, result: Path) -> str | None:
    """Apply a task to the shard in a file, and write the result; return why that failed.

    Where the result stands already, nothing is computed. What a process that is killed leaves half
    written stands beside the shard, and goes with it.
    """
    try:
        if not result.is_file():
            write_result(result, task(pq.read_table(input)), beside=input.parent)
    except (Exception, SystemExit) as error:
        return why(error)
    return None


def why(error: BaseException) -> str:
    """Return what went wrong in one line."""
    kind = "" if isinstance(error, CalibrailError) else f"{type(error).__name__}: "
    return (f"{kind}{error}".strip() or type(error).__name__).splitlines()[0]
