"""How do answers look in a spreadsheet, and how are labels read back from it?"""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from calibrail.data.delimited import csv_rows
from calibrail.data.rows import Problem
from calibrail.errors import DataError
from calibrail.labelling.exchange.given import LONGEST, Given, texts_of
from calibrail.labelling.tasks import Task

#: Of the file written: what is to be filled in comes last, where there is room.
COLUMNS: Final = ("id", "question", "contexts", "response", "label", "unsupported", "annotator")

#: What a spreadsheet would run as a formula, and what a text may begin with that was kept from it.
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")
#: What it would turn into a number, a date or a truth value.
_CONVERTED: Final = re.compile(
    r"[\d.,:/\s%()eE-]+|true|false"
    r"|\d*[\s/.-]*(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[\s/.-]*\d*",
    re.IGNORECASE,
)
#: Parts what is marked in one cell.
_NEXT: Final = " | "


def write(tasks: Iterable[Task]) -> bytes:
    """Return a CSV file that spreadsheets open as it is: UTF-8 with a byte order mark.

    No cell begins a formula, and no id is turned into a number: an apostrophe before it keeps the
    text.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for task in tasks:
        cells = [kept_as_text(text[:LONGEST]) for text in texts_of(task).values()]
        writer.writerow([kept_as_text(task.alias, id=True), *cells, "", "", ""])
    return out.getvalue().encode("utf-8-sig", "surrogatepass")


def kept_as_text(text: str, *, id: bool = False) -> str:
    """Return the cell that a spreadsheet shows as this text.

    Examples
    --------
    >>> [kept_as_text(text, id=True) for text in ("=1+1", "0012", "q-7", "MAR-1")]
    ["'=1+1", "'0012", 'q-7', "'MAR-1"]
    """
    if _FORMULA.match(text) or (id and _CONVERTED.fullmatch(text.lstrip("'"))):
        return f"'{text}"
    return text


def read(path: Path, label: str = "label") -> Iterator[Given]:
    """Yield the rows of a CSV file.

    Parameters
    ----------
    path : Path
        The file; separated by commas, semicolons or tabs.
    label : str
        Column of the labels.

    Raises
    ------
    DataError
        It lacks a column.
    """
    for item in csv_rows(path, _delimiter(path)):
        if isinstance(item, Problem):
            said = f"{item.reason} ({item.detail or item.value}); {item.remedy}"
            yield Given(f"{path}, row {item.row}", "", None, problem=said)
            continue
        where = f"{path}, row {item.number}"
        cells = {name.strip().lower(): value for name, value in item.values.items()}
        for name in ("id", label.lower()):
            if name not in cells:
                raise DataError(
                    f"{path} has no column {name!r}; it has {', '.join(cells)}: name that column "
                    "so, as in the file that was exported"
                )
        marked = str(cells.get("unsupported") or "").split(_NEXT.strip())
        yield Given(
            where,
            _text(cells["id"], id=True),
            cells[label.lower()],
            str(cells["annotator"]).strip() if cells.get("annotator") else None,
            tuple(_text(part.strip()) for part in marked if part.strip()),
            {
                name: _text(cells[name])
                for name in ("question", "contexts", "response")
                if cells.get(name) is not None
            },
            cells,
        )


def _text(cell: object, *, id: bool = False) -> str:
    """Return the text of a cell, without the apostrophe that kept it."""
    text = "" if cell is None else str(cell)
    return text[1:] if text[:1] == "'" and kept_as_text(text[1:], id=id) == text else text


def _delimiter(path: Path) -> str | None:
    """Return a semicolon where the first line has them: what spreadsheets write in many places."""
    with path.open("rb") as stream:
        first = stream.readline(4096)
    return ";" if first.count(b";") > max(first.count(b","), first.count(b"\t")) else None
