"""What do the attributes of a span hold, however a tool wrote them?"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

#: How OTLP in JSON says of which type a value is.
_SIMPLE: Final = ("stringValue", "boolValue", "doubleValue", "bytesValue")


def attributes_of(value: object) -> dict[str, object]:
    """Return attributes by name: from an object, or OTLP's list of keys and typed values.

    >>> attributes_of([{"key": "n", "value": {"intValue": "3"}}]), attributes_of({"a.b": 1})
    ({'n': 3}, {'a.b': 1})
    """
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    if not isinstance(value, list):
        return {}
    return {
        str(item["key"]): _typed(item.get("value"))
        for item in value
        if isinstance(item, dict) and "key" in item
    }


def _typed(value: object) -> object:
    if not isinstance(value, dict):
        return value
    for name in _SIMPLE:
        if name in value:
            return value[name]
    if "intValue" in value:
        text = str(value["intValue"])
        return int(text) if text.lstrip("-").isdecimal() and len(text) < 20 else text
    if "arrayValue" in value:
        inner = value["arrayValue"]
        items = inner.get("values") if isinstance(inner, dict) else None
        return [_typed(item) for item in items] if isinstance(items, list) else []
    if "kvlistValue" in value:
        inner = value["kvlistValue"]
        return attributes_of(inner.get("values") if isinstance(inner, dict) else None)
    return None


def nested(flat: Mapping[str, object]) -> dict[str, Any]:
    """Return attributes with dots in their names as objects within objects, numbers as lists.

    A name that is another one's beginning (``input`` beside ``input.value``) yields to it.

    >>> nested({"docs.0.doc.text": "One.", "docs.1.doc.text": "Two.", "kind": "x"})
    {'docs': [{'doc': {'text': 'One.'}}, {'doc': {'text': 'Two.'}}], 'kind': 'x'}
    """
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inner = tree
        for part in path:
            below = inner.get(part)
            if type(below) is not dict:
                below = inner[part] = {}
            inner = below
        if type(value) is not str:
            value = _opened(value)
        there = inner.get(last)
        if isinstance(there, dict) and isinstance(value, dict):
            there.update(value)
        elif not isinstance(there, dict):
            inner[last] = value
    return {name: _listed(value) for name, value in tree.items()}


def _opened(value: object) -> object:
    """Return a value whose own names with dots are taken apart, too."""
    if isinstance(value, dict):
        return nested({str(key): item for key, item in value.items()})
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [_opened(item) for item in value]
    return value


def _listed(value: object) -> object:
    if type(value) is not dict or not value:
        return value
    if next(iter(value)).isdecimal() and all(n.isdecimal() and len(n) < 10 for n in value):
        return [_listed(value[name]) for name in sorted(value, key=int)]
    return {name: _listed(item) for name, item in value.items()}


def down(tree: object, *names: str) -> Any:
    """Return what stands at a path of names, or None.

    >>> down({"input": {"value": "q"}}, "input", "value"), down({"input": "q"}, "input", "value")
    ('q', None)
    """
    for name in names:
        if type(tree) is not dict:
            return None
        tree = tree.get(name)
    return tree


def walked(value: object, *names: str) -> Iterator[Mapping[str, object]]:
    """Yield the objects in lists within lists, as OTLP keeps its spans."""
    if not isinstance(value, dict):
        return
    if not names:
        yield value
        return
    for item in value.get(names[0]) or () if isinstance(value.get(names[0]), list) else ():
        yield from walked(item, *names[1:])
