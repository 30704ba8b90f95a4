"""How does a table become a file while its rows are still coming?"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from calibrail.errors import DataError
from calibrail.scores.table import REASON, WRITTEN, ScoreTable, column_of, parquet_writer
from calibrail.writing import whole_file


@contextmanager
def score_file(path: Path) -> Iterator["ScoreFile"]:
    """Yield a Parquet file of scores that grows part by part, and is there whole or not at all.

    It is made when the block ends, unless an error leaves it; the bytes are those that
    ``ScoreTable.to_parquet`` writes of all rows.

    Parameters
    ----------
    path : Path
        The file; its folder is made where it does not exist.

    Raises
    ------
    DataError
        If the file cannot be written.
    """
    with ExitStack() as stack:
        with _errors(path):
            made = stack.enter_context(whole_file(path))
        file = ScoreFile(path, made)
        try:
            yield file
        except BaseException:
            file.close()
            raise
        with _errors(path):
            file.finish()
            stack.close()


class ScoreFile:
    """A file of scores that grows; `score_file` makes one.

    Attributes
    ----------
    n : int
        Rows so far.
    undefined : dict of str to int
        How many of them each score has no value for.
    """

    def __init__(self, path: Path, made: Path) -> None:
        self._path, self._made, self._growing = path, made, made.with_name("growing")
        self._writer: Any = None
        self._waiting: list[pa.Table] = []
        self.n, self.undefined = 0, dict[str, int]()

    def close(self) -> None:
        """Let go of what was written so far."""
        if self._writer is not None:
            self._writer.close()

    def add(self, part: ScoreTable, places: Mapping[str, pa.Array] | None = None) -> None:
        """Add the next rows, whose reasons are by the row of the whole.

        ``places`` is as in ``ScoreTable.arrays``: all parts have it, or none.
        """
        rows = pa.table(part.arrays(slice(0, len(part)), first=self.n, places=places))
        for name, reasons in part.reasons.items():
            self.undefined[name] = self.undefined.get(name, 0) + len(reasons)
        self.n += len(part)
        self._waiting.append(rows)
        with _errors(self._path):
            while sum(item.num_rows for item in self._waiting) >= WRITTEN:
                self._write(WRITTEN)

    def _write(self, n: int) -> None:
        rows = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting = [rest] if (rest := rows.slice(n)).num_rows else []
        if self._writer is None:
            self._writer = parquet_writer(self._growing, rows.schema)
        self._writer.write_table(rows.slice(0, n))

    def finish(self) -> None:
        """Make the file, without the reasons of scores that need none."""
        if self._waiting or self._writer is None:
            self._write(WRITTEN)
        self.close()
        needless = {column_of(name, REASON) for name, n in self.undefined.items() if not n}
        with pq.ParquetFile(self._growing) as file:
            names = [name for name in file.schema_arrow.names if name not in needless]
            schema = pa.schema([file.schema_arrow.field(name) for name in names])
            with parquet_writer(self._made, schema) as writer:
                for group in range(file.num_row_groups):
                    rows = file.read_row_group(group, columns=names)
                    writer.write_table(rows.select(names).combine_chunks())


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot write {path}: {error}") from error
