"""Which texts does a value hold: a text, an object with one, a list of sentences?"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from calibrail.data.json_text import load_json, load_literal

#: Where an object holds its text, the first that it has.
_TEXT_KEYS: Final = (
    *("text", "content", "contents", "page_content", "passage", "passage_text", "chunk", "body"),
    *("snippet", "paragraph", "sentence", "sentences", "document", "context", "claim", "answer"),
)

#: Names of texts that an object numbers, such as ``doc_1``.
_NUMBERED: Final = re.compile(r"\d$")

# The key of a sentence in a list of pairs, such as 0a, is short and has no space.
_KEY_LENGTH: Final = 6


def text_of(value: object) -> str | None:
    r"""Return the text that a value holds, or None where it holds none.

    A list of sentences is joined; of ``[key, text]`` pairs the keys are left out; an object is its
    text, below its title where it has one.

    >>> text_of(["One.", "Two."]), text_of([["0a", "One."], ["0b", "Two."]])
    ('One. Two.', 'One. Two.')
    >>> text_of({"title": "Rome", "text": "A city."}), text_of(7)
    ('Rome\nA city.', None)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        found = next((value[key] for key in _TEXT_KEYS if value.get(key) is not None), None)
        return _titled(value.get("title"), text_of(found))
    if isinstance(value, (list, tuple)):
        if _keyed(value):
            value = [pair[1] for pair in value]
        elif len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], (list, tuple)):
            return _titled(value[0], text_of(value[1]))
        parts = [item if isinstance(item, str) else text_of(item) for item in value]
        return None if None in parts else " ".join(part.strip() for part in parts if part)
    return None


def chunks_of(value: object, cells: bool = False) -> tuple[str, ...] | None:
    r"""Return the texts that a value lists, or None where it holds anything else.

    Parameters
    ----------
    value : object
        A text; a list of texts, of objects with texts, of lists of sentences; or one object, whose
        texts may be listed in it, or numbered.
    cells : bool
        Whether a list or an object may be spelt in a text, as JSON or as Python prints it.

    Examples
    --------
    >>> chunks_of([{"title": "Rome", "text": "A city."}, ["One.", "Two."]])
    ('Rome\nA city.', 'One. Two.')
    >>> chunks_of({"title": ["Rome"], "sentences": [["One.", "Two."]]})
    ('Rome\nOne. Two.',)
    >>> chunks_of({"doc_1": "One.", "doc_2": "Two."}), chunks_of({"url": "x"})
    (('One.', 'Two.'), None)
    """
    if isinstance(value, str):
        spelt = parse_cell(value) if cells else None
        listed = None if spelt is None else chunks_of(spelt)
        return (value,) if listed is None else listed
    if isinstance(value, Mapping):
        titles, texts = value.get("title"), next(filter(None, map(value.get, _TEXT_KEYS)), None)
        if not isinstance(titles, list) or not isinstance(texts, list):
            text = text_of(value)
            if text is None and value and all(map(_NUMBERED.search, map(str, value))):
                return chunks_of(list(value.values()))
            return None if text is None else (text,)
        value = [{"title": t, "text": s} for t, s in zip(titles, texts, strict=False)]
    if not isinstance(value, (list, tuple)):
        return None
    if all(isinstance(item, str) for item in value):
        return tuple(value)
    if _keyed(value):
        value = [pair[1] for pair in value]
    texts = [text_of(item) for item in value]
    return None if None in texts else tuple(text for text in texts if text is not None)


def parse_cell(cell: str) -> object:
    """Return the list or object that a cell spells in JSON or Python, or None.

    >>> parse_cell("['a', 'b']"), parse_cell("[c]"), parse_cell("text")
    (['a', 'b'], None, None)
    """
    text = cell.strip()
    if text[:1] + text[-1:] not in ("[]", "{}"):
        return None
    for parse in (load_json, load_literal):
        try:
            value = parse(text)
        except ValueError:
            continue
        return value if isinstance(value, (list, dict)) else None
    return None


def _titled(title: object, text: str | None) -> str | None:
    return f"{title}\n{text}" if text and isinstance(title, str) and title.strip() else text


def _keyed(items: Sequence[object]) -> bool:
    """Say whether a list holds ``[key, text]`` pairs, with a key of its own each."""
    keys = {
        item[0]
        for item in items
        if isinstance(item, (list, tuple))
        and len(item) == 2
        and isinstance(item[0], str)
        and isinstance(item[1], str)
        and len(item[0]) <= _KEY_LENGTH
        and item[0].isalnum()
    }
    return bool(items) and len(keys) == len(items)
