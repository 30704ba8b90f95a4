"""How is a source of labelled answers opened?"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack, cast

from calibrail.data.columns import Needs
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.reader import Reading
from calibrail.data.sources import open_source
from calibrail.errors import InputError
from calibrail.settings import ReadOptions, ReadShort

__all__ = ["Reading", "read", "read_all"]


def read(
    source: str | Path,
    reading: ReadOptions | None = None,
    *,
    keep: Collection[str] = (),
    require: Collection[str] = TEXT_FIELDS,
    labelled: bool = True,
    allow_none: bool = False,
    **fields: Unpack[ReadShort],
) -> Reading:
    """Open a source of RAG answers; iterate over the result to read it.

    Parameters
    ----------
    source : str or Path
        A file, the folder of a benchmark, ``example:NAME`` for data shipped with the package, or
        ``hf:NAME[:SPLIT]``.
    reading : ReadOptions or None
        How to read it; what is left out is guessed.
    keep : collection of str
        Further columns to copy to ``Example.columns``.
    require : collection of str
        The text fields without which a row cannot be used: what the scores read.
    labelled : bool
        Whether every row needs a label.
    allow_none : bool
        Whether a source without a usable row is fine.
    **fields
        The fields of `ReadOptions`, one by one; they win over ``reading``:

        - ``format``: ``jsonl``, ``csv``, ``parquet``, ``saved``, a benchmark's name or a plug-in's;
          None guesses.
        - ``preset``: whose column names the file has (see `PRESETS`); None guesses.
        - ``mapping``: field to column, for single fields.
        - ``label_column``, ``group_column``, ``id_column``: default ``label``, ``group`` and
          ``id``. Without an id a row is called ``row-<number>``.
        - ``options``: options of the format's reader, e.g. ``min_chars`` for HaluEval.
        - ``strict``: stop at the first row that cannot be used.
        - ``quarantine``: file that gets one JSON line for every row that cannot be used; made when
          there is one, replaced when it exists.

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
    needs = Needs(tuple(keep), tuple(require), labelled, allow_none)
    reading = replace(reading or ReadOptions(), **cast(Any, fields))
    opened = open_source(source, reading)
    target = reading.quarantine
    if target is not None and any(target.resolve() == file.resolve() for file in opened.files):
        raise InputError(f"quarantine must not be the file that is read; got {target}")
    return Reading(str(source), opened, reading, needs)


def read_all(
    source: str | Path, reading: ReadOptions | None = None, **fields: Any
) -> tuple[tuple[Example, ...], Reading]:
    """Read every example of a source into memory; the parameters are those of `read`.

    Returns
    -------
    (tuple of Example, Reading)
        The examples, and the reading with its final counts.
    """
    opened = read(source, reading, **fields)
    return tuple(opened), opened
