"""Formats: names of sources, which reader fits, and the rows, files and digest of an opened one."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import entry_points
from itertools import chain, islice, starmap
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, TypeAlias, TypeGuard, cast

from calibrail.data import spreadsheets, tables
from calibrail.data.aliases import aliases_of
from calibrail.data.benchmarks import FOLDERS, NATIVES, Folder, folder_of
from calibrail.data.example import (
    Example,
    Filtered,
    Item,
    LabelOrigin,
    OpenTable,
    ParsedItem,
    Reader,
    RowBatch,
    RowProblem,
    SourceRow,
    TableItem,
    own_values,
)
from calibrail.data.files import (
    STANDARD_INPUT,
    SUFFIXES,
    data_files,
    find_list,
    fitting_files,
    is_pattern,
    json_rows,
    seekable,
    table_kind,
    unpiped,
)
from calibrail.data.tables import InMemory
from calibrail.data.traces import EXPORTS
from calibrail.data.traces._spans import Export, ExportNotes
from calibrail.errors import DataError, InputError, errors_as, file_errors
from calibrail.options import ReadOptions
from calibrail.options.fields import spell_option
from calibrail.working_folder import is_own_code

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
    class_names : mapping of str to tuple of str
        What the source calls the classes that a column numbers from 0 on.
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
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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


#: Entry points under which an installed package may offer readers of further formats.
ENTRY_POINTS: Final = "calibrail.readers"

#: Reads a folder that `calibrail label` wrote: it is met by name, as a plug-in's reader is, since
#: that room builds on this one.
_LABELS: Final = "calibrail.labelling.replay:labelled_answers"
#: The file of such a folder that says so, and how.
_PLAN, _SCHEMA = "session.json", "calibrail.labels/"

#: Tables of which single columns, and whole ones, can be read.
_COLUMNAR: Final[Mapping[str, Callable[..., Iterator[Any]]]] = {
    "parquet": tables.parquet_batches,
    "arrow": tables.arrow_batches,
}


def _batches_of(table: str, path: Path, **how: Any) -> Iterator[RowBatch]:
    return tables.numbered(_COLUMNAR[table](path, **how))


def _rows_of(table: str, path: Path, **how: Any) -> Iterator[TableItem]:
    return tables.batch_rows(_batches_of(table, path, **how))


#: How the rows of a kind of table are read, and the reader options that some take.
_TABLES: Final[Mapping[str, Callable[..., Iterator[TableItem]]]] = {
    "jsonl": json_rows,
    "json": json_rows,
    "csv": spreadsheets.csv_rows,
    "xlsx": spreadsheets.sheet_rows,
    **{name: partial(_rows_of, name) for name in _COLUMNAR},
}
#: Tables whose first row has all columns of the file.
_RECTANGULAR: Final = ("csv", "xlsx", *_COLUMNAR)
#: Tables whose cells may spell a list.
_OF_CELLS: Final = ("csv", "xlsx")
_OPTIONS: Final = {
    "jsonl": ("list",),
    "json": ("list",),
    "csv": ("delimiter", "encoding"),
    "xlsx": ("sheet",),
}
#: What readers of every table take: what parts decimals, for who makes numbers of the cells.
_SHARED: Final = ("decimal",)


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
    points = () if is_own_code("no") else entry_points(group=ENTRY_POINTS)
    return {point.name: point.load() for point in points}


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
        File, or folder of a benchmark, or with data files of one kind in it.
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
    is_labels = format == "labels"
    if format is None and _PLAN in names:
        with file_errors(f"cannot read {path / _PLAN}"), (path / _PLAN).open("rb") as stream:
            is_labels = f'"{_SCHEMA}'.encode() in stream.read(4096)
    if is_labels:
        _refuse_unknown("labels", options, ())
        items, origin = resolve_name(_LABELS)(path)
        written = (path / name for name in (_PLAN, "draws.jsonl", "labels.jsonl"))
        files = tuple(filter(Path.exists, written))
        return Opened("labels", False, False, files, items, origin=origin)
    if (folder := folder_of(format, names)) is not None:
        return _folder(folder, path, reading)
    if path.is_dir():
        inside = data_files(path)
        splits = {file.parent.name for file in inside}
        if "dataset_dict.json" in names and len(splits) > 1:
            raise DataError.on("several_splits", folder=path, names=", ".join(sorted(splits)))
        if len(inside) > 1:
            return open_files(inside, reading)
        path = inside[0]
    table = format if format in _TABLES else table_kind(path)
    if not table:
        suffix, known = path.suffix or "a name without suffix", ", ".join(format_names())
        option = spell_option(ReadOptions, "format")
        name = spoken(STANDARD_INPUT) if "stdin_" in path.name else path
        if path.is_file() and not path.stat().st_size:
            raise DataError(f"{name} is empty: it holds no row; name data with answers")
        raise DataError.on("no_format", path=name, suffix=suffix, by=option, names=known)
    fixed = {name: options[name] for name in _OPTIONS.get(table, ()) if name in options}
    if table == "jsonl" and find_list(path, fixed.get("list")) is not None:
        table = "json"
    open_table = partial(_TABLES[table], path, **fixed)
    begun = _begin(open_table, table)
    for folder in FOLDERS if _guesses(reading) else ():
        if any(names <= begun[0].keys() for names in folder.signatures):
            return _folder(folder, path, reading)
    opened = open_rows(open_table, (path,), table, reading, begun)
    if opened.format != table:
        return opened
    if table == "csv":
        return replace(opened, batches=partial(spreadsheets.csv_batches, path, **fixed))
    if table in _COLUMNAR:
        by_columns = partial(_batches_of, table, path)
        return replace(opened, batches=by_columns, class_names=file_class_names(table, path))
    return opened


def class_names(described: Any) -> dict[str, tuple[str, ...]]:
    """Return what a table calls the classes that a column numbers, by the path to it.

    Parameters
    ----------
    described : pyarrow.Schema, datasets.Dataset, or anything else
        What `datasets` wrote into the metadata of a schema is read; all else names no class.

    Examples
    --------
    >>> import pyarrow as pa
    >>> label = {"names": ["faithful", "hallucinated"], "_type": "ClassLabel"}
    >>> said = json.dumps({"info": {"features": {"label": label}}})
    >>> class_names(pa.schema([], metadata={"huggingface": said}))
    {'label': ('faithful', 'hallucinated')}
    """
    # A frame may have a column of that name.
    features: Any = hasattr(described, "column_names") and getattr(described, "features", None)
    if hasattr(features, "to_dict"):
        return dict(_named_classes(features.to_dict(), ""))
    metadata = getattr(getattr(described, "schema", described), "metadata", None)
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}
    return dict(_named_classes(features, ""))


def _named_classes(feature: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(feature, list):
        feature = feature[0] if feature else None
    if not isinstance(feature, dict):
        return
    kind = feature.get("_type")
    if kind == "ClassLabel":
        yield path, tuple(map(str, feature.get("names") or ()))
    elif isinstance(kind, str):
        yield from _named_classes(feature.get("feature"), path)
    else:
        for name, inner in feature.items():
            yield from _named_classes(inner, f"{path}.{name}" if path else name)


def file_class_names(table: str, path: Path) -> dict[str, tuple[str, ...]]:
    """Return the same of a file of Parquet or Arrow."""
    import pyarrow.parquet as pq

    if table == "parquet":
        with seekable(path) as source:
            return class_names(pq.read_schema(source))
    with tables.open_arrow(path) as reader:
        return class_names(reader.schema)


def _labels_of(files: Sequence[Path]) -> tuple[str, ...]:
    """Return a name for each of several files: its own, or the whole path where two share it."""
    names = Counter(path.name for path in files)
    return tuple(path.name if names[path.name] == 1 else str(path) for path in files)


def open_files(files: Sequence[Path], reading: ReadOptions) -> Opened:
    """Open several files as one source; each row knows its file.

    Raises
    ------
    DataError
        A file is not there or its format cannot be guessed, or the formats differ.
    """
    opened = [open_path(path, reading) for path in files]
    # Rows in lines and in a list are the same rows.
    formats = {({"json": "jsonl"}.get(item.format, item.format), item.cells) for item in opened}
    if len(formats) > 1:
        pairs = zip(files, opened, strict=True)
        names = ", ".join(f"{path} ({item.format})" for path, item in pairs)
        raise DataError(f"files that are read together must have one format; got {names}")

    for item in opened:
        if item.class_names != opened[0].class_names:
            raise DataError.on("classes_numbered_differently", first=opened[0], item=item)
    read = tuple(file for item in opened for file in item.files)
    whole = next((export for export in EXPORTS if export.name == opened[0].format), None)
    labelled = list(zip(_labels_of(files), opened, strict=True))
    if whole is not None:
        parts = (replace(it, file=label) for label, item in labelled for it in item.parts or ())
        return _exported(whole, parts, read, opened[0].cells)

    def batches(**how: Any) -> Iterator[RowBatch]:
        for label, item in labelled:
            for batch in item.batches(**how) if item.batches else ():
                yield replace(batch, file=label)

    items = (replace(row, file=label) for label, item in labelled for row in item.items)
    by_columns = batches if all(item.batches for item in opened) else None
    return replace(opened[0], files=read, items=items, batches=by_columns)


def open_rows(
    open_table: OpenTable,
    files: tuple[Path, ...],
    table: str,
    reading: ReadOptions,
    begun: Begun | None = None,
) -> Opened:
    """Open rows that are a table, as a benchmark where they are one, else as they are."""
    options = reading.options or {}
    known = (*_OPTIONS.get(table, ()), *_SHARED)
    if options.get("decimal") not in (None, ".", ","):
        raise InputError(f"decimal must be a point or a comma; got {options['decimal']!r}")
    fields, rows = begun or _begin(open_table, table)
    # Answers with labels of their own are no benchmark's, whatever columns were added to one.
    own = aliases_of("label", fields) and aliases_of("response", fields)
    for native in NATIVES:
        recognised = not own and any(names <= fields.keys() for names in native.signatures)
        if (recognised and _guesses(reading)) or reading.format == native.name:
            _refuse_unknown(native.name, options, (*native.options, *known))
            items = native.rows(open_table, options)
            return Opened(native.name, False, table in _OF_CELLS, files, items)
    for export in EXPORTS:
        if (export.recognises(fields) and _guesses(reading)) or reading.format == export.name:
            _refuse_unknown(export.name, options, known)
            return _exported(export, cast(Iterator[TableItem], rows), files, table in _OF_CELLS)
    _refuse_unknown(table, options, known)
    return Opened(table, True, table in _OF_CELLS, files, rows, None, table in _RECTANGULAR)


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
        if isinstance(item, SourceRow | RowProblem | Filtered):
            yield item
        else:
            yield SourceRow(position, own_values(item) if isinstance(item, Example) else item)


def _folder(folder: Folder, path: Path, reading: ReadOptions) -> Opened:
    _refuse_unknown(folder.name, reading.options or {}, folder.options)
    files = folder.files(path)
    return Opened(folder.name, False, folder.cells, files, folder.read(*files, reading))


def _guesses(reading: ReadOptions) -> bool:
    """Say whether a table may turn out to be a benchmark's."""
    return not (reading.format or reading.preset or reading.mapping or reading.pair)


