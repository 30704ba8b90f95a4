"""Frozen dataclasses to JSON and back."""

import json
import math
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Final, Self, TextIO, Union, get_args, get_origin, get_type_hints

from calibrail.errors import InputError, errors_as


class Record:
    """Gives a frozen dataclass ``to_dict`` and ``from_dict``: its fields, in their order.

    A subclass whose JSON has a name sets ``schema``: it stands first, and another one is refused.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point(Record):
    ...     x: float
    ...     labels: tuple[str, ...] = ()
    >>> Point(1.5, ("a",)).to_dict()
    {'x': 1.5, 'labels': ['a']}
    >>> Point.from_dict({"x": 1.5, "labels": ["a"]})
    Point(x=1.5, labels=('a',))
    """

    __slots__ = ()

    schema: ClassVar[str | None] = None
    #: Fields that ``to_dict`` leaves out where they are their default: files were written before
    #: there were any.
    later: ClassVar[tuple[str, ...]] = ()
    #: What ``to_dict`` says once more for its readers: ``from_dict`` leaves it out.
    derived: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as strict JSON can hold them: no NaN, no arrays, no tuples."""
        head = {} if self.schema is None else {"schema": self.schema}
        values = {
            item.name: plain(getattr(self, item.name))
            for item in fields(self)  # type: ignore[arg-type]
            if item.name not in self.later or getattr(self, item.name) != item.default
        }
        return head | values

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Rebuild the value from ``to_dict``.

        Raises
        ------
        InputError
            If the content is of another schema, or a field is missing or unknown.
        """
        if not isinstance(content, Mapping):
            raise InputError(f"the {cls.__name__.lower()} must be an object; got {content!r:.80}")
        given = {name: value for name, value in content.items() if name not in cls.derived}
        if cls.schema is not None and (name := given.pop("schema", None)) != cls.schema:
            raise InputError(f'schema must be "{cls.schema}"; got {name!r}')
        hints = _hints(cls)  # type: ignore[arg-type]
        kind = cls.__name__.lower()
        with errors_as(InputError, (KeyError, TypeError), "record_of_other_fields", kind=kind):
            return cls(**{name: _typed(hints[name], value) for name, value in given.items()})


#: What a terminal obeys, what turns the order of letters, or what nobody sees.
_ACTS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)


def harmless(text: str, *, line: bool = False) -> str:
    r"""Return a text that does nothing to a terminal, on one line if asked.

    Letters of any script, and what joins them, stay as they are.

    >>> ascii(harmless("a\x1b[2J\u202eb\nc", line=True))
    "'a\\ufffd[2J\\ufffdb\\ufffdc'"
    """
    shown = _ACTS.sub("\N{REPLACEMENT CHARACTER}", text)
    return shown.replace("\n", "\N{REPLACEMENT CHARACTER}") if line else shown


def logged_on_one_line(record: Any) -> bool:
    """Let no foreign text act on a terminal, or write a line of its own to a log."""
    from logging import Formatter

    try:
        text = record.getMessage()
    except Exception:  # What does not fit its template is a library's mistake, and ends nothing.
        text = f"{record.msg} {record.args!r}"
    record.msg, record.args = harmless(text.strip(), line=True), None
    if record.exc_info:
        record.exc_text = harmless(Formatter().formatException(record.exc_info))
        record.exc_text = record.exc_text.replace("\n", "\n  ")
    return True


def encodable_json(text: str, stream: TextIO, *, indent: int | None = None) -> str:
    r"""Return JSON as a stream's encoding can hold it: escaped where that lacks a character.

    So is all of it where it holds a character that acts on a terminal.

    >>> import io
    >>> encodable_json('{"id": "né"}', io.TextIOWrapper(io.BytesIO(), "ascii"))
    '{"id": "n\\u00e9"}'
    """
    with suppress(UnicodeEncodeError):
        text.encode(stream.encoding or "utf-8")
        if harmless(text) == text:
            return text
    return json.dumps(json.loads(text), indent=indent)


def plain(value: Any) -> Any:
    """Return a copy that strict JSON can hold.

    A number that is not finite becomes None, an array or a tuple a list, a record its fields.
    """
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Record) or (is_dataclass(value) and hasattr(value, "to_dict")):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return [plain(item) for item in value] if isinstance(value, Sequence) else value


def canonical(value: Any, *, escaped: bool = False) -> str:
    """Return JSON of which there is but one for a value: keys sorted, no spaces, no NaN.

    It is ASCII where other letters are to be ``escaped``.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=escaped, allow_nan=False
    )


def given_back(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value as JSON gives it back: lists for tuples, dicts for mappings."""
    return dict(json.loads(canonical(dict(value))))


def json_parts(content: Any) -> Iterator[bytes]:
    """Yield strict JSON with an indent of 2, as every file of results holds it."""
    encoder = json.JSONEncoder(indent=2, ensure_ascii=False, allow_nan=False, default=_builtin)
    for part in encoder.iterencode(content):
        yield part.encode("utf-8", "surrogatepass")
    yield b"\n"


def _builtin(value: Any) -> Any:
    """Return a mapping, an array or another sequence as JSON can hold it."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else list(value)


_hints = cache(get_type_hints)


def _typed(hint: Any, value: Any) -> Any:
    """Return ``value`` as the annotated type has it: records, arrays and tuples rebuilt."""
    if value is None:
        return None
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        inner = [item for item in arguments if item is not type(None)]
        return _typed(inner[0], value) if len(inner) == 1 else value
    if is_dataclass(hint) and isinstance(value, Mapping):
        return hint.from_dict(value) if hasattr(hint, "from_dict") else hint(**value)  # type: ignore[operator]
    if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
        return origin(_typed(arguments[0], item) for item in value)
    if origin is tuple:
        return tuple(_typed(kind, item) for kind, item in zip(arguments, value, strict=True))
    if getattr(origin, "__name__", "") == "ndarray":
        import numpy as np

        return np.array(value, get_args(arguments[1])[0])
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {key: _typed(arguments[1], item) for key, item in value.items()}
    return value
