"""Is data read however it is packed: compressed, wrapped, in several files, from a pipe?"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import sys
import threading
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrail.data import files, read, read_all
from calibrail.data.example import SourceRow
from calibrail.data.files import count_rows, table_kind
from calibrail.errors import DataError
from tests.rows import good


def zstd(body: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(body)
    return bytes(sink.getvalue().to_pybytes())


#: How files are compressed that are read, by the end of their names.
SQUEEZE = {"gz": gzip.compress, "zst": zstd}


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


CSV = b"id,question,contexts,response,label\na,q,c,r,1\nb,q,c,r,0\n"


@pytest.mark.parametrize("squeeze", SQUEEZE.values(), ids=SQUEEZE)
@pytest.mark.parametrize(
    "name", ["a.jsonl.gz", "a.csv.gz", "a.jsonl", "a.JSON.zst", "a.csv.zstd", "plain"]
)
def test_compressed_files_are_known_by_their_beginning(
    tmp_path: Path, name: str, squeeze: Any
) -> None:
    body = CSV if "csv" in name else lines(good(), good(id="b", label=0))
    # Of several parts, as tools that compress side by side or append write them.
    (tmp_path / name).write_bytes(squeeze(body[:20]) + squeeze(body[20:]))
    examples, reading = read_all(tmp_path / name)
    assert [(e.id, e.label) for e in examples] == [("a", 1), ("b", 0)]
    assert reading.format == ("csv" if "csv" in name else "jsonl")


@pytest.mark.parametrize("end", SQUEEZE)
@pytest.mark.parametrize("name", ["rows.parquet.gz", "rows"])
def test_compressed_parquet_is_read_by_name_in_a_folder_and_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, end: str
) -> None:
    rows = [good(id=f"r{i}", label=i % 2, other="x" * i) for i in range(3000)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "plain")
    body = SQUEEZE[end]((tmp_path / "plain").read_bytes())
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / f"rows.parquet.{end}").write_bytes(body)
    (tmp_path / "plain").rename(tmp_path / "folder" / "more.parquet")
    path = tmp_path / name
    path.write_bytes(body)
    examples, reading = read_all(path)
    assert [e.id for e in examples] == [row["id"] for row in rows]
    assert (reading.format, reading.about_in_all()) == ("parquet", len(rows))
    assert count_rows([path]) is None
    assert len(read_all(tmp_path / "folder")[0]) == 6000
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
    assert read_all("-")[1].n_examples == 3000
    path.write_bytes(body[: len(body) // 2])
    with pytest.raises(DataError, match=rf"{name} is damaged"):
        list(read(path))


@pytest.mark.parametrize("name", ["a.jsonl.bz2", "a.csv.xz", "a.jsonl", "a.parquet"])
def test_what_is_compressed_otherwise_is_named_with_the_remedy(tmp_path: Path, name: str) -> None:
    squeeze = bz2.compress if name.endswith("bz2") else lzma.compress
    (tmp_path / name).write_bytes(squeeze(CSV))
    with pytest.raises(DataError, match=r"compressed with (bzip2|xz), .* gzip or zstd"):
        read(tmp_path / name)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.jsonl.bz2").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"no data file; it holds a\.jsonl\.bz2, .* with \.gz or \.zst"
    ):
        read(tmp_path / "folder")


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz", "a.jsonl.zst", "a.csv.zst"])
def test_a_damaged_archive_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    body = CSV * 2000 if "csv" in name else lines(*(good(id=i, x="y" * i) for i in range(2000)))
    packed = SQUEEZE[name.rpartition(".")[2]](body)
    path = tmp_path / name
    cuts = (packed[: len(packed) // 2], packed[:-1])
    for broken in (*cuts, packed + b"rest", packed[:200] + b"\xff" * 200 + packed[400:]):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=rf"{name} is damaged"):
            list(read(path))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda rows: {"examples": rows},
        lambda rows: {"any_name": rows},
        lambda rows: {"info": {"by": "x"}, "data": rows},
        lambda rows: {"version": "1", "about": {"n": [2]}, "data": rows, "license": "x"},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_within_one_object(tmp_path: Path, wrap: Any, indent: Any) -> None:
    path = tmp_path / "rows.json"
    rows = [good(question="é" * 100_000 + "q"), good(id="b", label=0)]
    text = json.dumps(wrap(rows), indent=indent, ensure_ascii=False)
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert [(e.id, e.label) for e in read(path, strict=True)] == [("a", 1), ("b", 0)]


def test_what_is_no_wrapped_list_stays_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    one = good(contexts=[{"text": "c"}])
    path.write_bytes(lines({"contexts": one.pop("contexts"), **one}))
    assert [e.contexts for e in read(path)] == [("c",)]
    path.write_bytes(lines(*({"data": [{"x": 1}], **good(id=i)} for i in range(3))))
    assert len(list(read(path))) == 3


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("orient", ["columns", "index"])
def test_a_frame_in_one_object_is_its_rows(tmp_path: Path, orient: Any, indent: Any) -> None:
    path = tmp_path / "rows.json"
    rows = [{"id": f"q{i}", "label": i % 2, "risk": i / 7} for i in range(5)]
    frame = pd.DataFrame(rows, index=[3, 0, 1, 12, 5])
    frame.to_json(path, orient=orient, indent=indent)
    found = list(read(path, require=(), keep=("risk",), strict=True))
    assert [(e.id, e.label) for e in found] == [(row["id"], row["label"]) for row in rows]
    risks = [float(e.columns["risk"]) for e in found]
    assert risks == pytest.approx([i / 7 for i in range(5)])


def test_one_object_of_other_objects_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    for parts in ({"0": {"a": 1}, "1": {"b": 2}}, {"x": {"a": 1}, "y": {"a": 2}}):
        path.write_bytes(lines({**parts, "label": 1}))
        assert len(list(files.json_rows(path))) == 1
        path.write_bytes(lines(parts))
        assert len(list(files.json_rows(path))) == 1


class Counted(io.FileIO):
    """A file that knows how much of it was read."""

    done = 0

    def readinto(self, buffer: Any) -> int:
        Counted.done += (n := super().readinto(buffer) or 0)
        return n

    def readall(self) -> bytes:
        Counted.done += len(whole := super().readall() or b"")
        return whole


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl"])
def test_of_lines_with_a_long_first_one_no_more_is_read_than_the_first_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    long = [good(id=str(i), contexts=[{"text": "c" * 200_000}]) for i in range(30)]
    path.write_bytes(b"\xef\xbb\xbf\n" + lines(*long))
    monkeypatch.setattr(files, "open_bytes", lambda path: io.BufferedReader(Counted(path)))
    monkeypatch.setattr(Counted, "done", 0)
    rows = files.json_rows(path)
    assert isinstance(row := next(rows), SourceRow) and row.values["id"] == "0"
    assert Counted.done < 2_000_000
    assert len(list(rows)) == 29


@pytest.mark.parametrize("indent", [None, 1])
def test_of_several_lists_one_is_named_or_the_only_one_with_answers_is_read(
    tmp_path: Path, indent: Any
) -> None:
    path = tmp_path / "rows.json"
    train, test = [good(response='"]}' + "r"), good(id="b")], [good(id="c")]
    about: dict[str, Any] = {"source": "x", "names": ["[", "{"], "of": {"label": [{"label": 1}]}}
    for kind, rows in (("ids", ["a", "b", "c"]), ("meta", [{"author": "[{"}] * 2)):
        path.write_text(json.dumps({**about, kind: rows, "train": train}, indent=indent))
        assert [e.id for e in read(path)] == ["a", "b"]
    path.write_text(json.dumps({**about, "train": train, "test": test}, indent=indent))
    told = r"several lists of rows: train, test; choose one with options={'list': 'train'}"
    with pytest.raises(DataError, match=told):
        read(path)
    named = [read(path, options={"list": name}) for name in ("train", "test")]
    assert [[e.id for e in reading] for reading in named] == [["a", "b"], ["c"]]
    # Another list of the file is other data.
    assert named[0].digest() != named[1].digest() == read(path, options={"list": "test"}).digest()
    with pytest.raises(DataError, match="no list of rows 'dev'; its lists: train, test"):
        read(path, options={"list": "dev"})


def test_files_without_a_suffix(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_bytes(CSV.replace(b",", b"\t"))
    assert [e.label for e in read(path)] == [1, 0]
    path.write_bytes(json.dumps([good()]).encode())
    assert (table_kind(path), len(list(read(path)))) == ("jsonl", 1)
    path.write_bytes(b"a poem\nof two lines")
    with pytest.raises(DataError, match="cannot guess the format"):
        read(path)


def test_several_files_and_a_folder_are_one_source(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    first, second = folder / "a.jsonl", folder / "b.jsonl.gz"
    first.write_bytes(lines(good(), good(id=..., label=0), good(response="")))
    second.write_bytes(gzip.compress(lines(good(), good(id="c"), good(id=...), good(id="c"))))
    target = tmp_path / "q.jsonl"
    for source in ([first, str(second)], folder):
        examples, reading = read_all(source, quarantine=target)
        # An id that another file has, too, is told apart by the file's name.
        ids = ["a", "a.jsonl:row-2", "b.jsonl.gz:a", "c", "b.jsonl.gz:row-3"]
        assert [example.id for example in examples] == ids
        assert (reading.n_rows, reading.n_quarantined) == (7, 2)
        entries = [json.loads(line) for line in target.open()]
        places = [(e["file"], e["row"], e["field"]) for e in entries]
        assert places == [("a.jsonl", 3, "response"), ("b.jsonl.gz", 4, "id")]
        digest = reading.digest()
    second.write_bytes(gzip.compress(lines(good(id="d"))))
    assert read(folder).digest() != digest
    with pytest.raises(DataError, match=r"a\.jsonl, row 3, field response: empty"):
        list(read(folder, strict=True))
    assert read([first, second]).source == f"{first}, {second}"


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(good()))
    (tmp_path / "b.csv").write_bytes(CSV)
    with pytest.raises(DataError, match=r"several formats; name the files .* a\.jsonl, b\.csv"):
        read(tmp_path)
    with pytest.raises(DataError, match=r"must have one format; got .*jsonl\), .*csv\)"):
        read([tmp_path / "a.jsonl", tmp_path / "b.csv"])
    with pytest.raises(DataError, match="no file or folder"):
        read([tmp_path / "a.jsonl", tmp_path / "none.jsonl"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no data file"):
        read(tmp_path / "empty")


@pytest.mark.parametrize("body", [CSV, lines(good(), good(id="b", label=0))])
def test_standard_input_is_read_more_than_once(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
    for _ in range(2):
        reading = read("-")
        assert reading.source == "standard input"
        assert [e.label for e in reading] == [1, 0]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CSV[:-10])))
    assert [e.label for e in read("-")] == [1]


@pytest.mark.parametrize("name", ["a.jsonl", "a"])
def test_a_pipe_with_a_path_is_read_more_than_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    body = lines(good(), good(id="b", label=0))
    writer = threading.Thread(target=(tmp_path / name).write_bytes, args=[body], daemon=True)
    writer.start()
    for _ in range(2):
        reading = read(tmp_path / name)
        assert reading.source == str(tmp_path / name)
        assert [e.label for e in reading] == [1, 0]
    writer.join(5)
    # What comes through it later is no copy of that.
    descriptor = os.open(tmp_path / name, os.O_RDWR)
    os.write(descriptor, lines(good(label=0)))
    later = threading.Timer(0.5, os.close, [descriptor])
    later.start()
    assert [e.label for e in read(tmp_path / name)] == [0]


def test_a_text_that_is_no_path_is_an_error_of_ours() -> None:
    with pytest.raises(DataError, match=r"^cannot read x{200}: .*[Nn]ame too long"):
        read("x" * 5_000)


def test_what_is_empty_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "answers").touch()
    with pytest.raises(DataError, match=r"answers is empty: it holds no row"):
        read(tmp_path / "answers")


def test_a_list_of_rows_is_called_json_and_may_be_named_so(tmp_path: Path) -> None:
    rows = [{"response": f"r{i}", "label": i % 2} for i in range(4)]
    listed, lines = tmp_path / "a.json", tmp_path / "b.jsonl"
    listed.write_text(json.dumps({"examples": rows}))
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for path, format, shown in (
        (listed, None, "json"),
        (listed, "json", "json"),
        (lines, None, "jsonl"),
    ):
        reading = read(path, format=format, require=())
        assert (len(list(reading)), reading.format) == (4, shown)
    assert len(list(read([listed, lines], require=()))) == 8


@pytest.mark.parametrize("squeeze", [bytes, *SQUEEZE.values()])
def test_a_folder_of_mixed_compression_and_a_compressed_array_from_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, squeeze: Any
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(lines(good(id="a")))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines(good(id="b"))))
    (folder / "c.json").write_bytes(squeeze(json.dumps({"data": [good(id="c")]}).encode()))
    (folder / "d.ndjson.zst").write_bytes(zstd(lines(good(id="d"))))
    examples, reading = read_all(folder)
    assert [e.id for e in examples] == ["a", "b", "c", "d"]
    assert reading.about_in_all() == 4
    body = squeeze(json.dumps([good(id="a"), good(id="b", label=0)], indent=1).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
    assert [e.id for e in read("-")] == ["a", "b"]


@pytest.mark.parametrize("indent", [1, 4, "\t"])
def test_objects_that_stand_over_several_lines(tmp_path: Path, indent: Any) -> None:
    rows = [good(id="a", question='}\\"{é'), good(id="b", contexts=["[", "}"])]
    path = tmp_path / "rows.json"
    path.write_text("\n".join(json.dumps(row, indent=indent) for row in rows), encoding="utf-8")
    examples, reading = read_all(path, strict=True)
    assert [(e.id, e.question) for e in examples] == [(row["id"], row["question"]) for row in rows]
    assert reading.about_in_all() == len(rows) and count_rows([path]) is None
    path.write_text(json.dumps(rows[0], indent=indent) + "\n" + json.dumps(rows[1])[:50])
    assert [e.id for e in read(path)] == ["a"]


def test_a_frame_that_was_written_split(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    rows = [good(id="a"), good(id="b", label=0)]
    frame = {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}
    for content in (frame, {"columns": frame["columns"], "index": [0, 1], "data": frame["data"]}):
        path.write_text(json.dumps(content))
        assert [(e.id, e.label) for e in read(path, strict=True)] == [("a", 1), ("b", 0)]
    frame["data"][1].pop()
    path.write_text(json.dumps(frame))
    reading = read(path)
    assert [e.id for e in reading] == ["a"]
    assert reading.reasons == {("row", "wrong number of cells"): 1}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_frame_that_was_written_column_by_column(tmp_path: Path, indent: Any) -> None:
    path = tmp_path / "table.json"
    rows = [good(id="a"), good(id="b", label=0, contexts=["x", "y"])]
    frame = {name: {str(i): row[name] for i, row in enumerate(rows)} for name in rows[0]}
    path.write_text(json.dumps(frame, indent=indent))
    examples, _ = read_all(path, strict=True)
    assert [(e.id, e.label, len(e.contexts)) for e in examples] == [("a", 1, 1), ("b", 0, 2)]
    # Objects with other keys are a row's own.
    path.write_text(json.dumps({"input": {"question": "q", "context": "c"}, "output": "r"}))
    assert [e.question for e in read(path, labelled=False)] == ["q"]


def test_a_row_beyond_the_limit_is_told_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ROW_LIMIT", 5000)
    rows = [good(id=f"a{k}", response="x" * (20_000 if k == 2 else 5)) for k in range(4)]
    (tmp_path / "lines.jsonl").write_bytes(lines(*rows))
    (tmp_path / "array.json").write_text(json.dumps(rows))
    for path in tmp_path.iterdir():
        examples, reading = read_all(path)
        assert [e.id for e in examples] == ["a0", "a1", "a3"]
        assert reading.n_quarantined == 1
        told = str(reading.to_dict())
        assert "row too long" in told


def test_a_row_of_json_is_measured_without_the_end_of_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, path = lines(good(id="a", response="x" * 500)), tmp_path / "rows.jsonl"
    path.write_bytes(row + lines(good(id="b")))
    for most, read_on in ((len(row) - 1, ["a", "b"]), (len(row) - 2, ["b"])):
        monkeypatch.setattr(files, "ROW_LIMIT", most)
        assert [example.id for example in read_all(path)[0]] == read_on


@pytest.mark.parametrize("end", SQUEEZE)
def test_what_unpacks_to_too_much_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(files, "SMALL", 1 << 16)
    body = lines(good(), good(id="b", response="x" * (1 << 22), label=0))
    (tmp_path / f"bomb.jsonl.{end}").write_bytes(SQUEEZE[end](body))
    with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
        read_all(tmp_path / f"bomb.jsonl.{end}")


def test_what_unpacks_to_200_times_its_size_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SMALL", 1 << 16)
    body = lines(good(response="x" * (1 << 20)))
    body += b" " * (-len(body) % 200)
    for less, read_on in ((0, True), (1, False)):
        packed = gzip.compress(body, mtime=0)
        # The name of what was packed makes the file as long as it is to be.
        name = b"n" * (len(body) // 200 - len(packed) - 1 - less) + b"\0"
        packed = packed[:3] + b"\x08" + packed[4:10] + name + packed[10:]
        assert len(body) == 200 * (len(packed) + less)
        (tmp_path / "rows.jsonl.gz").write_bytes(packed)
        with nullcontext() if read_on else pytest.raises(DataError, match="200 times its size"):
            assert len(read_all(tmp_path / "rows.jsonl.gz")[0]) == 1


@pytest.mark.parametrize("kind", ["jsonl", "csv", "commas"])
def test_no_more_empty_lines_are_passed_over_than_a_sheet_has_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(files, "MOST_EMPTY", 1000)
    path = tmp_path / f"rows.{'jsonl' if kind == 'jsonl' else 'csv'}.gz"
    head, row, empty = b"", lines(good()), b"\n"
    if kind != "jsonl":
        head, row, empty = b"response,label\n", b"r,1\n", b",\n" if kind == "commas" else b"\n"
    # As a sheet with columns of commas, and one that double line ends parted.
    for body in (row + empty * 1000, (row + empty) * 1200):
        path.write_bytes(gzip.compress(head + body))
        assert read_all(path, require=())[0]
    for body in (empty * 1001, row + empty * 3000, (row + empty * 300) * 9):
        path.write_bytes(gzip.compress(head + body))
        with pytest.raises(DataError, match=rf"{path.name} has over 1,000 empty lines"):
            read_all(path, require=())


def test_a_row_of_too_many_fields_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(lines(good(), {f"k{n}": n for n in range((1 << 14) + 1)}, good(id="b")))
    examples, reading = read_all(path)
    assert (len(examples), reading.n_quarantined) == (2, 1)
    assert "too many fields" in str(reading.to_dict())


def log_of(samples: list[dict[str, Any]], path: Path, method: int) -> Path:
    """Write a log as Inspect does; what is written again under a name counts as it was last."""
    with warnings.catch_warnings(), ZipFile(path, "w", method) as log:
        warnings.simplefilter("ignore")
        log.writestr("header.json", "{}")
        for sample in samples:
            log.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample, indent=1))
    return path


@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED])
def test_a_log_of_inspect_is_read_sample_by_sample(tmp_path: Path, method: int) -> None:
    samples: list[dict[str, Any]] = [
        {
            **{"id": n, "epoch": 1, "input": f"What is {n}?", "scores": {"s": {"value": "C"}}},
            "output": {"completion": f"It is {n}{' at last' * (len(said) > 40)}."},
            "metadata": {"contexts": [f"It is {n}.", said], "label": n % 2},
        }
        for said in ("Anew.", "As it was written for the second time. " * 9_000)
        for n in range(3)
    ]
    path = log_of(samples, tmp_path / "a.eval", method)
    rows, reading = read_all(path)
    assert reading.n_quarantined == 0 and [row.id for row in rows] == ["0/1", "1/1", "2/1"]
    assert [row.response for row in rows] == [f"It is {n} at last." for n in range(3)]
    with pytest.raises(DataError, match="row"):
        read_all(log_of([], tmp_path / "none.eval", method))
    raw, middle = path.read_bytes(), path.stat().st_size // 2
    overwritten = raw[:middle] + b"x" * 40 + raw[middle + 40 :]
    for place, damaged in enumerate((raw[:-30], overwritten, raw[:50])):
        cut = tmp_path / f"{place}.eval"
        cut.write_bytes(damaged)
        with pytest.raises(DataError, match=r"is damaged: .*download it again"):
            read_all(cut)


@pytest.mark.parametrize("ending", ["", "gz", "zst"])
def test_a_disk_that_fails_while_a_file_is_read_names_the_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(SQUEEZE.get(ending, bytes)(os.urandom(1 << 20)))
    with files.open_bytes(path) as stream, open("/proc/self/mem", "rb") as broken:
        inner: Any = getattr(stream, "raw", None)
        os.dup2(broken.fileno(), inner._stream.fileno() if ending else stream.fileno())
        with pytest.raises(DataError, match=f"^cannot read {path}: Input/output error$"):
            stream.read()
