"""The same rows have the same ids, groups, digests and scores, wherever they come from."""

from __future__ import annotations

import csv
import json
import math
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail import Example, calibrate, diagnose, read
from calibrail.data.dataset import names_in
from calibrail.data.values import name_of, spelling
from calibrail.errors import InputError
from calibrail.pipelines.scoring import score_source

Rows = list[dict[str, Any]]

TEXT = st.text(st.sampled_from("ab é\u0301\u00a07.0\n,\"'"), min_size=1, max_size=8).map(
    lambda text: f"x{text}y"
)


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    """Return rows in which every column has one type, as Parquet wants it."""
    n = draw(st.integers(2, 6))
    name = draw(st.sampled_from([TEXT, st.integers(0, 99), st.integers(0, 99).map(float)]))
    single = st.floats(-1e6, 1e6, width=32).map(lambda value: float(str(np.float32(value))))
    columns = {
        "group": st.one_of(st.none(), name),
        "score": st.one_of(draw(st.sampled_from([single, st.floats(-9, 9)])), st.just(math.inf)),
        "note": TEXT,
    }
    if draw(st.booleans()):
        columns |= {"question": TEXT, "response": TEXT}
    made = [{key: draw(values) for key, values in columns.items()} for _ in range(n)]
    named, unique = draw(st.booleans()), draw(st.sampled_from([str, int, float]))
    for number, row in enumerate(made):
        row |= {"label": number % 2, **({"id": unique(number)} if named else {})}
    return made


def read_back(source: Any) -> list[tuple[Any, ...]]:
    examples = list(read(source, require=(), keep=("score",)))
    # Rows without ids are called by their lines, of which CSV has one more.
    ids = [None if e.id.startswith("row-") else e.id for e in examples]
    return [
        (id, e.group, e.label, e.digest(), e.columns["score"])
        for id, e in zip(ids, examples, strict=True)
    ]


@settings(max_examples=25, deadline=None)
@given(tables())
def test_every_source_gives_the_same_answers(rows: Rows) -> None:
    frame = pd.DataFrame(rows)
    names = list(rows[0])
    if frame["group"].isna().all():
        frame = frame.drop(columns="group")
    table = pa.table({name: [row[name] for row in rows] for name in names})
    single = [np.float32(row["score"]) for row in rows]
    exact = all(float(str(value)) == row["score"] for value, row in zip(single, rows, strict=True))
    expected = read_back(rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "a.jsonl").write_text(lines, encoding="utf-8")
        (folder / "a.json").write_text(json.dumps(rows), encoding="utf-8")
        with (folder / "a.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, names)
            writer.writeheader()
            writer.writerows(rows)
        pq.write_table(table, folder / "a.parquet")
        sources: list[Any] = [folder / f"a.{kind}" for kind in ("jsonl", "json", "csv", "parquet")]
        sources += [frame, table, {name: [row[name] for row in rows] for name in names}]
        if exact:
            narrow = table.set_column(names.index("score"), "score", pa.array(single, pa.float32()))
            pq.write_table(narrow, folder / "narrow.parquet")
            sources += [narrow, folder / "narrow.parquet", frame.astype({"score": "float32"})]
        for source in sources:
            assert read_back(source) == expected, type(source)
        if "response" in names:
            return
        # Batch by batch, as scores are read.
        score = "column:column=score,higher=hallucinated"
        made = score_source(folder / "a.parquet", score).table
        assert [
            (None if id.startswith("row-") else id, group, int(label), f"{digest:016x}")
            for id, group, label, digest in zip(
                made.ids.to_pylist(),
                made.groups.to_pylist(),
                made.labels,
                made.digests.tolist(),
                strict=True,
            )
        ] == [item[:4] for item in expected]


@pytest.mark.parametrize(
    ("alike", "name"),
    [
        ((7, 7.0, "7", "7.0", Decimal(7), Decimal("7.00")), "7"),
        (("caf\u00e9", "cafe\u0301 ", "\u00a0caf\u00e9"), "caf\u00e9"),
        (("a b", "a\u00a0b", " a b\r\n"), "a b"),
        ((None, "", "  ", float("nan"), Decimal("nan")), None),
        ((0.5, "0.5", Decimal("0.5")), "0.5"),
    ],
)
def test_names_that_are_spelt_differently_are_one(alike: tuple[Any, ...], name: str | None) -> None:
    assert [name_of(value) for value in alike] == [name] * len(alike)
    texts = [value for value in alike if isinstance(value, str)]
    made = names_in(pa.array([*texts, "z"]))
    assert made is not None and made.to_pylist() == [*[name] * len(texts), "z"]


@pytest.mark.parametrize(
    "alike",
    [
        (True, "True", "true", 1, 1.0, "1"),
        ([0.5, 0.25], "[0.5, 0.25]"),
        (["a", "b"], "['a', 'b']", '["a", "b"]'),
        (0.1, "0.10", Decimal("0.1"), float(np.float32(0.1))),
        (math.inf, "inf", "Infinity"),
        (None, "", float("nan"), "nan"),
    ],
)
def test_cells_that_are_spelt_differently_are_the_same_content(alike: tuple[Any, ...]) -> None:
    assert len({spelling(value) for value in alike}) == 1


GRADES = [0.1, 0.3, 0.7, None]


def _narrow(kind: pa.DataType, wrap: Any = lambda cell: cell) -> pa.Table:
    leaf = getattr(kind, "value_type", kind)
    made: Any = np.float16 if pa.types.is_float16(leaf) else float
    made = (lambda cell: Decimal(str(cell))) if pa.types.is_decimal(leaf) else made
    cells = [None if cell is None else made(cell) for cell in GRADES]
    held = pa.array([None if cell is None else wrap(cell) for cell in cells], kind)
    return pa.table({"score": held, "label": [1, 0, 1, 0]})


def _frame(kind: str) -> pd.DataFrame:
    scores = pd.Series([0.1, 0.3, 0.7, np.nan]).astype("float32" if kind == "category" else kind)
    return pd.DataFrame({"score": scores.astype(kind), "label": [1, 0, 1, 0]})


@pytest.mark.parametrize(
    "source",
    [
        *map(_narrow, (pa.float16(), pa.float32(), pa.decimal128(9, 4), pa.decimal256(9, 4))),
        _narrow(pa.float32()).set_column(
            0, "score", _narrow(pa.float32())["score"].dictionary_encode()
        ),
        *map(_frame, ("float16", "float32", "Float32", "float[pyarrow]", "halffloat[pyarrow]")),
        _frame("category"),
        {"score": pd.Series(GRADES, dtype="Float32"), "label": [1, 0, 1, 0]},
        {"score": _narrow(pa.float32())["score"], "label": [1, 0, 1, 0]},
        {"score": np.array([0.1, 0.3, 0.7, np.nan], "float32"), "label": [1, 0, 1, 0]},
        [
            {"score": cell, "label": 1}
            for cell in (np.float32(0.1), np.float16(0.3), Decimal("0.7"), Decimal("sNaN"))
        ],
    ],
)
def test_a_number_is_its_shortest_digits_in_every_type(source: Any, tmp_path: Path) -> None:
    def scores(data: Any) -> list[Any]:
        return [example.columns["score"] for example in read(data, require=(), keep=("score",))]

    assert scores(source) == GRADES
    if isinstance(source, pa.Table):
        pq.write_table(source, tmp_path / "a.parquet")
        assert scores(tmp_path / "a.parquet") == GRADES


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, lambda held: pa.list_(held, 1)])
@pytest.mark.parametrize("leaf", [pa.float16(), pa.float32()])
def test_so_are_numbers_in_lists_and_structures(kind: Any, leaf: pa.DataType) -> None:
    examples = read(_narrow(kind(leaf), lambda cell: [cell]), require=(), keep=("score",))
    assert [e.columns["score"] for e in examples] == ["[0.1]", "[0.3]", "[0.7]", None]
    inner = pa.array([{"s": cell} for cell in GRADES], pa.struct([("s", pa.float32())]))
    table = pa.table({"meta": inner, "label": [1, 0, 1, 0]})
    examples = read(table, require=(), keep=("meta.s",))
    assert [e.columns["meta.s"] for e in examples] == GRADES


