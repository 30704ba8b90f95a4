"""Which columns hold labels, where the user names none?"""

from collections.abc import Mapping, Sequence
from typing import Final

from calibrail.data.aliases import aliases_of
from calibrail.data.label_words import is_of_truth, meaning_of_one
from calibrail.data.marked_spans import looks_marked
from calibrail.data.opened import Opened
from calibrail.data.paths import nested_names, value_at
from calibrail.data.texts import parse_cell
from calibrail.data.traces.export import ANNOTATION, SCORE
from calibrail.errors import DataError
from calibrail.settings import ReadOptions
from calibrail.settings.option import option_of

_LISTED: Final = 20


class Seen:
    """The columns of the first rows, paths into their objects among them."""

    def __init__(self, rows: Sequence[Mapping[str, object]]) -> None:
        self.rows = rows
        self.names = dict.fromkeys(name for row in rows for name in row)

    def __contains__(self, column: object) -> bool:
        if column in self.names or "." not in str(column):
            return column in self.names
        return any(value not in (None, []) for value in self.values(str(column)))

    def values(self, column: str) -> list[object]:
        """Return what every row holds under a column."""
        return [value_at(row, column) for row in self.rows]


def label_columns_of(
    seen: Seen, opened: Opened, reading: ReadOptions, source: str, *, needed: bool
) -> tuple[str, ...]:
    """Return the columns of labels that were named, or the one that is there by its name.

    Of a tool's export these are what people said of an answer; what its own judges said is a label
    for nobody who does not name it.

    Parameters
    ----------
    seen : Seen
        The first rows.
    opened : Opened
        The source.
    reading : ReadOptions
        What the user named.
    source : str
        How messages call the data.
    needed : bool
        Whether every row needs a label.

    Raises
    ------
    DataError
        Labels are needed, and an export holds several of people, or none.
    """
    named = reading.label_column or (reading.mapping or {}).get("label")
    if isinstance(named, tuple | list):
        return tuple(named)
    if named is not None:
        return (named,) if named in seen else tuple(name.strip() for name in named.split(","))
    if opened.export is not None:
        return _of_people(seen, opened.format, source, needed)
    found = aliases_of("label", seen.names) if opened.table else []
    if opened.table and not found:
        inside = {
            path: own
            for path in nested_names(seen.rows[0] if seen.rows else {})
            if (own := path.rpartition(".")[2]) != path
            and aliases_of("label", (own,))
            and not any(isinstance(value, list | Mapping) for value in seen.values(path))
        }
        found = list(inside)
    if opened.table and not found:
        # An answer in which something is marked is hallucinated.
        marked = (reading.mapping or {}).get("spans")
        spans = [marked] if marked in seen else aliases_of("spans", seen.names)
        found = [name for name in spans if name and any(map(looks_marked, seen.values(name)))]
    return (found[0],) if len(found) == 1 else ("label",)


def _of_people(seen: Seen, format: str, source: str, needed: bool) -> tuple[str, ...]:
    """Return the column of what people said of an export's answers."""
    given = [name for name in seen.names if name.startswith(ANNOTATION)]
    own = aliases_of("label", [name for name in seen.names if "." not in name])
    # A name that speaks of faithfulness goes before others, such as a rating of style.
    likely = [
        name
        for name in given
        if meaning_of_one(name) is not None or aliases_of("label", (name.rpartition(".")[2],))
    ]
    telling = [name for name in given if is_of_truth(name, seen.values(name))]
    for found in (likely, telling if len(given) == 1 else [], own):
        if len(found) == 1:
            return (found[0],)
    several = likely or given or own
    if needed and seen.names:
        scores = [name for name in seen.names if name.startswith(SCORE)]
        if len(several) == 1:
            raise DataError(
                f"{source}, read as {format}, holds one label that people gave, {several[0]}, and "
                "its name does not say whether it is about faithfulness; "
                f"{option_of(ReadOptions, 'label_column', several[0])} takes it"
            )
        if several:
            raise DataError(
                f"{source}, read as {format}, holds several labels: {_listed(several)}; choose one "
                f"with {option_of(ReadOptions, 'label_column', several[0])}"
            )
        if scores:
            raise DataError(
                f"{source}, read as {format}, holds no label that a person gave; what programs "
                f"said is a score and no label: {_listed(scores)}. "
                f"{option_of(ReadOptions, 'label_column', scores[0])} takes one as the label all "
                "the same"
            )
    return ("label",)


def _listed(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + rest


def is_spans(value: object) -> bool:
    """Say whether a label is a list of spans that were marked in the answer, or spells one."""
    value = parse_cell(value) if isinstance(value, str) else value
    return isinstance(value, list) and any(
        isinstance(item, Mapping) and {"start", "end"} <= item.keys() for item in value
    )
