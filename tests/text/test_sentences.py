from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrail.text.sentences as module
from calibrail.text.sentences import sentences
from tests.steps import grows_with

PIECES = (
    'A.|b!|c? | |\n|\r\n|\u2028|- |1. |(a) |Dr. |3.5|...|"|)|(x)|\u3002|\u300d|\u3068|\u0964|\x00'
)
PIECES += "|\ud800|He was. "
ragged = st.lists(st.sampled_from(PIECES.split("|")), max_size=30).map("".join)
anything = st.one_of(st.text(st.characters()), ragged)
MARKERS = "- * + \u2022 \u2013 \u00b7 1. 12. 1.2. 2) (3) (a) b) c. ii. (iv) ## \u25cf \u2460"
MARKER = re.compile(
    r"\W*(?:\(?(?:\d{1,3}(?:\.\d{1,2})*|[A-Za-z]|[ivxIVX]{2,5})[.)\u3001\uff0e]|[\u2460-\u2473])\W*"
)


def texts(text: str) -> list[str]:
    return [sentence.text for sentence in sentences(text)]


@pytest.mark.parametrize(
    "expected",
    [
        ["He served in the U.S. Army.", "He left."],
        ["Use e.g. this one.", "Not i.e. that one."],
        ["It is 3.5 km long.", "It has 4 arches."],
        ['He said "Stop."', "Then he left."],
        ["J. K. Rowling wrote it.", "Dr. Wu met Mr. Lee at 5 p.m. on Monday."],
        ["Look at https://a.example/b.html?c=d.e!f for more.", "Then go on."],
        ['The song "Who Are You?", of 1978, is long.', "He hummed (why?); she left."],
        ["The Leeds R.L.F.C. home is here.", "He lives in the U.S.", "She left."],
        ["He worked at Yahoo! in 1995.", "He left!", "Why?"],
        ["It is beet (Beta vulgaris subsp. maritima).", "It grows."],
        ["It may be cancer.", "Deep purple is rarer.", "See approx. Five of them."],
        ["\u041e\u043d \u0443\u0448\u0451\u043b.", "\u041e\u043d\u0430."],
        ["Am 3. Oktober kam Dr. M\u00fcller.", "Im 19. Jahrhundert war es klein.", "Gut."],
        [
            "Er ging vom 4. April bis zum 12. August.",
            "In room 3.",
            "April was cold.",
            "In 2008.",
            "Julie left.",
        ],
        ["\u0645\u0631\u061f", "\u0646\u0639\u0645.", "\u0647\u0630\u06d4", "\u0630\u0627"],
        ["\u092f\u0939 \u0939\u0948\u0964", "\u0935\u0939 \u0939\u0948\u0964"],
        ["\u1230\u120b\u121d\u1362", "\u12a5\u123a\u1362"],
        ["\u0532\u0561\u0580\u0587\u0589", "\u0531\u0575\u0578\u0589"],
    ],
)
def test_sentences_on_one_line(expected: list[str]) -> None:
    assert texts(" ".join(expected)) == expected


@pytest.mark.parametrize(
    "expected",
    [
        ["\u4ed6\u6765\u4e86\u3002", "\u771f\u7684\uff1f\uff01", "\u662f"],
        # A quotation that the sentence goes on after, and one that it does not.
        ["\u300c\u306f\u3044\u3002\u300d\u3068\u8a00\u3063\u305f\u3002", "\u6b21\u3002"],
        ["\u4ed6\u8bf4\uff1a\u201c\u597d\u3002\u201d", "\u5979\u8d70\u4e86\u3002"],
        # A full-width point is a full stop unless a digit follows.
        ["\uff13\uff0e\uff15\u3067\u3059\uff0e", "\u6b21"],
        ["\u1000\u104b", "\u1001\u104b"],
    ],
)
def test_scripts_without_spaces(expected: list[str]) -> None:
    assert texts("".join(expected)) == expected


@pytest.mark.parametrize("border", ["\n", "\r\n", "\r", "\v", "\f", "\x85", "\u2028", "\u2029"])
def test_no_sentence_crosses_a_line_break(border: str) -> None:
    assert texts(f"the first{border}the second") == ["the first", "the second"]


@pytest.mark.parametrize("marker", MARKERS.split())
def test_a_list_marker_is_no_part_of_a_sentence(marker: str) -> None:
    assert texts(f"Before it\n  {marker} Red things\n{marker}\nAfter it") == [
        "Before it",
        "Red things",
        "After it",
    ]


@pytest.mark.parametrize(
    "line", ["-5 degrees", "1853. A year", "J. K. Rowling", "**Red** things", "3.5 km", "i.e. this"]
)
def test_what_only_looks_like_a_marker_stays(line: str) -> None:
    assert "".join(texts(line)).replace(" ", "") == line.replace(" ", "")


def test_markers_that_need_no_space() -> None:
    assert texts("\u2022Red\n1\u3001Blue") == ["Red", "Blue"]


def test_a_number_after_a_bullet_is_a_marker_where_something_follows() -> None:
    assert texts("- 1. Red\n- 7.") == ["Red", "7."]


@pytest.mark.parametrize("text", ["7.", "(a)", " 12)\n-\n"])
def test_a_marker_that_is_all_there_is_stays(text: str) -> None:
    assert len(texts(text)) == 1
    assert texts(f"- {text}")


@pytest.mark.parametrize("text", ["", " \n\t", "...", "- \n*\n\u2022", "?! \u2014", "\U0001f600"])
def test_without_a_letter_or_digit_there_is_no_sentence(text: str) -> None:
    assert sentences(text) == []


def test_a_source_after_the_full_stop_belongs_to_the_sentence() -> None:
    assert texts("It rained. (Passage 1) He left. [2] Snow fell. (He left.) Ice. (See above)") == [
        "It rained. (Passage 1)",
        "He left. [2]",
        "Snow fell.",
        "(He left.)",
        "Ice. (See above)",
    ]
    assert texts("It rained. (Passage 1) ...") == ["It rained. (Passage 1) ..."]
    assert texts("(1) Mix it. (2) Bake it.")[-1] == "(2) Bake it."


def test_other_users_of_nupunkt_change_nothing() -> None:
    import nupunkt

    text = "I met Zorb. Later he left."
    shared = nupunkt.load("default")
    shared.add_abbreviation("Zorb")
    try:
        assert len(shared.texts(text)) == 1
        assert len(sentences(text)) == 2
    finally:
        shared.remove_abbreviation("Zorb")


@given(anything)
def test_offsets(text: str) -> None:
    end = 0
    for sentence in sentences(text):
        assert end <= sentence.start < sentence.end <= len(text)
        assert sentence.text == text[sentence.start : sentence.end] == sentence.text.strip()
        assert any(letter.isalnum() for letter in sentence.text)
        assert len(sentence.text.splitlines()) == 1
        end = sentence.end


@given(anything)
def test_every_letter_lies_in_a_sentence_but_for_list_markers(text: str) -> None:
    covered = {place for part in sentences(text) for place in range(part.start, part.end)}
    offset = 0
    for line in text.splitlines(keepends=True):
        places = range(offset, offset + len(line))
        offset += len(line)
        first = next((place for place in places if place in covered), places.stop)
        lost = [place for place in places if place not in covered and text[place].isalnum()]
        assert all(place < first for place in lost)
        assert not lost or MARKER.fullmatch(text[places.start : first])


@pytest.mark.parametrize(
    ("piece", "first"),
    [
        ("He left at 5 p.m. today. ", ""),
        ("!!!!!!!!!!", "a"),
        ("(b). ", "a. "),
        (". ", "a"),
        ("\u3002\u300d\u3068", ""),
        ("----------", ""),
        ("1. ", ""),
        ("a\n", ""),
        ("| a ", ""),
    ],
    ids=["prose", "marks", "asides", "dots", "quotes", "dashes", "markers", "lines", "cells"],
)
def test_steps_grow_no_faster_than_the_text(piece: str, first: str) -> None:
    assert grows_with(sentences, lambda n: first + n * piece)
    # What happens inside of a pattern is no step, so a long text must come to an end, too.
    sentences(first + 3000 * piece)


@given(st.text("\u3002\uff0e\u300d\u3068!.1a \u2026", max_size=20))
def test_a_run_of_full_stops_ends_where_it_would_from_any_of_its_places(text: str) -> None:
    pattern = module.STOP.pattern
    anywhere = re.compile(pattern[pattern.index("(?:") :])
    ends = [match.end() for match in module.STOP.finditer(text)]
    assert ends == [match.end() for match in anywhere.finditer(text)]


@given(st.text("ab \u3002A\"').,:;-*(\n", max_size=30).filter(lambda text: "." not in text))
def test_nupunkt_ends_no_sentence_without_a_stop(text: str) -> None:
    spans = list(module._tokenizer().span_tokenize(text))
    assert [start for start, _ in spans if start] == []


def test_nupunkt_is_loaded_when_it_is_needed() -> None:
    program = (
        "import sys, calibrail.text.sentences as t; t.sentences_version()"
        "; assert 'nupunkt' not in sys.modules"
        "; t.sentences('A. B'); assert 'nupunkt' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
