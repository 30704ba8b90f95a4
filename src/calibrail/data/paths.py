"""Where in a row does a column such as ``metadata.label`` lead?"""

from collections.abc import Iterator, Mapping
from typing import Final

from calibrail.data.json_text import load_json

# Names are listed this deep, and this many of one row: tables may be wide; and so many messages.
_DEPTH: Final = 5
_LISTED: Final = 1000
_MESSAGES: Final = 6


def value_at(values: Mapping[str, object], column: str) -> object:
    """Return what a row holds under a column, which may be a path of names and positions.

    A column of that very name wins. On the way down, a name is looked up in every element of a
    list, a number is a position in it, and a cell of JSON text is what it spells. A name may hold
    points itself. What is not there is None.

    >>> row = {"meta": {"label": 1}, "annotations": [{"label": "good"}, {"label": "bad"}]}
    >>> value_at(row, "meta.label"), value_at(row, "annotations.label"), value_at(row, "a.b")
    (1, ['good', 'bad'], None)
    >>> value_at({"attributes": {"input.value": "q"}}, "attributes.input.value")
    'q'
    """
    if column in values or "." not in column:
        return values.get(column)
    return _down(values, column.split("."))


def _down(value: object, parts: list[str]) -> object:
    for position, part in enumerate(parts):
        if isinstance(value, str):
            value = _parsed(value)
        if isinstance(value, Mapping):
            if part in value:
                value = value[part]
                continue
            # Names may hold points themselves, as those of a span's attributes do.
            for end in range(position + 2, len(parts) + 1):
                if (name := ".".join(parts[position:end])) in value:
                    return _down(value[name], parts[end:])
            return None
        if isinstance(value, list) and part.isdecimal():
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, list):
            return [_down(item, parts[position:]) for item in value]
        else:
            return None
    return value


def _parsed(cell: str) -> object:
    if cell.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return load_json(cell)
    except ValueError:
        return None


def nested_names(values: Mapping[str, object]) -> list[str]:
    """Return the columns of a row, with the paths that lead into its objects, spelt as text or not.

    >>> nested_names({"id": 1, "meta": {"label": 1}, "spans": [{"start": 0}]})
    ['id', 'meta.label', 'spans', 'spans.start']
    """
    names: list[str] = []
    for name in _names(values, "", _DEPTH):
        names.append(name)
        if len(names) == _LISTED:
            break
    return names


def _names(values: Mapping[str, object], prefix: str, depth: int) -> Iterator[str]:
    for name, value in values.items():
        path = f"{prefix}{name}"
        opened = _parsed(value) if isinstance(value, str) and prefix == "" else value
        listed = isinstance(opened, list)
        inner = opened[0] if isinstance(opened, list) and opened else opened
        below = isinstance(inner, Mapping) and bool(inner) and depth > 1
        if not below or listed:
            yield path
        if not below or not isinstance(inner, Mapping):
            continue
        if isinstance(opened, list) and {"role", "content"} <= inner.keys():
            # Of messages each has its place.
            for place, item in enumerate(opened[:_MESSAGES]):
                if isinstance(item, Mapping):
                    yield from _names(item, f"{path}.{place}.", 1)
            continue
        yield from _names(inner, f"{path}.", depth - 1)
