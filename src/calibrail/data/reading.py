"""How is a source of labelled answers opened?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path

from calibrail.data.columns import choose_columns
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.formats import peek
from calibrail.data.reader import Reading
from calibrail.data.row_parser import Interpreter
from calibrail.data.sources import open_source
from calibrail.errors import InputError

__all__ = ["Reading", "read", "read_all"]


def read(
    source: str | Path,
    *,
    format: str | None = None,
    preset: str | None = None,
    mapping: Mapping[str, str] | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    id_column: str | None = None,
    keep: Collection[str] = (),
    require: Collection[str] = TEXT_FIELDS,
    labelled: bool = True,
    strict: bool = False,
    quarantine: str | Path | None = None,
    options: Mapping[str, object] | None = None,
    allow_none: bool = False,
) -> Reading:
    """Open a source of RAG answers; iterate over the result to read it.

    Parameters
    ----------
    source : str or Path
        A file, the folder of a benchmark, ``example:NAME`` for data shipped with the package, or
        ``hf:NAME[:SPLIT]``.
    format : str or None
        ``jsonl``, ``csv``, ``parquet``, ``saved``, a benchmark's name or a plug-in's; None guesses.
    preset : str or None
        Whose column names the file has (see `PRESETS`); None guesses.
    mapping : mapping of str to str
        Field to column, for single fields.
    label_column, group_column, id_column : str or None
        Default ``label``, ``group`` and ``id``. Without an id a row is called ``row-<number>``.
    keep : collection of str
        Further columns to copy to ``Example.columns``.
    require : collection of str
        The text fields without which a row cannot be used: what the scores read.
    labelled : bool
        Whether every row needs a label.
    strict : bool
        Stop at the first row that cannot be used.
    quarantine : path or None
        File that gets one JSON line for every row that cannot be used; made when there is one,
        replaced when it exists.
    options : mapping
        Options of the format's reader, e.g. ``min_chars`` for HaluEval.
    allow_none : bool
        Whether a source without a usable row is fine.

    Returns
    -------
    Reading
        Iterable once. Raises `DataError` at its end if no row was usable.

    Raises
    ------
    DataError
        No such file, a format or columns that cannot be guessed, a named column that is not there.
    InputError
        An unknown format, preset, option or field name.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "answers.jsonl"
    >>> _ = path.write_text('{"query": "q", "contexts": ["c"], "response": "r", "label": 1}')
    >>> [(example.id, example.question, example.label) for example in read(path)]
    [('row-1', 'q', 1)]
    """
    if unknown := [field for field in require if field not in TEXT_FIELDS]:
        raise InputError(f"require can name {', '.join(TEXT_FIELDS)}; got {unknown[0]!r}")
    target = None if quarantine is None else Path(quarantine)
    native = preset is None and not mapping
    opened = open_source(source, format, options or {}, guess_native=native)
    if target is not None and any(target.resolve() == file.resolve() for file in opened.files):
        raise InputError(f"quarantine must not be the file that is read; got {target}")
    items = iter(opened.items)
    head, fields = peek(items)
    columns = choose_columns(
        fields,
        table=opened.table,
        definite=opened.table and opened.format != "jsonl",
        preset=preset,
        mapping=mapping or {},
        named={"label": label_column, "group": group_column, "id": id_column},
        keep=tuple(keep),
        require=tuple(require),
        labelled=labelled,
        source=str(source),
    )
    interpreter = Interpreter(
        columns.by_field, frozenset(require), tuple(keep), labelled, opened.cells
    )
    return Reading(
        str(source),
        opened.format,
        opened.files,
        tuple(fields),
        columns,
        chain(head, items),
        interpreter,
        strict=strict,
        quarantine=target,
        allow_none=allow_none,
    )


def read_all(
    source: str | Path,
    *,
    format: str | None = None,
    preset: str | None = None,
    mapping: Mapping[str, str] | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    id_column: str | None = None,
    keep: Collection[str] = (),
    require: Collection[str] = TEXT_FIELDS,
    labelled: bool = True,
    strict: bool = False,
    quarantine: str | Path | None = None,
    options: Mapping[str, object] | None = None,
) -> tuple[tuple[Example, ...], Reading]:
    """Read every example of a source into memory; the parameters are those of `read`.

    Returns
    -------
    (tuple of Example, Reading)
        The examples, and the reading with its final counts.
    """
    reading = read(
        source,
        format=format,
        preset=preset,
        mapping=mapping,
        label_column=label_column,
        group_column=group_column,
        id_column=id_column,
        keep=keep,
        require=require,
        labelled=labelled,
        strict=strict,
        quarantine=quarantine,
        options=options,
    )
    return tuple(reading), reading
