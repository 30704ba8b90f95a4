"""Do CSV, Parquet and saved data sets yield the same examples as JSON lines?"""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calibrail.data import files, read, read_all, spreadsheets, tables
from calibrail.errors import DataError, InputError
from tests.rows import good

HEADER = "id,question,contexts,response,label,score\n"


def _csv(tmp_path: Path, body: str | bytes, name: str = "rows.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(body if isinstance(body, bytes) else body.encode("utf-8"))
    return path


def test_csv_cells(tmp_path: Path) -> None:
    body = "\ufeff" + HEADER + 'a,q,"[""c"", ""d""]","line\nbreak\u2028, ""x""",1,0.5\r\n'
    body += "b,q,\"['c', 'd']\",r,0,\n" + "c,q,[1] plain,r,true,x\n" + 'd,q,"[1, 2]",r,False,1\n'
    examples, reading = read_all(_csv(tmp_path, body), keep=("score",))
    contexts = [("c", "d"), ("c", "d"), ("[1] plain",), ("[1, 2]",)]
    assert [e.contexts for e in examples] == contexts
    assert examples[0].response == 'line\nbreak\u2028, "x"'
    assert [e.label for e in examples] == [1, 0, 1, 0]
    assert [e.columns["score"] for e in examples] == [0.5, None, "x", 1.0]
    assert (reading.format, reading.n_rows) == ("csv", 4)


def test_bad_csv_rows_carry_the_line_on_which_they_start(tmp_path: Path) -> None:
    body = (
        HEADER.encode() + b'a,q,"c\nc",r,1,\nb,q\nc,q,c,\xff,1,\nd,q,c,,1,\ne,q,c,r,,\nf,q,c,r,0,\n'
    )
    target = tmp_path / "quarantine.jsonl"
    reading = read(_csv(tmp_path, body), quarantine=target)
    assert [e.id for e in reading] == ["a", "f"]
    entries = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(e["row"], e["field"]) for e in entries] == [
        (4, "row"),
        (5, "row"),
        (6, "response"),
        (7, "label"),
    ]
    assert reading.reasons[("row", "invalid UTF-8")] == 1
    assert reading.reasons[("row", "wrong number of cells")] == 1


def test_a_quote_that_is_never_closed_is_named_where_it_opens(tmp_path: Path) -> None:
    body = HEADER + 'a,q,c,r,1,\nb,q,c,"r,1,\nc,q,c,r,0,\nd,q,c,r,0,\n'
    reading = read(_csv(tmp_path, body), quarantine=(target := tmp_path / "quarantine.jsonl"))
    assert [e.id for e in reading] == ["a"]
    assert reading.reasons == {("row", "a quote that is never closed"): 1}
    entry = json.loads(target.read_text())
    assert entry["row"] == 3 and "3 line breaks that follow" in entry["remedy"]


def test_a_csv_without_ids_is_numbered_by_line(tmp_path: Path) -> None:
    body = "question,contexts,response,label\nq,c,r,1\n\nq,c,s,0\n"
    assert [e.id for e in read(_csv(tmp_path, body))] == ["row-2", "row-4"]


def test_huge_and_endless_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = csv.field_size_limit(1 << 16)
    monkeypatch.setattr(spreadsheets, "CELL_LIMIT", 1 << 20)
    try:
        (example,) = read(_csv(tmp_path, HEADER + f"a,q,c,{'x' * 1_000_000},1,\n"))
        assert len(example.response) == 1_000_000
        endless = 'b,q,c,"never closed' + "x" * (1 << 20)
        reading = read(_csv(tmp_path, HEADER + f"a,q,c,r,1,\n{endless}\nc,q,c,r,0,\n"))
        assert [e.id for e in reading] == ["a", "c"]
    finally:
        csv.field_size_limit(limit)
    assert reading.reasons == Counter({("row", "broken CSV"): 1})


def test_nul_and_lone_carriage_returns_do_no_harm(tmp_path: Path) -> None:
    body = HEADER + 'a,q,c,"x\x00y\rz",1,\n'
    (example,) = read(_csv(tmp_path, body))
    assert example.response == "x\x00y\rz"


