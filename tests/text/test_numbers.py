from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.text.words import numbers


def normal(text: str) -> list[str]:
    return [number.text for number in numbers(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234", ["1234"]),
        ("1\u00a0234 and 1\u202f234", ["1234", "1234"]),
        ("1,234,567.80", ["1234567.8"]),
        ("007", ["7"]),
        ("0.0 and -0", ["0", "0"]),
        ("5km", ["5"]),
        ("$5 (6)", ["5", "6"]),
        ("40% 40 % 40 percent 40 Per cent", ["40%"] * 4),
        ("2.5 million, 3 Billion", ["2500000", "3000000000"]),
        ("1.2345 thousand", ["1234.5"]),
        ("the 21st of 3rd", ["21", "3"]),
        ("-5 degrees, \u22125 degrees", ["-5", "-5"]),
        ("1914-1918", ["1914", "1918"]),
        ("In 1853.", ["1853"]),
        ("Seven of TWELVE, not one", ["7", "12"]),
        ("\u0661\u0662", ["12"]),
        ("none", []),
        ("abc1def", []),
        ("", []),
    ],
)
def test_numbers(text: str, expected: list[str]) -> None:
    assert normal(text) == expected


def test_no_number_is_too_long() -> None:
    digits = "7" * 1_200_000
    assert normal(digits) == [digits]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("In 1853.", ["1853"]),
        ("Two cost $3.2 million, or 40 % of -5km.", ["Two", "3.2 million", "40 %", "-5"]),
        ("the 21st of 1,234", ["21st", "1,234"]),
        ("none", []),
    ],
)
def test_places(text: str, places: list[str]) -> None:
    assert [text[start:end] for _, start, end in numbers(text)] == places


pieces = ["two", "Seven", "1,234", "5", "%", "-", " ", ".", " million", "km", "\u0661", "a", "3rd"]


@given(st.one_of(st.text(st.characters()), st.lists(st.sampled_from(pieces)).map("".join)))
def test_places_are_in_order_and_hold_their_number(text: str) -> None:
    end = 0
    for number in numbers(text):
        assert end <= number.start < number.end <= len(text)
        # A place says the same alone as in the text.
        assert normal(text[number.start : number.end]) == [number.text]
        end = number.end
