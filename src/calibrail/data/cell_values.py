"""What does a cell of a further column hold: a number, a text, or nothing?"""

import json
import math
import struct
from typing import Final

#: Tables may have thousands of numbers a row: a number's four bytes take a tenth of the time of its
#: shortest digits.
_FLOAT32: Final = struct.Struct(">f")


def spelling(value: object) -> str:
    """Return a value as it is compared across files: 0.5, 0.50 and a float32 of it are the same.

    >>> spelling(" 0.50 ") == spelling(0.5), spelling(0.10000000149011612) == spelling(0.1)
    (True, True)
    >>> spelling(7.0), spelling(" a "), spelling(None)
    ('7', 'a', '')
    """
    known = column_value(value)
    if known is None:
        return ""
    if isinstance(known, str):
        return known.strip()
    if known.is_integer():
        return str(int(known))
    # What a float32 is too small for is a whole number.
    return _FLOAT32.pack(known).hex()


def column_value(value: object) -> float | str | None:
    """Return a further column's value: a number where it is or spells one, else a text, or None.

    Empty cells, null and NaN are None; true and false are 1.0 and 0.0; lists and objects become
    JSON text.

    >>> column_value("0.5"), column_value("1_0"), column_value(""), column_value("fit")
    (0.5, '1_0', None, 'fit')
    """
    if type(value) is float:
        return None if math.isnan(value) else value
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    if not isinstance(value, (str, int, float)) or (isinstance(value, str) and "_" in value):
        return str(value)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return str(value)
    return None if math.isnan(number) else number
