"""What is in each column of a file, and which options would read it?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from calibrail.data.aliases import aliases_of
from calibrail.data.columns import Columns
from calibrail.data.example import FAITHFUL, HALLUCINATED
from calibrail.data.labels import label_key, parse_label
from calibrail.data.paths import nested_names, value_at
from calibrail.data.texts import chunks_of
from calibrail.record import Record

# A label has so many different short values at most, and a text that says something is longer.
_CLASSES: Final = 6
_SHORT: Final = 30

# Characters of an example.
_SHOWN: Final = 50

# Rows of a wide table that are looked at.
_CELLS: Final = 300_000

_LABEL_WORDS: Final = (
    *("label", "annotation", "verdict", "judg", "human", "gold", "halluc", "faith", "consist"),
    *("support", "factual", "correct", "ground", "entail"),
)


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
    return tuple(_look(name, [value_at(row, name) for row in rows]) for name in names)


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
    short = few and max(map(len, often)) <= _SHORT
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


def suggest(layout: Sequence[ColumnLook], columns: Columns, readable: bool) -> dict[str, str]:
    """Return options, by their names in `ReadOptions`, that would read what is not understood.

    Parameters
    ----------
    layout : sequence of ColumnLook
        All columns.
    columns : Columns
        What was understood.
    readable : bool
        Whether labels could be read.
    """
    options: dict[str, str] = {}
    used = {columns.by_field[field] for field in columns.present}
    texts = sorted(
        (look for look in layout if _is_text(look) and look.name not in used),
        key=lambda look: -look.length,
    )
    mapping: dict[str, str] = {}
    lengths = {look.name: look.length for look in layout}
    for field in ("response", "contexts"):
        if field in columns.present:
            continue
        if rivals := aliases_of(field, lengths):
            mapping[field] = rivals[0]
            continue
        # Of two texts the longer one is what the shorter one was made from.
        least = lengths.get(columns.by_field["response"], 0.0) if field == "contexts" else 0.0
        rest = [look for look in texts if look.name not in mapping.values() and look.length > least]
        if rest:
            both = field == "response" and "contexts" not in columns.present and len(rest) > 1
            mapping[field] = rest[1 if both else 0].name
    if mapping:
        options["mapping"] = ",".join(f"{field}={column}" for field, column in mapping.items())
    return options | dict(_labels(layout, columns, readable))


def _is_text(look: ColumnLook) -> bool:
    return look.kind in ("text", "list of texts") and not look.values and look.length >= 15


def _labels(
    layout: Sequence[ColumnLook], columns: Columns, readable: bool
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
    return any(word in own for word in _LABEL_WORDS)


_OF: Final = {FAITHFUL: "0", HALLUCINATED: "1", None: "?"}
