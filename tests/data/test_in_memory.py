"""Are rows in memory read as those of a file are?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from calibrail import Example, ReadOptions, diagnose, read
from calibrail.data.example import SourceRow
from calibrail.data.tables import _frame_rows as frame_rows
from calibrail.data.tables import columns_of
from calibrail.errors import DataError, InputError
from tests.rows import good

ROWS: list[dict[str, Any]] = [
    {
        "id": f"a{i}",
        "question": f"q{i}?",
        "contexts": [f"c{i}"],
        "response": f"r{i}",
        "label": i % 2,
    }
    for i in range(4)
]


class Stream:
    """What a polars frame or a query's result is to us: a stream of Arrow batches."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


#: Every way to hold rows in memory, made from the same rows.
HOLDERS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "frame": pd.DataFrame,
    "table": pa.Table.from_pylist,
    "batch": lambda rows: pa.RecordBatch.from_pylist(rows),
    "stream": lambda rows: Stream(pa.Table.from_pylist(rows)),
    "dicts": list,
    "generator": iter,
    "columns": lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
    "arrays": lambda rows: {
        name: np.array([row[name] for row in rows], dtype=object) for name in rows[0]
    },
    "examples": lambda rows: [Example(**row) for row in rows],
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_the_same_rows_are_the_same_examples(holder: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    opened = read(HOLDERS[holder](ROWS), keep=() if holder == "examples" else ("label",))
    assert [(item.id, item.response, item.label) for item in opened] == [
        (item.id, item.response, item.label) for item in read(path)
    ]
    assert len(opened.digest() or "") == 64
    if holder != "examples":
        assert opened.digest() == _digest(ROWS)
        assert opened.digest() != _digest(ROWS[:-1])


def _digest(rows: object) -> str | None:
    opened = read(rows)  # type: ignore[arg-type]
    assert list(opened)
    return opened.digest()


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"label": float("nan")}, "label"),
        ({"label": None}, "label"),
        ({"response": None}, "response"),
        ({"response": 7}, "response"),
        ({"contexts": np.array(["c", 3], dtype=object)}, "contexts"),
        ({"id": "a0"}, "id"),
    ],
)
@pytest.mark.parametrize("holder", ["frame", "dicts", "columns"])
def test_what_is_wrong_with_a_row_is_named(
    holder: str, bad: dict[str, Any], field: str, tmp_path: Path
) -> None:
    rows = [*ROWS, {**ROWS[0], "id": "b", **bad}]
    aside = tmp_path / "quarantine.jsonl"
    opened = read(HOLDERS[holder](rows), quarantine=aside)
    assert len(list(opened)) == 4
    entry = json.loads(aside.read_text(encoding="utf-8"))
    assert (entry["row"], entry["field"]) == (5, field)
    with pytest.raises(DataError, match=f"row 5, field {field}"):
        list(read(HOLDERS[holder](rows), strict=True))


def test_values_of_arrays_and_frames_are_read_as_python_s() -> None:
    labels = [np.int64(1), np.float64(0.0), np.bool_(True), np.str_("0"), pd.NA, pd.NaT]
    rows = [{**ROWS[0], "id": np.int32(i), "label": label} for i, label in enumerate(labels)]
    opened = read(rows)
    assert [(item.id, item.label) for item in opened] == [("0", 1), ("1", 0), ("2", 1), ("3", 0)]
    assert opened.reasons == {("label", "missing"): 2}
    frame = pd.DataFrame(rows[:4]).astype({"label": "object"})
    frame["label"] = pd.array([1, 0, None, 1], dtype="Int64")
    frame["id"] = pd.Categorical(["a", "b", "c", "d"])
    frame["contexts"] = [np.array(["c"])] * 4
    assert [item.id for item in read(frame)] == ["a", "b", "d"]


def test_a_frame_becomes_python_s_values_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    whole = pd.Series.tolist

    def counted(held: Any) -> list[Any]:
        made.append(len(held))
        return whole(held)

    monkeypatch.setattr(pd.Series, "tolist", counted)
    rows = frame_rows(pd.DataFrame({"x": range(3000), "y": ["a"] * 3000}))
    first = next(rows)
    assert made == [1024, 1024]
    items = [first, *rows]
    assert [(item.number, item.values) for item in items if isinstance(item, SourceRow)] == [
        (i + 1, {"x": i, "y": "a"}) for i in range(3000)
    ]


def test_a_later_item_that_is_no_row_is_set_aside() -> None:
    opened = read([*ROWS, "text", None])  # type: ignore[list-item]
    assert len(list(opened)) == 4
    assert opened.reasons == {("row", "wrong type"): 2}


