"""CSV and Excel workbooks."""

import csv
import io
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any, Final
from xml.parsers.expat import ExpatError, ParserCreate
from zipfile import BadZipFile, ZipFile

import numpy as np

from calibrail.data import tables
from calibrail.data.aliases import NAMES, aliases_of
from calibrail.data.example import WHOLE_ROW, RowBatch, RowProblem, SourceRow, TableItem, shorten
from calibrail.data.files import (
    DELIMITERS,
    ROW_LIMIT,
    SHORTER,
    one_more_empty,
    open_bytes,
    refuse_unpacked,
    suffix_of,
)
from calibrail.data.values import number_in
from calibrail.errors import DataError, InputError, errors_as, extra
from calibrail.options import ReadOptions
from calibrail.options.fields import spell_option

#: Characters that one cell may hold. An unclosed quote would swallow the rest of the file; past
#: this size it costs its own row and no more.
CELL_LIMIT: Final = 1 << 26

#: Fewer lines than this in another encoding are mistakes of writing.
_FEW: Final = 5
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def csv_rows(path: Path, delimiter: object = None, encoding: object = None) -> Iterator[TableItem]:
    """Yield the records of a CSV file with a header, in constant memory.

    Cells are texts; an empty cell is None. A byte order mark is passed over, and so is Excel's
    line ``sep=;``. Rows are numbered by the line on which they start, so that the first one after
    the header is row 2.

    Parameters
    ----------
    path : Path
        The file.
    delimiter : str or None
        A single character; by default the one of `DELIMITERS` that parts the header, and every row
        after it alike.
    encoding : str or None
        By default UTF-8, or UTF-16 or UTF-32 where it is that.

    Raises
    ------
    DataError
        The file cannot be opened, its header is empty, names a column twice or is in another
        encoding, or may be parted in two ways.

    Notes
    -----
    Raises the process-wide `csv.field_size_limit` to `CELL_LIMIT` when it is lower.
    """
    n_empty = 0
    with _opened_csv(path, delimiter, encoding) as (reader, header, before, aside):
        yield from aside
        while True:
            number = reader.line_num + 1 + before
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                remedy = "look for a quote that is never closed"
                yield RowProblem(number, WHOLE_ROW, "broken CSV", "", str(error), remedy)
                continue
            # A spreadsheet writes empty rows out.
            if _names_again(header, cells):
                yield _in_heading(number, cells)
            elif any(cells):
                yield _row(number, header, cells)
            else:
                n_empty = one_more_empty(path, n_empty, number)