def test_headers_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is empty"):
        read(_csv(tmp_path, ""))
    for header in ("id,id", ",column_1"):
        with pytest.raises(DataError, match=r"columns twice: (id|column_1); rename one"):
            read(_csv(tmp_path, f"{header}\n1,2\n"))
    with pytest.raises(DataError, match=r"has no label column 'label'.*label_column="):
        read(_csv(tmp_path, "question,contexts,response\nq,c,r\n"))


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.txt", "rows"])
@pytest.mark.parametrize("mark", list(",;\t|"))
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_separators_and_encodings_are_recognised(
    tmp_path: Path, encoding: str, mark: str, name: str
) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=mark)
    writer.writerows([HEADER.strip().split(","), ["a", "größe €", "c,d;e|f\tg\nh", "é", 1, "x"]])
    for text in (stream.getvalue(), f"sep={mark}\r\n{stream.getvalue()}"):
        reading = read(_csv(tmp_path, text.encode(encoding), name))
        (example,) = reading
        assert (example.question, example.response) == ("größe €", "é")
        assert example.contexts == ("c,d;e|f\tg\nh",)
    if name.endswith("tsv") and mark == "\t":
        both = "id\tquestion\tcontexts\tresponse\tlabel, of two\n1\tq\tc\tr, s\t1\n"
        assert next(iter(read(_csv(tmp_path, both, name), label_column="label, of two"))).id == "1"
    zipped = _csv(tmp_path, gzip.compress(text.encode(encoding)), f"{name}.gz")
    assert next(iter(read(zipped))).question == "größe €"


@pytest.mark.parametrize(
    ("name", "mark"), [("rows.jsonl", "\n"), ("rows.json", ","), ("rows", "\n")]
)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_json_in_wide_encodings(tmp_path: Path, encoding: str, name: str, mark: str) -> None:
    texts = [json.dumps(good(id=id, response="größe €"), ensure_ascii=False) for id in "ab"]
    text = f"[{mark.join(texts)}]" if mark == "," else mark.join(texts)
    examples = list(read(_csv(tmp_path, text.encode(encoding), name)))
    assert [(e.id, e.response) for e in examples] == [("a", "größe €"), ("b", "größe €")]


def test_what_is_ambiguous_names_the_option_that_reads_it(tmp_path: Path) -> None:
    body = "id;question (a,b);contexts;response;label\n1;q,q;c;r;1\n"
    with pytest.raises(DataError, match=r"parted by ',' or ';'; .*options={'delimiter': ';'}"):
        read(_csv(tmp_path, body))
    mapping = {"question": "question (a,b)"}
    (example,) = read(_csv(tmp_path, body), options={"delimiter": ";"}, mapping=mapping)
    assert example.question == "q,q"
    with pytest.raises(InputError, match="delimiter must be a single character; got ';;'"):
        read(_csv(tmp_path, body), options={"delimiter": ";;"})
    latin = (HEADER + "a,größe,c,r,1,\nb,q,c,s,0,\n").encode("cp1252")
    reading = read(_csv(tmp_path, latin), quarantine=tmp_path / "q.jsonl")
    assert [e.id for e in reading] == ["b"]
    entry = json.loads((tmp_path / "q.jsonl").read_text())
    assert entry["row"] == 2 and "options={'encoding': 'cp1252'}" in entry["remedy"]
    examples = list(read(_csv(tmp_path, latin), options={"encoding": "cp1252"}))
    assert [e.question for e in examples] == ["größe", "q"]
    with pytest.raises(DataError, match=r"header is not UTF-8; .*'encoding': 'cp1252'"):
        read(_csv(tmp_path, "größe,label\n1,1\n".encode("cp1252")))
    with pytest.raises(InputError, match="encoding must be one that Python knows; got 'x'"):
        read(_csv(tmp_path, latin), options={"encoding": "x"})