@pytest.mark.parametrize(
    ("source", "given"),
    [
        (None, "None"),
        (5, r"5 \(int\)"),
        (b"path.jsonl", "bytes"),
        ([1, 2], r"a list of 1 \(int\)"),
        (np.zeros((3, 2)), "numpy ndarray"),
        (object(), "a object"),
        (pd.Series(["a"]), "pandas Series"),
    ],
)
@pytest.mark.parametrize("function", [read, diagnose])
def test_another_type_is_refused_with_what_is_accepted(
    function: Callable[[Any], object], source: object, given: str
) -> None:
    with pytest.raises((InputError, DataError), match=f"{given}|Series cannot") as error:
        function(source)
    assert "DataFrame" in str(error.value) or "table" in str(error.value)


def test_columns_must_be_columns_of_one_length() -> None:
    with pytest.raises(InputError, match="lengths: label 2, response 1"):
        read({"label": [0, 1], "response": ["a"]})
    with pytest.raises(InputError, match=r"'label' holds 1.*list of dicts"):
        read({"label": 1, "response": "a"})
    with pytest.raises(DataError, match="several columns 'a'"):
        list(read(pd.DataFrame([[1, 2]], columns=["a", "a"])))
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(DataError, match="several columns 'a'"):
        read(table)


def test_a_benchmark_is_recognised_in_memory_too() -> None:
    rows = [
        {
            "knowledge": "k",
            "question": "q?",
            "right_answer": "yes it is",
            "hallucinated_answer": "no",
        }
    ] * 3
    for holder in (rows, pd.DataFrame(rows), iter(rows)):
        opened = read(holder, options={"min_chars": 1})
        assert opened.format == "halueval"
        assert sorted({item.label for item in opened if item.label is not None}) == [0, 1]


def test_the_columns_are_named_as_for_a_file() -> None:
    frame = pd.DataFrame(ROWS).rename(columns={"response": "answer", "label": "bad"})
    how = ReadOptions(mapping={"response": "answer"}, label_column="bad")
    assert [item.label for item in read(frame, how)] == [0, 1, 0, 1]


def test_an_iterator_of_examples_is_read_as_it_comes() -> None:
    taken: list[int] = []

    def endless() -> Iterator[Example]:
        while True:
            taken.append(len(taken))
            yield Example("q", ("c",), "r", 1, id=str(len(taken)))

    opened = read(endless())
    assert next(opened).id == "1" and len(taken) < 1000


def test_arrays_become_columns_of_one_length() -> None:
    columns = columns_of(
        scores=np.array([[0.5], [np.nan]]), labels=pd.Series([1, 0]), groups=iter("ab")
    )
    assert columns == {"scores": [0.5, None], "labels": [1, 0], "groups": ["a", "b"]}
    with pytest.raises(InputError, match=r"scores must hold one.*\(2, 2\)"):
        columns_of(scores=np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"labels must be a list.*None"):
        columns_of(labels=None)
    with pytest.raises(InputError, match="lengths: scores 1, labels 2"):
        columns_of(scores=[1], labels=[0, 1])


class Split(dict[str, Any]):
    """What holds several data sets by name."""


class Lazy:
    """A query that was not run."""

    def collect(self) -> None:
        """Run it."""


def test_what_is_no_data_yet_is_named_with_the_remedy() -> None:
    table = pa.Table.from_pylist(ROWS)
    with pytest.raises(
        InputError, match=r"a Split holds several tables \(train\); .*data\['train'\]"
    ):
        read(Split(train=table))
    with pytest.raises(InputError, match=r"got a tests Lazy; collect\(\) it first"):
        read(Lazy())  # type: ignore[arg-type]


@pytest.mark.parametrize("library", ["polars", "duckdb", "datasets"])
def test_the_holders_of_other_libraries(library: str) -> None:
    module = pytest.importorskip(library)
    answers = pa.Table.from_pylist(ROWS)
    made = {
        "polars": lambda: module.from_arrow(answers),
        "duckdb": lambda: module.from_arrow(answers),
        "datasets": lambda: module.Dataset.from_list(ROWS),
    }[library]()
    assert [item.id for item in read(made)] == [row["id"] for row in ROWS]


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_a_number_too_long_to_be_written_costs_its_row(kind: str) -> None:
    rows = [good(id=f"a{k}", score=10**5000 if k == 1 else k) for k in range(3)]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    reading = read(rows if kind == "rows" else columns)
    assert [example.id for example in reading] == ["a0", "a2"]
    assert reading.reasons == Counter({("score", "a number that is too long"): 1})
