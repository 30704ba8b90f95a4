"""Which reader fits this source?"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, TypeAlias, cast

from calibrail.data.arrow import (
    parquet_batches,
    parquet_rows,
    saved_batches,
    saved_files,
    saved_rows,
)
from calibrail.data.benchmarks import NATIVES
from calibrail.data.benchmarks.folders import FOLDERS, Folder, folder_of
from calibrail.data.delimited import csv_rows
from calibrail.data.example import Example
from calibrail.data.files import data_files, file_labels, table_kind
from calibrail.data.json_lists import list_start
from calibrail.data.jsonl import json_rows
from calibrail.data.opened import OpenColumns, Opened, numbered_batches, peek
from calibrail.data.rows import (
    Batch,
    Filtered,
    Item,
    OpenTable,
    ParsedItem,
    Problem,
    Reader,
    Row,
    TableItem,
    own_values,
)
from calibrail.data.traces import EXPORTS
from calibrail.data.traces.export import Export, ExportNotes
from calibrail.errors import DataError, InputError, file_errors
from calibrail.settings import ReadOptions
from calibrail.settings.option import option_of

#: Entry points under which an installed package may offer readers of further formats.
ENTRY_POINTS: Final = "calibrail.readers"

#: Reads a folder that `calibrail label` wrote: it is met by name, as a plug-in's reader is, since
#: that room builds on this one.
_LABELS: Final = "calibrail.labelling.source:labelled_answers"
#: The file of such a folder that says so, and how.
_PLAN, _SCHEMA = "session.json", "calibrail.labels/"

#: How the rows of a kind of table are read, and the reader options that some take.
_TABLES: Final[Mapping[str, Callable[..., Iterator[TableItem]]]] = {
    "jsonl": json_rows,
    "json": json_rows,
    "csv": csv_rows,
    "parquet": parquet_rows,
    "saved": saved_rows,
}
#: Tables whose first row has all columns of the file.
_RECTANGULAR: Final = ("csv", "parquet", "saved")
#: Those among them of which single columns, and whole ones, can be read.
_COLUMNAR: Final[Mapping[str, Callable[..., Iterator[Any]]]] = {
    "parquet": parquet_batches,
    "saved": saved_batches,
}
_OPTIONS: Final = {
    "jsonl": ("list",),
    "json": ("list",),
    "csv": ("delimiter",),
    "saved": ("split",),
}


#: Field names of the first rows, and the rows from the first one on.
Begun: TypeAlias = tuple[Mapping[str, None], Iterator[ParsedItem]]


def plugin_readers() -> dict[str, Reader]:
    """Return the readers that installed packages offer, by format name.

    A reader is a callable ``reader(path, options)``. It yields, for every row of the source, a
    `Row` or a plain mapping with calibrail's field names, a finished `Example`, a `Problem` for a
    row that it cannot parse, or a `Filtered` for one that an option leaves out. Fields, labels and
    ids are then checked as for every other format. Declare it in ``pyproject.toml`` under
    ``[project.entry-points."calibrail.readers"]``.
    """
    return {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)}


def format_names() -> tuple[str, ...]:
    """Return the built-in formats that ``--format`` takes; plug-ins add theirs.

    >>> format_names()[:3]
    ('jsonl', 'json', 'csv')
    """
    native, exported = [item.name for item in NATIVES], [item.name for item in EXPORTS]
    return (*_TABLES, "labels", *(item.name for item in FOLDERS), *native, *exported)


def open_path(path: Path, reading: ReadOptions) -> Opened:
    """Open a file or folder with the format named, or with the one that it looks like.

    Parameters
    ----------
    path : Path
        File, or folder of a benchmark, of ``save_to_disk``, or with data files of one kind in it.
    reading : ReadOptions
        Its format is a name out of `format_names` or of a plug-in, or guessed. Each format refuses
        the reader options that it does not know. With a preset or a mapping, a benchmark's file
        is taken as the plain table that it also is.

    Raises
    ------
    DataError
        There is no such file, or its format cannot be guessed.
    InputError
        An unknown format or option.
    """
    format, options = reading.format, reading.options or {}
    if not path.exists():
        raise DataError(f"there is no file or folder {path}")
    if format is not None and format not in format_names():
        readers = plugin_readers()
        if format not in readers:
            known = ", ".join((*format_names(), *sorted(readers)))
            raise InputError(f"format must be one of {known}; got {format!r}")
        files = tuple(sorted(p for p in path.rglob("*") if p.is_file())) or (path,)
        return Opened(format, False, False, files, _numbered(readers[format](path, options)))
    names = {file.name for file in path.iterdir()} if path.is_dir() else set()
    if format == "labels" or (format is None and _PLAN in names and _holds_labels(path / _PLAN)):
        return _labels(path, options)
    if (folder := folder_of(format, names)) is not None:
        return _folder(folder, path, reading)
    if path.is_dir() and not names & {"dataset_dict.json", "state.json"}:
        inside = data_files(path)
        if len(inside) > 1:
            return open_files(inside, reading)
        path = inside[0]
    table = "saved" if path.is_dir() else format or ""
    if table not in _TABLES:
        table = table_kind(path)
    if not table:
        raise DataError(
            f"cannot guess the format of {path} from {path.suffix or 'a name without suffix'!r}; "
            f"name it with {option_of(ReadOptions, 'format')} ({', '.join(format_names())})"
        )
    fixed = {name: options[name] for name in _OPTIONS.get(table, ()) if name in options}
    if table == "jsonl" and list_start(path, fixed.get("list")) is not None:
        table = "json"
    open_table = partial(_TABLES[table], path, **fixed)
    files = saved_files(path, fixed.get("split")) if table == "saved" else (path,)
    begun = _begin(open_table, table)
    for folder in FOLDERS if _guesses(reading) else ():
        if any(names <= begun[0].keys() for names in folder.signatures):
            return _folder(folder, path, reading)
    opened = open_rows(open_table, files, table, reading, begun)
    if opened.only is None:
        return opened
    return replace(opened, batches=numbered_batches(partial(_COLUMNAR[table], path, **fixed)))


def open_files(files: Sequence[Path], reading: ReadOptions) -> Opened:
    """Open several files as one source; each row knows its file.

    Raises
    ------
    DataError
        A file is not there or its format cannot be guessed, or the formats differ.
    """
    opened = [open_path(path, reading) for path in files]
    # Rows in lines and in a list are the same rows.
    kinds = {"json": "jsonl"}
    formats = {(kinds.get(item.format, item.format), item.cells) for item in opened}
    if len(formats) > 1:
        names = ", ".join(
            f"{path} ({item.format})" for path, item in zip(files, opened, strict=True)
        )
        raise DataError(f"files that are read together must have one format; got {names}")

    read = tuple(file for item in opened for file in item.files)
    whole = next((export for export in EXPORTS if export.name == opened[0].format), None)
    if whole is not None:
        labels = file_labels(files)
        parts = (
            replace(part, file=label)
            for label, item in zip(labels, opened, strict=True)
            for part in item.parts or ()
        )
        return _exported(whole, parts, read, opened[0].cells)

    def rows(columns: Collection[str] | None = None) -> Iterator[ParsedItem]:
        for label, item in zip(file_labels(files), opened, strict=True):
            items = item.items
            if item.only is not None and columns is not None:
                items = item.only(columns=columns)
            for row in items:
                yield replace(row, file=label)

    def batches(**how: Any) -> Iterator[Batch]:
        for label, item in zip(file_labels(files), opened, strict=True):
            assert item.batches is not None
            for batch in item.batches(**how):
                yield replace(batch, file=label)

    only = None if opened[0].only is None else rows
    # Two rows of one file, named twice, have one name.
    whole_columns = all(item.batches for item in opened) and len(set(file_labels(files))) == len(
        files
    )
    return replace(
        opened[0],
        files=read,
        items=rows(),
        only=only,
        batches=batches if whole_columns else None,
    )


def open_rows(
    open_table: OpenTable,
    files: tuple[Path, ...],
    table: str,
    reading: ReadOptions,
    begun: Begun | None = None,
) -> Opened:
    """Open rows that are a table, as a benchmark where they are one, else as they are."""
    options = reading.options or {}
    known = _OPTIONS.get(table, ())
    fields, rows = begun or _begin(open_table, table)
    for native in NATIVES:
        recognised = any(signature <= fields.keys() for signature in native.signatures)
        if (recognised and _guesses(reading)) or reading.format == native.name:
            _refuse_unknown(native.name, options, (*native.options, *known))
            items = native.rows(open_table, options)
            return Opened(native.name, False, table == "csv", files, items)
    for export in EXPORTS:
        if (export.recognises(fields) and _guesses(reading)) or reading.format == export.name:
            _refuse_unknown(export.name, options, known)
            return _exported(export, cast(Iterator[TableItem], rows), files, table == "csv")
    _refuse_unknown(table, options, known)
    only = cast(OpenColumns, open_table) if table in _COLUMNAR else None
    return Opened(table, True, table == "csv", files, rows, None, table in _RECTANGULAR, only)


def _exported(
    export: Export, parts: Iterator[TableItem], files: tuple[Path, ...], cells: bool
) -> Opened:
    """Open the rows of a tool's export as the answers that they make."""
    notes = ExportNotes(export.name, export.part)
    items = export.convert(parts, notes)
    return Opened(export.name, True, cells, files, items, export=notes, parts=parts)


