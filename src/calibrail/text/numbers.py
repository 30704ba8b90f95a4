"""Which numbers does a string hold, whatever their spelling?"""

import re
import unicodedata
from operator import itemgetter
from typing import Final

from calibrail.text.words import Piece

NUMBERS_VERSION: Final = "calibrail-numbers/1"

_NUMBER = re.compile(
    r"(?<![\w.,])(?P<sign>[-\u2212](?=\d))?"
    r"(?P<digits>\d{1,3}(?:[,\u00a0\u202f]\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?P<rest>\s*%|(?i:\s+per\s?cent\b|(?:st|nd|rd|th)\b"
    r"|\s*(?:thousand|million|billion|trillion)\b))?"
)
#: Zeros that a scale adds.
_SCALE = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_DIGITS = "zero one two three four five six seven eight nine ten eleven twelve"
_WORDS = {name: str(value) for value, name in enumerate(_DIGITS.split())}
_NAMED = re.compile(rf"\b(?:{'|'.join(list(_WORDS)[2:])})\b", re.IGNORECASE)


def numbers(text: str) -> list[Piece]:
    """Return the numbers of a string in a normal form, in order.

    Thousands separators go ("1,234" = "1234"), trailing zeros go ("2.50" = "2.5"), "million" and
    its kin are multiplied out, ordinals become cardinals, a percentage keeps its sign of being one,
    units are cut off ("5km" = "5"), and the words two to twelve count as numbers ("one" is mostly a
    pronoun). Points are read as decimal points and commas as thousands separators, the English way.
    Sign, percent sign, ordinal ending and scale lie inside a number's place, units outside.

    >>> text = "1,234 people, 5km, 2.50 %, 3.2 million, the 21st and seven more"
    >>> [number.text for number in numbers(text)]
    ['1234', '5', '2.5%', '3200000', '21', '7']
    >>> numbers("It has 3.2 million books.")
    [Piece(text='3200000', start=7, end=18)]
    """
    spans = []
    for match in _NUMBER.finditer(text):
        rest = (match["rest"] or "").strip().lower()
        percent = "%" if rest == "%" or rest.startswith("per") else ""
        value = _plain(match["digits"], _SCALE.get(rest, 0))
        sign = "-" if match["sign"] and value != "0" else ""
        spans.append(Piece(f"{sign}{value}{percent}", match.start(), match.end()))
    named = [Piece(_WORDS[match[0].lower()], *match.span()) for match in _NAMED.finditer(text)]
    return sorted(spans + named, key=itemgetter(1)) if named else spans


def _plain(digits: str, zeros: int) -> str:
    """Return a decimal times 10**zeros, by its digits, so that no number is too long."""
    if not digits.isascii():
        digits = "".join(
            str(unicodedata.decimal(letter)) if letter.isdecimal() else letter for letter in digits
        )
    whole, _, fraction = re.sub(r"[,\u00a0\u202f]", "", digits).partition(".")
    fraction = fraction.ljust(zeros, "0")
    whole = (whole + fraction[:zeros]).lstrip("0") or "0"
    fraction = fraction[zeros:].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole
