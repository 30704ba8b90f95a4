"""How are CSV files read row by row, whatever their cells hold?"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from calibrail.data.files import SUFFIXES, open_bytes, suffix_of
from calibrail.data.rows import WHOLE_ROW, Problem, Row, TableItem, shorten
from calibrail.errors import DataError, InputError

#: Characters that one cell may hold. An unclosed quote would swallow the rest of the file; past
#: this size it costs its own row and no more.
CELL_LIMIT: Final = 1 << 26

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def csv_rows(path: Path, delimiter: object = None) -> Iterator[TableItem]:
    """Yield the records of a CSV file with a header, in constant memory.

    Cells are texts; an empty cell is None. A byte order mark is passed over. Rows are numbered by
    the line on which they start, so that the first one after the header is row 2.

    Parameters
    ----------
    path : Path
        The file.
    delimiter : str or None
        A single character; by default a ``.tsv`` file is separated by tabs, others by commas.

    Raises
    ------
    DataError
        The file cannot be opened, or its header is empty or names a column twice.

    Notes
    -----
    Raises the process-wide `csv.field_size_limit` to `CELL_LIMIT` when it is lower.
    """
    delimiter = str(delimiter or ("\t" if suffix_of(path) == ".tsv" else _separator(path)))
    if len(delimiter) != 1:
        raise InputError(f"delimiter must be a single character; got {delimiter!r}")
    if csv.field_size_limit() < CELL_LIMIT:
        csv.field_size_limit(CELL_LIMIT)
    with io.TextIOWrapper(open_bytes(path), "utf-8-sig", "surrogateescape", "") as stream:
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


def _separator(path: Path) -> str:
    """Return what parts the cells where the name does not tell: a tab, if the header has tabs."""
    if suffix_of(path) in SUFFIXES:
        return ","
    with open_bytes(path) as stream:
        first = stream.readline(4096)
    return "\t" if first.count(b"\t") > first.count(b",") else ","


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    try:
        header = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        raise DataError(f"{path} has no readable header: {error}") from error
    if not any(header):
        raise DataError(f"{path} is empty: its first line must name the columns")
    if twice := sorted(name for name, n in Counter(header).items() if name and n > 1):
        raise DataError(f"{path} names columns twice in its header: {', '.join(twice)}; rename one")
    return [name or f"column_{i}" for i, name in enumerate(header, start=1)]


def _row(number: int, header: list[str], cells: list[str]) -> TableItem:
    if len(cells) != len(header):
        detail = f"{len(cells)} where the header has {len(header)}"
        remedy = "quote cells that hold the delimiter or a line break"
        seen = shorten(cells)
        return Problem(number, WHOLE_ROW, "wrong number of cells", seen, detail, remedy)
    # Bytes that are not UTF-8 were decoded to surrogates, which no valid UTF-8 yields.
    if (bad := next(filter(_SURROGATE.search, cells), None)) is not None:
        remedy = "save the file as UTF-8"
        return Problem(number, WHOLE_ROW, "invalid UTF-8", shorten(bad), "", remedy)
    return Row(number, {name: cell or None for name, cell in zip(header, cells, strict=True)})
