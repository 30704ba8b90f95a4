"""Excel workbooks as a program writes them, without a package that does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape
from zipfile import ZipFile

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OF = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_REL = "http://schemas.openxmlformats.org/package/2006/relationships"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml"
#: Style 1 is a date.
_STYLES = '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="22" applyNumberFormat="1"/></cellXfs>'


class Formula(NamedTuple):
    """A formula with the value that was last computed, or without one."""

    text: str
    value: float | str | None = None


def _cell(place: str, cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Formula):
        kind = ' t="str"' if isinstance(cell.value, str) else ""
        value = "" if cell.value is None else f"<v>{escape(str(cell.value))}</v>"
        return f'<c r="{place}"{kind}><f>{escape(cell.text)}</f>{value}</c>'
    if isinstance(cell, bool):
        return f'<c r="{place}" t="b"><v>{int(cell)}</v></c>'
    if isinstance(cell, date):
        days = datetime(cell.year, cell.month, cell.day) - datetime(1899, 12, 30)
        return f'<c r="{place}" s="1"><v>{days.days}</v></c>'
    if isinstance(cell, int | float):
        return f'<c r="{place}"><v>{cell!r}</v></c>'
    # Control characters are spelt _xHHHH_; a line feed stands for itself.
    text = f'<t xml:space="preserve">{escape(cell)}</t>'
    return f'<c r="{place}" t="inlineStr"><is>{text}</is></c>'


def write_workbook(
    path: Path, sheets: Mapping[str, Iterable[Iterable[Any]]], hidden: Sequence[str] = ()
) -> Path:
    """Write sheets of rows of cells: texts, numbers, booleans, dates, formulas, or nothing."""
    listed, related = "", ""
    with ZipFile(path, "w") as book:
        for number, (name, rows) in enumerate(sheets.items(), start=1):
            state = ' state="hidden"' if name in hidden else ""
            listed += f'<sheet name="{name}" sheetId="{number}"{state} r:id="r{number}"/>'
            target = f'Target="worksheets/s{number}.xml"'
            related += f'<Relationship Id="r{number}" Type="{_OF}/worksheet" {target}/>'
            held = ""
            for at, row in enumerate(rows, start=1):
                cells = "".join(_cell(f"{chr(65 + i)}{at}", cell) for i, cell in enumerate(row))
                held += f'<row r="{at}">{cells}</row>'
            sheet = f'<worksheet xmlns="{_MAIN}"><sheetData>{held}</sheetData></worksheet>'
            book.writestr(f"xl/worksheets/s{number}.xml", sheet)
        related += f'<Relationship Id="s" Type="{_OF}/styles" Target="styles.xml"/>'
        book.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{_TYPES}"><Default Extension="xml" ContentType="{_SHEET}.sheet+xml"/>'
            '<Default Extension="rels" ContentType="application/xml"/></Types>',
        )
        workbook = f'Type="{_OF}/officeDocument" Target="xl/workbook.xml"'
        book.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{_REL}"><Relationship Id="w" {workbook}/></Relationships>',
        )
        book.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_OF}"><sheets>{listed}</sheets></workbook>',
        )
        book.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{_REL}">{related}</Relationships>'
        )
        book.writestr("xl/styles.xml", f'<styleSheet xmlns="{_MAIN}">{_STYLES}</styleSheet>')
    return path
