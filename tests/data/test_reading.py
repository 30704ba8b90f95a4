"""Is every row of a file either an example or accounted for?"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from calibrail.data import Example, read, read_all
from calibrail.errors import DataError, InputError
from calibrail.options import ReadOptions
from tests.memory import peak_bytes
from tests.rows import Write, good

BAD_ROWS = [
    ('{"id": "b", ', "row", "broken JSON"),
    ("[1, 2]", "row", "not an object"),
    ("3", "row", "not an object"),
    ("[" * 100_000, "row", "lists or objects nested more than 100 deep"),
    ('{"label": ' + "9" * 5000 + "}", "row", "a number of more than 4,300 digits"),
    (b'{"id": "\xff"}', "row", "invalid UTF-8"),
    (good(id="b", question=...), "question", "missing"),
    (good(id="b", question=None), "question", "missing"),
    (good(id="b", question=" "), "question", "empty"),
    (good(id="b", contexts=...), "contexts", "missing"),
    (good(id="b", contexts=[]), "contexts", "empty"),
    (good(id="b", contexts=["", " "]), "contexts", "empty"),
    (good(id="b", contexts=[1]), "contexts", "wrong type"),
    (good(id="b", contexts={"a": "b"}), "contexts", "wrong type"),
    (good(id="b", response=""), "response", "empty"),
    (good(id="b", response=...), "response", "missing"),
    (good(id="b", response=7), "response", "wrong type"),
    (good(id="b", response=[7]), "response", "wrong type"),
    (good(id="b", label=...), "label", "missing"),
    (good(id="b", label=2), "label", "not 0 or 1"),
    (good(id="b", label="yes"), "label", "not 0 or 1"),
    (good(id="b", label=0.5), "label", "not 0 or 1"),
    (good(id="b", label=["maybe"]), "label", "not 0 or 1"),
    (good(id="b", label=[0, 1]), "label", "annotators tie"),
    (good(id="b", label=[]), "label", "missing"),
    (good(id="b", response=["r"], label=[0, 1]), "label", "not one label for each answer"),
    (good(id="b", group=["g"]), "group", "wrong type"),
    (good(id={"b": 1}), "id", "wrong type"),
    (good(id="b", samples="s"), "samples", "wrong type"),
    (good(), "id", "duplicate"),
]


@pytest.mark.parametrize(("bad", "field", "reason"), BAD_ROWS)
def test_a_bad_row_is_quarantined_or_stops_a_strict_reading(
    write: Write, tmp_path: Path, bad: Any, field: str, reason: str
) -> None:
    path = write(good(), bad, good(id="c", label=0))
    target = tmp_path / "quarantine.jsonl"
    reading = read(path, quarantine=target)
    assert [example.id for example in reading] == ["a", "c"]
    assert (reading.n_rows, reading.n_examples, reading.n_quarantined) == (3, 2, 1)
    assert reading.reasons == Counter({(field, reason): 1})
    (entry,) = [json.loads(line) for line in target.read_bytes().splitlines()]
    assert set(entry) == {"row", "field", "reason", "value", "remedy"}
    assert (entry["row"], entry["field"]) == (2, field)
    assert entry["reason"].startswith(reason)
    assert len(entry["value"]) < 200
    with pytest.raises(DataError, match=rf"row 2, field {field}: {reason}"):
        list(read(path, strict=True, quarantine=target))
    assert not target.exists()


def test_a_label_under_another_encoding_is_named_with_its_remedy(write: Write) -> None:
    reading = read(write(good(), good(id="b", label="Benign")), strict=True)
    with pytest.raises(
        DataError, match=r"got 'Benign'\. Say what it means: label_map={'benign': 1}"
    ):
        list(reading)
    reading = read(write(good(), good(id="b", label="yes")), strict=True)
    with pytest.raises(DataError, match=r"positive='yes' if it means hallucinated, else .*'no'$"):
        list(reading)


def test_labels_accepted(write: Write) -> None:
    values = [0, 1, "0", "1", True, False, "true", "False", 0.0, 1.0, "0.0", "1.0", [1], [0, 0, 1]]
    rows = [good(id=i, label=value) for i, value in enumerate(values)]
    expected = [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0]
    assert [e.label for e in read(write(*rows))] == expected


def test_no_usable_row_is_an_error_that_counts_the_reasons(write: Write, tmp_path: Path) -> None:
    path = write(good(label="yes"), good(id="b", label="no"), "{")
    with pytest.raises(DataError, match=r"no usable row among 3: label: not 0 or 1 \(2\)"):
        list(read(path))
    assert list(read(path, allow_none=True)) == []
    with pytest.raises(DataError, match="holds no row"):
        list(read(write(name="empty.jsonl")))


def test_without_labels_a_trace_needs_none_and_a_bad_one_does_no_harm(write: Write) -> None:
    path = write(good(label=...), good(id="b", label="maybe"), good(id="c", label=1))
    assert [e.label for e in read(path, labelled=False)] == [None, None, 1]


def test_require_says_which_texts_a_row_needs(write: Write) -> None:
    bare = {"id": "x", "label": 1, "score": 0.5}
    (example,) = read(write(bare), require=(), keep=("score",))
    assert example == Example(id="x", label=1, columns={"score": 0.5})
    (example,) = read(write(bare | {"response": "r"}), require=("response",))
    assert (example.response, example.question, example.contexts) == ("r", "", ())
    with pytest.raises(InputError, match="require can name question, contexts, response"):
        read(write(bare), require=("answer",))


def test_separators_of_unicode_and_carriage_returns_do_not_end_a_line(tmp_path: Path) -> None:
    odd = "one\u2028two\u2029three\x85four\x0bfive\x0csix"
    lines = [json.dumps(good(response=odd, id=i), ensure_ascii=False) for i in range(2)]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\r\n\r\n")
    examples, reading = read_all(path)
    assert [e.response for e in examples] == [odd, odd]
    assert reading.n_quarantined == 0


def test_control_characters_and_lone_surrogates_are_harmless(write: Write) -> None:
    row = (
        r'{"id": "\ud800", "question": "\u0000", "contexts": ["\udfff\n"], "response": "x\ud83d", '
    )
    row += r'"label": 0, "more": {"\udc00": "\ud83d\ude00"}}'
    (example,) = read(write(row), keep=("more",))
    assert (example.id, example.question, example.response) == ("\ufffd", "\x00", "x\ufffd")
    assert example.columns["more"] == '{"\ufffd": "\U0001f600"}'
    json.dumps([example.question, example.response], ensure_ascii=False).encode("utf-8")


def test_a_huge_field_is_read_whole(write: Write) -> None:
    (example,) = read(write(good(response="word " * 1_000_000)))
    assert len(example.response) == 5_000_000


def test_a_json_array_is_read_element_by_element(tmp_path: Path) -> None:
    tricky = good(response='a "quoted, [bracket] {brace}" \\', more={"x": [1, {"y": ","}]})
    elements = [json.dumps(tricky, indent=2), "{broken", json.dumps(good(id="c"))]
    path = tmp_path / "rows.json"
    path.write_text(" [ " + json.dumps(tricky) + "," + json.dumps(good(id="c"), indent=1) + "]\n")
    assert [e.response for e in read(path)] == [tricky["response"], "r"]
    path.write_text("[" + json.dumps(good()) + "," + json.dumps(good(id="c"))[:-3])
    reading = read(path)
    assert [e.id for e in reading] == ["a"]
    assert reading.reasons == Counter({("row", "broken JSON"): 1})
    path.write_text("[" + elements[0] + ", 5, " + elements[2] + "] trailing")
    reading = read(path)
    assert [e.id for e in reading] == ["a", "c"]
    assert reading.reasons == Counter({("row", "not an object"): 1, ("row", "broken JSON"): 1})


def test_ids_and_groups(write: Write) -> None:
    rows = [good(id=..., group=7), good(id="", group=None), good(id=3, group="g")]
    examples = tuple(read(write(*rows)))
    assert [e.id for e in examples] == ["row-1", "row-2", "3"]
    assert [e.group for e in examples] == ["7", None, "g"]
    named = write({**good(), "key": "k", "doc": "d", "y": 0})
    (example,) = read(named, id_column="key", group_column="doc", label_column="y")
    assert (example.id, example.group, example.label) == ("k", "d", 0)


@pytest.mark.parametrize(
    "argument",
    [{"label_column": "y"}, {"group_column": "y"}, {"id_column": "y"}, {"keep": ("y",)}],
)
def test_a_named_column_that_is_not_there_is_an_error_at_once(
    write: Write, argument: dict[str, Any]
) -> None:
    with pytest.raises(DataError, match=r"has no .* 'y'; columns seen: id, question"):
        read(write(good()), **argument)


def test_columns_to_keep(write: Write) -> None:
    values = [0.5, "0.25", "", None, "fit", True, float("nan"), [1], 10**400, "1_0"]
    rows = [good(id=i, x=value) for i, value in enumerate(values)]
    kept = [e.columns["x"] for e in read(write(*rows), keep=("x",))]
    assert kept[:8] == [0.5, 0.25, None, None, "fit", 1.0, None, "[1]"]
    assert kept[8:] == [str(10**400), "1_0"]


def test_the_quarantine_file_of_an_earlier_run_does_not_stay(write: Write, tmp_path: Path) -> None:
    target = tmp_path / "sub" / "quarantine.jsonl"
    list(read(write(good(), "{"), quarantine=target))
    assert len(target.read_text().splitlines()) == 1
    list(read(write(good()), quarantine=target))
    assert not target.exists()
    source = write(good())
    with pytest.raises(InputError, match=r"quarantine .* would be written over .*, which is read"):
        read(source, quarantine=source)
    assert source.exists()


def test_a_reading_is_a_single_pass_with_live_counters_and_a_digest(write: Write) -> None:
    path = write(good(), "{", good(id="b"), name="x.ndjson")
    reading = read(path)
    assert reading.digest() == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (reading.format, reading.n_examples) == ("jsonl", 0)
    next(iter(reading))
    assert (reading.n_rows, reading.n_examples) == (1, 1)
    assert len(list(reading)) == 1
    assert reading.to_dict()["reasons"] == [{"field": "row", "reason": "broken JSON", "count": 1}]
    with pytest.raises(InputError, match="read to its end"):
        iter(reading)


def test_options_are_given_as_an_object_or_one_by_one(write: Write) -> None:
    path = write({**good(), "key": "b", "y": 0})
    options = ReadOptions(id_column="key", label_column="y")
    (example,) = read(path, options)
    assert (example.id, example.label) == ("b", 0)
    assert list(read(path, id_column="key", label_column="y")) == [example]
    (changed,) = read(path, options, label_column="label")
    assert (changed.id, changed.label) == ("b", good()["label"])
    with pytest.raises(InputError, match="did you mean label_column"):
        read(path, label_colum="y")


def test_a_missing_file_and_an_unknown_suffix_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file or folder"):
        read(tmp_path / "nothing.jsonl")
    (tmp_path / "data.xyz").write_text("some words")
    with pytest.raises(DataError, match=r"cannot guess the format .* format=\.\.\. \(jsonl, json"):
        read(tmp_path / "data.xyz")
    with pytest.raises(InputError, match="format must be one of jsonl"):
        read(tmp_path / "data.xyz", format="excel")
    with pytest.raises(InputError, match="as options; got 'min_chars'"):
        read(tmp_path / "data.xyz", format="jsonl", options={"min_chars": 3})
    with pytest.raises(DataError, match="there is no example data 'none'"):
        read("example:none")


#: bzip2, xz, zstd, zip.
OTHERWISE_COMPRESSED = (b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")

ROW = st.one_of(
    st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b" ")),
    st.dictionaries(
        st.sampled_from(["id", "question", "contexts", "response", "label", "group", "samples"]),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-2, 2),
            st.floats(),
            st.text(max_size=5),
            st.lists(st.text(max_size=3), max_size=3),
        ),
    ).map(lambda row: json.dumps(row).encode()),
    st.just(json.dumps(good(id=...)).encode()),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(ROW, max_size=12))
@example(rows=[b"PK\x03\x04"])
@example(rows=[b"\x00\x00\xfe\xff"])
def test_whatever_the_bytes_each_line_is_an_example_or_an_entry(
    tmp_path: Path, rows: list[bytes]
) -> None:
    path, target = tmp_path / "rows.jsonl", tmp_path / "quarantine.jsonl"
    path.write_bytes(b"\n".join(rows))
    # UTF-16, UTF-32 and archives, known by how they begin, are no lines of UTF-8.
    marks = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff", b"\x1f\x8b", *OTHERWISE_COMPRESSED)
    if rows and rows[0].startswith(marks):
        return
    reading = read(path, preset="calibrail", quarantine=target, allow_none=True)
    examples = list(reading)
    lines = [line.removeprefix(b"\xef\xbb\xbf") if not i else line for i, line in enumerate(rows)]
    filled = sum(bool(line) and not line.isspace() for line in lines)
    entries = target.read_bytes().splitlines() if target.exists() else []
    # Of several answers in one row, each is an example or an entry.
    assert len(examples) + len(entries) == reading.n_examples + reading.n_quarantined >= filled
    assert reading.n_rows == filled
    assert all(e.response.strip() and e.label in (0, 1) and e.contexts for e in examples)
    assert len({e.id for e in examples}) == len(examples)


@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("times", [101, 970, 100_000])
def test_endless_nesting_costs_its_row_only(
    tmp_path: Path, brackets: tuple[str, str], times: int
) -> None:
    deep = brackets[0] * times + "1" + brackets[1] * times
    shallow = brackets[0] * 98 + "1" + brackets[1] * 98
    lines = [json.dumps(good(id=name)) for name in "abc"]
    for position, value in ((1, shallow), (2, deep)):
        lines[position] = lines[position][:-1] + f', "meta": {value}, "half": "\\ud800"}}'
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines))
    examples, reading = read_all(path, keep=("meta",), quarantine=tmp_path / "quarantine.jsonl")
    assert [example.id for example in examples] == ["a", "b"]
    (entry,) = map(json.loads, (tmp_path / "quarantine.jsonl").read_text().splitlines())
    reason = "lists or objects nested more than 100 deep"
    assert (entry["row"], reading.reasons) == (3, {("row", reason): 1})
    assert entry["reason"] == reason


def test_rows_that_are_called_by_their_numbers_are_not_remembered(tmp_path: Path) -> None:
    n = 20_000
    texts = {False: "label,score\n", True: "id,label,score\n"}
    for ids in texts:
        texts[ids] += "".join(f"{f'{i},' if ids else ''}{i % 2},{i}\n" for i in range(n))
    held = {}
    for ids, text in texts.items():
        path = tmp_path / f"{ids}.csv"
        path.write_text(text, encoding="utf-8")
        rows = read(path, require=())
        held[ids] = peak_bytes(lambda rows=rows: deque(rows, maxlen=0))  # type: ignore[misc]
        assert rows.n_examples == n
    assert held[True] - held[False] > 8 * n


def test_numbers_of_rows_do_not_hide_ids_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,score\n0,1\n1,2\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("id,label,score\na,0,1\na,0,1\n", encoding="utf-8")
    examples, reading = read_all([tmp_path / "a.csv", tmp_path / "b.csv"], require=())
    assert [example.id for example in examples] == ["a.csv:row-2", "a.csv:row-3", "a"]
    assert reading.reasons == {("id", "duplicate"): 1}
