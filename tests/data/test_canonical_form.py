"""The same rows have the same ids, groups, digests and scores, wherever they come from."""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
import pickle
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.feather import write_feather

from calibrail import Example, calibrate, diagnose, read
from calibrail.data import values
from calibrail.data.dataset import names_in
from calibrail.data.values import column_value, group_name, name_of, spelling
from calibrail.errors import InputError
from calibrail.pipelines.scoring import score_source
from tests.workbooks import write_workbook

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


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from("0179.,-+eE:TZabnoqtx_ ()[]{}'\"\r\n\u00e9\u200b\u00a0"), max_size=7)
)
def test_a_word_is_compared_as_it_is_spelt(text: str) -> None:
    if values._IS_WORD(text):
        assert name_of(text) == spelling(text) == column_value(text) == text
        # What has a sign that nobody sees takes the long way, and means the same.
        assert name_of(f"{text}\u200b") == spelling(f"{text}\u200b") == text


def test_words_and_what_comes_again_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["0a3f1b", "q 12", "test_7", "1b:30", "what (if)."]
    others = ["None", "NONE", "12e+05", "2024-01-01Z", "1_0]", "[b]", "café", "n/a"]
    assert all(map(values._IS_WORD, words)) and not any(map(values._IS_WORD, [*others, " q", "q "]))
    spelt = [spelling(text) for text in ("t0", "0.50", "7,0")]
    monkeypatch.setattr(values, "column_value", None)
    assert [spelling(text) for text in (*words, "t0", "0.50", "7,0")] == [*words, *spelt]
    assert name_of("1.5e+40") == name_of(1.5e40)


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
        write_feather(table, folder / "a.feather", chunksize=2)
        kinds = ["jsonl", "json", "csv", "parquet", "feather"]
        if find_spec("python_calamine") and math.inf not in [row["score"] for row in rows]:
            # A workbook holds no infinite number.
            write_workbook(folder / "a.xlsx", {"S": [names, *(row.values() for row in rows)]})
            kinds.append("xlsx")
        sources: list[Any] = [folder / f"a.{kind}" for kind in kinds]
        sources += [
            frame,
            table,
            table.to_reader(),
            {name: [row[name] for row in rows] for name in names},
        ]
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
    "a byte order mark": lambda text: f"\ufeff{text}",
    "a soft hyphen": lambda text: text.replace("Rome", "Ro\u00adme"),
    "two spaces": lambda text: text.replace(" ", "  "),
    "letter case": str.upper,
    "straight quotation marks and dashes": lambda text: text.translate(
        {0x201C: '"', 0x201D: '"', 0x2014: "-"}
    ),
    "a typographic apostrophe": lambda text: text.replace("'", "\u2019"),
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


@pytest.mark.parametrize("how", list(RESPELT)[:6])
def test_the_same_answers_are_split_alike_in_another_spelling(how: str) -> None:
    said = "In \u201cRome {}\u201d, a caf\u00e9."
    rows = [{**ROW, "id": n, "response": said.format(n), "s": n, "label": n % 2} for n in range(80)]
    plain, other = (
        calibrate(data, score="column:column=s,higher=hallucinated", alpha=0.2, baselines=False)
        for data in (rows, [respelt(row, how) for row in rows])
    )
    assert other.calibration.threshold == plain.calibration.threshold
    assert other.codes is not None and plain.codes is not None
    assert other.codes.tolist() == plain.codes.tolist()


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
        (("7", "7,0", np.int64(7)), "7"),
        ((True, np.True_, "True", "true", "TRUE"), "True"),
        ((dt.date(2024, 1, 1), pd.Timestamp("2024-01-01"), "2024-01-01 00:00:00"), "2024-01-01"),
        ((np.datetime64("2024-01-01", "ns"), "2024-01-01T00:00", "2024-01-01"), "2024-01-01"),
        ((pd.NA, pd.NaT, "nan", "NaN", "None", "<NA>", "null", "NaT"), None),
        (("N/A", " n/a ", "#N/A"), None),
        (("NA",), "NA"),
        ((0, -0.0, "-0.0", "0"), "0"),
        ((1e22, "1e+22"), "1e+22"),
        ((dt.timedelta(hours=1), pd.Timedelta("1h"), "0 days 01:00:00"), "0 days 01:00:00"),
        ((dt.timedelta(hours=-1), pd.Timedelta("-1h")), "-1 days +23:00:00"),
        ((pd.Period("2024-01", "M"), "2024-01"), "2024-01"),
        ((pd.Interval(0, 1), "(0, 1]"), "(0, 1]"),
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
        (None, "", float("nan"), "nan", "NA", "n/a", "-"),
        (0.7, "70 %", "70%", "0,7", "70 \uff05", "\ufeff0,7", "\uff10\uff0e\uff17"),
        (pd.Timestamp("2024-01-01"), "2024-01-01", "2024-01-01 00:00:00"),
    ],
)
def test_cells_that_are_spelt_differently_are_the_same_content(alike: tuple[Any, ...]) -> None:
    assert len({spelling(value) for value in alike}) == 1


