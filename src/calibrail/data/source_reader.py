"""SourceReader: rows, files and digest of an opened source."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from calibrail.data.rows import LabelOrigin, ParsedItem, RowBatch, SourceRow, TableItem
from calibrail.data.traces._export import ExportNotes

#: Rows looked at before a format, its columns and its fields are settled.
PEEKED: Final = 100
_PEEKED_VALUES: Final = 100_000

OpenBatches: TypeAlias = Callable[..., Iterator[RowBatch]]


@dataclass(frozen=True, slots=True)
class Opened:
    """A source with the reader that fits it.

    Parameters
    ----------
    format : str
        Name of the format.
    table : bool
        Whether the rows carry the user's own column names (else calibrail's).
    cells : bool
        Whether texts come from CSV cells.
    files : tuple of Path
        The files that are read, for a digest.
    items : iterator
        The rows, not begun.
    digest : callable or None
        What identifies rows that are in no file; None where the files do.
    rectangular : bool
        Whether the first row has all columns.
    batches : callable or None
        ``batches(columns=..., rows=...)`` gives the rows many at a time, as Arrow has them, with
        these columns alone where some are named.
    origin : Origin or None
        How its labels came about, where the source says so itself.
    export : ExportNotes or None
        What became of its parts, where it is the export of a tool.
    parts : iterator or None
        The rows of such an export as they are in the file, not begun.
    n_rows : int or None
        How many rows there are in memory; None where that is not known, or the files tell.
    """

    format: str
    table: bool
    cells: bool
    files: tuple[Path, ...]
    items: Iterator[ParsedItem]
    digest: Callable[[], str | None] | None = None
    rectangular: bool = False
    batches: OpenBatches | None = None
    origin: LabelOrigin | None = None
    export: ExportNotes | None = None
    parts: Iterator[TableItem] | None = None
    n_rows: int | None = None


def peek(
    items: Iterator[ParsedItem], *, rectangular: bool = False, until: str = ""
) -> tuple[list[ParsedItem], dict[str, None]]:
    """Take the first items; return them with the field names of their rows, in order.

    Goes on past `PEEKED` items for as long as none could be parsed, 100 times as far at most. Of
    a table whose first row has all columns, fewer are taken where there are thousands of columns.
    As far is gone for a name that begins with ``until``.
    """
    head: list[ParsedItem] = []
    fields: dict[str, None] = {}
    for item in islice(items, 100 * PEEKED):
        head.append(item)
        if isinstance(item, SourceRow):
            fields |= dict.fromkeys(item.values)
        values = len(head) * len(fields) if rectangular else 0
        enough = len(head) >= PEEKED or values >= _PEEKED_VALUES
        if fields and enough and (not until or any(name.startswith(until) for name in fields)):
            break
    return head, fields
