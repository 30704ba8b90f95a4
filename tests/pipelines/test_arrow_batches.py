from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import calibrail
from calibrail.data import Example
from calibrail.errors import DataError, InputError
from calibrail.pipelines.check import BatchChecker, BatchScorer

ANSWERS = [
    Example("Where?", ("The Rhine rises in the Alps.",), "It rises in the Alps.", id="a"),
    Example("Where?", ("The Rhine rises in the Alps.", "It is long."), "In Spain.", id="b"),
    Example("Where?", ("The Rhine rises in the Alps.",), "", id="c"),
]


def batch(answers: list[Example] = ANSWERS, **columns: list[object]) -> pa.RecordBatch:
    fields = ("id", "question", "response")
    arrays = {name: [getattr(item, name) for item in answers] for name in fields}
    contexts = [list(item.contexts) for item in answers]
    return pa.record_batch({**arrays, "contexts": contexts, **columns})


def n_words(example: Example) -> float:
    return float(example.columns["weight"]) * len(example.response.split())


@pytest.fixture(scope="module")
def guardrail() -> calibrail.Guardrail:
    return calibrail.calibrate("example:facts", "rouge_l", alpha=0.1).freeze()


def test_a_batch_has_the_scores_that_each_answer_has_by_itself() -> None:
    scorer = pickle.loads(pickle.dumps(BatchScorer("novelty,rouge_l")))
    scored = scorer(batch())
    assert isinstance(scored, pa.RecordBatch)
    assert scored.schema == scorer.schema
    assert scored["id"].to_pylist() == ["a", "b", "c"]
    for row, answer in enumerate(ANSWERS):
        alone = scorer(batch([answer])).to_pylist()[0]
        assert scored.to_pylist()[row] == alone
    assert scored["novelty"].to_pylist()[2] is None
    assert scored["novelty__reason"].to_pylist() == [None, None, "the response is empty"]


def test_a_batch_has_the_decisions_of_check(guardrail: calibrail.Guardrail) -> None:
    checker = pickle.loads(pickle.dumps(BatchChecker(guardrail)))
    decided = checker(pa.table(batch()))
    assert isinstance(decided, pa.Table)
    for row, answer in zip(decided.to_pylist(), ANSWERS, strict=True):
        decision = guardrail.decide([answer])[0].to_dict()
        assert row == {name: decision[name] for name in row}


def test_a_guardrail_by_its_file_decides_alike(
    guardrail: calibrail.Guardrail, tmp_path: Path
) -> None:
    guardrail.save(tmp_path / "g.json")
    assert BatchChecker(tmp_path / "g.json")(batch()).equals(BatchChecker(guardrail)(batch()))


def test_one_text_is_one_context_and_no_row_is_no_decision(guardrail: calibrail.Guardrail) -> None:
    one = pa.record_batch({"contexts": ["The Rhine is long."], "response": ["The Rhine is short."]})
    several = pa.record_batch(
        {"contexts": [["The Rhine is long."]], "response": ["The Rhine is short."]}
    )
    assert BatchChecker(guardrail)(one).equals(BatchChecker(guardrail)(several))
    assert BatchChecker(guardrail)(one.slice(0, 0)).num_rows == 0
    assert BatchScorer("novelty")(one.slice(0, 0)).num_rows == 0


def test_a_detector_of_ones_own_reads_columns_by_its_name() -> None:
    scorer = BatchScorer("tests.pipelines.test_arrow_batches:n_words")
    (key,) = [name for name in scorer.schema.names if name not in ("id",)][:1]
    assert scorer(batch(weight=[1.0, 2.0, 3.0]))[key].to_pylist() == [5.0, 4.0, 0.0]


def test_a_missing_column_is_named() -> None:
    lacking = pa.record_batch({"response": ["yes"], "passages": ["no"]})
    with pytest.raises(DataError, match="no column contexts; it has response, passages"):
        BatchScorer("novelty")(lacking)


def test_what_no_other_process_could_compute_is_refused() -> None:
    with pytest.warns(UserWarning), pytest.raises(InputError, match="module:name"):
        BatchScorer(lambda example: 1.0)
    with pytest.raises(InputError, match="asks an endpoint"):
        BatchScorer("judge:model=some@http://localhost:1/v1")


def test_spark_is_told_the_types() -> None:
    assert BatchChecker.schema.names[0] == "id"
    assert BatchScorer("rad").spark_schema == "`id` string, `rad` double, `rad__reason` string"


def test_a_guardrail_of_sentences_gives_what_may_be_shown() -> None:
    from tests.guardrail.sentences import by_sentence_of_words
    from tests.guardrail.test_sentences import columns_guardrail

    guardrail = by_sentence_of_words()
    texts = [
        "Tungsten is a metal. However, basalt hums loudly.",
        "Basalt hums loudly. The latter is.",
    ]
    given = pa.record_batch({"contexts": [["Tungsten is a metal."]] * 2, "response": texts})
    checker = pickle.loads(pickle.dumps(BatchChecker(guardrail)))
    table = checker(given)
    assert table["text"].to_pylist() == ["Tungsten is a metal.", None]
    assert table["outcome"].to_pylist() == ["flag", "review"]
    (item,) = json.loads(table["removed"].to_pylist()[0])
    assert texts[0][item["start"] : item["end"]] == item["text"] == "However, basalt hums loudly."
    assert "`text` string, `removed` string" in checker.spark_schema
    assert "text" not in BatchChecker.schema.names
    # A list column has a number for each sentence.
    cells = pa.record_batch({"response": ["It is. It was."], "nli": [[1.0, 149.0]]})
    assert BatchChecker(columns_guardrail())(cells)["text"].to_pylist() == ["It is."]
