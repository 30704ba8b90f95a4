"""The same rows have the same ids, groups, digests and scores, wherever they come from."""

from __future__ import annotations

import csv
import json
import math
import tempfile
import unicodedata
from collections.abc import Callable
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

from calibrail import Example, read
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


ROW = {
    "id": "a",
    "question": "Where is the caf\u00e9?",
    "contexts": ["The caf\u00e9 is in Rome. It's big.", "Rome \u2014 a city", "It is old."],
    "response": "In \u201cRome\u201d.",
    "label": 1,
}

RESPELT: dict[str, Callable[[str], str]] = {
    "ends of lines": lambda text: f"{text}\r\n",
    "a space around": lambda text: f" {text} ",
    "decomposed characters": lambda text: unicodedata.normalize("NFD", text),
    "spaces that do not break": lambda text: text.replace(" ", "\u00a0"),
    "two spaces": lambda text: text.replace(" ", "  "),
    "letter case": str.upper,
    "straight quotation marks and dashes": lambda text: text.translate(
        {0x201C: '"', 0x201D: '"', 0x2014: "-"}
    ),
    "a typographic apostrophe": lambda text: text.replace("'", "\u2019"),
    "a byte order mark": lambda text: f"\ufeff{text}",
    "a soft hyphen": lambda text: text.replace("Rome", "Ro\u00adme"),
}

REARRANGED: dict[str, Callable[[list[str]], Any]] = {
    "another order": lambda chunks: chunks[::-1],
    "a chunk twice": lambda chunks: [*chunks, chunks[0]],
    "lines": "\n".join,
    "paragraphs": "\r\n\r\n".join,
    "JSON in a text": json.dumps,
    "Python in a text": repr,
    "objects": lambda chunks: [{"text": chunk} for chunk in chunks],
    "sentences": lambda chunks: [" ".join(chunks[::2]), chunks[1]],
}


def respelt(row: dict[str, Any], how: str) -> dict[str, Any]:
    """Return a row with the same content in another spelling."""
    if how in REARRANGED:
        return {**row, "contexts": REARRANGED[how](row["contexts"])}
    spell = RESPELT[how]
    texts = {name: spell(row[name]) for name in ("question", "response")}
    return {**row, **texts, "contexts": [spell(chunk) for chunk in row["contexts"]]}


@pytest.mark.parametrize("how", [*RESPELT, *REARRANGED])
def test_the_same_content_is_the_same_answer_however_it_is_spelt(how: str) -> None:
    row = respelt(ROW, how)
    one, other = read([ROW, {**row, "id": "b"}])
    assert one.digest() == other.digest()
    # What a score is given to read stays as it is; the same row again is dropped.
    if isinstance(row["contexts"], list) and isinstance(row["contexts"][0], str):
        assert other.contexts == tuple(row["contexts"])
    reading = read([ROW, row], distinct=True)
    assert len(list(reading)) == 1 and reading.reasons == {("id", "duplicate"): 1}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("response", "In Rome."),
        ("response", "In \u201cRome\u201d; in Rome."),
        ("response", "In \u201cRome\u201d?"),
        ("question", "Where is the old caf\u00e9?"),
        (
            "contexts",
            ["The caf\u00e9 is in Rome. It's big.", "Rome \u2014 a city", "It is not old."],
        ),
        ("contexts", []),
    ],
)
def test_other_content_is_another_answer(field: str, value: Any) -> None:
    one, other = read([ROW, {**ROW, "id": "b", field: value}], require=())
    assert one.digest() != other.digest()


def test_earlier_versions_knew_answers_by_these_digests() -> None:
    plain = Example("Who?", ("Two.", "One."), "Ada.", id="1")
    spelt = Example("Who?", ("Two.", "One. "), "Ada.\n", id="1")
    assert spelt.digest("spelt") == "c58d31ff194d6686"
    assert plain.digest("plain") == spelt.digest("plain") == "cf35a6c90b77e142"
    assert plain.digest() == spelt.digest() != "cf35a6c90b77e142"
    part = Example("q", response="r", before="b")
    assert part.digest("plain") == part.digest("spelt") == "6d2e618199e3ccbf"
    assert {Example(id=id).digest() for id in ("7", "7.0", " 7 ")} == {"44450993ae46c678"}


@st.composite
def answers(draw: st.DrawFn) -> Rows:
    """Return answers of which several may have one id."""
    names, chunks = st.integers(0, 3), st.lists(TEXT, min_size=1, max_size=3)
    fields = {"id": names, "question": TEXT, "contexts": chunks, "response": TEXT}
    row = st.fixed_dictionaries({**fields, "label": st.integers(0, 1)})
    return draw(st.lists(row, min_size=1, max_size=8))


@settings(max_examples=15, deadline=None)
@given(answers(), st.randoms(use_true_random=False))
def test_several_answers_of_one_id_are_told_apart_by_content(rows: Rows, random: Any) -> None:
    def known(source: Any) -> list[tuple[Any, ...]]:
        return sorted((e.id, e.group or "", e.digest()) for e in read(source, distinct=True))

    expected = known(rows)
    assert len({id for id, _, _ in expected}) == len(expected)
    assert {id.partition("/")[0] for id, _, _ in expected} == {str(row["id"]) for row in rows}
    assert all(group == id.partition("/")[0] * ("/" in id) for id, group, _ in expected)
    shuffled = random.sample(rows, len(rows))
    frame = pd.DataFrame(shuffled).astype({"id": float})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame.to_csv(folder / "a.csv", index=False)
        frame.to_parquet(folder / "a.parquet")
        frame.to_json(folder / "a.json", orient="records")
        written = [folder / f"a.{kind}" for kind in ("csv", "parquet", "json")]
        sources = [*written, frame, pa.Table.from_pandas(frame)]
        for source in (*sources, [Example(**{**row, "id": str(row["id"])}) for row in shuffled]):
            assert known(source) == expected, type(source)


SCORES = [{"id": f"q{i // 2}", "model": "ab"[i % 2], "score": i % 3, "label": 1} for i in range(6)]


def test_scores_of_one_id_are_told_apart_by_their_rows(tmp_path: Path) -> None:
    frame = pd.DataFrame(SCORES[::-1])
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    made = [
        sorted(
            (e.id, e.group, e.digest()) for e in read(source, require=(), keep=keep, distinct=True)
        )
        for source in (SCORES, frame, tmp_path / "a.parquet", tmp_path / "a.csv")
        for keep in (("score",), ("model", "score"))
    ]
    assert len(made[0]) == 6 and all(item == made[0] for item in made)


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
