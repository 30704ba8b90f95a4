from __future__ import annotations

import pytest

from calibrail.text import names


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
    assert names(text) == expected


def test_a_sentence_starts_after_a_bracket_or_a_line_break_too() -> None:
    assert names("(Rivers move)\nRivers move\n- Rivers move") == []
