from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.text.names import names
from calibrail.text.words import words


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
def test_places(text: str, places: list[str]) -> None:
    assert [text[start:end] for _, start, end in names(text)] == places


pieces = [
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


@given(st.one_of(st.text(st.characters()), st.lists(st.sampled_from(pieces)).map("".join)))
def test_names_are_words_in_their_places(text: str) -> None:
    end = 0
    for name in names(text):
        assert end <= name.start < name.end <= len(text)
        assert [word.text for word in words(text[name.start : name.end])] == [name.text]
        end = name.end