def _refuse_unknown(format: str, options: Mapping[str, object], known: Collection[str]) -> None:
    for name in options:
        if name not in known:
            takes = f"knows {', '.join(known)}" if known else "knows none"
            raise InputError(f"the reader of {format} {takes} as options; got {name!r}")


#: Prefix of the data that ships with the package.
EXAMPLE: Final = "example:"

#: Prefix of data sets on the Hugging Face hub.
HUB: Final = "hf:"


#: What is read by its name: one, or several that are read as one.
Named: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

#: What every function that reads data takes: names, or data in memory.
Source: TypeAlias = Named | InMemory


def is_named(source: object) -> TypeGuard[Named]:
    """Say whether a source is named, and not examples in memory.

    >>> is_named("a.jsonl"), is_named(["a.jsonl", "b.jsonl"]), is_named([])
    (True, True, False)
    """
    if isinstance(source, str | os.PathLike):
        return True
    if not isinstance(source, list | tuple):
        return False
    return bool(source) and all(isinstance(item, str | os.PathLike) for item in source)


def spoken(source: Source) -> str:
    """Return how messages and reports call a source.

    >>> spoken("-"), spoken(["a", "b", "c", "d", "e"]), spoken([{"label": 1}])
    ('standard input', 'a, b, c and 2 more', 'rows in memory')
    """
    if not is_named(source):
        return tables.describe(source)
    if isinstance(source, str | os.PathLike):
        return "standard input" if str(source) == STANDARD_INPUT else str(source)
    rest = f" and {len(source) - 3} more" if len(source) > 3 else ""
    return ", ".join(map(spoken, source[:3])) + rest


