"""How does a log become one table, in constant memory?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Any, Final

from calibrail.errors import DataError
from calibrail.guardrail.decision_log.folder import chains
from calibrail.guardrail.decision_log.lines import ending, raw_lines, readable

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows and bytes of a row group: whichever is reached first.
_ROWS: Final = 1 << 14
_BYTES: Final = 1 << 24

_TEXTS: Final = (
    *("guardrail", "name", "kind", "id", "outcome", "reason", "column"),
    *("group", "language", "question", "response", "text", "previous", "hash"),
)
#: Columns of what a line holds of its texts, by the names of its fields.
_TRAFFIC: Final = {
    "question_length": "question",
    "response_length": "response",
    "chunks": "chunks",
    "language": "language",
}
_NUMBERS: Final = ("score", "threshold", "p_value", "column_value", "column_threshold")


def export(folders: Sequence[Path], output: Path) -> tuple[int, int]:
    """Write every decision of a log as a row of a Parquet file, whole or not at all.

    Columns are the fields of a line, those of its ``traffic`` under names of their own, the number
    of removed sentences, ``chain`` and ``file``; rows stand chain by chain in the order of ``seq``.

    Returns
    -------
    rows, unreadable : int
        Decisions written, and lines left out since they are not what was written.

    Raises
    ------
    OSError
        A file cannot be read or written.
    DataError
        A line holds what no decision does.
    """
    import pyarrow.parquet as pq

    schema, skipped, n = _schema(), [0], 0
    output.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = mkstemp(dir=output.parent, prefix=f".{output.name}.")
    os.close(handle)
    try:
        with pq.ParquetWriter(temporary, schema) as writer:
            for block in _blocks(_rows(folders, skipped)):
                writer.write_table(_table(block, schema))
                n += len(block)
        Path(temporary).chmod(0o644)
        os.replace(temporary, output)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return n, skipped[0]


def _rows(folders: Sequence[Path], skipped: list[int]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield each decision with the length of its line."""
    for chain, files in chains(folders).items():
        for path in files.values():
            with path.open("rb") as file:
                for _, raw, whole in raw_lines(file):
                    line, torn = (readable(raw), False) if whole else ending(raw)
                    # What a crash has torn was never given.
                    if line is None and not torn:
                        skipped[0] += 1
                    if line is not None and line.decides:
                        row = {**line.content, "chain": chain, "file": path.name}
                        if isinstance(traffic := row.get("traffic"), dict):
                            row |= {name: traffic.get(key) for name, key in _TRAFFIC.items()}
                        if isinstance(removed := row.get("removed"), list):
                            row["n_removed"] = len(removed)
                        yield {"kind": line.kind, **row}, len(raw)


def _blocks(rows: Iterator[tuple[dict[str, Any], int]]) -> Iterator[list[dict[str, Any]]]:
    block: list[dict[str, Any]] = []
    size = 0
    for row, length in rows:
        block.append(row)
        size += length
        if len(block) >= _ROWS or size >= _BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("time", pa.timestamp("us", tz="UTC")),
            *((name, pa.string()) for name in _TEXTS),
            *((name, pa.float64()) for name in _NUMBERS),
            *((name, pa.int64()) for name in _TRAFFIC if name not in _TEXTS),
            ("n_removed", pa.int64()),
            ("released", pa.bool_()),
            ("contexts", pa.list_(pa.string())),
            ("seq", pa.int64()),
            ("chain", pa.string()),
            ("file", pa.string()),
        ]
    )


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    columns = {name: [_valid(row.get(name)) for row in rows] for name in schema.names}
    try:
        columns["time"] = [datetime.fromisoformat(row["time"]) for row in rows]
        return pa.table(columns, schema=schema)
    except (ValueError, TypeError) as error:
        # Its hash fits, so whoever wrote it was no log.
        names = sorted({row["file"] for row in rows})
        raise DataError(
            f"a line of {', '.join(names[:3])} holds what no decision does: {error}; move the file "
            "away"
        ) from error


def _valid(value: Any) -> Any:
    """Return a value with the halves of surrogate pairs as escapes: Arrow's texts are UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return [_valid(item) for item in value] if isinstance(value, list) else value
