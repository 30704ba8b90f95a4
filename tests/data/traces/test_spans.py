"""Which spans make one answer, in any order, and what becomes of those that make none?"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from calibrail import diagnose
from calibrail.data import read
from calibrail.data.traces._spans import Span, answer_of
from calibrail.errors import DataError
from tests.data.traces.shapes import BAD, CONTEXTS, GOOD, QUESTION, sdk_spans


def span(id: str, parent: str | None = None, kind: Any = "other", **values: Any) -> Span:
    return Span("t", id, parent, kind, start=id, **values)


def test_the_outermost_step_that_says_something_speaks() -> None:
    chain = span("2", "1", question="q", response="final")
    inner = span("3", "2", "llm", question="long prompt with q", response="draft")
    assert answer_of([inner, chain, span("1")]) == {
        "id": "t",
        "question": "q",
        "contexts": None,
        "response": "final",
    }
    # Of several models side by side the last one gives the answer.
    models = [span(f"{i}", "1", "llm", question=f"q{i}", response=f"r{i}") for i in (2, 3, 4)]
    tool = span("5", "1", "aside", response="a tool's")
    made = answer_of([tool, *models, span("1")])
    assert made is not None and (made["question"], made["response"]) == ("q2", "r4")


def test_a_reranker_decides_what_the_model_was_given() -> None:
    found = [span("2", "1", "retriever", documents=["a", "b"]), span("3", "1", "retriever")]
    found[1].documents = ["b", "c"]
    root = span("1", response="r")
    made = answer_of([*found, root])
    assert made is not None and made["contexts"] == ["a", "b", "c"]
    made = answer_of([*found, span("4", "1", "reranker", documents=["c"]), root])
    assert made is not None and made["contexts"] == ["c"]
    # A retriever that found nothing is no missing retriever.
    made = answer_of([span("2", "1", "retriever"), root])
    assert made is not None and made["contexts"] == []


def test_spans_around_each_other_end() -> None:
    made = answer_of([span("1", "2", response="a"), span("2", "1", question="q")])
    assert made is not None and (made["question"], made["response"]) == ("q", "a")
    deep = [span(f"{i:06}", f"{i - 1:06}") for i in range(1, 20_000)]
    made = answer_of([*reversed(deep), span("000000", response="r")])
    assert made is not None and made["response"] == "r"


def test_the_order_of_spans_makes_no_difference() -> None:
    rows = [row for i in range(40) for row in sdk_spans(f"t{i}", [GOOD, BAD][i % 2])]
    expected = {e.id: (e.question, e.contexts, e.response) for e in read(rows, labelled=False)}
    assert expected["t1"] == (QUESTION, CONTEXTS, BAD)
    random.Random(0).shuffle(rows)
    assert {
        e.id: (e.question, e.contexts, e.response) for e in read(rows, labelled=False)
    } == expected


def test_what_made_no_answer_is_counted() -> None:
    rows = sdk_spans("t1", GOOD) + [
        row | {"attributes": {"openinference.span.kind": "CHAIN"}} for row in sdk_spans("t2", BAD)
    ]
    reading = read(rows, labelled=False)
    assert [e.id for e in reading] == ["t1"]
    assert reading.filtered == {"a trace without an answer": 1}
    notes: Any = reading.how()["export"]
    assert (notes["n_parts"], notes["n_answers"]) == (10, 1)
    assert notes["left_out"] == {"a trace without an answer": 1}


def test_the_system_s_message_can_be_named_as_the_contexts() -> None:
    rows = [row for row in sdk_spans("t1", GOOD) if "find" not in row["name"]]
    with pytest.raises(DataError, match="contexts: missing"):
        list(read(rows, labelled=False))
    named = read(rows, labelled=False, format="spans", mapping={"contexts": "system"})
    assert [e.contexts for e in named] == [("Be brief.",)]


def test_the_words_of_openllmetry() -> None:
    attributes = {
        "gen_ai.request.model": "m",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": QUESTION,
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": GOOD,
    }
    row = {"trace_id": "t", "span_id": "s", "attributes": attributes}
    (example,) = read([row], labelled=False, require=("response",))
    assert (example.question, example.response, example.id) == (QUESTION, GOOD, "t")


def test_annotations_of_people_join_their_spans() -> None:
    rows = sdk_spans("t1", GOOD) + sdk_spans("t2", BAD)
    said = [("t1-model", "HUMAN", "factual"), ("t2-chain", "HUMAN", "hallucinated")]
    said += [("t1-model", "LLM", "hallucinated"), ("t2-chain", "LLM", "factual")]
    notes = [
        {"span_id": span, "annotation_name": "truth", "annotator_kind": kind, "label": label}
        for span, kind, label in said
    ]
    for order in (rows + notes, notes + rows):
        reading = read(order, keep=("score.truth",), strict=True)
        assert [(e.label, e.columns["score.truth"]) for e in reading] == [
            (0, "hallucinated"),
            (1, "factual"),
        ]


def test_an_annotation_with_an_empty_result_says_nothing() -> None:
    note = {"span_id": "t1-model", "name": "truth", "annotator_kind": "HUMAN", "label": "factual"}
    rows = sdk_spans("t1", GOOD)
    assert [e.label for e in read([*rows, note], strict=True)] == [0]
    said = note | {"result": {"label": "hallucinated"}}
    assert [e.label for e in read([*rows, said], strict=True)] == [1]
    assert [e.label for e in read([*rows, note | {"result": {}}], labelled=False)] == [None]


def test_spans_of_the_sdk_itself() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    spans_made, provider = memory.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(spans_made))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("rag") as root:
        root.set_attribute("input.value", json.dumps({"question": QUESTION}))
        with tracer.start_as_current_span("find") as find:
            for i, text in enumerate(CONTEXTS):
                find.set_attribute(f"retrieval.documents.{i}.document.content", text)
        with tracer.start_as_current_span("chat") as chat:
            chat.set_attribute("gen_ai.operation.name", "chat")
            said = [{"role": "assistant", "parts": [{"type": "text", "content": GOOD}]}]
            chat.set_attribute("gen_ai.output.messages", json.dumps(said))
            values = {
                "gen_ai.evaluation.name": "calibrail",
                "gen_ai.evaluation.score.value": 0.125,
            }
            chat.add_event("gen_ai.evaluation.result", values)
    rows = [json.loads(item.to_json()) for item in spans_made.get_finished_spans()]
    (example,) = read(rows, labelled=False, keep=("score.calibrail",))
    assert (example.question, example.contexts, example.response) == (QUESTION, CONTEXTS, GOOD)
    assert example.columns == {"score.calibrail": 0.125}


def test_two_turns_of_a_trace_are_two_answers_of_one_group() -> None:
    def turn(number: int) -> list[dict[str, Any]]:
        def one(id: str, parent: str | None, attributes: dict[str, Any]) -> dict[str, Any]:
            return {
                "context": {"trace_id": "t", "span_id": f"{id}{number}"},
                "parent_id": parent and f"{parent}{number}",
                "start_time": f"2026-11-22T22:50:3{number}.00000{0 if parent is None else 1}Z",
                "attributes": attributes,
            }

        chunk = {"openinference.span.kind": "RETRIEVER"}
        chunk["retrieval.documents.0.document.content"] = f"Source {number}."
        asked = {"openinference.span.kind": "CHAIN", "input.value": f"Question {number}?"}
        return [
            one("root", None, {**asked, "output.value": f"Answer {number}."}),
            one("found", "root", chunk),
        ]

    examples = list(read([*turn(1), *turn(2)], labelled=False))
    assert [(e.id, e.group) for e in examples] == [("t#1", "t"), ("t#2", "t")]
    for number, example in enumerate(examples, 1):
        assert (example.question, example.response) == (
            f"Question {number}?",
            f"Answer {number}.",
        )
        assert example.contexts == (f"Source {number}.",)


def test_no_column_is_suggested_that_holds_nothing() -> None:
    spoken = {"openinference.span.kind": "LLM", "input.value": QUESTION, "output.value": GOOD}
    rows = [
        {"context": {"trace_id": f"t{i}", "span_id": "1"}, "parent_id": None, "attributes": spoken}
        for i in range(3)
    ]
    assert not any("contexts=contexts" in word for word in diagnose(rows).suggested)
