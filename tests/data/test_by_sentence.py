"""Are sentences of an answer examples with the right labels, texts and cells?"""

import pytest

from calibrail.data.by_sentence import sentence_examples
from calibrail.data.example import Example, GivenSentence

ANSWER = Example("q", ("c",), "It rained. The sun shone.", id="a", group="g", spans=((11, 18),))


def test_marks_become_labels_by_any_overlap_or_by_a_share() -> None:
    assert [item.label for item in sentence_examples(ANSWER)] == [0, 1]
    assert [item.label for item in sentence_examples(ANSWER, 0.5)] == [0, 1]
    assert [item.label for item in sentence_examples(ANSWER, 0.51)] == [0, 0]


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