def csv_batches(
    path: Path,
    delimiter: object = None,
    encoding: object = None,
    columns: Collection[str] | None = None,
    rows: int = tables._BATCH,
) -> Iterator[RowBatch]:
    """Yield the records of a CSV file many at a time; their numbers are those of `csv_rows`.

    Raises
    ------
    tables.NotPlainError
        Records take several lines, or one cannot be read; or some belong to the heading.
    """
    import pyarrow as pa

    with _opened_csv(path, delimiter, encoding) as (reader, header, before, aside):
        if aside:
            raise tables.NotPlainError
        size = max(1, min(rows, tables._VALUES // len(header)))
        while True:
            number = reader.line_num + 1
            try:
                records = list(islice(reader, size))
            except csv.Error as error:
                raise tables.NotPlainError from error
            if not records:
                return
            plain = all(map(any, records)) and set(map(len, records)) == {len(header)}
            if not plain or reader.line_num + 1 - number != len(records):
                raise tables.NotPlainError
            held = {}
            for name, cells in zip(header, zip(*records, strict=True), strict=True):
                if not (text := "".join(cells)).isascii() and _SURROGATE.search(text):
                    raise tables.NotPlainError
                if columns is None or name in columns:
                    held[name] = tables.string_array([cell or None for cell in cells])
            batch = pa.RecordBatch.from_arrays(list(held.values()), list(held))
            yield RowBatch(batch, number + before)


@contextmanager
def _opened_csv(
    path: Path, delimiter: object, encoding: object
) -> Iterator[tuple[Any, list[str], int, list[RowProblem]]]:
    """Open a CSV file behind its heading.

    Gives the records, the names of the columns, how many lines are before those that are counted,
    and the records above or below the names that are no answers.
    """
    encoding = None if encoding is None else str(encoding)
    if csv.field_size_limit() < CELL_LIMIT:
        csv.field_size_limit(CELL_LIMIT)
    wrong = errors_as(InputError, LookupError, "encoding_unknown", encoding=encoding)
    with wrong, _opened_text(path, encoding) as stream:
        head = stream.read(_HEAD)
    lines = head.splitlines()
    n_bad = sum(_SURROGATE.search(line) is not None for line in lines)
    if n_bad >= _FEW and n_bad > len(lines) // 20:
        raise DataError(
            f"{path}: {n_bad} of its first {len(lines)} lines are not UTF-8; {_encoding_remedy()}"
        )
    stated = _STATED.match(head)
    chosen = str(delimiter or (stated[1] if stated else _delimiter(path, head)))
    if len(chosen) != 1:
        raise InputError(f"delimiter must be a single character; got {chosen!r}")
    with _opened_text(path, encoding) as stream:
        if stated:
            stream.readline()
        reader, before = csv.reader(stream, delimiter=chosen), int(bool(stated))
        begins = io.StringIO(head[stated.end() if stated else 0 :], "")
        records = list[list[str]]()
        # A record that cannot be read, or is cut off, is told where it is read.
        with suppress(csv.Error):
            records.extend(islice(csv.reader(begins, delimiter=chosen), _HEADING))
        above, below = _heading(path, records)
        places = [(reader.line_num + 1 + before, next(reader)) for _ in range(above)]
        with errors_as(DataError, csv.Error, "header_unreadable", path=path):
            titles = next(reader, [])
        if _SURROGATE.search("".join(titles)):
            raise DataError(f"{path}: its header is not UTF-8; {_encoding_remedy()}")
        header = _column_names(path, titles)
        places += [(reader.line_num + 1 + before, next(reader)) for _ in range(below)]
        yield reader, header, before, [_in_heading(*place) for place in places if any(place[1])]


#: Records among which the names of the columns are looked for, and how Qualtrics begins the cells
#: of the record below them that is the last one of its heading.
_HEADING: Final = 60
_IMPORT_ID: Final = '{"ImportId"'


def _heading(path: Path, records: Sequence[Sequence[object]]) -> tuple[int, int]:
    """Return how many records above, and how many below, the names of columns are no answers.

    Titles, and headings of several columns, fill at most half of them and have the name of no
    field. The names below fill more: different texts that are no numbers and come not again below
    themselves, of which one is that of a field.

    Raises
    ------
    DataError
        A title of one cell stands above the table, and nobody can tell which record names columns.
    """
    filled = [sum(cell not in (None, "") for cell in record) for record in records]
    sizes = Counter(map(len, filter(None, records))).most_common(1)
    width = next((size for size, n in sizes if 2 * n > sum(map(bool, records))), 0)
    at = next((i for i, n in enumerate(filled) if 2 * n > width), 0)
    names = [name for name in records[at] if name not in (None, "")] if records else []
    rest = [record for record in records[at + 1 :] if len(record) == width]
    if at and any(filled[:at]) and not any(map(_names_fields, records[:at])):
        sure = len({*names}) == len(names) and _names_fields(names)
        sure &= all(isinstance(name, str) and number_in(name) is None for name in names)
        columns = zip(records[at], zip(*rest, strict=True), strict=False)
        sure &= all(name in (None, "") or name not in cells for name, cells in columns)
        if not sure and records[0] and records[0][0] and filled[0] == 1 and width > _OF_TITLE:
            raise DataError.on("title_above", path=path, seen=shorten(records[0][0]), width=width)
        at = at if sure else 0
    elif any(filled[:at]):
        at = 0
    ends = [
        any(record) and all(str(cell).startswith(_IMPORT_ID) for cell in record if cell)
        for record in records[at + 1 : at + 4]
    ]
    return at, ends.index(True) + 1 if True in ends else 0


#: Columns beside which a record of one cell is a title.
_OF_TITLE: Final = 2


def _names_fields(record: Sequence[object]) -> bool:
    """Say whether a cell is a name by which a field is known."""
    names = [cell for cell in record if isinstance(cell, str)]
    return "id" in names or any(aliases_of(field, names) for field in NAMES["fields"])


def _in_heading(number: int, cells: Sequence[object]) -> RowProblem:
    remedy = "it counts as no answer; delete it if that is so"
    return RowProblem(number, WHOLE_ROW, "part of the heading", shorten(cells), "", remedy)


def _names_again(header: Sequence[str], cells: Sequence[object]) -> bool:
    """Return whether a row is the line of the columns' names, as files put together repeat it."""
    if len(cells) < 2 or header[-1] not in (cells[-1], f"column_{len(cells)}"):
        return False
    names = [str(cell or f"column_{i}").strip("\ufeff \t") for i, cell in enumerate(cells, 1)]
    return names == header


#: Characters that tell what parts the cells, and the line in which Excel says so itself.
_HEAD: Final = 1 << 16
_STATED: Final = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)


def _opened_text(path: Path, encoding: str | None) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_bytes(path, encoding), "utf-8-sig", "surrogateescape", "")


