"""Are sentences the same, whichever way an answer comes in, and those that a whole text has?"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.data.reading import read
from calibrail.text.sentences import (
    LONGEST,
    WORD,
    Sentence,
    SentenceStream,
    answer_sentences,
    sentences,
)
from tests.steps import grows_with
from tests.text.test_sentences import anything

PIECES = [
    *("It rained", "the", "A", ". ", ".", "! ", "?", "... ", "\u2026", " ", "  ", "\t"),
    *("\n", "\r\n", "\r", "\u2028", "- ", "1. ", "2)", "# ", "\u2022", "\u2460", "1\u3001"),
    *("Dr. ", "e.g. ", "5 p.m. ", "U.S. ", "3.5", "2.", "(Passage 1)", "[1] ", "[2, 3].", "(", ")"),
    *("\u3002", "\u300d", "\u300c", "\u3068", "\uff0e", "\uff1f", "\u4f60", "\u0964"),
    *("\ud83d", "\ude00", "\U0001f600", "\u201d", '"', "'", "x" * 40, "art. "),
]
ANSWERS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | anything


def fed(text: str, cuts: list[int]) -> tuple[list[Sentence], dict[int, int]]:
    """Return the sentences of a text that is cut, and how many there were at each cut."""
    stream, found, seen = SentenceStream(), list[Sentence](), dict[int, int]()
    for start, end in pairwise([0, *cuts, len(text)]):
        found += stream.feed(text[start:end])
        seen[end] = len(found)
    return [*found, *stream.close()], seen


def texts(text: str) -> list[str]:
    return [sentence.text for sentence in answer_sentences(text)]


@given(ANSWERS, st.data())
def test_every_chunking_gives_the_same_sentences_at_the_same_characters(
    text: str, data: st.DataObject
) -> None:
    whole, after = fed(text, list(range(1, len(text))))
    assert whole == answer_sentences(text)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    found, seen = fed(text, cuts)
    assert found == whole
    assert {end: n for end, n in seen.items() if end} == {end: after[end] for end in seen if end}


@given(ANSWERS)
def test_sentences_are_parts_of_the_text_in_its_order(text: str) -> None:
    found = answer_sentences(text)
    assert all(text[item.start : item.end] == item.text == item.text.strip() for item in found)
    assert all(left.end <= right.start for left, right in pairwise(found))
    assert all(any(letter.isalnum() for letter in item.text) for item in found)
    assert bool(found) == bool(sentences(text))


@given(ANSWERS)
def test_what_has_been_given_is_not_taken_back(text: str) -> None:
    whole, after = fed(text, list(range(1, len(text))))
    for end, n in after.items():
        further = fed(text[:end] + " Dr. 1) [2] \u300d\u3068.\n7", [end])[0] if end else whole
        assert further[:n] == whole[:n]


def test_they_are_those_of_a_whole_text() -> None:
    answers = [item.response for item in read("example:facts")]
    answers.append(" ".join(answers))
    assert [answer_sentences(text) for text in answers] == [sentences(text) for text in answers]


@pytest.mark.parametrize(
    "text",
    [
        "It rained. (Passage 1) It blew. [2] It froze. (Tuesday) it thawed. (see source 3).",
        "The film grossed 1.5 million. It was long.\n1. One. Two\n2) Three?\n- 7.\n# Four. Five",
        'He said "Stop!" and left. "Why?" she asked. The song "Who Are You?", of 1978, is long.',
        "At 5 p.m. Dr. Wu of the U.S. Army met J. K. Rowling. They spoke, e.g. of art. Then left.",
        "\u5929\u6c14\u5f88\u597d\u3002\u300c\u597d\u3002\u300d\u3068\u8a00\u3046\u3002"
        " (Passage 2)\u4f60\u597d\uff01A.",
        "1\u3001\u4f60\u597d\u3002\u518d\u89c1\u3002\n1\uff0e\u4f60\u3002\n\u2460\u4e00\u3002\u4e8c",
        "\u092f\u0939 \u0939\u0948\u0964 \u0935\u0939 \u0925\u093e\u0964",
        "He waited. . . . Then he left! ! ! She did... not. I. went. - 5. It is I. Foo went.",
        "Look at https://a.example/b.html?c=d.e!f for more. [Link](http://x.y/z). Go (on. Now).",
        "7.",
        "1.\n2.\n",
        "- - -\n\n...",
        "",
    ],
)
def test_a_text_made_up_of_hard_cases_has_those_of_a_whole_text(text: str) -> None:
    assert answer_sentences(text) == sentences(text)
    assert fed(text, list(range(1, len(text))))[0] == sentences(text)


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        ("It rained. The", " "),
        ("It rained.", "\n"),
        ("It rained.", "\r"),
        ("\u5929\u6c14\u5f88\u597d\u3002", "\u518d"),
        ("It rained. (Passage 1) It", " "),
        ("It rained. (The dog) barked", " "),
        ("It rained. (The dog barked on and on, and on, and on, and on and on and on", " "),
    ],
)
def test_a_sentence_is_given_as_soon_as_its_end_is_certain(begun: str, more: str) -> None:
    stream = SentenceStream()
    assert stream.feed(begun) == []
    (sentence,) = stream.feed(more)
    assert begun.startswith(sentence.text)


def test_a_sentence_without_an_end_is_cut() -> None:
    words, run = "word " * 2_000, "x" * 10_000
    assert max(map(len, texts(words))) <= LONGEST
    assert max(map(len, texts(run))) <= LONGEST + WORD
    assert "".join(texts(run)) == run
    assert texts("a " + " " * 3 * LONGEST + "b") == ["a", "b"]
    assert fed(words + run, [9_999, 10_001, 10_900, 15_000])[0] == answer_sentences(words + run)


@pytest.mark.parametrize(
    "piece",
    [
        "It rained on Tuesday (as said). After 5 p.m. the sun shone on 3.5 roofs. ",
        *(" ", "-", "x", "\u3002", "\u3002\u300d", "\u3002\u300d\u3068", "\u4f60\u3002", "- "),
        *("1.\n", "(", "a. (", "[1] ", "! ", '" ', ".x", "x. (a b c "),
    ],
)
def test_steps_grow_no_faster_than_the_text(piece: str) -> None:
    def whole(text: str) -> None:
        answer_sentences(text)

    def by_character(text: str) -> None:
        fed(text, list(range(1, len(text))))

    # Long enough for every bound to be reached.
    times = -(-2 * LONGEST // (100 * len(piece)))
    assert grows_with(whole, lambda n: n * times * piece)
    assert grows_with(by_character, lambda n: n * piece)


def test_memory_holds_no_more_than_the_longest_sentence() -> None:
    stream = SentenceStream()
    for _ in range(2_000):
        stream.feed("It rained. \u3002\u3002 -- ( \n")
    assert len(stream._line._text) + len(stream._word) < 100


def test_an_answer_that_has_ended_takes_no_more() -> None:
    stream = SentenceStream()
    stream.feed("It rained")
    assert len(stream.close()) == 1
    assert stream.close() == []
    with pytest.raises(ValueError, match="the answer has ended; a new one needs a new"):
        stream.feed(" a")
