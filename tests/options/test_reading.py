from __future__ import annotations

from pathlib import Path

import pytest

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
