"""How do examples travel between processes, and what tells one shard from another?"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from calibrail.data.example import Example
from calibrail.engine.store import digest_of
from calibrail.errors import InputError
from calibrail.settings.engine import EngineOptions
from calibrail.settings.option import option_of

#: The columns of a table of examples: texts, then what scores of the user's own may read.
TEXTS: Final = ("question", "contexts", "response", "samples")
BESIDE: Final = ("id", "group", "content", "columns")
#: What an answer says before the sentence that an example is; tables of answers lack the column.
BEFORE: Final = "before"

_NONE: Final = b"\xff"

#: Bytes that an array of texts can hold.
_LONGEST: Final = 2**31 - 1


def to_table(examples: Sequence[Example], *, cells: bool = True) -> pa.Table:
    """Return examples as a table of bytes: every text as UTF-8, lone surrogates included.

    Labels stay behind: no score may read them. So do cells of the data without ``cells``.

    Raises
    ------
    InputError
        If a kept column holds what JSON cannot hold, such as a date, or all texts together are too
        long.
    """
    arrays = {
        "question": byte_array([item.question for item in examples]),
        "contexts": _lists([item.contexts for item in examples]),
        "response": byte_array([item.response for item in examples]),
        "samples": _lists([item.samples for item in examples]),
        "id": byte_array([item.id for item in examples]),
        "group": _bytes([_NONE if item.group is None else _raw(item.group) for item in examples]),
        "content": _bytes(
            [_NONE if item.content is None else _raw(item.content) for item in examples]
        ),
        "columns": _bytes([_cells(item.columns) if cells else b"" for item in examples]),
    }
    # Sentences alone stand after a part of their answer.
    if any(item.before is not None for item in examples):
        befores = [_NONE if item.before is None else _raw(item.before) for item in examples]
        arrays[BEFORE] = _bytes(befores)
    return pa.table(arrays)


def to_examples(table: pa.Table) -> list[Example]:
    """Return the examples of a table; columns that it lacks are empty.

    Texts may be strings or bytes, and ``contexts`` one text: what other engines hand over.
    """
    columns = {name: table[name].to_pylist() for name in table.column_names}
    n = table.num_rows

    def column(name: str) -> list[Any]:
        return columns.get(name) or [None] * n

    return [
        Example(
            question=text_of(question),
            contexts=_texts(contexts),
            response=text_of(response),
            samples=_texts(samples),
            id=text_of(id),
            group=None if group in (None, _NONE) else text_of(group),
            columns=json.loads(cells) if cells else {},
            content=None if content in (None, _NONE) else text_of(content),
            before=None if before in (None, _NONE) else text_of(before),
        )
        for question, contexts, response, samples, id, group, content, cells, before in zip(
            *map(column, (*TEXTS, *BESIDE, BEFORE)), strict=True
        )
    ]


def digests(table: pa.Table) -> tuple[str, str]:
    """Return what tells a shard from others: by its texts alone, and by all that a score may read.

    Of examples that differ in their ids only, the first is the same: their scores are known.
    """
    texts = [name for name in (*TEXTS, BEFORE) if name in table.column_names]
    by_texts = digest_of(_buffers(table.select(texts)))
    return by_texts, digest_of([by_texts.encode(), *_buffers(table.select(BESIDE))])


def _buffers(table: pa.Table) -> Iterator[memoryview]:
    for column in table.columns:
        for part in column.chunks:
            yield from (memoryview(buffer) for buffer in part.buffers() if buffer is not None)


def _cells(columns: Mapping[str, Any]) -> bytes:
    try:
        # In their order: who adds them up would else get other last digits.
        return json.dumps(dict(columns)).encode() if columns else b""
    except TypeError as error:
        raise InputError(
            f"a cell of the data cannot be kept in a shard: {error}; turn its column into texts or "
            "numbers"
        ) from error


def byte_array(texts: Sequence[str]) -> pa.Array:
    """Return texts as an Arrow array of their bytes, from which `text_of` makes them again."""
    return _bytes([_raw(text) for text in texts])


def text_of(value: str | bytes | None) -> str:
    """Return the text that bytes or a string stand for; the empty one for None."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogatepass")
    return value or ""


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _texts(value: Sequence[str | bytes] | str | bytes | None) -> tuple[str, ...]:
    if isinstance(value, str | bytes):
        return (text_of(value),)
    return tuple(text_of(item) for item in value or ())


def _bytes(values: Sequence[bytes]) -> pa.Array:
    """Return bytes as an Arrow array, made by hand: ``pyarrow.array`` would import pandas."""
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(values), [None, _offsets(map(len, values)), pa.py_buffer(b"".join(values))]
    )


def _lists(rows: Sequence[Sequence[str]]) -> pa.Array:
    values = byte_array([text for texts in rows for text in texts])
    offsets = _offsets(map(len, rows))
    return pa.ListArray.from_buffers(
        pa.list_(pa.binary()), len(rows), [None, offsets], children=[values]
    )


def _offsets(lengths: Any) -> pa.Buffer:
    ends = np.cumsum(np.fromiter(lengths, np.int64))
    if len(ends) and ends[-1] > _LONGEST:
        raise InputError(
            f"the texts of one shard take {ends[-1]:,} bytes, and {_LONGEST:,} are the most; lower "
            f"{option_of(EngineOptions, 'shard_rows')}"
        )
    return pa.py_buffer(np.concatenate(([0], ends)).astype(np.int32))