NUMPY, CUT = "a list as numpy prints it", "a list that is cut off"


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (str(np.array(["a.", "it's b."])), NUMPY),
        (str(np.array([f"chunk {i}" for i in range(2000)], dtype=object)), NUMPY),
        (repr(np.array(["a", "b"], dtype=object)), NUMPY),
        (repr(np.array(["a.", "b."])), NUMPY),
        (str([np.array(["a."], dtype=object), np.array(["b."], dtype=object)]), NUMPY),
        (str([np.str_("a."), np.str_("b.")]), NUMPY),
        ("[{'text': 'a'}\n {'text': 'b'}]", NUMPY),
        ("['a', 'b', ...]", NUMPY),
        (str(np.array(["a.", None], dtype=object)), NUMPY),
        (json.dumps([str(np.array(["a.", "b."]))]), NUMPY),
        ("[object Object],[object Object]", "a list as JavaScript prints it"),
        (
            '<pyarrow.lib.ChunkedArray object at 0x7f00>\n[\n  [\n    "a.",\n    "b."\n  ]\n]',
            "a list as pyarrow prints it",
        ),
        ('shape: (2,)\nSeries: \'c\' [str]\n[\n\t"a."\n\t"b."\n]', "a list as polars prints it"),
        ("{'text': ['a' 'b']}", NUMPY),
        (str(pd.Series(["a.", "b."])), "a list as pandas prints it"),
        (str(pd.Series(["a."] * 100)), "a list as pandas prints it"),
        (repr(pd.Index(["a.", "b."])), "a list as pandas prints it"),
        ("tensor([1., 2.], dtype=torch.float16)", "a list as torch prints it"),
        ("[Document(page_content='a.', metadata={}), Document(page_content='b.')]", "a list as P"),
        ("{'a.', 'b.'}", "a list as Python prints it"),
        ('["a.", "b', CUT),
    ],
)
def test_contexts_that_a_program_printed_are_refused(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    nested = name.endswith("jsonl") and text.startswith('["[')
    row = good(contexts=json.loads(text) if nested else text)
    if name.endswith("csv"):
        cells = ",".join('"' + str(cell).replace('"', '""') + '"' for cell in row.values())
        body = ",".join(row) + "\n" + cells + "\n"
    else:
        body = json.dumps(row) + "\n"
    reading = read(_csv(tmp_path, body, name), allow_none=True)
    assert not list(reading)
    ((field, said),) = reading.reasons
    assert field == "contexts" and said.startswith(reason)


@pytest.mark.parametrize(
    "text",
    [
        "['tis the season] it was said.",
        "[1] A text. [2] 'Another'.",
        "['a' and 'b'] are letters",
        "[Music] it's [Applause]",
        "['x'] = 1",
        "print(['a'])",
        "[...]",
        "{a: 'b'}",
    ],
)
def test_texts_in_brackets_are_texts(tmp_path: Path, text: str) -> None:
    row = f'a,q,"{text}","{text}",1,\n'
    (example,) = read(_csv(tmp_path, HEADER + row))
    assert (example.contexts, example.response) == ((text,), text)


def _table() -> pa.Table:
    rows = [good(id=str(i), contexts=["c", "d"], label=i % 2, score=i / 7) for i in range(2500)]
    rows[10]["response"] = None
    return pa.Table.from_pylist(rows)


def _check(examples: Any, reading: Any) -> None:
    assert len(examples) == 2499
    assert reading.reasons == Counter({("response", "missing"): 1})
    assert (examples[-1].id, examples[-1].contexts) == ("2499", ("c", "d"))
    assert examples[-1].columns == {"score": 2499 / 7}


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(_table(), path, row_group_size=700)
    _check(*read_all(path, keep=("score",)))
    path.write_bytes(b"PAR1 this is not")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read(path)


def test_a_parquet_text_that_is_not_utf8_costs_its_row_only(tmp_path: Path) -> None:
    texts = pa.array([b"fine", b"\xff\xfe", b"fine too"], pa.binary()).view(pa.string())
    same = {name: ["x"] * 3 for name in ("question", "contexts")}
    table = pa.table({"response": texts, "label": [0, 1, 1], **same})
    pq.write_table(table, tmp_path / "rows.parquet")
    reading = read(tmp_path / "rows.parquet")
    assert [e.id for e in reading] == ["row-1", "row-3"]
    assert reading.reasons == Counter({("row", "invalid UTF-8"): 1})


def _save(folder: Path, table: pa.Table, compression: str | None = None) -> Path:
    folder.mkdir(parents=True)
    with (
        pa.OSFile(str(folder / "data.arrow"), "wb") as sink,
        pa.ipc.new_stream(
            sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
        ) as stream,
    ):
        stream.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    return folder


def test_a_folder_of_save_to_disk_needs_no_further_package(tmp_path: Path) -> None:
    _save(tmp_path / "one", _table())
    _check(*read_all(tmp_path / "one", keep=("score",)))
    _save(tmp_path / "two" / "train", _table())
    _save(tmp_path / "two" / "test", _table())
    (tmp_path / "two" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(DataError, match="holds the splits test, train; name the folder of one"):
        read(tmp_path / "two")
    _check(*read_all(tmp_path / "two" / "test", keep=("score",)))


def test_the_hub_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="pip install datasets"):
        read("hf:someone/something")


def test_the_hub_is_read_through_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cache.arrow").write_bytes(b"cached")

    class Split(list[dict[str, Any]]):
        cache_files = ({"filename": str(tmp_path / "cache.arrow")},)

    module = ModuleType("datasets")
    asked: list[tuple[str, str]] = []

    def load_dataset(name: str, split: str) -> Split:
        asked.append((name, split))
        return Split([good()])

    monkeypatch.setattr(module, "load_dataset", load_dataset, raising=False)
    monkeypatch.setitem(sys.modules, "datasets", module)
    reading = read("hf:someone/something:validation")
    assert [e.id for e in reading] == ["a"]
    assert set(asked) == {("someone/something", "validation")}
    assert len(reading.digest()) == 64


def test_a_folder_is_read_when_it_holds_files_of_one_format(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("about")
    (tmp_path / "a.jsonl").write_text(json.dumps(good()))
    assert len(list(read(tmp_path))) == 1
    (tmp_path / "b.csv").write_text(HEADER)
    with pytest.raises(DataError, match=r"name the files to read, .*: a\.jsonl, b\.csv"):
        read(tmp_path)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    body=st.one_of(
        st.binary(max_size=200),
        st.text('abq,"\n\r;[]1\x00\u2028é', max_size=200).map(lambda text: text.encode("utf-8")),
    ),
    name=st.sampled_from(["rows.csv", "rows.tsv", "rows.json"]),
)
def test_whatever_the_bytes_of_a_table_nothing_crashes(
    tmp_path: Path, body: bytes, name: str
) -> None:
    head = b"[" if name == "rows.json" else HEADER.encode()
    path = _csv(tmp_path, head + body, name)
    target = tmp_path / "quarantine.jsonl"
    reading = read(path, preset="calibrail", require=(), labelled=False, quarantine=target)
    try:
        examples = list(reading)
    except DataError as error:
        assert "no usable row" in str(error) or "holds no row" in str(error)
        examples = []
    entries = target.read_bytes().splitlines() if target.exists() else []
    assert len(entries) == reading.n_quarantined
    assert len(examples) + len(entries) == reading.n_rows


def test_one_text_of_a_damaged_value_is_named_and_dates_beyond_python_do_no_harm(
    tmp_path: Path,
) -> None:
    far = pa.array([0, 2**62, 1], pa.int64()).view(pa.timestamp("ms"))
    table = pa.table({"response": ["a", "b", "c"], "label": [0, 1, 1], "when": far})
    pq.write_table(table, tmp_path / "rows.parquet")
    examples, reading = read_all(tmp_path / "rows.parquet", require=(), keep=("when",))
    assert (len(examples), reading.n_quarantined) == (3, 0)
    assert examples[0].columns["when"] == "1970-01-01 00:00:00"
    assert examples[1].columns["when"] == float(2**62)


def test_a_parquet_file_damaged_in_the_middle_is_named_with_the_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(_table(), path, row_group_size=700, compression="none", use_dictionary=False)
    place = pq.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    raw = bytearray(path.read_bytes())
    raw[place : place + 40] = b"\xff" * 40
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"rows.parquet cannot be read as Parquet from row \d+ on"):
        read_all(path)


