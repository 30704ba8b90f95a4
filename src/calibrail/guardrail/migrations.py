"""How is what an older calibrail froze read today?

The schema's number rises when a file holds something new. A migration takes the content of one
number to the next; it decides nothing anew, and what it cannot know it leaves open.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from calibrail.errors import GuardrailError

_PREFIX: Final = "calibrail.guardrail/"
NEWEST: Final = 2
SCHEMA: Final = "calibrail.guardrail/2"


def _without_probes(content: Mapping[str, Any]) -> dict[str, Any]:
    """From 1 to 2: probes were not kept."""
    return {**content, "probes": None}


#: By the number that a migration begins with.
MIGRATIONS: Final[Mapping[int, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    1: _without_probes,
}


def migrated(content: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the content of a guardrail file in the newest schema.

    Parameters
    ----------
    content : mapping
        What the file holds; its digest was verified.
    source : str
        What messages call it.

    Raises
    ------
    GuardrailError
        If this version reads no such schema.
    """
    given = content.get("schema")
    text = given.removeprefix(_PREFIX) if isinstance(given, str) else ""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    if number > NEWEST and given == f"{_PREFIX}{number}":
        raise GuardrailError(
            f"{source} has schema {given!r}, of a later calibrail; this version reads up to "
            f"{SCHEMA!r}: install the later one (pip install -U calibrail), or export the "
            "run again with this one: calibrail export RUN -o guardrail.json"
        )
    if given != f"{_PREFIX}{number}" or number < 1:
        raise GuardrailError(
            f"{source} has schema {given!r}; this version reads {SCHEMA!r} and earlier ones; "
            "export it again: calibrail export RUN -o guardrail.json"
        )
    result = dict(content)
    for step in range(number, NEWEST):
        result = {**MIGRATIONS[step](result), "schema": f"{_PREFIX}{step + 1}"}
    return result
