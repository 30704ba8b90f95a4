"""Which fields stand in objects that are named after a field, such as ``input.question``?"""

from collections.abc import Collection, Mapping, Sequence

from calibrail.data.aliases import HOLDERS, aliases_of
from calibrail.data.example import TEXT_FIELDS
from calibrail.data.texts import text_of


def nested_fields(rows: Sequence[Mapping[str, object]], columns: Collection[str]) -> dict[str, str]:
    """Return the paths to fields in objects, with the names that they go by.

    An object that is itself the text of its field, as in ``{"response": {"text": ...}}``, is read
    as such; one of whose parts another is the field, or that holds no text, goes by the name "".
    Names that the row has outside of objects, or in several, are left alone.

    Parameters
    ----------
    rows : sequence of mapping
        The first rows.
    columns : collection of str
        Their columns.

    Examples
    --------
    >>> nested_fields([{"input": {"question": "q", "context": "c"}, "output": "a"}], ["input"])
    {'input': '', 'input.question': 'question', 'input.context': 'context'}
    >>> nested_fields([{"context": {"source": "url", "text": "c"}}], ["context"])
    {}
    """
    found: dict[str, str] = {}
    for column in columns:
        objects = [value for row in rows if (value := row.get(column)) is not None]
        if not objects or not all(isinstance(value, Mapping) for value in objects):
            continue
        field = next((name for name in TEXT_FIELDS if aliases_of(name, (column,))), None)
        if field is None and column.lower() not in HOLDERS:
            continue
        keys = dict.fromkeys(
            key for value in objects if isinstance(value, Mapping) for key in value
        )
        parts = {
            key: inner
            for key in keys
            if (inner := next((f for f in TEXT_FIELDS if aliases_of(f, (key,))), None)) is not None
        }
        is_text = all(text_of(value) is not None for value in objects)
        if not parts or (is_text and set(parts.values()) == {field}):
            continue
        if field in parts.values() or not is_text or field is None:
            found[column] = ""
        found |= {f"{column}.{key}": key for key in parts}
    names = [name for name in found.values() if name]
    return {
        path: name
        for path, name in found.items()
        if not name or (names.count(name) == 1 and (name not in columns or found.get(name) == ""))
    }