def test_a_column_is_a_number_whose_name_is_as_it_was_spelt() -> None:
    texts = ["1.10", "1.1", "01234", "1234", "12e4567", "98e7654"]
    cells = [*map(column_value, texts), *map(column_value, (2**60 + 1, 2**60 + 2))]
    assert cells[:4] == [1.1, 1.1, 1234.0, 1234.0]
    assert [*map(group_name, cells)] == [*texts, str(2**60 + 1), str(2**60 + 2)]
    again = [pickle.loads(pickle.dumps(cell)) for cell in cells]
    assert [*map(group_name, again)] == [*map(group_name, cells)]
    assert json.dumps(cells[:3]) == "[1.1, 1.1, 1234.0]"


def test_a_text_of_numpy_is_the_number_or_the_text_that_it_is_elsewhere() -> None:
    for text in ("1_0", "0x1", "0.5", "fit", "", " "):
        of_numpy, plain = column_value(np.str_(text)), column_value(text)
        assert of_numpy == plain and type(of_numpy) is type(plain), text


def test_times_of_numpy_are_dates() -> None:
    days = np.array(["2024-01-01", "2024-01-02"], "datetime64[ns]")
    made = read({"id": [1, 2], "day": days}, require=(), labelled=False, group_column="day")
    assert [item.group for item in made] == ["2024-01-01", "2024-01-02"]


