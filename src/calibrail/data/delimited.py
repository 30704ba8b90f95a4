"""How are CSV files read row by row, whatever their cells hold?"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from calibrail.data.rows import WHOLE_ROW, Problem, Row, TableItem, shorten
from calibrail.errors import DataError, InputError

#: Characters that one cell may hold. An unclosed quote would swallow the rest of the file; past
#: this size it costs its own row and no more.
CELL_LIMIT: Final = 1 << 26


def csv_rows(path: Path, options: Mapping[str, object] | None = None) -> Iterator[TableItem]:
    """Yield the records of a CSV file with a header, in constant memory.

    Cells are texts; an empty cell is None. A byte order mark is passed over. Rows are numbered by
    the line on which they start, so that the first one after the header is row 2.

    Parameters
    ----------
    path : Path
        A ``.tsv`` file is separated by tabs, every other by commas.
    options : mapping
        ``delimiter``: another single character.

    Raises
    ------
    DataError
        The file cannot be opened, or its header is empty or names a column twice.

    Notes
    -----
    Raises the process-wide `csv.field_size_limit` to `CELL_LIMIT` when it is lower.
    """
    given = (options or {}).get("delimiter")
    delimiter = str(given) if given else ("\t" if path.suffix.lower() == ".tsv" else ",")
    if len(delimiter) != 1:
        raise InputError(f"delimiter must be a single character; got {delimiter!r}")
    if csv.field_size_limit() < CELL_LIMIT:
        csv.field_size_limit(CELL_LIMIT)
    try:
        stream = path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")
    except OSError as error:
        raise DataError(f"cannot open {path}: {error.strerror or error}") from error
    with stream:
        reader = csv.reader(stream, delimiter=delimiter)
        header = _header(path, reader)
        while True:
            number = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                remedy = "look for a quote that is never closed"
                yield Problem(number, WHOLE_ROW, "broken CSV", "", str(error), remedy)
                continue
            if cells:
                yield _row(number, header, cells)


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    try:
        header = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        raise DataError(f"{path} has no readable header: {error}") from error
    if not any(header):
        raise DataError(f"{path} is empty: its first line must name the columns")
    named = [name for name in header if name]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise DataError(f"{path} names columns twice in its header: {', '.join(twice)}; rename one")
    return [name or f"column_{i}" for i, name in enumerate(header, start=1)]


def _row(number: int, header: list[str], cells: list[str]) -> TableItem:
    if len(cells) != len(header):
        detail = f"{len(cells)} where the header has {len(header)}"
        remedy = "quote cells that hold the delimiter or a line break"
        seen = shorten(cells)
        return Problem(number, WHOLE_ROW, "wrong number of cells", seen, detail, remedy)
    for cell in cells:
        # Bytes that are not UTF-8 were decoded to surrogates, which no valid UTF-8 yields.
        try:
            cell.encode("utf-8")
        except UnicodeEncodeError:
            remedy = "save the file as UTF-8"
            return Problem(number, WHOLE_ROW, "invalid UTF-8", shorten(cell), "", remedy)
    return Row(number, dict(zip(header, (cell if cell else None for cell in cells), strict=True)))
