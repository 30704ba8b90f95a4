from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from calibrail.options import ReadOptions, ReadShort


def test_the_keywords_of_a_short_call_are_the_fields_of_the_options() -> None:
    assert list(ReadShort.__annotations__) == [item.name for item in fields(ReadOptions)]


def test_a_file_may_be_named_by_a_text() -> None:
    assert ReadOptions(quarantine="rows.jsonl").quarantine == Path("rows.jsonl")  # type: ignore[arg-type]
