"""Does each decision and each score stand in the place of its row, whatever holds the rows?"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrail
from calibrail.data.example import Example
from calibrail.options import EngineOptions
from calibrail.pipelines.check import check_source, decide_source
from calibrail.pipelines.scoring import score_by_parts
from calibrail.scores.registry import build_column
from calibrail.scores.table import score_file
from tests.command_line import calibrail as run_command

#: Rows that hold no answer: one of JSON lines is not even JSON.
BAD: list[dict[str, Any]] = [
    {"id": {"a": 1}, "s": 0.5},
    {"id": "x", "response": ["a", 3], "s": 0.1},
]


def rows_with(bad: set[int], n: int = 40) -> list[dict[str, Any]]:
    good = ({"id": f"a{k}", "response": f"Answer {k}.", "s": k / 1000} for k in range(n))
    return [BAD[k % 2] if k in bad else row for k, row in enumerate(good)]


def jsonl(rows: list[dict[str, Any]], folder: Path) -> Any:
    lines = ["{broken" if row is BAD[0] else json.dumps(row) for row in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return folder / "rows.jsonl"


def csv(rows: list[dict[str, Any]], folder: Path) -> Any:
    lines = ["x,y,z,too,many" if r in BAD else f"{r['id']},{r['response']},{r['s']}" for r in rows]
    (folder / "rows.csv").write_text("\n".join(["id,response,s", *lines]))
    return folder / "rows.csv"


def two_files(rows: list[dict[str, Any]], folder: Path) -> Any:
    for name in ("a", "b"):
        (folder / name).mkdir()
    half = len(rows) // 2
    return [jsonl(rows[:half], folder / "a"), jsonl(rows[half:], folder / "b")]


FORMS: dict[str, Callable[[list[dict[str, Any]], Path], Any]] = {
    "jsonl": jsonl,
    "csv": csv,
    "two files": two_files,
    "dicts": lambda rows, _: rows,
    "frame": lambda rows, _: pd.DataFrame(rows),
}


@pytest.fixture(scope="module")
def guardrail() -> calibrail.Guardrail:
    data = {
        "s": [k % 100 / 1000 for k in range(200)],
        "label": [int(k % 3 > 0) for k in range(200)],
    }
    return calibrail.calibrate(data, build_column("s", "hallucinated")).freeze()


def require_places(lines: list[Any], rows: list[dict[str, Any]], form: str) -> None:
    assert len(lines) == len(rows)
    first = 2 if form == "csv" else 1
    half = len(rows) // 2 if form == "two files" else len(rows)
    assert [line["row"] for line in lines] == [first + k % half for k in range(len(rows))]
    for line, row in zip(lines, rows, strict=True):
        assert line["score"] == (None if row in BAD else row["s"])
        if row in BAD:
            assert line["outcome"] == "error"
            assert line["cause"] == {"code": "row_unusable", "row": line["row"]}
            assert f"row {line['row']} cannot be used" in line["reason"]


@pytest.mark.parametrize("form", FORMS)
def test_decisions_and_scores_stand_where_their_rows_do(
    guardrail: calibrail.Guardrail, form: str, tmp_path: Path
) -> None:
    rows = rows_with({0, 1, 7, 20, 39})
    source = FORMS[form](rows, tmp_path)
    check_source(guardrail, source, tmp_path / "d.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "d.jsonl").open()]
    require_places(lines, rows, form)
    decisions = [item.to_dict() for item in decide_source(guardrail, source)]
    assert decisions == lines
    with score_file(tmp_path / "s.parquet") as file:
        score_by_parts(source, build_column("s", "hallucinated"), file.add)
    table = pq.read_table(tmp_path / "s.parquet").to_pylist()
    assert [row["s"] for row in table] == [line["score"] for line in lines]
    for name in ("row", "file"):
        assert [row.get(name) for row in table] == [line.get(name) for line in lines]


@settings(max_examples=20, deadline=None)
@given(bad=st.sets(st.integers(0, 29)), block=st.integers(1, 9))
def test_no_pattern_of_bad_rows_moves_a_decision(
    guardrail: calibrail.Guardrail, bad: set[int], block: int
) -> None:
    rows = rows_with(bad, 30)
    require_places([item.to_dict() for item in decide_source(guardrail, rows)], rows, "dicts")


def test_answers_that_were_seen_before_stand_in_their_places(
    guardrail: calibrail.Guardrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    def even(answers: list[Example]) -> list[bool]:
        asked.append(len(answers))
        return [int(answer.id[1:]) % 2 == 0 for answer in answers]

    asked: list[int] = []
    monkeypatch.setattr("calibrail.pipelines.loading.BLOCK", 7)
    rows = rows_with({4, 9, 19}, 20)
    made = decide_source(guardrail, rows, wanted=even)
    codes = {item.row: item.cause.code for item in made}
    assert list(codes) == list(range(1, 21))
    assert {row for row, code in codes.items() if code == "score"} == {*range(1, 21, 2)} - {5}
    assert {row for row, code in codes.items() if code == "row_unusable"} == {5, 10, 20}
    assert asked == [7, 7, 3]


@pytest.mark.parametrize("options", [EngineOptions(shard_rows=3, shards=Path("shards"))])
def test_shards_bring_the_same_lines(
    guardrail: calibrail.Guardrail, options: EngineOptions, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    words = calibrail.calibrate("example:facts", "novelty", alpha=0.2, baselines=False).freeze()
    rows = [{**row, "contexts": ["Answer."]} for row in rows_with({2, 3, 11, 19}, 20)]
    source = jsonl([BAD[0] if row["id"] == BAD[0]["id"] else row for row in rows], tmp_path)
    check_source(words, source, tmp_path / "here.jsonl")
    with calibrail.use_engine(options):
        check_source(words, source, tmp_path / "apart.jsonl")
    assert (tmp_path / "apart.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()


def test_rows_come_in_order_from_a_shuffled_file_on_the_command_line(
    guardrail: calibrail.Guardrail, tmp_path: Path
) -> None:
    guardrail.save(tmp_path / "g.json")
    rows = rows_with({5, 6, 30})
    random.Random(3).shuffle(rows)
    source = jsonl(rows, tmp_path)
    for name, more in (("check", ()), ("select", ("--fdr", 0.4))):
        output = tmp_path / f"{name}.jsonl"
        done = run_command(name, tmp_path / "g.json", source, *more, "-o", output)
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in output.open()]
        assert [line["row"] for line in lines] == list(range(1, 41))
        assert [line["score"] for line in lines] == [None if r in BAD else r["s"] for r in rows]