def test_columnar_files_refuse_two_columns_of_one_name(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["label", "label"])
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"rows.parquet names columns twice: label; rename one"):
        read(tmp_path / "rows.parquet", require=())


def test_a_table_of_too_many_columns_is_refused_before_work(tmp_path: Path) -> None:
    names = [f"c{place}" for place in range(16385)]
    (tmp_path / "rows.csv").write_text(f"{','.join(names)}\n" * 2)
    pq.write_table(pa.table({name: [1] for name in names}), tmp_path / "rows.parquet")
    for path in tmp_path.iterdir():
        with pytest.raises(DataError, match=rf"{path.name} has 16,385 columns, and at most 16,384"):
            read(path)


def test_columns_of_parquet_are_measured_in_one_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[object]()
    schema = pq.ParquetFile.schema_arrow
    counted = property(lambda file: looks.append(file) or schema.fget(file))
    monkeypatch.setattr(pq.ParquetFile, "schema_arrow", counted)
    pq.write_table(pa.table({f"c{n}": [1] for n in range(50)}), tmp_path / "rows.parquet")
    assert sum(batch.num_rows for batch in tables.parquet_batches(tmp_path / "rows.parquet")) == 1
    assert len(looks) < 10


def test_of_columnar_files_only_the_columns_in_use_are_read(tmp_path: Path) -> None:
    """A text that is not UTF-8 costs its row only where somebody wants to read it."""
    texts = pa.array([b"fine", b"\xff\xfe"], pa.binary()).view(pa.string())
    nested = pa.array([{"label": 1, "by": "x"}, {"label": 0, "by": "y"}])
    # Without ids of their own, rows would be known by all that they hold.
    ids = ["a", "b"]
    table = pa.table({"id": ids, "note": texts, "meta": nested, "score": [0.5, 1.5]})
    pq.write_table(table, tmp_path / "rows.parquet")
    path, how = tmp_path / "rows.parquet", {"require": (), "label_column": "meta.label"}
    examples, _ = read_all(path, keep=("score",), **how)
    assert [(e.label, e.columns) for e in examples] == [(1, {"score": 0.5}), (0, {"score": 1.5})]
    assert read_all(path, keep=("note",), **how)[1].reasons == {("row", "invalid UTF-8"): 1}


