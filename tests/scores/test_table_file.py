from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrail.data import Example
from calibrail.engine.local import concat_tables, score_here
from calibrail.errors import DataError
from calibrail.scores import build as build_score
from calibrail.scores import build_column, parse_specs
from calibrail.scores import table as tables
from calibrail.scores.table import ScoreTable, score_file


def answers(n: int, empty: frozenset[int] = frozenset()) -> list[Example]:
    return [
        Example(
            contexts=("the red fox runs",),
            response="" if row in empty else f"the fox {row}",
            label=(0, 1, None)[row % 3],
            group=None if row % 4 else f"g{row}",
            id=f"a{row}",
            columns={"label": row / 7, "dae": None if row in empty else -1.0 * row},
        )
        for row in range(n)
    ]


def parts(examples: list[Example], block: int) -> tuple[ScoreTable, list[ScoreTable]]:
    scores = [
        *map(build_score, parse_specs("novelty,length")),
        build_column("label", "hallucinated"),
        build_column("dae", "faithful"),
    ]
    found: list[ScoreTable] = []
    made, _ = score_here(examples, scores, take=found.append, block=block)
    return made, found


@pytest.mark.parametrize("empty", [frozenset[int](), frozenset({0}), frozenset({9, 17})])
@pytest.mark.parametrize("block", [1, 4, 7, 100])
@pytest.mark.parametrize("n", [0, 1, 20])
def test_parts_give_the_bytes_of_the_whole(
    n: int, block: int, empty: frozenset[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "WRITTEN", 8)
    made, found = parts(answers(n, empty), block)
    with score_file(tmp_path / "new" / "parts.parquet") as file:
        for part in (*found, made):
            file.add(part)
    table = concat_tables(made, found)
    table.to_parquet(tmp_path / "whole.parquet")
    grown = tmp_path / "new" / "parts.parquet"
    assert grown.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert list(grown.parent.iterdir()) == [grown]
    undefined = {key: int(np.isnan(values).sum()) for key, values in table.columns.items()}
    assert {key: file.undefined.get(key, 0) for key in undefined} == undefined
    assert file.n == n


def test_an_error_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    path.write_bytes(b"old")
    _, found = parts(answers(5), 2)
    with pytest.raises(ZeroDivisionError), score_file(path) as file:
        file.add(found[0])
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(DataError, match="cannot write"),
        score_file(tmp_path / "file" / "x.parquet"),
    ):
        pass
