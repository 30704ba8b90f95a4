"""How is JSON of any origin parsed, so that nothing that walks through its values can overflow?"""

import ast
import json
import re
import sys
from typing import Final

#: Lists and objects within one another. What walks down a value takes a few frames a level, of
#: which Python has a thousand.
DEPTH: Final = 100


class JsonLimitError(ValueError):
    """A text is nested deeper, or holds a longer number, than is read; says which."""


_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def load_json(text: str) -> object:
    """Return the value that a JSON text spells.

    Lone surrogates in escapes become U+FFFD, since no other program could write them out again.

    Raises
    ------
    ValueError
        It is not JSON.
    JsonLimitError
        It holds a number of more digits than Python will parse, or is nested more than `DEPTH`
        deep.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        value = _TOO_DEEP
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        digits = sys.get_int_max_str_digits()
        raise JsonLimitError(f"a number of more than {digits:,} digits") from error
    value = _shallow(text, value)
    if _SURROGATE.search(text):
        escaped = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
        return json.loads(escaped.decode("utf-16", "replace"))
    return value


def load_literal(text: str) -> object:
    """Return the value that a text spells in Python's own notation; errors as `load_json`."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, TypeError) as error:
        raise ValueError(str(error)) from error
    except (RecursionError, MemoryError):
        value = _TOO_DEEP
    value = _shallow(text, value)
    if "\\" in text:
        # Refuses half of a surrogate pair, with a ValueError.
        json.dumps(value, ensure_ascii=False, default=str, skipkeys=True).encode()
    return value


def _shallow(text: str, value: object) -> object:
    # Counting characters is quick; few rows have as many brackets.
    brackets = text.count("[") + text.count("{") + text.count("(")
    if value is _TOO_DEEP or (brackets > DEPTH and _deep(value)):
        raise JsonLimitError(f"lists or objects nested more than {DEPTH} deep")
    return value


def _deep(value: object) -> bool:
    level = [value]
    for _ in range(DEPTH + 1):
        nested = [item for item in level if isinstance(item, (list, tuple, dict))]
        if not nested:
            return False
        level = [
            inner
            for item in nested
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return True


_TOO_DEEP: Final = object()