def _begin(open_table: OpenTable, table: str) -> Begun:
    """Return the field names of the first rows, and all rows."""
    rows = open_table()
    head, fields = peek(rows, rectangular=table in _RECTANGULAR)
    return fields, chain(head, rows)


def _numbered(items: Iterable[Item]) -> Iterator[ParsedItem]:
    """Yield a plug-in's items, with mappings and finished examples as rows by their position."""
    for position, item in enumerate(items, start=1):
        if isinstance(item, Row | Problem | Filtered):
            yield item
        elif isinstance(item, Example):
            yield Row(position, own_values(item))
        else:
            yield Row(position, item)


def _folder(folder: Folder, path: Path, reading: ReadOptions) -> Opened:
    _refuse_unknown(folder.name, reading.options or {}, folder.options)
    files, rows = folder.files(path), folder.rows(path, reading)
    return Opened(folder.name, False, folder.cells, files, rows)


def _holds_labels(plan: Path) -> bool:
    """Say whether a file is the plan of a folder of labels."""
    with file_errors(f"cannot read {plan}"), plan.open("rb") as stream:
        return f'"{_SCHEMA}'.encode() in stream.read(4096)


def _labels(folder: Path, options: Mapping[str, object]) -> Opened:
    _refuse_unknown("labels", options, ())
    items, origin = resolve_name(_LABELS)(folder)
    files = tuple(folder / name for name in (_PLAN, "draws.jsonl", "labels.jsonl"))
    there = tuple(file for file in files if file.exists())
    return Opened("labels", False, False, there, items, origin=origin)


def _guesses(reading: ReadOptions) -> bool:
    """Say whether a table may turn out to be a benchmark's."""
    return reading.format is None and reading.preset is None and not reading.mapping


def _refuse_unknown(format: str, options: Mapping[str, object], known: Collection[str]) -> None:
    for name in options:
        if name not in known:
            takes = f"knows {', '.join(known)}" if known else "knows none"
            raise InputError(f"the reader of {format} {takes} as options; got {name!r}")
