"""Are the exports of other tools read as they are, and never a label guessed?"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrail.data import read, read_all
from calibrail.errors import DataError
from calibrail.options.data import judge_of
from tests.data.traces import shapes
from tests.data.traces.shapes import BAD, CONTEXTS, GOOD, QUESTION, ROWS

#: The format, whether contexts come as one text, and the options that give labels.
READ_AS: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "spans_sdk": ("spans", False, {}),
    "spans_otlp": ("spans", False, {}),
    "spans_phoenix": ("spans", False, {}),
    "langfuse": ("langfuse", False, {}),
    "langsmith": ("langsmith", False, {}),
    "promptfoo": ("promptfoo", False, {}),
    "deepeval": ("deepeval", False, {"label_column": "verdict"}),
    "trulens": ("trulens", False, {}),
    "mlflow": ("mlflow", False, {}),
    "label_studio": ("label_studio", False, {}),
    "argilla": ("argilla", True, {}),
    "argilla_flat": ("argilla", True, {}),
}
#: Those in which no person said anything.
UNLABELLED = {"spans_sdk", "spans_otlp", "spans_phoenix", "langsmith", "trulens"}


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def table(path: Path, rows: list[Any]) -> Path:
    """Write rows as a table, whose objects and lists are JSON text, as tools write them."""
    names = dict.fromkeys(name for row in rows for name in row)
    cells = [
        {
            name: json.dumps(value) if isinstance(value := row.get(name), dict | list) else value
            for name in names
        }
        for row in rows
    ]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(cells), path)
        return path
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(names))
        writer.writeheader()
        writer.writerows(cells)
    return path


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kind", ["lines", "array", "pretty", "csv", "parquet", "memory"])
def test_an_export_is_known_and_read_without_a_flag(tmp_path: Path, name: str, kind: str) -> None:
    rows = ROWS[name]
    format, one_text, how = READ_AS[name]
    source: Any = tmp_path / "export.json"
    if kind == "memory":
        source = rows
    elif kind in ("csv", "parquet") and name not in ("promptfoo", "deepeval"):
        source = table(tmp_path / f"export.{kind}", rows)
    elif kind == "lines" and len(rows) > 1:
        write(source, rows)
    else:
        whole = rows[0] if len(rows) == 1 else rows
        source.write_text(json.dumps(whole, indent=2 if kind == "pretty" else None))
    if name in ("promptfoo", "deepeval") and kind == "memory":
        source = rows[0]["results"]["results"] if name == "promptfoo" else rows[0]["testCases"]
    labelled = name not in UNLABELLED
    examples, reading = read_all(source, strict=True, labelled=labelled, **how)
    assert reading.format == format
    contexts = ("\n".join(CONTEXTS),) if one_text else CONTEXTS
    assert [(e.question, e.contexts, e.response, e.label) for e in examples] == [
        (QUESTION, contexts, answer, label if labelled else None)
        for label, answer in enumerate([GOOD, BAD])
    ]
    notes: Any = reading.how()["export"]
    assert (notes["tool"], notes["n_answers"], notes["left_out"]) == (format, 2, {})
    json.dumps(notes)


@pytest.mark.parametrize("name", [name for name in sorted(UNLABELLED) if name != "spans_sdk"])
def test_what_a_program_said_is_no_label_until_it_is_named(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "export.jsonl", ROWS[name])
    with pytest.raises(DataError, match=r"no label that a person gave.*label_column='score\."):
        read(path)
    column = {
        "spans_otlp": "score.Groundedness",
        "spans_phoenix": "score.Hallucination",
        "langsmith": "score.correctness",
        "trulens": "score.Groundedness",
    }[name]
    scored = [e.columns[column] for e in read(path, labelled=False, keep=(column,))]
    assert scored == [{"spans_otlp": 0.25, "spans_phoenix": 1.0}.get(name, 0.5)] * 2
    if name == "spans_phoenix":
        taken = read(path, label_column=f"{column}.label")
        assert [e.label for e in taken] == [1, 1]
        # Named as the truth it is still the tool's judge that gave it.
        assert judge_of(taken.how()) == f"{column}.label"
    if name == "langsmith":
        taken = read(path, label_column="score.kind.votes", positive="bad")
        assert [e.label for e in taken] == [0, 0]


def test_a_judge_beside_people_is_a_score(tmp_path: Path) -> None:
    for name, column in {
        "langfuse": "score.hallucination",
        "promptfoo": "score.llm-rubric",
        "mlflow": "score.groundedness",
        "label_studio": "score.verdict",
        "argilla": "score.verdict",
        "argilla_flat": "score.verdict",
    }.items():
        path = write(tmp_path / f"{name}.jsonl", ROWS[name])
        if name == "promptfoo":
            path = path.rename(path.with_suffix(".json"))
        reading = read(path, keep=(column,))
        assert len([e.columns[column] for e in reading]) == 2
        assert reading.columns.label_columns[0].startswith("annotation.")


def test_the_parts_of_a_langfuse_export_are_read_together(tmp_path: Path) -> None:
    files = [shapes.langfuse_files("t1", GOOD, "pass"), shapes.langfuse_files("t2", BAD, "fail")]
    for order in (["observations", "scores", "traces"], ["scores", "traces", "observations"]):
        folder = tmp_path / order[0]
        folder.mkdir()
        for i, name in enumerate(order):
            write(folder / f"{i}_{name}.jsonl", [row for file in files for row in file[name]])
        examples, reading = read_all(folder, strict=True)
        assert [(e.contexts, e.response, e.label, e.group) for e in examples] == [
            (CONTEXTS, GOOD, 0, "s"),
            (CONTEXTS, BAD, 1, "s"),
        ]
        assert reading.how()["export"]["n_parts"] == 6  # type: ignore[index]
    # By themselves they are scores and labels of what is not there.
    alone = read(folder / "0_scores.jsonl", require=())
    assert [(e.id, e.response, e.label) for e in alone] == [("t1", "", 0), ("t2", "", 1)]


def test_a_langfuse_trace_needs_no_user_and_no_session(tmp_path: Path) -> None:
    about = {"name": "rag", "metadata": {}, "tags": [], "release": None, "environment": "default"}
    trace = {"id": "t1", "timestamp": "2026-01-01T00:00:00Z", "input": {"question": "Who?"}}
    path = write(tmp_path / "a.jsonl", [{**trace, "output": "She.", **about}])
    opened = read(path, labelled=False, require=())
    assert opened.how()["export"]["tool"] == "langfuse"  # type: ignore[index]
    assert [(example.question, example.response) for example in opened] == [("Who?", "She.")]


def test_a_thumb_up_is_not_taken_for_a_hallucination(tmp_path: Path) -> None:
    trace = shapes.langfuse_trace("t1", GOOD, "x")
    trace["scores"] = [{"name": "thumb", "source": "ANNOTATION", "value": 1, "traceId": "t1"}]
    path = write(tmp_path / "a.jsonl", [trace])
    with pytest.raises(DataError, match=r"annotation.thumb, and its name does not say"):
        list(read(path))
    with pytest.raises(DataError, match=r"1 in a column 'annotation.thumb' can mean either"):
        list(read(path, label_column="annotation.thumb"))
    thumbs = read(path, label_column="annotation.thumb", positive=0)
    assert [e.label for e in thumbs] == [0]
    trace["scores"][0]["name"] = "faithfulness"
    assert [e.label for e in read(write(path, [trace]))] == [0]


def test_several_annotations_are_never_chosen_between(tmp_path: Path) -> None:
    trace = shapes.langfuse_trace("t1", GOOD, "faithful")
    second = {"name": "tone", "source": "ANNOTATION", "value": 5, "traceId": "t1"}
    trace["scores"].append(second)
    path = write(tmp_path / "a.jsonl", [trace])
    with pytest.raises(DataError, match=r"several labels: annotation\.verdict, annotation\.tone"):
        read(path)
    assert [e.label for e in read(path, label_column="annotation.verdict")] == [0]
    # One whose name speaks of faithfulness goes first.
    trace["scores"][-1] = second | {"name": "is_faithful", "value": 0}
    assert [e.label for e in read(write(path, [trace]))] == [1]


def test_a_label_far_into_an_export_is_found(tmp_path: Path) -> None:
    traces = [shapes.langfuse_trace(f"t{i}", GOOD, "x") | {"scores": []} for i in range(300)]
    traces[250] = shapes.langfuse_trace("t250", BAD, "hallucinated")
    reading = read(write(tmp_path / "a.jsonl", traces))
    assert [(e.id, e.label) for e in reading] == [("t250", 1)]
    assert reading.reasons == {("label", "missing"): 299}


def test_annotators_of_label_studio_s_flat_exports_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "result.csv"
    path.write_text(
        "annotation_id,annotator,contexts,created_at,id,lead_time,question,response,verdict\n"
        '10,u0,"[""c1"",""c2""]",x,1,3.2,q1,r1,Hallucinated\n'
        '20,u0,"[""c1""]",x,2,3.2,q2,r2,Faithful\n'
        '21,u1,"[""c1""]",y,2,4.2,q2,r2,Hallucinated\n'
        '22,u2,"[""c1""]",z,2,5.2,q2,r2,Hallucinated\n'
        ',,"[""c1""]",,3,,q3,r3,\n'
    )
    reading = read(path, label_column="verdict")
    assert [(e.id, e.contexts, e.label) for e in reading] == [
        ("1", ("c1", "c2"), 1),
        ("2", ("c1",), 1),
    ]
    assert reading.reasons == {("label", "missing"): 1}
    assert reading.how()["labels"]["several"]["n"] == 1  # type: ignore[index]
    assert [e.label for e in read(path, label_column="verdict", annotators="all")] == [1, 0]


def test_a_trace_of_mlflow_in_a_file_of_its_own(tmp_path: Path) -> None:
    row = shapes.mlflow_row("t1", GOOD, True)
    info = {key: row.pop(key) for key in ("trace_id", "assessments", "trace_metadata")}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"info": info, "data": {"spans": row["spans"]}}, indent=2))
    (example,) = read(path, strict=True)
    assert (example.question, example.contexts, example.response) == (QUESTION, CONTEXTS, GOOD)
    assert (example.id, example.label, example.group) == ("t1", 0, "s")


def test_a_download_of_one_langfuse_trace(tmp_path: Path) -> None:
    whole = shapes.langfuse_trace("t1", BAD, "hallucinated")
    observations = whole.pop("observations")
    path = tmp_path / "trace-t1.json"
    path.write_text(json.dumps({"trace": whole, "observations": observations}, indent=2))
    (example,) = read(path, strict=True)
    assert (example.contexts, example.response, example.label) == (CONTEXTS, BAD, 1)


def test_runs_of_langsmith_itself(tmp_path: Path) -> None:
    trees = pytest.importorskip("langsmith.run_trees")
    root = trees.RunTree(name="rag", run_type="chain", inputs={"question": QUESTION})
    find = root.create_child("find", run_type="retriever", inputs={"query": QUESTION})
    documents = [{"page_content": text, "type": "Document"} for text in CONTEXTS]
    find.end(outputs={"documents": documents})
    model = root.create_child("model", run_type="llm", inputs={"messages": []})
    model.end(outputs={"choices": [{"message": {"role": "assistant", "content": GOOD}}]})
    root.end(outputs={})
    left_out = {"client", "child_runs", "parent_run", "ls_client"}
    runs = [json.loads(run.model_dump_json(exclude=left_out)) for run in (model, find, root)]
    (example,) = read(write(tmp_path / "runs.jsonl", runs), labelled=False)
    assert (example.question, example.contexts, example.response) == (QUESTION, CONTEXTS, GOOD)


def test_a_map_takes_an_export_as_the_table_that_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ROWS["mlflow"])
    reading = read(path, mapping={"response": "response"}, labelled=False, require=("response",))
    assert [e.response for e in reading] == [GOOD, BAD]
    assert reading.format == "jsonl"
    named = read(path, format="mlflow", mapping={"question": "response"}, strict=True)
    assert [e.question for e in named] == [GOOD, BAD]


def test_who_says_a_thing_twice_has_one_vote(tmp_path: Path) -> None:
    trace = shapes.langfuse_trace("t1", GOOD, "x")

    def score(id: str, who: str, value: int) -> dict[str, object]:
        about = {"name": "hallucination", "source": "ANNOTATION", "traceId": "t1"}
        return {"id": id, "authorUserId": who, "value": value, **about}

    trace["scores"] = [score("1", "ann", 1), score("2", "bob", 0), score("3", "eve", 0)]
    write(tmp_path / "a.jsonl", [trace])
    again = [score("1", "ann", 1), score("1", "ann", 1)]
    write(tmp_path / "b.jsonl", again)
    assert [e.label for e in read([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])] == [0]


def test_what_is_said_of_a_retriever_is_no_label(tmp_path: Path) -> None:
    trace = shapes.langfuse_trace("t1", GOOD, "x")
    found = next(item for item in trace["observations"] if item.get("type") == "RETRIEVER")
    about = {"name": "hallucination", "source": "ANNOTATION", "traceId": "t1", "value": 1}
    trace["scores"] = [{"id": "1", "observationId": found["id"], **about}]
    reading = read(write(tmp_path / "a.jsonl", [trace]), labelled=False)
    assert [example.label for example in reading] == [None]


def test_a_label_about_something_else_is_asked_for(tmp_path: Path) -> None:
    trace = shapes.langfuse_trace("t1", GOOD, "x")
    about = {"source": "ANNOTATION", "traceId": "t1", "dataType": "CATEGORICAL"}
    trace["scores"] = [{"name": "tone", "stringValue": "fail", **about}]
    path = write(tmp_path / "a.jsonl", [trace])
    with pytest.raises(DataError, match=r"annotation\.tone, and its name does not say"):
        list(read(path))
    assert [e.label for e in read(path, label_column="annotation.tone")] == [1]


@pytest.mark.parametrize("regions", [1, 4], ids=["choices", "regions"])
def test_an_annotator_has_one_vote_however_much_was_chosen(tmp_path: Path, regions: int) -> None:
    def annotation(*chosen: str) -> dict[str, object]:
        parts = [chosen] if regions == 1 else [[item] for item in chosen]
        result = [{"from_name": "verdict", "value": {"choices": list(part)}} for part in parts]
        return {"result": result}

    task = {"id": 1, "data": {"question": "q", "context": "c", "response": "r"}}
    many = annotation("unsupported", "contradiction", "inaccurate")
    task["annotations"] = [many, annotation("faithful"), annotation("faithful")]
    assert [e.label for e in read(write(tmp_path / "a.jsonl", [task]))] == [0]


def test_tests_of_several_promptfoo_files_are_one_case_where_they_ask_the_same(
    tmp_path: Path,
) -> None:
    def result(question: str) -> dict[str, object]:
        held = {"question": question, "context": "c"}
        return {"testIdx": 0, "vars": held, "response": {"output": "r"}, "gradingResult": None}

    for name, questions in (("a", ("one", "one")), ("b", ("two", "one"))):
        rows = [{**result(question), "id": f"{name}{i}"} for i, question in enumerate(questions)]
        write(tmp_path / f"{name}.jsonl", rows)
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    one, again, two, third = (example.group for example in read(files, labelled=False))
    assert one == again == third != two


def test_what_a_promptfoo_test_says_beside_its_variables_may_be_its_label(tmp_path: Path) -> None:
    rows = [
        {
            "vars": {"question": f"q{n}", "context": "c"},
            "testCase": {"metadata": {"hallucinated": bool(n % 2)}},
            "response": {"output": f"r{n}"},
            "gradingResult": {"score": 0.5},
        }
        for n in range(6)
    ]
    path = write(tmp_path / "results.jsonl", rows)
    assert [(e.question, e.label) for e in read(path)] == [(f"q{n}", n % 2) for n in range(6)]


def test_an_answer_with_its_sources_and_annotations_is_one_row_of_spans(tmp_path: Path) -> None:
    """A frame of spans that holds what people annotated, in words before numbers."""
    documents = json.dumps([{"document.content": CONTEXTS[0]}])
    rows = [
        {
            "context.span_id": f"s{n}",
            "attributes.input.value": QUESTION,
            "attributes.output.value": BAD if bad else GOOD,
            "attributes.retrieval.documents": documents,
            "annotation.human.label": ("factual", "hallucinated")[bad],
            "annotation.human.score": 1 - bad,
            "annotation.rating.label": None,
            "annotation.rating.score": 3,
        }
        for n in range(6)
        for bad in (int(n % 2 == 0),)
    ]
    named = {"label_column": "annotation.human", "keep": ("annotation.rating",)}
    answers = list(read(write(tmp_path / "spans.jsonl", rows), **named))
    assert [answer.label for answer in answers] == [1, 0] * 3
    assert answers[0].contexts == (CONTEXTS[0],)
    assert answers[0].columns["annotation.rating"] == 3


def test_what_users_said_of_a_run_is_theirs(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"r{n}",
            "run_type": "chain",
            "inputs": {"question": QUESTION},
            "outputs": {"output": f"{GOOD} {n}"},
            "feedback_stats": {
                "faithfulness": {"n": 1, "avg": 0.5},
                "user_correct": {"n": 1, "avg": float(n % 2)},
            },
        }
        for n in range(6)
    ]
    answers, _ = read_all(write(tmp_path / "runs.jsonl", rows), require=("response",))
    assert [answer.label for answer in answers] == [1, 0] * 3