@pytest.mark.parametrize(
    "cells",
    [
        pd.PeriodIndex(["2024Q1", "2024Q2", None], freq="Q"),
        pd.IntervalIndex.from_tuples([(0, 1), (1, 2), None]),
        pd.to_timedelta(["1h", "48h", None]),
    ],
)
def test_what_pandas_alone_knows_is_named_as_it_writes_it(cells: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [1, 2, 3], "v": cells, "label": [0, 1, 0]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    files = [tmp_path / "a.csv", tmp_path / "a.parquet"]
    made = [
        [item.group for item in read(source, require=(), group_column="v")]
        for source in (*files, frame, frame.to_dict("records"), pa.Table.from_pandas(frame))
    ]
    assert made == [[*map(str, frame["v"][:2]), None]] * 5
    known = "import sys; from calibrail import read; "
    known += "print([e.group for e in read(sys.argv[1], require=(), group_column='v')])"
    # Nobody has told Arrow of these types yet.
    again = subprocess.run(
        [sys.executable, "-c", known, str(files[1])], capture_output=True, text=True, check=True
    )
    assert again.stdout.strip() == repr(made[0])


def test_signs_that_nobody_sees_hide_no_column(tmp_path: Path) -> None:
    names = ("\ufeffquestion", "contexts", "respon\u00adse", "label")
    row = dict(zip(names, ("q", ["c"], "r", 1), strict=True))
    (tmp_path / "a.jsonl").write_text(json.dumps(row), encoding="utf-8")
    for source in ([row], pd.DataFrame([row]), tmp_path / "a.jsonl"):
        (made,) = read(source)
        assert (made.question, made.contexts, made.response) == ("q", ("c",), "r")


LISTED = ["Rome is old.", "Paris is not."]


@pytest.mark.parametrize(
    "cell", [json.dumps(LISTED), repr(LISTED), json.dumps([{"text": text} for text in LISTED])]
)
def test_contexts_that_one_cell_lists_are_chunks_in_every_source(cell: str, tmp_path: Path) -> None:
    row = {"question": "q", "contexts": cell, "response": "r", "label": 1}
    frame = pd.DataFrame([row])
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    files = [tmp_path / name for name in ("a.csv", "a.parquet", "a.jsonl")]
    made = [next(iter(read(source))).contexts for source in ([row], frame, *files)]
    assert made == [tuple(LISTED)] * 5
    assert Example.asked(contexts=cell).contexts == tuple(LISTED)
    assert Example.asked(contexts='{"text": "a"}').contexts == ("a",)


@pytest.mark.parametrize(
    "said",
    [
        {"answer": "In Rome.", "details": {"p": 0.5, "why": "[1]"}},
        {"text": "In Rome."},
        {"content": [{"type": "text", "text": "In Rome."}]},
        [{"type": "text", "text": "In Rome."}],
    ],
)
def test_what_is_said_within_an_object_is_the_text_in_every_source(
    said: Any, tmp_path: Path
) -> None:
    asked = {"contexts": [{"text": "It is in Rome."}], "question": {"text": "Where?"}}
    row = {**asked, "response": said}
    spelt = {name: json.dumps(cell) for name, cell in row.items()}
    made: list[Any] = []
    for name, rows in (("a", [{**row, "label": 1}]), ("b", [{**spelt, "label": 1}])):
        frame, lines = pd.DataFrame(rows), tmp_path / f"{name}.jsonl"
        lines.write_text(json.dumps(rows[0]))
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        parquet, cells = (tmp_path / f"{name}.{kind}" for kind in ("parquet", "csv"))
        # A text that spells an object is what the answer says, but in cells, which hold no objects.
        sources = (rows, frame, lines, parquet, cells) if name == "a" else (cells,)
        made += [next(iter(read(source))) for source in sources]
    texts = {(it.question, it.contexts, it.response, it.digest()) for it in made}
    assert texts == {("Where?", ("It is in Rome.",), "In Rome.", made[0].digest())}


def test_titles_of_contexts_are_no_keys() -> None:
    row = {"question": "q", "response": "r", "label": 1}
    texts = [["Rome", "A city."], ["Oslo", "Another."]]
    (made,) = read([{**row, "contexts": texts}])
    assert made.contexts == ("Rome A city.", "Oslo Another.")


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_an_unnamed_column_that_counts_is_a_numbering(
    kind: str, shuffled: bool, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"label": [0, 1] * 30, "score": np.arange(60) / 61})
    frame = frame.sample(frac=1, random_state=1) if shuffled else frame
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        frame.to_csv(path)
    else:
        held = zip(frame.index.tolist(), frame.label.tolist(), frame.score.tolist(), strict=True)
        write_workbook(path, {"Sheet": [[None, *frame.columns], *held]})
    made = [[item.digest() for item in read(source, require=())] for source in (frame, path)]
    assert made[0] == made[1]
    # Scores are no numbers of rows.
    frame.rename(columns={"score": "column_1"})[["column_1", "label"]].to_csv(path, index=False)
    if kind == "csv":
        assert len({item.digest() for item in read(path, require=())}) == 60


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
        (["1.734", "0.5", "high"], {"decimal": ","}, [1.734, 0.5, "high"]),
        (["1.734", "0,5", "high"], {"decimal": ","}, [1734.0, 0.5, "high"]),
        (["1,2,3", "1,5"], {}, ["1,2,3", "1,5"]),
        (["1,234", "0,5", "inf", "-Infinity"], {}, [1.234, 0.5, math.inf, -math.inf]),
    ],
)
def test_decimal_commas(cells: list[str], options: Any, scores: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    body = "".join(f"{cell};{number % 2}\n" for number, cell in enumerate(cells))
    path.write_text(f"score;label\n{body}", encoding="utf-8")
    how: Any = {"require": (), "keep": ("score",)}
    assert [e.columns["score"] for e in read(path, options=options, **how)] == scores
    rows = [{"score": cell, "label": number % 2} for number, cell in enumerate(cells)]
    lines = tmp_path / "a.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for source in (rows, lines):
        assert [e.columns["score"] for e in read(source, options=options, **how)] == scores
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
    for decide in (guardrail.decide, guardrail.stream):
        held = pa.table({"s": [1.0], "vip": [True]}).to_reader()
        assert {item.threshold for item in decide(held)} == edges[0]


@pytest.mark.parametrize("other", [{"label": 0}, {"score": 0.75}, {"response": "Another."}])
@pytest.mark.parametrize("texts", [True, False])
def test_what_one_id_says_twice_is_never_decided_by_order(
    other: dict[str, Any], *, texts: bool
) -> None:
    first: dict[str, Any] = {"id": 1, "label": 1, "score": 0.5}
    first |= {"question": "q", "contexts": ["c"], "response": "Rome."} if texts else {}
    rows = [first, {**first, **other}, {**first, "id": 2}, first]

    def answers(rows: list[dict[str, Any]]) -> set[tuple[object, ...]]:
        reading = read(rows, require=(), keep=["score"], distinct=True)
        held = {(it.id, it.group, it.label, it.columns["score"]) for it in reading.held()}
        assert reading.n_quarantined == 1
        assert reading.repeated_ids() == {"n_ids": 1, "n_answers": 2}
        return held

    held = answers(rows)
    assert len({id for id, *_ in held}) == 3
    assert held == answers(rows[::-1])
