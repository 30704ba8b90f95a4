from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.text.claims import claims
from calibrail.text.sentences import sentences

PIECES = (
    "Sure!|The lake is deep|, and |the river is wide.|The parts are:| |\n|\n  - |\n* |\n1. |?|\n## "
)
PIECES += (
    "|**Bold**|Based on the given passages,|The passages do not mention it.|Here is it:|Answer: "
)
ragged = st.lists(st.sampled_from(PIECES.split("|")), max_size=30).map("".join)


def texts(text: str) -> list[str]:
    return [claim.text for claim in claims(text)]


def led(text: str) -> list[tuple[str, str]]:
    return [(claim.lead, claim.text) for claim in claims(text)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Sure!",
        "Great question!",
        "Hello there!",
        "Thank you for asking.",
        "I hope this helps!",
        "Let me know if you have any other questions.",
        "If you have any further questions, please let me know!",
        "I'd be happy to help you with that.",
        "Here is the answer.",
        "Here is the answer:",
        "Based on the given passages, here\u2019s how it works:",
        "The parts are as follows:**",
        "Who built it?",
        '"Who built it?"',
        "\u8c01\uff1f",
        "",
    ],
)
def test_what_states_nothing_is_no_claim(sentence: str) -> None:
    assert texts(sentence) == []
    assert texts(f"It is deep.\n{sentence}\nIt is old.") == ["It is deep.", "It is old."]


@pytest.mark.parametrize(
    "sentence",
    [
        "Yes.",
        "Paris",
        "39,134",
        "He asked who built it.",
        'It is called "Who?", and nothing else.',
        "Surely it is deep.",
        "I hope that day was long ago.",
        "\u706f\u5854\u5f88\u9ad8\u3002",
    ],
)
def test_other_sentences_are_claims_as_they_are(sentence: str) -> None:
    assert texts(sentence) == [sentence]


@pytest.mark.parametrize(
    "opening",
    [
        "Based on the given passages, ",
        "Therefore, based on the passages provided, ",
        "According to passage 2: ",
        "According to passages 1 and 2, ",
        "Sure, ",
        "Answer: ",
        "A: ",
        "Here is how it works: ",
        "Based on these passages, here's the answer: ",
    ],
)
def test_what_only_opens_a_statement_is_cut_off(opening: str) -> None:
    assert texts(f"{opening}it is deep.") == ["it is deep."]


def test_an_opening_with_nothing_behind_it_stays() -> None:
    assert texts("Based on the given passages, ...") == ["Based on the given passages, ..."]


def test_sentences_are_split_into_clauses() -> None:
    assert texts("Overall, it is deep. It was built in 1853, and its tower is high.") == [
        "Overall, it is deep.",
        "It was built in 1853",
        "its tower is high.",
    ]


def test_list_items_carry_what_introduces_them() -> None:
    text = "Based on the passages, the parts are:\n\n1. A lamp. It is red.\n2. A door\n\nIt is old."
    lead = "the parts are:"
    assert led(text) == [
        (lead, "A lamp."),
        (lead, "It is red."),
        (lead, "A door"),
        ("", "It is old."),
    ]


def test_lists_in_lists() -> None:
    text = "It has:\n* Parts:\n  + a lamp\n  + a door\n* a keeper\n\nOthers have:\n- a horn"
    assert led(text) == [
        ("It has: Parts:", "a lamp"),
        ("It has: Parts:", "a door"),
        ("It has:", "a keeper"),
        ("Others have:", "a horn"),
    ]


def test_a_list_under_nothing_has_no_lead() -> None:
    assert led("The parts are:\n  It is deep.") == [("", "It is deep.")]
    assert led("It is deep.\n* a lamp") == [("", "It is deep."), ("", "a lamp")]


def test_headings_introduce_what_is_below() -> None:
    assert led("## Parts\n* a lamp\n**More**\n* a door") == [
        ("Parts", "a lamp"),
        ("**More**", "a door"),
    ]
    assert led("## Parts") == [("", "Parts")]
    assert led("**Paris**\nIt is old.") == [("", "**Paris**"), ("", "It is old.")]


def test_where_something_was_found_is_no_lead() -> None:
    text = "The parts are:\n\nPassage 1:\n* a lamp\nPassage 2 (Red):\n* a door"
    assert led(text) == [("The parts are:", "a lamp"), ("The parts are:", "a door")]


def test_a_very_long_line_is_no_lead() -> None:
    assert led(f"{'word ' * 100}:\n* a lamp") == [("", "a lamp")]


def test_abstentions_are_marked_not_dropped() -> None:
    text = "It is deep, but the passages do not mention its age. Unable to answer."
    assert [(claim.text, claim.abstains) for claim in claims(text)] == [
        ("It is deep", False),
        ("the passages do not mention its age.", True),
        ("Unable to answer.", True),
    ]


def test_what_an_abstention_lists_is_abstained_from() -> None:
    text = "It is old. The passages do not mention:\n* its age\n* its keeper\n\nIt is deep."
    assert [claim.abstains for claim in claims(text)] == [False, True, True, True, False]


@given(st.one_of(st.text(st.characters()), ragged))
def test_offsets(text: str) -> None:
    end = 0
    for claim in claims(text):
        assert end <= claim.start < claim.end <= len(text)
        assert claim.text == text[claim.start : claim.end] == claim.text.strip()
        assert any(letter.isalnum() for letter in claim.text)
        assert len(claim.text.splitlines()) == 1
        end = claim.end


@given(st.one_of(st.text(st.characters()), ragged))
def test_a_claim_lies_in_one_sentence_or_ends_its_line(text: str) -> None:
    whole = sentences(text)
    for claim in claims(text):
        assert any(s.start <= claim.start < s.end for s in whole)
        inside = any(s.start <= claim.start and claim.end <= s.end for s in whole)
        assert (
            inside
            or text[claim.end - 1] == ":"
            or not text[claim.end :].splitlines()[:1]
            or (text[claim.end] in "\n\r")
        )
