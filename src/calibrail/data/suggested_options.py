"""Which options would read an unknown file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from calibrail.data.aliases import NAMES, aliases_of
from calibrail.data.columns import ColumnMapping
from calibrail.data.example import FAITHFUL, HALLUCINATED, TEXT_FIELDS
from calibrail.data.labels import label_key, parse_label, votes_in
from calibrail.data.traces._tool_export import SCORE
from calibrail.data.values import chunks_of, column_value, nested_names, parse_cell, value_at
from calibrail.serialization import Record

# A label has so many different short values at most, and a text that says something is longer.
_CLASSES: Final = 6
# Rows in which a text is looked for, and names of a path that may speak of it.
_LOOKED_AT: Final = 20
_DEPTH: Final = 8
_SHORT: Final = 30

# Characters of an example.
_SHOWN: Final = 50

# Rows of a wide table that are looked at.
_CELLS: Final = 300_000

#: What names of columns speak of.
_WORDS: Final = {field: words.split() for field, words in NAMES["parts_of_names"].items()}


@dataclass(frozen=True, slots=True)
class ColumnLook(Record):
    """What a column holds in the first rows.

    Parameters
    ----------
    name : str
        The column, or the path to it.
    kind : str
        ``text``, ``number``, ``true/false``, ``list of texts``, ``list``, ``object``, ``mixed`` or
        ``empty``.
    n, missing : int
        Rows looked at with a value and without.
    examples : tuple of str
        Its most frequent values, shortened.
    values : tuple of str
        All its different values where they are few and short, else none.
    length : float
        Characters of its texts on average.
    """

    name: str
    kind: str
    n: int
    missing: int
    examples: tuple[str, ...]
    values: tuple[str, ...]
    length: float


def looks(rows: Sequence[Mapping[str, object]]) -> tuple[ColumnLook, ...]:
    """Return what is in each column of some rows, paths into objects among them."""
    width = max(map(len, rows), default=1) or 1
    rows = rows[: max(5, _CELLS // width)]
    names = dict.fromkeys(name for row in rows for name in nested_names(row))
    made = {name: [value_at(row, name) for row in rows] for name in names}
    counted = dict.fromkeys(name.rpartition(".")[0] for name in names if "." in name)
    for name in counted:
        votes = [votes_in(value_at(row, name)) for row in rows]
        if all(vote is not None for vote in votes) and name:
            # Votes are one column, not one for each of their labels.
            at = next(i for i, known in enumerate(made) if known.startswith(f"{name}."))
            items = [(k, v) for k, v in made.items() if not k.startswith(f"{name}.")]
            items.insert(at, (name, [[label for label, _ in vote or ()] for vote in votes]))
            made = dict(items)
    return tuple(_look(name, values) for name, values in made.items())


def _look(name: str, values: Sequence[object]) -> ColumnLook:
    there = [value for value in values if value is not None]
    kinds = {_kind(value) for value in there}
    kind = next(iter(kinds)) if len(kinds) == 1 else "mixed" if kinds else "empty"
    flat = [item for value in there for item in (value if isinstance(value, list) else [value])]
    simple = [item for item in flat if isinstance(item, str | int | float)]
    counts: dict[str, int] = {}
    for item in simple:
        text = str(item).strip()
        counts[text] = counts.get(text, 0) + 1
    often = sorted(counts, key=lambda text: -counts[text])
    few = len(simple) == len(flat) and 0 < len(often) <= _CLASSES
    # A text that spells a list or an object is no class.
    short = few and max(map(len, often)) <= _SHORT and not any(t[:1] in ("[", "{") for t in often)
    texts = [chunks_of(value) for value in there]
    sizes = [sum(map(len, text)) for text in texts if text is not None]
    return ColumnLook(
        name,
        kind,
        len(there),
        len(values) - len(there),
        tuple(_brief(text) for text in (often or list(map(str, there)))[:3]),
        tuple(often) if short else (),
        sum(sizes) / len(sizes) if sizes else 0.0,
    )


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true/false"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "list of texts" if chunks_of(value) is not None else "list"
    return "object"


def suggest(
    rows: Sequence[Mapping[str, object]],
    layout: Sequence[ColumnLook],
    columns: ColumnMapping,
    readable: bool,
    exported: bool = False,
) -> dict[str, str]:
    """Return options, by their names in `ReadOptions`, that would read what is not understood.

    Parameters
    ----------
    rows : sequence of mapping
        The first rows.
    layout : sequence of ColumnLook
        All columns.
    columns : Columns
        What was understood.
    readable : bool
        Whether labels could be read.
    exported : bool
        Whether it is a tool's export, of which only a column whose name speaks of labels, and that
        is no program's score, may hold some.
    """
    options: dict[str, str] = {}
    lengths = {look.name: look.length for look in layout}
    # A column that has a field's name, but no text, is none.
    read = {
        field: name
        for field in columns.present
        if field not in TEXT_FIELDS or _holds_text(rows, columns.by_field[field])
        for name in (columns.by_field[field],)
    }
    mapping: dict[str, str] = _by_role(layout) if "response" not in read else {}
    for field in TEXT_FIELDS:
        if field in read or field in mapping:
            continue
        taken = {*read.values(), *mapping.values()}
        texts = [look.name for look in layout if _is_text(look) and _is_free(look.name, taken)]
        rivals = [
            name
            for name in aliases_of(field, lengths)
            if _is_free(name, taken) and _holds_text(rows, name)
        ]
        # A column's own name goes before those of the objects around it.
        for depth in (1, 2, _DEPTH):
            rivals = rivals or [name for name in texts if _speaks_of(name, field, depth)]
        if rivals:
            mapping[field] = rivals[0]
    mapping |= _by_length(layout, {*read, *mapping}, {*read.values(), *mapping.values()}, lengths)
    # A question is asked for only where there is more to say.
    if mapping.keys() - {"question"}:
        options["mapping"] = ",".join(f"{field}={column}" for field, column in mapping.items())
    taken = {*read.values(), *mapping.values()}
    if exported:
        layout = [
            look for look in layout if _is_named(look.name) and not look.name.startswith(SCORE)
        ]
    return options | dict(_labels(layout, columns, readable, taken))


def _by_role(layout: Sequence[ColumnLook]) -> dict[str, str]:
    """Return the fields that messages hold, each of one speaker in all rows."""
    fields = {"system": "contexts", "user": "question", "assistant": "response"}
    found: dict[str, str] = {}
    for look in layout:
        path, _, own = look.name.rpartition(".")
        if own == "role" and len(look.values) == 1 and look.values[0] in fields:
            found[fields[look.values[0]]] = f"{path}.content"
    return found


def _by_length(
    layout: Sequence[ColumnLook],
    fields: set[str],
    taken: set[str],
    lengths: Mapping[str, float],
) -> dict[str, str]:
    """Return the longest texts for the answer and its contexts, where no name says which."""
    texts = sorted(
        (look for look in layout if _is_text(look) and _is_free(look.name, taken)),
        key=lambda look: -look.length,
    )
    mapping: dict[str, str] = {}
    for field in ("response", "contexts"):
        if field in fields:
            continue
        # Of two texts the longer one is what the shorter one was made from.
        least = lengths.get(mapping.get("response", ""), 0.0) if field == "contexts" else 0.0
        rest = [look for look in texts if look.name not in mapping.values() and look.length > least]
        if rest:
            both = field == "response" and "contexts" not in fields and len(rest) > 1
            mapping[field] = rest[1 if both else 0].name
    return mapping


def _speaks_of(column: str, field: str, depth: int) -> bool:
    """Say whether the last so many names of a path speak of a field."""
    path = ".".join(column.lower().split(".")[-depth:])
    return any(word in path for word in _WORDS[field])


def _is_free(column: str, taken: set[str]) -> bool:
    """Say whether a column is in no other field, and none is in it."""
    return not any(f"{column}.".startswith(f"{name}.") for name in taken) and not any(
        name.startswith(f"{column}.") for name in taken
    )


def _holds_text(rows: Sequence[Mapping[str, object]], column: str) -> bool:
    """Say whether a column is read as texts, and not as JSON that spells an object of others."""
    values = [value for row in rows if (value := value_at(row, column)) is not None]
    spelt = [parse_cell(value) if isinstance(value, str) else None for value in values[:_LOOKED_AT]]
    return any(
        chunks_of(cell if isinstance(cell, Mapping) else value) is not None
        for cell, value in zip(spelt, values, strict=False)
    )


def _is_text(look: ColumnLook) -> bool:
    # Numbers of many digits, as CSV spells them, are no texts.
    digits = all(isinstance(column_value(example), float) for example in look.examples)
    return (
        look.kind in ("text", "list of texts")
        and not look.values
        and look.length >= 15
        and not digits
    )


def _labels(
    layout: Sequence[ColumnLook], columns: ColumnMapping, readable: bool, taken: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield the options that name labels and say what their values mean."""
    if readable:
        return
    there = [look for look in layout if look.name in columns.label_columns]
    if "label" in columns.present and there:
        chosen = there[0]
    else:
        used = {columns.by_field[field] for field in columns.present}
        candidates = [
            look for look in layout if 2 <= len(look.values) <= _CLASSES and look.name not in used
        ]
        named = [look for look in candidates if _is_named(look.name)]
        if not (named or candidates):
            return
        chosen = (named or candidates)[0]
        yield "label_column", chosen.name
    classes = {value: parse_label(value) for value in chosen.values}
    if chosen.kind == "number" and len(classes) > 2:
        # Of a rating, its 0 and 1 are no labels.
        classes = dict.fromkeys(classes)
    unknown = [value for value, label in classes.items() if label is None]
    if not unknown or not chosen.values or {*classes.values()} == {FAITHFUL, HALLUCINATED}:
        return
    if len(classes) == 2 and len(unknown) == 2:
        likely = [value for value in unknown if label_key(value) in ("no", "n", "f", "negative")]
        yield "positive", (likely or unknown)[0]
        return
    if len(classes) == 2:
        # One of two is known, so the other one is the other class.
        known = next(label for label in classes.values() if label is not None)
        classes[unknown[0]] = 1 - known
    yield "label_map", ",".join(f"{value}={_OF[label]}" for value, label in classes.items())


def _is_named(column: str) -> bool:
    """Say whether a column's own name, not that of the object around it, speaks of labels."""
    own = column.rpartition(".")[2].lower()
    return any(word in own for word in _WORDS["label"])


_OF: Final = {FAITHFUL: "0", HALLUCINATED: "1", None: "?"}
