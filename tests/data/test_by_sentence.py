"""Are sentences of an answer examples with the right labels, texts and cells?"""

import pytest

from calibrail.data.example import Example, GivenSentence
from calibrail.data.reading import read
from calibrail.data.sentences import sentence_examples
from calibrail.errors import InputError
from calibrail.guardrail.sentences import sentences_to_judge
from calibrail.scores.registry import ColumnScore

ANSWER = Example("q", ("c",), "It rained. The sun shone.", id="a", group="g", spans=((11, 18),))


def test_marks_become_labels_by_any_overlap_or_by_a_share() -> None:
    assert [item.label for item in sentence_examples(ANSWER)] == [0, 1]
    assert [item.label for item in sentence_examples(ANSWER, 0.5)] == [0, 1]
    assert [item.label for item in sentence_examples(ANSWER, 0.55)] == [0, 0]


def test_sentences_keep_what_their_answer_was_asked_and_given() -> None:
    first, second = sentence_examples(ANSWER)
    assert (second.question, second.contexts, second.group) == ("q", ("c",), "g")
    assert (second.before, second.response) == ("It rained. ", "The sun shone.")
    assert first.digest() != second.digest()


@pytest.mark.parametrize(
    ("cell", "expected"), [("[1, null]", [1, None]), ("[1]", ["[1]", "[1]"]), (0.5, [0.5, 0.5])]
)
def test_a_list_gives_each_sentence_its_number(cell: object, expected: list[object]) -> None:
    answer = Example(response=ANSWER.response, columns={"nli": cell})  # type: ignore[dict-item]
    assert [item.columns["nli"] for item in sentence_examples(answer)] == expected


def test_the_data_s_own_sentences_are_taken() -> None:
    given = (GivenSentence(0, 10, 1, {"nli": 0.5}), GivenSentence(11, 25, None))
    answer = Example(response=ANSWER.response, sentences=given, spans=((11, 13),))
    found = sentence_examples(answer)
    assert [(item.label, item.columns.get("nli")) for item in found] == [(1, 0.5), (1, None)]


def test_a_mark_that_is_a_full_stop_too_wide_says_nothing_of_the_neighbour() -> None:
    wide = Example(response=ANSWER.response, spans=((9, 25),))
    assert [item.label for item in sentence_examples(wide)] == [0, 1]
    word = Example(response=ANSWER.response, spans=((8, 25),))
    assert [item.label for item in sentence_examples(word)] == [1, 1]


@pytest.mark.parametrize("bad", ["Infinity", "-Infinity", "NaN", '"0.7"', "true"])
def test_one_bad_number_leaves_its_sentence_alone_without_a_score(bad: str) -> None:
    answer = Example(response=ANSWER.response, columns={"nli": f"[0.5, {bad}]"})
    for sentences in (sentence_examples(answer), sentences_to_judge(answer, ["nli"])):
        first, second = map(ColumnScore(column="nli", higher="hallucinated").value, sentences)
        assert first == 0.5
        assert "number 2 of 2" in str(second)


@pytest.mark.parametrize("labelled", [True, False])
def test_labelled_data_sets_aside_what_check_makes_an_error(
    labelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"response": ANSWER.response, "label": 1, "spans": [[11, 18]], "nli": [0.5, 0.1]}
    wrong = row | {"nli": [0.5, 0.1, 0.2]}
    long = row | {"response": ANSWER.response * 9, "nli": None}
    monkeypatch.setattr("calibrail.data.sentences.MOST_BEFORE", 100)
    opened = read([row, wrong, long], keep=["nli"], require=(), labelled=labelled, by_sentence=True)
    assert len(list(opened)) == 1
    assert opened.reasons == {
        ("nli", "not one number for each sentence"): 1,
        ("response", "too long to judge by sentence"): 1,
    }
    with pytest.raises(InputError, match="holds 3 numbers, and the answer has 2 sentences"):
        sentences_to_judge(Example(response=ANSWER.response, columns={"nli": "[1, 2, 3]"}), ["nli"])
    with pytest.raises(InputError, match="too long to judge by sentence"):
        sentences_to_judge(Example(response=ANSWER.response * 9), [])


@pytest.mark.parametrize("spans", [[[0, 9]], []])
def test_labels_of_sentences_that_spans_contradict_are_set_aside(spans: list[list[int]]) -> None:
    texts = [{"text": "It rained.", "label": 0}, {"text": "The sun shone.", "label": 1}]
    row = {"response": ANSWER.response, "label": 1, "sentences": texts}
    rows = [row | {"spans": [[11, 24]]}, row | {"spans": spans}]
    opened = read(rows, require=(), by_sentence=True)
    assert len(list(opened)) == 1
    assert opened.reasons == {("sentences", "label and spans contradict"): 1}
