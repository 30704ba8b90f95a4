from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.data.example import Example
from calibrail.scores.registry import build, parse_spec
from calibrail.text.words import numbers, rules_of


def normal(text: str) -> list[str]:
    return [number.text for number in numbers(text)]


@given(st.text("0123456789.,-%() \nstndrhpecmiloba"))
def test_ascii_has_the_numbers_that_every_script_has(text: str) -> None:
    assert [*map(tuple, numbers(text))] == [*map(tuple, numbers(f"{text} \u2026"))]


def test_ascii_takes_no_pattern_of_other_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrail.text.words._NUMBER", None)
    assert normal("1,234 of -2.50 % and 3 million") == ["1234", "-2.5%", "3000000"]


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
        ("\u7531 1801\u5e74\u5efa\u6210", ["1801"]),
        ("\u5efa\u4e8e1801\u5e74\uff0c\u9ad845.5\u7c73\uff0c1,234\u7ea7", ["1801", "45.5", "1234"]),
        (
            "\uff11\uff18\uff10\uff11\u5e74\u3001\uff14\uff15\uff0e\uff15\u3001\uff15\uff10\uff05",
            ["1801", "45.5", "50%"],
        ),
        ("3\u4e07\u4eba\uff0c5\u5343\u4e07\u30012\u4ebf\u5143", ["30000", "50000000", "200000000"]),
        ("1801\u5e74-1853\u5e74", ["1801", "1853"]),
        (
            "\u0e1b\u0e351801\u0e21\u0e35 \u0e51\u0e52\u0e53\u0e54\u0e04\u0e19 50%",
            ["1801", "1234", "50%"],
        ),
        (
            "\u0661\u066c\u0662\u0663\u0664 \u0664\u0665\u066b\u0665 \u0665\u0660\u066a",
            ["1234", "45.5", "50%"],
        ),
        ("\u0648\u0661\u0662 \u0639\u0627\u06451801\u0645", ["12", "1801"]),
        ("\u0967,\u0968\u0969,\u096a\u096b\u096c \u0967\u096e\u0966\u0967", ["123456", "1801"]),
        ("1,23,456 and 12,34,567", ["123456", "1234567"]),
        ("45,5 m, 0,875 kg, 1.234,56 und 1.234.567", ["45.5", "0.875", "1234.56", "1234567"]),
        ("3,2 Millionen, 40 Prozent, 2 Mrd. Euro", ["3200000", "40%", "2000000000"]),
        ("\ub4f1\ub300\ub2941801\ub144\uc5d0 3\ub9cc", ["1801", "30000"]),
        ("[1,2] (3,4) 1,2,3", ["1", "3", "1"]),
        ("\u0e1e.\u0e28.2567 \u0e1e.\u0e28.\u0e52\u0e55\u0e56\u0e57", ["2567", "2567"]),
        ("none", []),
        ("abc1def \u0411521 \u00e91", []),
        ("", []),
    ],
)
def test_numbers(text: str, expected: list[str]) -> None:
    assert normal(text) == expected


def test_the_first_edition_finds_what_it_found() -> None:
    texts = {"\u5728 1,234.50\u4eba": "1234.5", "40 per cent, 45,5": "40%|45", "\u4e8e1801": ""}
    with rules_of(1):
        old = build(parse_spec("numbers"))
        for text, expected in texts.items():
            assert "|".join(normal(text)) == expected
    answer = [Example("", ("\u4e8e1801\u5e74",), "1801\u5e74")]
    assert build(parse_spec("numbers")).score(answer).values.tolist() == [0.0]
    assert old.score(answer).values.tolist() == [1.0]
    assert old.fingerprint() == {"numbers": "calibrail-numbers/1"}


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


pieces = [
    "\u5e74",
    "\u4e07",
    "\u0648",
    "\u066b",
    "0,5",
    "two",
    "Seven",
    "1,234",
    "5",
    "%",
    "-",
    " ",
    ".",
    " million",
    "km",
    "\u0661",
    "a",
    "3rd",
]


@given(st.one_of(st.text(st.characters()), st.lists(st.sampled_from(pieces)).map("".join)))
def test_places_are_in_order_and_hold_their_number(text: str) -> None:
    end = 0
    for number in numbers(text):
        assert end <= number.start < number.end <= len(text)
        # A place says the same alone as in the text.
        assert normal(text[number.start : number.end]) == [number.text]
        end = number.end
