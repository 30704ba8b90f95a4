"""Do answers leave and labels come back unharmed, in every format, whatever programs do to them?"""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies

import calibrail
from calibrail import ReadOptions
from calibrail.errors import DataError, InputError
from calibrail.labelling.exchange import transfer
from calibrail.labelling.exchange.transfer import export_answers, import_labels, kept_as_text
from calibrail.labelling.session import Session
from tests.labelling.rows import lines, traces, truth, truth_of

WORDS = {1: "Hallucinated", 0: "faithful", None: "not sure"}


def begun(folder: Path, rows: list[dict[str, Any]] | None = None, **more: Any) -> Session:
    return calibrail.label(traces(40) if rows is None else rows, folder, **more)


def csv_cells(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def write_csv(path: Path, rows: list[dict[str, str]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def fill_csv(path: Path) -> None:
    rows = csv_cells(path)
    for row in rows:
        row["label"] = WORDS[truth_of(row["question"])]
        if truth_of(row["question"]):
            row["unsupported"] = "It has | mark"
    write_csv(path, rows)


def fill_lines(path: Path) -> None:
    rows = lines(path)
    for row in rows:
        begin = row["response"].index("mark")
        row["label"] = truth_of(row["question"])
        row["spans"] = [[0, 6, "It has"], [begin, begin + 4, "mark"]] if row["label"] else []
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def fill_label_studio(path: Path) -> None:
    tasks = json.loads(path.read_text(encoding="utf-8"))
    for number, task in enumerate(tasks):
        assert set(task) == {"data"}
        label = truth_of(task["data"]["question"])
        results: list[dict[str, Any]] = [
            {
                "type": "choices",
                "from_name": "label",
                "to_name": "response",
                "value": {"choices": [WORDS[label].lower()]},
            }
        ]
        for piece in ("It has", "mark") if label else ():
            start = task["data"]["response"].index(piece)
            value = {"start": start, "end": start + len(piece), "text": piece}
            results.append(
                {"type": "labels", "from_name": "unsupported", "to_name": "response"}
                | {"value": value | {"labels": ["unsupported"]}}
            )
        task |= {"id": 900 + number, "project": 3, "predictions": []}
        task["annotations"] = [
            {
                "id": 1,
                "completed_by": {"email": "cancelled@x"},
                "was_cancelled": True,
                "result": [],
            },
            {"id": 2, "completed_by": 7, "was_cancelled": False, "result": results},
        ]
    path.write_text(json.dumps(tasks), encoding="utf-8")


def fill_argilla(path: Path) -> None:
    records = json.loads(path.read_text(encoding="utf-8"))
    for record in records:
        label = truth_of(record["fields"]["question"])
        spans = []
        for piece in ("It has", "mark") if label else ():
            start = record["fields"]["response"].index(piece)
            spans.append({"label": "unsupported", "start": start, "end": start + len(piece)})
        user = "3f1c8a52-0000-4000-8000-00000000000a"
        record["responses"] = {
            "label": [{"value": WORDS[label].lower(), "user_id": user}],
            "unsupported": [{"value": spans, "user_id": user}],
        }
        record["_server_id"] = "1b2c"
    path.write_text(json.dumps(records), encoding="utf-8")


FORMATS: list[tuple[str, str | None, Callable[[Path], None], str]] = [
    ("answers.csv", None, fill_csv, "ada"),
    ("answers.jsonl", None, fill_lines, "ada"),
    ("tasks.json", "label-studio", fill_label_studio, "label-studio 7"),
    ("records.json", "argilla", fill_argilla, "3f1c8a52-0000-4000-8000-00000000000a"),
]


@pytest.mark.parametrize(("name", "format", "fill", "by"), FORMATS, ids=[row[0] for row in FORMATS])
def test_answers_leave_blind_and_labels_come_back(
    tmp_path: Path, name: str, format: str | None, fill: Callable[[Path], None], by: str
) -> None:
    session, path = begun(tmp_path / "labels"), tmp_path / name
    written = export_answers(session, path, "ada", 12, export_as=format)
    assert written[0] == path
    text = path.read_text(encoding="utf-8-sig")
    assert "suspicion" not in text and "probability" not in text and "score" not in text
    # An id may tell the model, or even the label.
    assert not re.search(r"\bt\d+\b", text) and "no12-" in text
    fill(path)
    taken = import_labels(session, path, "ada")
    assert taken.problems == () and (taken.labelled, taken.again, taken.blank) == (12, 0, 0)
    kept = lines(tmp_path / "labels" / "labels.jsonl")
    assert {row["id"]: row["label"] for row in kept} == {
        row["id"]: truth(row["id"]) for row in lines(tmp_path / "labels" / "draws.jsonl")
    }
    assert {row["annotator"] for row in kept} == {by}
    marked = {row["id"]: [span[2] for span in row.get("spans", ())] for row in kept}
    assert all(spans == (["It has", "mark"] if truth(id) else []) for id, spans in marked.items())
    # The same file once more changes nothing.
    again = import_labels(session, path, "ada")
    assert (again.labelled, again.again, again.problems) == (0, 12, ())
    assert session.counts("ada").counted == 12


def test_label_studio_gets_its_interface_and_gives_flat_exports_too(tmp_path: Path) -> None:
    session = begun(tmp_path / "labels")
    path = tmp_path / "tasks.json"
    _, interface = export_answers(session, path, "ada", 5, export_as="label-studio")
    tree = ElementTree.fromstring(interface.read_text(encoding="utf-8"))
    names = {item.get("name") for item in tree.iter() if item.get("name")}
    data = [task["data"] for task in json.loads(path.read_text(encoding="utf-8"))]
    shown = {item.get("value")[1:] for item in tree.iter("Text")}
    assert shown <= set(data[0]) and names == shown | {"label", "unsupported"}
    assert [item.get("value") for item in tree.iter("Choice")] == [
        "faithful",
        "hallucinated",
        "unsure",
    ]
    flat = [
        {**item, "id": 40 + i, "label": "unsure" if i == 2 else "faithful", "annotator": 3}
        for i, item in enumerate(data)
    ]
    path.write_text(json.dumps(flat), encoding="utf-8")
    taken = import_labels(session, path, "ada")
    assert (taken.labelled, taken.unsure, taken.problems) == (5, 1, ())


def test_several_annotators_of_one_answer(tmp_path: Path) -> None:
    session = begun(tmp_path / "labels", shared=1.0)
    path = tmp_path / "tasks.json"
    export_answers(session, path, "ada", 4, export_as="label-studio")
    tasks = json.loads(path.read_text(encoding="utf-8"))
    for number, task in enumerate(tasks):
        task["annotations"] = [
            {
                "completed_by": {"id": 1, "email": f"{name}@x.org"},
                "result": [{"type": "choices", "value": {"choices": [word]}}],
            }
            for name, word in (("one", "faithful"), ("two", "faithful" if number else "unsure"))
        ]
    path.write_text(json.dumps(tasks), encoding="utf-8")
    assert import_labels(session, path, "ada").labelled == 8
    counts = session.counts("ada")
    assert (counts.labelled, counts.disagreements) == (3, 1)


HOSTILE = (
    '=HYPERLINK("http://x","y"), "quoted"\nsecond; line\r\n+1 \U0001f4a9 \u202e it has a mark;'
    " \"=cmd|'/C calc'!A0\t\uff1d1\r@x\n'-1"
)


def test_a_spreadsheet_runs_no_formula_and_turns_no_id_into_a_number(tmp_path: Path) -> None:
    ids = ["0012", "1e5", "MAR-1", "2024-01-02", "=1+1", "'=1", "-7", "q7", "TRUE", "12,5", "@x"]
    rows = [
        {**row, "id": id, "response": f"{HOSTILE} {number}", "question": "-1"}
        for number, (id, row) in enumerate(zip(ids, traces(len(ids)), strict=True))
    ]
    session, path = begun(tmp_path / "labels", rows), tmp_path / "a.csv"
    export_answers(session, path, "ada", 50)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    cells = csv_cells(path)
    assert len(cells) == len(ids)
    assert not any(
        cell.startswith(("=", "+", "-", "@", "\t")) for row in cells for cell in row.values()
    )
    # Nor does a part of one, where a spreadsheet parts cells at semicolons.
    parts = re.split("[;\t\r\n]", path.read_bytes().decode("utf-8-sig"))
    assert not [part for part in parts if re.match(r"[\"\s]*[=+@\uff1d-]", part)]
    assert [row["id"].split("-")[0] for row in cells] == [f"no{n + 1}" for n in range(len(ids))]
    # Ids of one's own come back, too, as a spreadsheet keeps them.
    drawn = [row["id"] for row in lines(tmp_path / "labels" / "draws.jsonl")]
    for row, id in zip(cells[:6], drawn, strict=False):
        row["id"] = kept_as_text(id)
    for row in cells:
        row["label"] = "1"
    # As some spreadsheets write it: semicolons, and other ends of lines.
    for row in cells:
        row["response"] = row["response"].replace("\r\n", "\n")
    taken = import_labels(session, write_csv(path, cells, ";"), "ada")
    assert taken.problems == () and taken.labelled == len(ids)
    # A spreadsheet writes a truth value in capitals, so that both are one name.
    named = {"True" if id == "TRUE" else id for id in ids}
    assert {row["id"] for row in lines(tmp_path / "labels" / "labels.jsonl")} == named
    assert kept_as_text("'=1") == "''=1"


UNSEEN = "\x1b\x9b\x85\u202e\u2066\u2069\u061c\u034f\u3164\ufe0f\U000e0041\ud800"


@example("\x00=1")
@example("\x1b\u202e\u2066=cmd|' /C calc'!A0")
@given(strategies.text(f"';=-\uff1d\ufe66 \ufeff\x00\"\t\r\na{UNSEEN}", max_size=12))
def test_a_cell_that_is_kept_from_being_a_formula_comes_back_as_it_was(text: str) -> None:
    cell = kept_as_text(text)
    assert transfer._text(cell) == text
    assert not re.search(f'(\\A|[;\t\r\n])[" \ufeff\x00{UNSEEN}]*[=\uff1d\ufe66-]', cell)


def test_what_keeps_a_cell_from_being_a_formula_takes_no_longer_than_the_cell() -> None:
    # Tried anew from each of its line feeds, this would take minutes.
    for sign in "\n\x85\u202e":
        assert kept_as_text(";" + sign * 200_000 + "a;" * 200_000).count("'") <= 1


def test_each_bad_row_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    rows = [{**row, "id": f"00{row['id'][1:]}"} for row in traces(40)]
    session, path = begun(tmp_path / "labels", rows), tmp_path / "a.csv"
    export_answers(session, path, "ada", 9)
    cells = csv_cells(path)
    for row in cells:
        row["label"] = "faithful"
    drawn = [row["id"] for row in lines(tmp_path / "labels" / "draws.jsonl")]
    cells[0]["id"] = drawn[0].lstrip("0") or "0"
    cells[1]["id"] = "nobody"
    cells[2]["response"] = "It has another mark."
    cells[3]["label"] = "yes"
    cells[4]["unsupported"] = "not in it"
    cells[5]["label"] = ""
    cells.append({**cells[6], "label": "hallucinated"})
    cells.append(dict(cells[7]))
    taken = import_labels(session, write_csv(path, cells), "ada")
    assert (taken.labelled, taken.blank, taken.again) == (3, 1, 1)
    said = list(taken.problems)
    assert len(said) == 6
    for text, part in zip(
        said,
        (
            "row 2: no answer with the id .* may have made it out of '00",
            "row 3: no answer with the id 'nobody'",
            "row 4: the response of .* is another one",
            "row 5: label 'yes' says neither class",
            "row 6: 'not in it' does not stand in the response",
            "row 11: a second label of 'ada'",
        ),
        strict=True,
    ):
        assert re.search(part, text), text
    # Corrected, they are taken.
    cells[2]["response"] = ""
    cells[3]["label"], cells[4]["unsupported"] = "0", ""
    taken = import_labels(session, write_csv(path, cells[2:5]), "ada")
    assert (taken.labelled, taken.problems) == (3, ())
    # Another label than the one that is there is refused, too.
    cells[2]["label"] = "1"
    (text,) = import_labels(session, write_csv(path, cells[2:3]), "ada").problems
    assert "has labelled" in text and "as faithful" in text


def test_labels_in_a_language_of_ones_own(tmp_path: Path) -> None:
    session, path = begun(tmp_path / "labels"), tmp_path / "a.csv"
    export_answers(session, path, "ada", 4)
    cells = csv_cells(path)
    for row, word in zip(cells, ("falsch", "richtig", "unklar", "richtig"), strict=True):
        row["Urteil"] = word
    write_csv(path, cells)
    reading = ReadOptions(
        label_column="Urteil", label_map={"falsch": "1", "richtig": "0", "unklar": "skip"}
    )
    taken = import_labels(session, path, "ada", reading=reading)
    assert (taken.labelled, taken.blank, taken.problems) == (3, 1, ())


def test_offsets_in_utf16_and_marks_that_are_elsewhere(tmp_path: Path) -> None:
    row = traces(1)[0] | {"response": "\U0001f4a9\U0001f4a9 it has the mark here"}
    session, path = begun(tmp_path / "labels", [row]), tmp_path / "a.jsonl"
    export_answers(session, path, "ada", 1)
    (line,) = lines(path)
    start = line["response"].index("mark")

    def taken(spans: list[list[Any]]) -> Any:
        path.write_text(json.dumps({**line, "label": 1, "spans": spans}), encoding="utf-8")
        return import_labels(session, path, "ada")

    assert "does not stand there" in taken([[0, 4, "other"]]).problems[0]
    assert taken([[start + 2, start + 6, "mark"]]).labelled == 1
    (kept,) = lines(tmp_path / "labels" / "labels.jsonl")
    assert kept["spans"] == [[start, start + 4, "mark"]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"id": "t1", "label": 1}\n{"id": \n', "line 2: it cannot be read"),
        ("[1, 2]", "item 1: it cannot be read"),
        ('[{"data": {"answer_id": "t1"}, "annotations": 3}]', "item 1: it cannot be read"),
        ('{"label": 1}', "line 1: it cannot be read.*no id"),
    ],
)
def test_a_broken_file_is_no_traceback(tmp_path: Path, content: str, said: str) -> None:
    session, path = begun(tmp_path / "labels"), tmp_path / "a.json"
    session.hand_out("ada", 40)
    path.write_text(content, encoding="utf-8")
    problems = " ".join(import_labels(session, path, "ada").problems)
    assert re.search(said, problems), problems


def test_a_file_without_the_columns_or_in_no_format_is_refused(tmp_path: Path) -> None:
    session, path = begun(tmp_path / "labels"), tmp_path / "a.csv"
    path.write_text("name,label\nx,1\n", encoding="utf-8")
    with pytest.raises(DataError, match="no column 'id'"):
        import_labels(session, path, "ada")
    with pytest.raises(DataError, match="cannot read"):
        import_labels(session, tmp_path / "missing.csv", "ada")
    for name, format in (("a.json", None), ("a.csv", "excel")):
        with pytest.raises(InputError, match="label-studio"):
            export_answers(session, tmp_path / name, "ada", export_as=format)
    assert session.counts("ada").drawn == 0


def test_exported_answers_are_nobody_elses(tmp_path: Path) -> None:
    session = begun(tmp_path / "labels")
    for name in ("ada", "bob"):
        export_answers(session, tmp_path / f"{name}.csv", name, 6)
    ada, bob = ({row["id"] for row in csv_cells(tmp_path / f"{n}.csv")} for n in ("ada", "bob"))
    assert len(ada) == len(bob) == 6 and not ada & bob
    task = session.next("eve")
    assert task.order == 13
    # The one who has them goes on with them on the page, and gets them again in a file.
    assert session.next("ada").order == 1
    export_answers(session, tmp_path / "again.csv", "ada", 6)
    assert {row["id"] for row in csv_cells(tmp_path / "again.csv")} == ada
    # They stay so when labelling goes on later.
    later = begun(tmp_path / "labels")
    assert later.next("eve").order == 13 and later.next("kim").order == 14


def test_an_export_that_finds_no_room_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    session, path = begun(tmp_path / "labels"), tmp_path / "out.csv"
    export_answers(session, path, "ada", 4)
    before = path.read_bytes()
    monkeypatch.setattr("calibrail.atomic_files.os.replace", full)
    with pytest.raises(DataError, match=r"cannot write .+ No space left on device"):
        export_answers(session, path, "ada", 6)
    assert path.read_bytes() == before


def region(value: dict[str, Any] | None = None, to: str = "response") -> dict[str, Any]:
    """Return a region that Label Studio exports, without its value where none is given."""
    return {"type": "labels", "to_name": to} | ({} if value is None else {"value": value})


@pytest.mark.parametrize(
    ("region", "spans"),
    [
        (region({"text": "has the"}), [[3, 10, "has the"]]),
        (region({"start": 5, "end": 12, "text": "has the"}), [[3, 10, "has the"]]),
        (region({"start": 0, "end": 5, "text": "Which"}, to="question"), None),
        (region(to="question"), None),
    ],
    ids=["without offsets", "shifted", "of the question", "of the question, without a value"],
)
def test_marks_of_label_studio_are_found_by_their_text_in_the_response(
    tmp_path: Path, region: dict[str, Any], spans: list[list[Any]] | None
) -> None:
    session, path = begun(tmp_path / "labels"), tmp_path / "tasks.json"
    export_answers(session, path, "ada", 1, export_as="label-studio")
    (task,) = json.loads(path.read_text(encoding="utf-8"))
    choice = {"type": "choices", "value": {"choices": ["hallucinated"]}}
    cancelled = {"was_cancelled": True, "result": [{"type": "labels", "to_name": "response"}]}
    task["annotations"] = [cancelled, {"completed_by": 7, "result": [choice, region]}]
    path.write_text(json.dumps([task]), encoding="utf-8")
    taken = import_labels(session, path, "ada")
    assert (taken.labelled, taken.problems) == (1, ())
    (kept,) = lines(tmp_path / "labels" / "labels.jsonl")
    assert kept.get("spans") == spans
