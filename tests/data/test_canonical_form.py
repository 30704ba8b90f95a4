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

from calibrail import read
from calibrail.data.dataset import names_in
from calibrail.data.values import name_of, spelling
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
