"""Sheets of Excel workbooks are read as the same rows in another file are."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from calibrail import calibrate, read
from calibrail.data import files, read_all, spreadsheets, tables
from calibrail.errors import DataError, MissingExtraError
from tests.command_line import calibrail
from tests.workbooks import Formula, write_workbook

HEADER = ["question", "contexts", "response", "label", "score"]


def row(number: int) -> list[Any]:
    return [f"Which {number}?", f"Fact {number}.", f"It is {number}.", number % 2, number / 7]


def test_without_its_package_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtraError, match=r"a\.xlsx needs .*'calibrail\[excel\]'"):
        read(write_workbook(tmp_path / "a.xlsx", {"S": [HEADER, row(1)]}))


def test_cells_of_every_kind_are_read_and_empty_rows_and_columns_are_not(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    header = ["id", None, "response", "label", "when", "score", "digits", " note "]
    rows = [
        [],
        [None, *header],
        [None, 7, None, "A & b\nc", True, date(2026, 5, 1), Formula("1/4", 0.25), "007", None],
        [],
        [None, 8, None, 42, False, None, Formula("1/0"), "1,5", '["x"]'],
    ]
    path = write_workbook(tmp_path / "a.xlsx", {"First": rows, "Second": [["a"], [1]]})
    opened = read(path, require=("response",), keep=("when", "score", "digits", "note"))
    first, second = opened
    assert (first.id, first.response, first.label) == ("7", "A & b\nc", 1)
    assert dict(first.columns) == {
        "when": "2026-05-01",
        "score": 0.25,
        "digits": 7.0,
        "note": None,
    }
    assert (second.id, second.response, second.label) == ("8", "42", 0)
    assert second.columns["score"] is None
    assert opened.fields == ("id", "response", "label", "when", "score", "digits", "note")
    assert opened.format == "xlsx"


def test_rows_go_by_the_numbers_that_excel_shows(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    bad = [*row(2)[:3], "perhaps", 0.1]
    path = write_workbook(tmp_path / "a.xlsx", {"S": [HEADER, [], row(1), bad]})
    with pytest.raises(DataError, match="row 4, field label"):
        list(read(path, strict=True))
    assert [example.id for example in read(path)] == ["row-3"]


def test_a_sheet_is_chosen_by_its_name_and_else_the_first_one_with_a_table_that_is_shown(
    tmp_path: Path,
) -> None:
    pytest.importorskip("python_calamine")
    sheets = {"Old": [HEADER, row(9)], "Cover": [["How to read this"], ["See Now"]]}
    sheets |= {"Now": [HEADER, row(1)], "Empty": []}
    path = write_workbook(tmp_path / "a.xlsx", sheets, hidden=["Old"])
    now, old = read(path), read(path, options={"sheet": "Old"})
    assert [e.question for e in now] == ["Which 1?"] and [e.question for e in old] == ["Which 9?"]
    assert now.digest() != old.digest()
    for name in ("Empty", "None"):
        with pytest.raises(DataError, match=f"nothing in a sheet '{name}'.*Old, Cover, Now, Empty"):
            read(path, options={"sheet": name})


@pytest.mark.parametrize("content", [b"PK\x03\x04 cut off", b"question,label\na,1\n"])
def test_what_is_no_workbook_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = tmp_path / "a.xlsx"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.xlsx cannot be read as an Excel workbook"):
        read(path)


def test_several_workbooks_are_one_source_and_what_excel_keeps_beside_them_is_none(
    tmp_path: Path,
) -> None:
    pytest.importorskip("python_calamine")
    for number, name in enumerate(("a", "b"), start=1):
        write_workbook(tmp_path / f"{name}.xlsx", {"S": [HEADER, row(number)]})
    (tmp_path / "~$a.xlsx").write_bytes(b"ada")
    for source in (tmp_path, tmp_path / "*.xlsx"):
        assert [e.id for e in read(source)] == ["a.xlsx:row-2", "b.xlsx:row-2"]


def test_a_column_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = write_workbook(tmp_path / "a.xlsx", {"S": [[*HEADER, "label"], [*row(1), 0]]})
    with pytest.raises(DataError, match="names columns twice: label"):
        read(path)


def test_a_run_from_a_workbook_is_that_from_csv(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    rows = [HEADER, *map(row, range(1, 61))]
    book = write_workbook(tmp_path / "a.xlsx", {"S": rows})
    lines = "".join(",".join(map(str, cells)) + "\n" for cells in rows)
    (tmp_path / "a.csv").write_text(lines)
    score = "column:column=score,higher=hallucinated"
    runs = [calibrate(path, score, alpha=0.2) for path in (book, tmp_path / "a.csv")]
    book_report, csv_report = (run.report.to_dict() | {"data": None} for run in runs)
    assert book_report == csv_report
    done = calibrail("doctor", str(book), "--reader-option", "sheet=S")
    assert done.returncode == 0 and "30 hallucinated" in done.stdout, done.stderr


@pytest.mark.parametrize("before", [b"", b"XX"])
@pytest.mark.parametrize(
    "place",
    [
        'r="XFD1048576"',
        "r = 'B8000000'",
        'r="B99999999999"',
        'r="ZZZZZZ2"',
        'r="xfd1048576"',
        's="&gt;/>" r="XFD1048576"',
        'r="XFD&#49;048576"',
        '/></row><?x <!-- ?><row r="99999999"><c',
        '/></row><!----><row r="9999999999"/><row><c',
    ],
)
def test_a_workbook_whose_cells_lie_far_apart_is_refused(
    tmp_path: Path, place: str, before: bytes
) -> None:
    path = write_workbook(tmp_path / "a.xlsx", {"s": [HEADER, row(1)]})
    with ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    with ZipFile(path, "w") as book:
        for name, part in parts.items():
            book.writestr(name, part.replace(b'r="B2"', place.encode()))
    path.write_bytes(before + path.read_bytes())
    with pytest.raises(DataError, match="take more than 200 times its size"):
        read_all(path)


@pytest.mark.parametrize(
    "kind",
    [
        't="s"><v>1</v>',
        "s='1' t = 's' ><v>1</v>",
        't="s"><f>x</f><v>1</v>',
        't="s"><!-- <v>0</v> --><v>1</v>',
        't="&#115;"><v><![CDATA[1]]></v>',
        't="s"><v a=">">&#49;</v>',
        't="s"><v> +1</v>',
        't="s"><v>000000000000000001</v>',
    ],
)
def test_a_text_that_many_cells_share_counts_for_each(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_workbook(tmp_path / "a.xlsx", {"s": [HEADER, *map(row, range(1, 40))]})
    with ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    shared = f"<sst><!-- <si> <si> --><si><t>x</t></si><si><t>{'long ' * 20_000}</t></si></sst>"
    with ZipFile(path, "w", ZIP_DEFLATED) as book:
        book.writestr("a/sharedStrings.xml", "<si/><si/>")
        book.writestr("xl/sharedStrings.xml", shared)
        for name, part in parts.items():
            held = re.sub(rb'(<c r="[AB]\d+") t="inlineStr"><is>.*?</is>', rb"\1 KIND", part)
            book.writestr(name, held.replace(b"KIND", kind.encode()))
    monkeypatch.setattr(tables, "_UNFOLDED", 1 << 22)
    with pytest.raises(DataError, match="take more than 200 times its size"):
        read_all(path)


def test_a_sheet_counts_wherever_a_workbook_has_it_and_declares_nothing(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "a.xlsx", {"s": [HEADER, row(1)]})
    with ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    for kept, change, said in (
        ("xl/data/one.xml", (b'r="B2"', b'r="XFD1048576"'), "take more than 200 times its size"),
        ("xl/worksheets/sheet1.xml", (b"<worksheet", b"<!DOCTYPE x><worksheet"), "document type"),
        ("xl/worksheets/sheet1.xml", (b"</sheetData>", b"</sheetdata>"), "mismatched tag"),
    ):
        with ZipFile(path, "w") as book:
            for name, part in parts.items():
                book.writestr(name.replace("xl/worksheets/sheet1.xml", kept), part.replace(*change))
        with pytest.raises(DataError, match=said):
            read_all(path)


@pytest.mark.parametrize(
    "part", ["<!--", "c ", "<c ", '<c t="s" ', 't="s" ', '<c r="A1" ', '<c r="A1" r="A1"/']
)
def test_a_sheet_is_looked_through_once(tmp_path: Path, part: str) -> None:
    path = write_workbook(tmp_path / "a.xlsx", {"s": [HEADER, row(1)]})
    with ZipFile(path, "a", ZIP_DEFLATED) as book:
        # From each of its places it would take hours.
        book.writestr("xl/worksheets/sheet9.xml", part * (1 << 19))
    assert len(read_all(path)[0]) == 1


def test_a_workbook_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_workbook(tmp_path / "a.xlsx", {"s": [HEADER, row(1)]})
    with ZipFile(path, "a", ZIP_DEFLATED) as book:
        book.writestr("xl/media/image1.png", bytes(1 << 23))
    assert len(read_all(path)[0]) == 1
    monkeypatch.setattr(files, "SMALL", 1 << 16)
    with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
        read_all(path)


def test_a_row_of_a_workbook_as_long_as_the_limit_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_workbook(tmp_path / "a.xlsx", {"s": [HEADER, row(1)]})
    n_bytes = sum(len(cell.encode()) for cell in row(1) if isinstance(cell, str))
    for most, n in ((n_bytes, 1), (n_bytes - 1, 0)):
        monkeypatch.setattr(spreadsheets, "ROW_LIMIT", most)
        with nullcontext() if n else pytest.raises(DataError):
            assert len(read_all(path)[0]) == n


def test_a_row_of_a_workbook_beyond_the_limit_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [HEADER, row(1), ["x" * 5000, *row(2)[1:]]]
    path = write_workbook(tmp_path / "a.xlsx", {"s": rows})
    monkeypatch.setattr(spreadsheets, "ROW_LIMIT", 4000)
    examples, reading = read_all(path)
    assert [e.response for e in examples] == ["It is 1."] and reading.n_quarantined == 1
    assert "row too long" in str(reading.to_dict())
