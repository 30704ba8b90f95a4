from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.text import words as rules
from calibrail.text.words import STOP_WORDS, content_words, names, patterns, words


def texts(text: str) -> list[str]:
    return [word.text for word in words(text)]


def test_sections_of_the_patterns_are_read_one_by_one() -> None:
    tables = tomllib.loads(Path(rules.__file__).with_name("patterns.toml").read_text("utf-8"))
    assert all(patterns(name).keys() == table.keys() for name, table in tables.items())
    assert len(tables) > 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Nile's source", ["the", "nile's", "source"]),
        ("don\u2019t DON'T", ["don't", "don't"]),
        ("3.5 km, 1,234 people.", ["3.5", "km", "1,234", "people"]),
        ("well-known snake_case", ["well", "known", "snake", "case"]),
        ("Stra\u00dfe STRASSE", ["strasse", "strasse"]),
        ("caf\u00e9 cafe\u0301", ["caf\u00e9", "caf\u00e9"]),
        ("", []),
        ("?! \u2014 ...", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


@given(st.text("aZ09_.,'- \n\x1c"))
def test_ascii_has_the_words_that_every_script_has(text: str) -> None:
    assert [*map(tuple, words(text))] == [*map(tuple, words(f"{text} \u2026"))]


def test_ascii_takes_no_pattern_of_other_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrail.text.words._WORD", None)
    assert texts("The Nile's 3.5 km") == ["the", "nile's", "3.5", "km"]


def test_vowel_signs_stay_with_their_word() -> None:
    assert len(texts("\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e")) == 2
    assert len(texts("\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd")) == 1
    assert len(texts("\u0627\u0644\u0645\u0646\u0627\u0631\u0629")) == 1


def test_without_spaces_each_letter_is_a_word() -> None:
    assert texts("\u706f\u5854\u30fb1853\u5e74") == ["\u706f", "\u5854", "1853", "\u5e74"]
    assert texts("\u0e1b\u0e35\u0e51\u0e52\u0e53\u0e54") == ["\u0e1b\u0e35", "1234"]
    # Two consonants; marks belong to them.
    assert len(texts("\u0e17\u0e35\u0e48\u0e19\u0e35\u0e48")) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\uff11\uff18\uff10\uff11\u5e74 \uff14\uff0e\uff15", ["1801", "\u5e74", "4.5"]),
        ("\u0648\u0661\u066c\u0662\u0663\u0664", ["\u0648", "1,234"]),
        (
            "\ub4f1\ub300\ub2941801\ub144\uc5d0 KBS\ub294",
            ["\ub4f1\ub300\ub294", "1801", "\ub144\uc5d0", "kbs", "\ub294"],
        ),
        ("\u09e7\u09ee\u09e6\u09e7\u09b8\u09be\u09b2\u09c7", ["1801", "\u09b8\u09be\u09b2\u09c7"]),
        ("1801\u0433 F16 \u00fcber3", ["1801\u0433", "f16", "\u00fcber3"]),
    ],
)
def test_numbers_are_words_where_letters_have_no_capitals(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


def test_content_words_leave_out_stop_words_and_possessives() -> None:
    spans = content_words("It's the river's mouth, isn't it?")
    assert [word.text for word in spans] == ["river", "mouth"]


def test_stop_words_are_words_as_they_are_compared() -> None:
    assert all(texts(word) == [word] for word in STOP_WORDS)


@given(st.text())
def test_offsets_point_at_the_word(text: str) -> None:
    end = 0
    for word in words(text):
        assert end <= word.start < word.end <= len(text)
        assert word.text
        end = word.end


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He met Ada in Paris.", ["ada", "paris"]),
        ("Rivers move.", []),
        ("Marie Curie was born.", ["marie", "curie"]),
        ("NASA flies.", ["nasa"]),
        ("It moved. The Rhine flows.", ["rhine"]),
        ("It stands by Paris's gate", ["paris"]),
        ("no names at all", []),
        ("\u706f\u5854", []),
        ("\u706f\u5854\u3002Rivers \u0914\u0930 \u0939\u0948\u0964 Rivers", []),
        ("\ubbf8\uad6d Apple\uc740 \u5728 Basel \u7684", ["apple", "basel"]),
        ("", []),
        ("see \u00d6tzi there", ["\u00f6tzi"]),
    ],
)
def test_names(text: str, expected: list[str]) -> None:
    assert [name.text for name in names(text)] == expected


def test_a_sentence_starts_after_a_bracket_or_a_line_break_too() -> None:
    assert names("(Rivers move)\nRivers move\n- Rivers move") == []


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("It is Paris's gate, NASA\u2019S and Ada.", ["Paris", "NASA", "Ada"]),
        ("see STRASSE and Stra\u00dfe's", ["STRASSE", "Stra\u00dfe"]),
        ("no names", []),
    ],
)
def test_places_of_names(text: str, places: list[str]) -> None:
    assert [text[start:end] for _, start, end in names(text)] == places


NAME_PIECES = [
    "Paris",
    "NASA",
    "'s",
    "\u2019S",
    " ",
    ". ",
    "the",
    "ada",
    "\u017f",
    "\u00d6",
    "\u0308",
    "\n",
]


@given(st.one_of(st.text(st.characters()), st.lists(st.sampled_from(NAME_PIECES)).map("".join)))
def test_names_are_words_in_their_places(text: str) -> None:
    end = 0
    for name in names(text):
        assert end <= name.start < name.end <= len(text)
        assert [word.text for word in words(text[name.start : name.end])] == [name.text]
        end = name.end
