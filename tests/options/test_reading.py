from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibrail.data.reading import read
from calibrail.errors import InputError
from calibrail.options import EngineOptions, ReadOptions


def test_a_file_may_be_named_by_a_text() -> None:
    assert ReadOptions(quarantine="rows.jsonl").quarantine == Path("rows.jsonl")  # type: ignore[arg-type]


def test_a_field_that_cannot_be_none_refuses_it() -> None:
    with pytest.raises(InputError, match="sample_seed must be a whole number; got None"):
        ReadOptions(sample_seed=None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="shard_rows must be a whole number; got None"):
        EngineOptions(shard_rows=None)  # type: ignore[arg-type]
    assert ReadOptions(sample=None).sample is None


def test_rows_that_cannot_be_used_are_listed_whole_or_not_at_all(tmp_path: Path) -> None:
    listed = tmp_path / "beside" / "quarantine.jsonl"
    rows = [
        {"response": text, "label": label} for text, label in zip("ABC", (1, "?", 0), strict=True)
    ]
    assert (
        len(list(read(rows, ReadOptions(quarantine=listed), require=()))) == 2 and listed.exists()
    )
    reading = iter(read(rows * 3, ReadOptions(quarantine=listed), require=()))
    for _ in range(4):
        next(reading)
    # Whoever is killed here leaves none, and not the beginning of one.
    assert not listed.exists()
    assert len(list(reading)) == 2
    assert [json.loads(line)["row"] for line in listed.open()] == [2, 5, 8]
    assert [item.name for item in listed.parent.iterdir()] == [listed.name]