def _delimiter(path: Path, head: str) -> str:
    """Return what parts the cells of a file: the header, and every row that is seen, alike."""
    usual = "\t" if suffix_of(path) == ".tsv" else ","
    alike, others, titled = list[str](), list[str](), list[str]()
    for mark in DELIMITERS:
        with suppress(csv.Error):
            records = list(csv.reader(io.StringIO(head, ""), delimiter=mark))
            # The last one may be cut off.
            del records[max(1, len(records) - (len(head) == _HEAD)) :]
            sizes = [len(cells) for cells in records if cells]
            if sizes and sizes[0] > 1:
                (alike if len(set(sizes)) == 1 else others).append(mark)
            # Titles above a table have fewer cells, and no field's name.
            first = sizes.index(max(sizes)) if sizes else 0
            if first and len({*sizes[first:]}) == 1:
                *above, names = map(_names_fields, islice(filter(None, records), first + 1))
                titled += [mark] * (names and not any(above))
    if usual in alike and usual == "\t":
        return usual
    if len(alike) > 1:
        choose = spell_option(ReadOptions, "options", {"delimiter": alike[-1]})
        marks = " or ".join(map(repr, alike))
        raise DataError.on("delimiter_unclear", path=path, marks=marks, choose=choose)
    likely = alike or titled or others
    return likely[0] if len(likely) == 1 else usual


def sheet_rows(path: Path, sheet: object = None) -> Iterator[TableItem]:
    """Yield the rows of a sheet of an Excel workbook; titles may stand above the names of columns.

    Of a formula the value is read that was last computed. Dates are texts as ISO 8601 has them;
    empty rows and columns are passed over. Rows have the numbers that Excel shows.

    Parameters
    ----------
    path : Path
        The file.
    sheet : str or None
        Its name; the first one with a table, of those that are shown, when left out.

    Raises
    ------
    MissingExtraError
        The package python-calamine is not installed.
    DataError
        The file cannot be read, there is nothing in a sheet of that name, or its header names a
        column twice.
    """
    with extra("excel", f"reading {path}"):
        import python_calamine as calamine
    broken = (calamine.CalamineError, BadZipFile, ExpatError, zlib.error, *tables.DAMAGE)
    with errors_as(DataError, broken, "workbook_unreadable", path=path):
        _look_through(path)
        book = calamine.load_workbook(str(path))
        shown = [page.name for page in book.sheets_metadata if "Hidden" not in str(page.visible)]
        pages = ((page, book.get_sheet_by_name(page)) for page in shown if sheet is None)
        filled = (name for name, page in pages if min(page.height, page.width) > 1)
        name = next(filled, shown[0]) if sheet is None else str(sheet)
        known = name in book.sheet_names
        cells = book.get_sheet_by_name(name).to_python(skip_empty_area=False) if known else []
    rows = [(number, list(map(_sheet_cell, row))) for number, row in enumerate(cells, start=1)]
    rows = [(number, row) for number, row in rows if any(cell is not None for cell in row)]
    if not rows:
        named = spell_option(ReadOptions, "options", {"sheet": "NAME"})
        listed = ", ".join(book.sheet_names)
        raise DataError(f"{path} has nothing in a sheet {name!r}; {named} reads one of: {listed}")
    above, below = _heading(path, [row for _, row in rows[:_HEADING]])
    for number, row in (*rows[:above], *rows[above + 1 : above + 1 + below]):
        yield _in_heading(number, [cell for cell in row if cell is not None])
    rows = [rows[above], *rows[above + 1 + below :]]
    columns = zip(*(row for _, row in rows), strict=True)
    used = [place for place, column in enumerate(columns) if any(c is not None for c in column)]
    titles = ["" if rows[0][1][place] is None else str(rows[0][1][place]) for place in used]
    header = _column_names(path, titles)
    for number, row in rows[1:]:
        held = [row[place] for place in used]
        if sum(len(cell) for cell in held if isinstance(cell, str)) > ROW_LIMIT:
            seen, most = shorten(held), f"over {ROW_LIMIT:,} characters"
            yield RowProblem(number, WHOLE_ROW, "row too long", seen, most, SHORTER)
        elif _names_again(header, held):
            yield _in_heading(number, held)
        else:
            yield SourceRow(number, dict(zip(header, held, strict=True)))


#: Where the texts that cells share stand.
_SHARED: Final = re.compile("/?xl/sharedstrings.xml", re.IGNORECASE)


def _look_through(path: Path) -> None:
    """Refuse a workbook that unpacks to too much, or whose few cells lie too far apart."""
    with ZipFile(path) as book:
        parts = book.infolist()
        refuse_unpacked(path, sum(part.file_size for part in parts), path.stat().st_size)
        texts = [_reach(book.read(part))[1] for part in parts if _SHARED.fullmatch(part.filename)]
        for raw in map(book.read, parts):
            # Without this word no cell is read from a part.
            for sizes in (texts or [[0]]) if b"sheetData" in raw else ():
                tables.refuse_bomb(path, _reach(raw, sizes)[0])


def _reach(raw: bytes, sizes: Sequence[int] = (0,)) -> tuple[int, list[int]]:
    """Return what the cells of a part take that hold something, and the sizes of shared texts.

    Parameters
    ----------
    raw : bytes
        The part.
    sizes : sequence of int
        Bytes of each text that its cells may name, and 0.

    Raises
    ------
    xml.parsers.expat.ExpatError
        If it is no XML, or declares entities.
    """
    row = last = bare = most = 0
    at, places, named, begun = "", list[str](), list[str](), list[int]()

    def started(name: str, values: dict[str, str]) -> None:
        nonlocal row, last, bare, most, at
        tag = name.rpartition(":")[2]
        if tag == "c":
            parser.CharacterDataHandler = named.append if values.get("t") == "s" else None
            # Without a place it stands beside the one before.
            bare += "r" not in values
            at = values.get("r", at)
        elif tag in ("v", "t"):
            places.append(at)
            named.append(" ")
            last, most = max(last, row * (bare > 0)), max(most, bare)
        elif tag == "row":
            row, bare, at = int(values.get("r", row + 1)), 0, ""
        elif tag == "si":
            begun.append(parser.CurrentByteIndex)

    def declared(*_: object) -> None:
        raise ExpatError("it declares a document type")

    # Whatever encoding is named in it, the reader of cells takes this one.
    parser = ParserCreate("utf-8")
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = started, declared
    parser.Parse(raw, True)
    held = " ".join(places)
    name = max(re.findall("[A-Z]+", held.upper()), key=lambda name: (len(name), name), default="")
    columns = reduce(lambda n, letter: 26 * n + ord(letter) - 64, name[:8], 0) + most
    rows = max(map(int, re.findall("[0-9]{1,20}", held)), default=0)
    # What names none of the texts counts as all of them, which stands at their end.
    numbers = [int(name[-9:]) if name.isdecimal() else -1 for name in "".join(named).split()]
    copied = np.array(sizes)[np.minimum(np.array(numbers, np.int64), len(sizes) - 1)]
    lengths = [*np.diff([*begun, len(raw)]).tolist(), len(raw)]
    return tables._ROW * columns * max(rows, last) + int(copied.sum()), lengths


def _sheet_cell(cell: Any) -> Any:
    """Return a cell as a file of JSON would give it: a workbook holds no ints."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1 << 53:
        return int(cell)
    return cell if isinstance(cell, float | int) else str(cell) or None


def _column_names(path: Path, titles: Sequence[str]) -> list[str]:
    header = [title.strip() for title in titles]
    if not any(header):
        raise DataError(f"{path} is empty: its first line must name the columns")
    return tables.sound_names(path, [name or f"column_{i}" for i, name in enumerate(header, 1)])


def _row(number: int, header: list[str], cells: list[str]) -> TableItem:
    if len(cells) != len(header):
        detail = f"{len(cells)} where the header has {len(header)}"
        reason = "wrong number of cells"
        remedy = "quote cells that hold the delimiter or a line break"
        if (lines := cells[-1].count("\n")) and len(cells) < len(header):
            reason = "a quote that is never closed"
            remedy = f"close or remove it: {lines:,} line breaks that follow are taken for its cell"
        return RowProblem(number, WHOLE_ROW, reason, shorten(cells), detail, remedy)
    # Bytes that are not UTF-8 were decoded to surrogates, which no valid UTF-8 yields.
    if (bad := next(filter(_SURROGATE.search, cells), None)) is not None:
        return RowProblem(number, WHOLE_ROW, "invalid UTF-8", shorten(bad), "", _encoding_remedy())
    return SourceRow(number, {name: cell or None for name, cell in zip(header, cells, strict=True)})


def _encoding_remedy() -> str:
    named = spell_option(ReadOptions, "options", {"encoding": "cp1252"})
    return f"save the file as UTF-8, or name its encoding, e.g. {named}"
