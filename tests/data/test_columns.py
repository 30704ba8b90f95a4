"""Are the field names of other tools understood, and only when there is no doubt?"""

from __future__ import annotations

from typing import Any

import pytest

from calibrail.data import read
from calibrail.data.aliases import PRESETS, resolve_columns
from calibrail.errors import DataError, InputError
from tests.rows import Write, good


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("named", [False, True])
def test_every_preset_is_read_by_name_and_by_guess(write: Write, preset: str, named: bool) -> None:
    question, contexts, response = PRESETS[preset]
    row = {question: "q", contexts: ["c", "d"], response: "r", "label": 0}
    (example,) = read(write(row), preset=preset if named else None)
    assert (example.question, example.contexts, example.response) == ("q", ("c", "d"), "r")


def test_a_single_string_is_one_context(write: Write) -> None:
    (example,) = read(write({"input": "q", "context": "[c]", "output": "r", "label": 0}))
    assert example.contexts == ("[c]",)


def test_mapping_overrides_single_fields(write: Write) -> None:
    row = {"question": "q", "docs": "c", "response": "r", "bad": 1, "label": 0}
    (example,) = read(write(row), mapping={"contexts": "docs", "label": "bad"})
    assert (example.contexts, example.label) == (("c",), 1)
    with pytest.raises(DataError, match="no column 'dcos' to map to contexts; it has question"):
        read(write(row), mapping={"contexts": "dcos"})
    with pytest.raises(InputError, match="mapping can name question, contexts"):
        read(write(row), mapping={"answer": "response"})


def test_what_cannot_be_guessed_is_named_alone_with_the_columns(write: Write) -> None:
    said = r"cannot tell which columns hold question, contexts \(found: response in 'answer'\)"
    with pytest.raises(DataError, match=rf"{said}\. Columns seen: ask, answer\..*ragas"):
        read(write({"ask": "q", "answer": "r"}))
    said = r"cannot tell which column holds response \(found: question in 'q', contexts in 'doc'\)"
    with pytest.raises(DataError, match=said):
        read(write({"q": "q", "doc": "c", "mine": "r"}), mapping={"question": "q"})
    with pytest.raises(DataError, match="response may be in any of the columns answer, summary"):
        read(write({"question": "q", "doc": "c", "answer": "r", "summary": "s"}))
    with pytest.raises(InputError, match="preset must be one of calibrail, ragas"):
        read(write({"prompt": "q"}), preset="other")


def test_two_presets_that_fit_alike_are_not_chosen_between() -> None:
    fields = ["user_input", "retrieved_contexts", "response", "input", "context", "output"]
    with pytest.raises(DataError, match=r"fit several presets .*choose one with preset="):
        resolve_columns(fields)
    assert resolve_columns([*fields, "question", "contexts"])["question"] == "question"
    assert resolve_columns(fields, preset="ragas")["question"] == "user_input"


def test_the_union_of_the_first_rows_decides(write: Write) -> None:
    rows = [
        "{",
        {"user_input": "q", "label": 1, "id": 1},
        {"user_input": "q", "retrieved_contexts": ["c"], "response": "r", "label": 1, "id": 2},
    ]
    reading = read(write(*rows))
    assert [e.id for e in reading] == ["2"]
    assert reading.n_quarantined == 2


@pytest.mark.parametrize(
    ("row", "read_as"),
    [
        (
            {"input": {"question": "q", "context": "c"}, "output": {"text": "r"}, "label": 1},
            {"question": "input.question", "contexts": "input.context", "response": "output"},
        ),
        (
            {"inputs": {"query": "q", "documents": [{"text": "c"}]}, "outputs": {"answer": "r"}}
            | {"annotation": {"label": 1, "by": "x"}},
            {"contexts": "inputs.documents", "response": "outputs.answer"}
            | {"label": "annotation.label"},
        ),
        (
            {"question": "q", "context": {"source": "url", "text": "c"}, "label": 1}
            | {"response": {"text": "r", "model": "m"}},
            {"question": "question", "contexts": "context", "response": "response"},
        ),
        (
            # What stands outside of objects wins.
            {"question": "q", "contexts": ["c"], "response": "r", "label": 1}
            | {"input": {"question": "other", "n": 1}, "meta": {"label": 0}},
            {"question": "question", "response": "response", "label": "label"},
        ),
    ],
)
def test_fields_in_objects_named_after_fields(
    write: Write, row: dict[str, Any], read_as: dict[str, str]
) -> None:
    reading = read(write(row), require=("response", "contexts"))
    (example,) = reading
    assert (example.question, example.contexts, example.response) == ("q", ("c",), "r")
    assert example.label == 1
    assert read_as.items() <= reading.columns.by_field.items()


def test_the_same_name_in_two_objects_is_not_chosen_between(write: Write) -> None:
    row = {"input": {"context": "c"}, "output": {"context": "d", "text": "r"}, "label": 1}
    with pytest.raises(DataError, match="cannot tell which column holds contexts"):
        read(write(row), require=("contexts",))


@pytest.mark.parametrize(
    "name", ["prediction", "Predicted Answer", "llm_response", "model_response"]
)
def test_an_answer_beside_a_prediction_is_not_taken_in_silence(name: str) -> None:
    rows = [
        good(id=i, response=..., answer="the right one", **{name: "Rome, said it"}) for i in (1, 2)
    ]
    with pytest.raises(DataError, match=f"response may be in '{name}', beside which 'answer' may"):
        list(read(rows))
    for column in (name, "answer"):
        read_as = [e.response for e in read(rows, mapping={"response": column})]
        assert read_as == [rows[0][column]] * 2
    # What a detector predicted is no answer, and a response is one whatever stands beside it.
    for value in (1, 0.3, "0.3", "faithful", "yes", None):
        judged = [{**row, name: value} for row in rows]
        assert [e.response for e in read(judged)] == ["the right one"] * 2
    beside = [{**row, "response": "what was said"} for row in rows]
    assert [e.response for e in read(beside)] == ["what was said"] * 2
