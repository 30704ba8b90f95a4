"""Names that other tools use for a field."""

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from calibrail.data.example import TEXT_FIELDS
from calibrail.data.values import chunks_of, text_of
from calibrail.errors import tables_beside
from calibrail.text.words import INVISIBLE

#: Names and words of other tools: see ``names.toml``.
NAMES: Final[Mapping[str, Any]] = tables_beside(__file__, "names.toml")

#: Preset name to the columns of (question, contexts, response).
PRESETS: Final[Mapping[str, Sequence[str]]] = NAMES["presets"]


def tools_named(columns: Mapping[str, str]) -> list[str]:
    """Return the tools whose own names all text fields have, none where these are calibrail's.

    >>> tools_named({"question": "input", "contexts": "context", "response": "output"})
    ['trulens', 'phoenix']
    """
    named = tuple(columns.get(field, "") for field in ("question", "contexts", "response"))
    return [name for name, own in PRESETS.items() if tuple(own) == named and name != "calibrail"]


#: Fields of what people marked in an answer: spans, its sentences, a label for each of these; and,
#: where rows are sentences, which answer a row belongs to.
MARK_FIELDS: Final = ("spans", "sentences", "sentence_labels", "answer_id")

#: Tables that are known to have a row a sentence, by their columns, and the one of its answer.
SENTENCE_TABLES: Final = ((frozenset({"id", "group", "response", "label", "grade"}), "group"),)

#: Further names of objects that hold fields.
HOLDERS: Final = ("inputs", "outputs")


def aliases_of(
    field: str, columns: Collection[str], nested: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Return the columns that stand for a field by their name: none, the one, or equal rivals.

    Those that are paths into objects go by the names in ``nested``.

    >>> aliases_of("response", ["doc", "summary"]), aliases_of("contexts", ["doc", "article"])
    (['summary'], ['doc'])
    >>> aliases_of("response", ["answer", "summary"]), aliases_of("label", ["label", "Label"])
    (['answer', 'summary'], ['label', 'Label'])
    """
    by_lower: dict[str, list[str]] = {}
    for column in dict.fromkeys(columns):
        name = INVISIBLE.sub("", nested.get(column, column)).strip().lower().replace(" ", "_")
        by_lower.setdefault(name, []).append(column)
    for tier in NAMES["fields"][field]:
        if found := [column for name in tier.split() for column in by_lower.get(name, ())]:
            return found
    for together in NAMES["together"]:
        if field in together["stands_for"] and {*together["names"].split()} <= by_lower.keys():
            return by_lower[together["stands_for"][field]]
    return []


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
        keys = dict.fromkeys(key for x in objects if isinstance(x, Mapping) for key in x)
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


#: Of so many characters a prompt says more than it asks; so many of a chunk are looked for in it,
#: and fewer would stand anywhere.
_ASKS, _CHUNK, _SAYS = 1000, 60, 20
_HEADING: Final = re.compile(NAMES["templates"]["heading"])


def is_template(column: str, prompts: Sequence[object], contexts: Sequence[object]) -> bool:
    """Say whether a column of questions is a prompt that holds what is to be read, too."""
    if column not in NAMES["templates"]["names"].split():
        return False
    held = 0
    for prompt, value in zip(prompts, contexts, strict=True):
        text = text_of(prompt) or ""
        chunks = [chunk.strip()[:_CHUNK] for chunk in chunks_of(value) or ()]
        holds = any(len(chunk) >= _SAYS and chunk in text for chunk in chunks)
        held += holds or len(text) > _ASKS or _HEADING.search(text) is not None
    return 2 * held > len(prompts)