def test_several_columnar_files_are_read_to_the_last(tmp_path: Path) -> None:
    for name in "ab":
        rows = [good(id=f"{name}{i}", label=i % 2) for i in range(3)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    examples, _ = read_all(tmp_path)
    assert [example.id for example in examples] == ["a0", "a1", "a2", "b0", "b1", "b2"]


def _repeats(text: str, n: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([text]))


def _bombs(name: str) -> pa.Table:
    """Return a table that is small in a file, and large where its cells are written out."""
    labels = pa.array([0, 1] * 2500, pa.int8())
    offsets = pa.array(range(0, 10_001, 2), pa.int32())
    many = pa.array([0, 1 << 23], pa.int32())
    held = {
        "texts": [_repeats("a" * 1_000_000, 5000), labels],
        "lists": [pa.ListArray.from_arrays(offsets, _repeats("a" * 1_000_000, 10_000)), labels],
        "fields": [pa.StructArray.from_arrays([_repeats("a" * 1_000_000, 5000)], ["x"]), labels],
        "rows": [_repeats("a", 1 << 24), pa.array(np.zeros(1 << 24, np.int8))],
        "row": [pa.ListArray.from_arrays(many, pa.array(np.zeros(1 << 23, np.int8))), labels[:1]],
        "nothing": [pa.ListArray.from_arrays(many, pa.nulls(1 << 23)), labels[:1]],
    }
    return pa.table(dict(zip(("response", "label"), held[name], strict=True)))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("parquet", name) for name in ("texts", "lists", "fields", "rows", "row", "nothing")),
        *(("arrow", name) for name in ("texts", "lists", "fields", "nothing")),
    ],
)
def test_a_small_table_that_holds_too_much_is_refused_before_it_fills_the_memory(
    tmp_path: Path, name: str, kind: str
) -> None:
    table = _bombs(name)
    if kind == "parquet":
        path, batches = tmp_path / "bomb.parquet", tables.parquet_batches
        pq.write_table(table, path, compression="zstd", store_schema=False)
        assert path.stat().st_size < 200_000
    else:
        path, batches = _save(tmp_path / "saved", table) / "data.arrow", tables.arrow_batches
    del table
    held = pa.total_allocated_bytes()
    pool = pa.default_memory_pool()
    most = 0
    with pytest.raises(DataError, match=r"take more than 200 times its size|takes over 67,108,864"):
        for batch in batches(path):
            assert batch.nbytes < 2 * files.ROW_LIMIT
            most = max(most, pool.bytes_allocated() - held)
    assert most < 1 << 29


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_arrow_is_read_in_every_form_and_refused_before_it_unpacks_to_too_much(
    tmp_path: Path, compression: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, how = ["u", "v", "u"], pa.ipc.IpcWriteOptions(compression=compression)
    table = pa.table({"response": ["a", "b", None], "d": pa.array(names).dictionary_encode()})
    table = table.append_column("view", table["response"].cast(pa.string_view()))
    for make, name in ((pa.ipc.new_file, "a.feather"), (pa.ipc.new_stream, "a.arrows")):
        with make(tmp_path / name, table.schema, options=how) as writer:
            writer.write_table(table, max_chunksize=2)
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        unnamed = (tmp_path / name).rename(tmp_path / Path(name).stem)
        assert files.table_kind(unnamed) == "arrow"
        for path in (unnamed, packed):
            batches = tables.batch_rows(tables.numbered(tables.arrow_batches(path)))
            assert [row.values for row in batches] == table.to_pylist()  # type: ignore[union-attr]
    path, long = tmp_path / "long.arrow", pa.table({"response": ["a" * 1_000_000]})
    with pa.ipc.new_file(path, long.schema, options=how) as writer:
        writer.write_table(long)
    monkeypatch.setattr(files, "SMALL", 1000)
    with pytest.raises(DataError, match="200 times") if compression else nullcontext():
        assert sum(batch.num_rows for batch in tables.arrow_batches(path)) == 1


def test_feather_of_version_1_is_said_to_be_that(tmp_path: Path) -> None:
    path = tmp_path / "a.feather"
    path.write_bytes(b"FEA1" + bytes(60) + b"FEA1")
    with pytest.raises(DataError, match=r"of version 1; write it as version 2: python -c"):
        list(tables.arrow_batches(path))


def test_a_dictionary_of_arrow_that_is_damaged_is_refused(tmp_path: Path) -> None:
    """Its offsets lie in the file; used unseen, they end the process."""
    words = pa.array([f"word {n % 5}" for n in range(50)]).dictionary_encode()
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(path, pa.schema({"response": words.type})) as writer:
        writer.write_table(pa.table({"response": words}))
    raw, offsets = path.read_bytes(), np.arange(0, 31, 6, np.int32)
    damaged = np.where(offsets == 12, 1 << 24, offsets).astype(np.int32)
    assert offsets.tobytes() in raw
    path.write_bytes(raw.replace(offsets.tobytes(), damaged.tobytes()))
    with pytest.raises(DataError, match=r"a\.arrow cannot be read as Arrow"):
        list(tables.arrow_batches(path))


@pytest.mark.parametrize("how", [{}, {"row_group_size": 700}, {"dictionary_pagesize_limit": 2000}])
def test_texts_in_dictionaries_are_read_as_they_were_written(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    rows = [[f"{k % 7 if k < 900 else k} {j} " * 9 for j in range(3)] for k in range(2000)]
    table = pa.table(
        {
            "contexts": rows,
            "response": pa.array([row[0] for row in rows], pa.large_string()),
            "label": pa.array(["u", "v"] * 1000).dictionary_encode(),
            "more": [{"x": row[1], "y": None} for row in rows],
            "pairs": pa.array([[("a", 1)], None] * 1000, pa.map_(pa.string(), pa.int8())),
            "held": pa.array(['{"a": 1}', None] * 1000, pa.json_()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", **how)
    read = [row for b in tables.parquet_batches(tmp_path / "t.parquet") for row in b.to_pylist()]
    assert read == table.to_pylist()


def test_texts_that_copy_the_one_before_are_read_few_at_a_time(tmp_path: Path) -> None:
    path, coding = tmp_path / "t.parquet", {"response": "DELTA_BYTE_ARRAY"}
    table = pa.table({"response": ["a" * 1_000_000] * 200})
    how: Any = {"use_dictionary": False, "column_encoding": coding, "data_page_size": 1 << 30}
    pq.write_table(table, path, compression="zstd", **how)
    sizes = [batch.nbytes for batch in tables.parquet_batches(path)]
    assert sum(sizes) > 200_000_000 and max(sizes) < 2 * files.ROW_LIMIT


@pytest.mark.parametrize("command", [("doctor",), ("calibrate", "--score", "length", "-o", "out")])
def test_a_command_survives_a_small_table_that_holds_too_much(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    same = {name: _repeats("a", 5000) for name in ("question", "contexts")}
    labels = pa.array([0, 1] * 2500)
    table = pa.table({**same, "response": _repeats("a" * 1_000_000, 5000), "label": labels})
    pq.write_table(table, tmp_path / "bomb.parquet", compression="zstd")
    verb, *rest = command
    words = [sys.executable, "-m", "calibrail", verb, "bomb.parquet", *rest]
    code = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:])\n"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True
    )
    returned, kilobytes = done.stdout.split()[-2:]
    assert (returned, "Traceback" in done.stderr) == ("1", False)
    assert "bomb.parquet take more than 200 times its size" in done.stderr
    assert int(kilobytes) < 1 << 20
