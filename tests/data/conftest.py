"""What do the tests of the data room share?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Write = Callable[..., Path]


def good(**changes: Any) -> dict[str, Any]:
    """Return a row that is fine, with changes; a value of ... removes the field."""
    row = {"id": "a", "question": "q?", "contexts": ["c"], "response": "r", "label": 1, **changes}
    return {key: value for key, value in row.items() if value is not ...}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write rows (objects, or raw bytes or text) as lines of a file."""

    def to_file(*rows: Any, name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        lines = []
        for row in rows:
            if isinstance(row, bytes):
                lines.append(row)
            else:
                text = row if isinstance(row, str) else json.dumps(row)
                lines.append(text.encode("utf-8"))
        path.write_bytes(b"\n".join(lines) + b"\n")
        return path

    return to_file
