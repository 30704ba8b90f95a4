"""Which numbers does a string hold, whatever their spelling?"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

NUMBERS_VERSION: Final = "calibrail-numbers/1"

_NUMBER = re.compile(
    r"(?<![\w.,])(?P<sign>[-\u2212](?=\d))?"
    r"(?P<digits>\d{1,3}(?:[,\u00a0\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?P<rest>\s*%|\s+per\s?cent\b|(?:st|nd|rd|th)\b|\s*(?:thousand|million|billion|trillion)\b)?"
)
_SCALE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_WORDS = {
    name: str(value)
    for value, name in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ]
    )
}
_NAMED = re.compile(rf"\b(?:{'|'.join(list(_WORDS)[2:])})\b", re.IGNORECASE)


def numbers(text: str) -> list[str]:
    """Return the numbers of a string in a normal form, in order.

    Thousands separators go ("1,234" = "1234"), trailing zeros go ("2.50" = "2.5"), "million" and
    its kin are multiplied out, ordinals become cardinals, a percentage keeps its sign of being one,
    units are cut off ("5km" = "5"), and the words two to twelve count as numbers ("one" is mostly a
    pronoun).

    >>> numbers("1,234 people, 5km, 2.50 %, 3.2 million, the 21st and seven more")
    ['1234', '5', '2.5%', '3200000', '21', '7']
    """
    found: list[tuple[int, str]] = []
    for match in _NUMBER.finditer(text):
        value = Decimal(re.sub(r"[,\u00a0\u202f]", "", match["digits"]))
        rest = (match["rest"] or "").strip().lower()
        value *= _SCALE.get(rest, 1)
        percent = "%" if rest == "%" or rest.startswith("per") else ""
        sign = "-" if match["sign"] else ""
        found.append((match.start(), f"{sign}{_plain(value)}{percent}"))
    found.extend((match.start(), _WORDS[match[0].lower()]) for match in _NAMED.finditer(text))
    return [number for _, number in sorted(found)]


def _plain(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text.lstrip("0") or "0"