def names_of(source: Source) -> tuple[str, ...]:
    """Return the names of a source as a command line takes them; of data in memory none."""
    if not is_named(source):
        return ()
    return tuple(map(str, [source] if isinstance(source, str | os.PathLike) else source))


def reusable(source: Source) -> Source:
    """Return a source that can be read twice: what can be read once is held."""
    held: Callable[[], Any] = getattr(source, "read_all", partial(list, source))
    return cast(Source, held()) if isinstance(source, Iterator) else source


def open_source(source: Source, reading: ReadOptions) -> Opened:
    """Open a path, several, ``-``, ``example:NAME``, ``hf:NAME[:SPLIT]``, or data in memory.

    In a path ``~`` is the home folder; a pattern, such as ``runs/*.jsonl``, is all that fits it.

    Raises
    ------
    DataError
        Nothing of that name is there, its format cannot be guessed, or the package ``datasets``,
        which loads what is on the hub, is not installed or cannot load it.
    """
    if not is_named(source):
        rows = tables.MemoryRows(source)
        if rows.format == "examples":
            # They have calibrail's names already.
            return Opened(rows.format, False, False, (), rows(), rows.digest, n_rows=rows.n)
        opened = open_rows(rows, (), rows.format, reading)
        return replace(opened, digest=rows.digest, n_rows=rows.n, class_names=class_names(source))
    names = [source] if isinstance(source, str | os.PathLike) else source
    name = str(names[0])
    if len(names) == 1 and name.startswith(HUB):
        table = _download(name.removeprefix(HUB))
        guessed = replace(reading, format=None) if reading.format == "hf" else reading
        cached = tuple(Path(str(item["filename"])) for item in table.cache_files)
        opened = open_rows(
            lambda: starmap(SourceRow, enumerate(table, start=1)), cached, "hf", guessed
        )
        return replace(opened, class_names=class_names(table))
    paths = list(map(_file, names))
    if len(paths) == 1 and not is_pattern(paths[0]):
        return open_path(paths[0], reading)
    return open_files([file for path in paths for file in _fitting(path)], reading)