@pytest.mark.parametrize(
    ("cells", "options", "scores"),
    [
        (["0,87", "1", "NA", "1.234,5"], {}, [0.87, 1.0, "NA", 1234.5]),
        (["0,875", "1,000", "", "1.234"], {}, [0.875, 1.0, None, 1234.0]),
        (["1,234", "2,500"], {"decimal": ","}, [1.234, 2.5]),
        (["1,234", "2,500"], {"decimal": "."}, [1234.0, 2500.0]),
        (["1,234", "2,500"], {}, ["1,234", "2,500"]),
        (["87 %", "12,5%"], {}, [0.87, 0.125]),
        (["0,87", "high"], {}, ["0,87", "high"]),
        (["1,2,3", "1,5"], {}, ["1,2,3", "1,5"]),
    ],
)
def test_decimal_commas(cells: list[str], options: Any, scores: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    body = "".join(f"{cell};{number % 2}\n" for number, cell in enumerate(cells))
    path.write_text(f"score;label\n{body}", encoding="utf-8")
    how: Any = {"require": (), "keep": ("score",)}
    assert [e.columns["score"] for e in read(path, options=options, **how)] == scores
    if not options:
        rows = [{"score": cell, "label": number % 2} for number, cell in enumerate(cells)]
        assert [e.columns["score"] for e in read(rows, **how)] == scores
    with pytest.raises(InputError, match="decimal must be a point or a comma; got 'x'"):
        read(path, options={"decimal": "x"}, **how)


def test_doctor_lists_numbers_however_they_are_spelt(tmp_path: Path) -> None:
    columns = {"comma": "0,5", "three": "1,250", "share": "5 %", "flag": "True", "gap": "NA"}
    lines = [";".join(("label", *columns))]
    lines += [f"{n % 2};{';'.join(columns.values())}" for n in range(4)]
    lines += ["0;0,25;2,125;7,5 %;False;0.5"]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    listed = {item.name: item.n for item in diagnose(path).numeric_columns}
    assert listed == {"comma": 5, "three": 5, "share": 5, "flag": 5, "gap": 1}


@pytest.mark.parametrize("spelt", [(True, False), ("True", "False"), (1, 0)], ids=str)
def test_a_group_of_flags_is_the_same_in_every_format_and_call(spelt: Any) -> None:
    scores = np.random.default_rng(0).random(400)
    rows = [
        {
            "id": str(n),
            "s": score + n % 2 + 2 * (n % 4 > 1),
            "label": n % 2,
            "vip": spelt[n % 4 < 2],
        }
        for n, score in enumerate(scores.tolist())
    ]
    run = calibrate(rows, "column:column=s,higher=hallucinated", by="vip", alpha=0.2, max_fpr=0.9)
    guardrail = run.freeze()
    edges = [
        {guardrail.check(columns={"s": 1.0, "vip": flag}).threshold for flag in alike}
        for alike in ((True, "True", 1, 1.0, np.int8(1), np.True_), (False, "False", 0, "0.0"))
    ]
    assert [len(edge) for edge in edges] == [1, 1] and edges[0] != edges[1]
    asked = [Example(columns={"s": 1.0, "vip": flag}) for flag in (np.True_, 1, np.int64(1))]
    assert {item.threshold for item in guardrail.decide(asked)} == edges[0]
