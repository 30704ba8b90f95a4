"""Is a column that is read as labels one of 0 and 1, or does it hold something else?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from calibrail.data.columns import Columns
from calibrail.data.example import FAITHFUL, HALLUCINATED, Example
from calibrail.data.labels import LabelReader, another_column
from calibrail.errors import DataError
from calibrail.settings import ReadOptions
from calibrail.settings.option import option_of

# Fewer rows than this, or a smaller share of those labelled, are mistakes of writing.
_FEW: Final = 5
_SHARE: Final = 0.05
# A number that comes back is a class, not a slip.
_OFTEN: Final = 0.01

# A map of more values is nothing to type.
_CLASSES: Final = 12
_LISTED: Final = 8

# Rows that are looked at before the work; a whole source is judged at its end.
_AHEAD: Final = 100_000


def holds_others(labels: Mapping[str, Any] | None, n_read: int) -> bool:
    """Say whether a column holds values that are no labels, more than are slips.

    Parameters
    ----------
    labels : mapping or None
        From `LabelReader.described`.
    n_read : int
        Rows whose label was read.

    Examples
    --------
    >>> others = {"n": 4, "values": [{"value": "2", "n": 4}]}
    >>> holds_others({"others": others}, 20), holds_others({"others": {**others, "n": 5}}, 20)
    (False, True)
    """
    others = labels and labels["others"]
    if not others or not n_read or others["n"] < _FEW:
        return False
    n_labelled = n_read + others["n"]
    return others["n"] > _SHARE * n_labelled or any(
        item["n"] >= max(_FEW, _OFTEN * n_labelled)
        for item in others["values"]
        if _is_number(item["value"])
    )


def what_is_held(labels: Mapping[str, Any], n_read: int) -> str:
    """Return which values a column holds beside labels, how often, and what reads them."""
    others = labels["others"]
    n_labelled = n_read + others["n"]
    held, known = list(_counted(others["values"])), list(_counted(labels["values"]))
    rest = f" and {len(held) - _LISTED} more values" if len(held) > _LISTED else ""
    beside = f", beside {', '.join(known[:_LISTED])}" if known else ""
    return (
        f"column {labels['column']!r} is no column of 0 and 1: in {others['n']:,} of "
        f"{n_labelled:,} labelled rows it holds {', '.join(held[:_LISTED])}{rest}{beside}. "
        f"{_remedy(labels)}"
    )


def map_to_fill(labels: Mapping[str, Any]) -> dict[str, str] | None:
    """Return a label map with a ``?`` for every value that only a person can read.

    None where there are too many. Beside further numbers, 0 and 1 mean nothing by themselves.

    >>> read = [{"value": "1", "class": 1}, {"value": "FAIL", "class": 1}]
    >>> map_to_fill({"values": read, "by_user": False, "others": {"values": [{"value": "2"}]}})
    {'1': '?', '2': '?', 'FAIL': '1'}
    """
    others = [item["value"] for item in labels["others"]["values"]]
    numbers = any(map(_is_number, others)) and not labels["by_user"]
    classes = {
        item["value"]: "?" if numbers and _is_number(item["value"]) else _OF[item["class"]]
        for item in labels["values"]
    } | dict.fromkeys(others, "?")
    return dict(sorted(classes.items())) if len(classes) <= _CLASSES else None


def _remedy(labels: Mapping[str, Any]) -> str:
    classes = map_to_fill(labels)
    if classes is None:
        return (
            "A graded label needs a cut-off: write 1 where it counts as hallucinated, else 0"
            f"{another_column()}"
        )
    positive = option_of(ReadOptions, "positive", "VALUE")
    return (
        f"Say what each value means: {option_of(ReadOptions, 'label_map', classes)} with 1 "
        f"(hallucinated), 0 (faithful) or skip in place of each ?; or {positive} for the one that "
        f"means hallucinated, where every other means faithful{another_column()}"
    )


def _counted(values: list[dict[str, Any]]) -> Iterator[str]:
    return (f"{item['value']} ({item['n']:,})" for item in values)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


_OF: Final = {FAITHFUL: "0", HALLUCINATED: "1"}


def refuse_others(source: str, labels: LabelReader, n_read: int) -> None:
    """Refuse a source whose column of labels holds other values, more than are slips.

    Raises
    ------
    DataError
        It does; the message names the values and how they are read.
    """
    described = labels.described()
    if holds_others(described, n_read):
        raise DataError(f"{source}: {what_is_held(described, n_read)}")


def refuse_others_ahead(
    head: Sequence[Mapping[str, object]],
    columns: Columns,
    reading: ReadOptions,
    again: Callable[[ReadOptions], "_Counting"],
) -> None:
    """Refuse such a source before anything is computed, if its first rows leave room for it.

    First rows of both classes without another value do not. Else labels are read once more, alone.

    Parameters
    ----------
    head : sequence of mapping
        The first rows.
    columns : Columns
        Where labels are.
    reading : ReadOptions
        How the source is read.
    again : callable
        From how to read it to a further pass over the source.

    Raises
    ------
    DataError
        As `refuse_others`.
    """
    labels = LabelReader(reading, columns.label_columns[0], columns.labels.spans)
    for values in head:
        label = columns.label_of(values)
        for item in label if isinstance(label, list) and not labels.spans else [label]:
            if labels(item) is None and not labels.is_missing(item):
                labels.set_aside(item)
    if not labels.n_others and len({label for _, label in labels.seen}) != 1:
        return
    first = _AHEAD if reading.limit is None else min(_AHEAD, reading.limit)
    limit = first if reading.sample is None else reading.limit
    whole = again(replace(reading, strict=False, quarantine=None, limit=limit))
    for _ in whole:
        pass
    refuse_others(whole.source, whole.columns.labels, whole.n_examples + whole.n_filtered)


class _Counting(Protocol):
    """A pass over a source, as `calibrail.data.reading.Reading` is one."""

    source: str
    columns: Columns
    n_examples: int
    n_filtered: int

    def __iter__(self) -> Iterator[Example]: ...
