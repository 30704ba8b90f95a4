"""Which rows do tests write into files?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Write = Callable[..., Path]


def good(**changes: Any) -> dict[str, Any]:
    """Return a row that is fine, with changes; a value of ... removes the field."""
    row = {"id": "a", "question": "q?", "contexts": ["c"], "response": "r", "label": 1, **changes}
    return {key: value for key, value in row.items() if value is not ...}