def _file(name: str | os.PathLike[str]) -> Path:
    if str(name).startswith(HUB):
        raise DataError(f"{name} cannot be read together with other files; download it first")
    if str(name).startswith(EXAMPLE):
        return example_path(str(name).removeprefix(EXAMPLE))
    with file_errors(f"cannot read {name!s:.200}"):
        return unpiped(Path(os.path.expanduser(name)))


def _fitting(path: Path) -> list[Path]:
    return fitting_files(path) if is_pattern(path) else [path]


def named_files(name: str) -> list[Path]:
    """Return the files or the folder that a source names, where it names any.

    >>> len(named_files("a.jsonl")), named_files("hf:org/name:test[:10%]"), named_files("-")
    (1, [], [])
    """
    if name.startswith((HUB, EXAMPLE)) or name == STANDARD_INPUT:
        return []
    return _fitting(_file(name))


def _download(reference: str) -> Any:
    """Load ``NAME`` or ``NAME:SPLIT``, by default the split ``test``, with ``datasets``."""
    with errors_as(DataError, ImportError, "datasets_missing", reference=reference):
        import datasets
    name, _, split = reference.partition(":")
    split, causes = split or "test", (OSError, ValueError, RuntimeError)
    with errors_as(DataError, causes, "hub_not_loaded", name=name, split=split):
        return datasets.load_dataset(name, split=split)


def example_path(name: str) -> Path:
    """Return the file of ``example:name``.

    Raises
    ------
    DataError
        The package ships no such example; the message lists those that it ships.
    """
    folder = Path(__file__).with_name("examples")
    shipped = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES}
    if name not in shipped:
        known = ", ".join(f"{EXAMPLE}{stem}" for stem in shipped) or "none"
        raise DataError(f"there is no example data {name!r}; shipped with the package: {known}")
    return shipped[name]


def digest_files(paths: tuple[Path, ...]) -> str:
    """Return the SHA-256 of one file, or of the sorted names and digests of several.

    Raises
    ------
    DataError
        A file cannot be read.
    """
    digests = file_digests(paths)
    if len(digests) == 1:
        return digests[0][1]
    listing = "".join(f"{name}\0{digest}\n" for name, digest in sorted(digests))
    return hashlib.sha256(listing.encode()).hexdigest()


def file_digests(paths: tuple[Path, ...]) -> list[tuple[str, str]]:
    """Return the name and the SHA-256 of each file.

    Raises
    ------
    DataError
        A file cannot be read.
    """
    digests = []
    for path in paths:
        with file_errors(f"cannot read {path}"), path.open("rb") as stream:
            digests.append((path.name, hashlib.file_digest(stream, "sha256").hexdigest()))
    return digests
