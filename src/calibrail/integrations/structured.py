"""Which text does a structured answer hold, for a guardrail that was calibrated on texts?"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any


def text_of_values(answer: Any) -> str:
    r"""Return what a structured answer says: its values, one a line, without their names.

    Parameters
    ----------
    answer : object
        A text as it is; a pydantic model, a dataclass, a mapping or a list of such.

    Raises
    ------
    TypeError
        A value is neither text, number, truth value nor nothing.

    Examples
    --------
    >>> text_of_values({"element": "Tungsten", "number": 74, "seen": ["W"], "note": None})
    'Tungsten\n74\nW'
    """
    return "\n".join(_values(answer))


def _values(value: Any) -> Iterator[str]:
    if callable(dump := getattr(value, "model_dump", None)):
        value = dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, str | int | float):
        yield str(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _values(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _values(item)
    elif value is not None:
        raise TypeError(f"a part of the answer is no text: {type(value).__name__}")
