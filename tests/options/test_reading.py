from __future__ import annotations

from pathlib import Path

from calibrail.options import ReadOptions


def test_a_file_may_be_named_by_a_text() -> None:
    assert ReadOptions(quarantine="rows.jsonl").quarantine == Path("rows.jsonl")  # type: ignore[arg-type]
