from __future__ import annotations

import json
from itertools import combinations

import pytest

from calibrail.ui.server import Places

TEXTS = [
    "",
    "plain",
    "a😀b",
    "😀😀",
    "👩‍👩‍👧‍👦 x",
    "\ud800 lone \udc00",
    "\ud83d",
    "e\u0301\x00\u202e\r\n\U0001d4b3",
]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_places_are_those_of_the_browser(text: str) -> None:
    """UTF-16 itself says where a place is."""
    places = Places(text)

    def units(piece: str) -> int:
        return len(piece.encode("utf-16-le", "surrogatepass")) // 2

    assert places.units == units(text)
    for start, end in combinations(range(len(text) + 1), 2):
        asked = units(text[:start]), units(text[:end])
        assert places.to_browser([(start, end)]) == [asked]
        assert places.from_browser([asked]) == [(start, end)]


def test_half_a_character_stands_for_all_of_it() -> None:
    places = Places("a😀b")
    assert places.from_browser([(2, 3)]) == [(1, 2)]
    assert places.from_browser([(0, 2)]) == [(0, 2)]


def test_halves_that_stand_side_by_side_are_two_in_python() -> None:
    # Written as text they would be read as one character; in memory they are two.
    text = "\ud83d" + "\ude00" + "b"
    assert len(json.loads(json.dumps(text))) == 2
    assert Places(text).from_browser([(2, 3)]) == [(2, 3)]
