"""How does a caller read a source, and who else hears of it?"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Unpack, cast

from calibrail.data.columns import Needs
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.label_check import refuse_others_ahead
from calibrail.data.reading import Reading
from calibrail.data.sources import Source, open_source, spoken
from calibrail.errors import InputError
from calibrail.settings import ReadOptions, ReadShort
from calibrail.settings.checks import optional

#: Who is told of everything that is read; see `telling_readings`.
_told: ContextVar[Callable[[Reading], None] | None] = ContextVar("told", default=None)


def read(
    source: Source,
    reading: ReadOptions | None = None,
    *,
    keep: Collection[str] = (),
    require: Collection[str] = TEXT_FIELDS,
    labelled: bool = True,
    allow_none: bool = False,
    expect: Collection[str] = (),
    repeats: bool = False,
    by_sentence: bool = False,
    **fields: Unpack[ReadShort],
) -> Reading:
    """Open a source of RAG answers; iterate over the result to read it.

    Parameters
    ----------
    source : path, str, sequence of them, DataFrame, Arrow table, mapping or iterable
        A file, plain or compressed with gzip or zstd; a folder of files or of a benchmark; ``-``
        for standard input; ``example:NAME`` for data shipped with the package; or
        ``hf:NAME[:SPLIT]``. Several are read one after the other, as one source. Or data in memory:
        a pandas or polars frame, an Arrow table, a dict of columns, dicts or `Example` objects. The
        same rows are read alike from each of them.
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
    expect : collection of str
        Text fields that single rows may lack, but whose column must be there.
    repeats : bool
        Whether rows whose id stood there before are given, too.
    by_sentence : bool
        Whether `Example.spans` and `Example.sentences` are read. Of labelled answers every sentence
        then needs a label, and the answer's is that of its sentences: 1 where one is unsupported.
        Rows that are sentences are gathered to their answers.
    **fields
        The fields of `ReadOptions`, one by one; they win over ``reading``:

        - ``format``: ``jsonl``, ``csv``, ``parquet``, ``saved``, a benchmark's name or a plug-in's;
          None guesses.
        - ``preset``: whose column names the file has (see `PRESETS`); None guesses.
        - ``mapping``: field to column, for single fields.
        - ``label_column``, ``group_column``, ``id_column``: default ``label``, ``group`` and
          ``id``. Without an id a row is called ``row-<number>``. Every column may be a path.
        - ``label_map``, ``positive``, ``annotators``: what labels mean, and several of one row.
        - ``options``: options of the format's reader, e.g. ``min_chars`` for HaluEval.
        - ``limit``, ``sample``, ``sample_seed``: the first rows, or rows drawn by lot.
        - ``span_share``: what of a sentence must be marked for it to be unsupported.
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
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "answers.jsonl"
    >>> _ = path.write_text('{"query": "q", "contexts": ["c"], "response": "r", "label": 1}')
    >>> [(example.id, example.question, example.label) for example in read(path)]
    [('row-1', 'q', 1)]
    """
    needs = Needs(
        tuple(keep), tuple(require), labelled, allow_none, tuple(expect), repeats, by_sentence
    )
    reading = replace(optional(reading, ReadOptions, "reading"), **cast(Any, fields))
    return read_needed(source, reading, needs)


def read_needed(source: Source, reading: ReadOptions, needs: Needs) -> Reading:
    """Open a source as `read` does, for what is needed of its rows."""
    opened = open_source(source, reading)
    target = reading.quarantine
    if target is not None and any(target.resolve() == file.resolve() for file in opened.files):
        raise InputError(f"quarantine must not be the file that is read; got {target}")
    made = Reading(spoken(source), opened, reading, needs)
    certain = needs.labelled and not needs.allow_none
    if certain and opened.table and not isinstance(source, Iterator):

        def again(part: ReadOptions) -> Reading:
            unlabelled = Needs(require=(), allow_none=True)
            return Reading(spoken(source), open_source(source, part), part, unlabelled)

        refuse_others_ahead(made.head, made.columns, reading, again)
    if (told := _told.get()) is not None:
        told(made)
    return made


@contextmanager
def telling_readings(told: Callable[[Reading], None]) -> Iterator[None]:
    """Tell a callable, within the block, of everything that is read."""
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)


def read_all(
    source: Source, reading: ReadOptions | None = None, **fields: Any
) -> tuple[tuple[Example, ...], Reading]:
    """Read every example of a source into memory; the parameters are those of `read`.

    Returns
    -------
    (tuple of Example, Reading)
        The examples, and the reading with its final counts.
    """
    opened = read(source, reading, **fields)
    return tuple(opened), opened
