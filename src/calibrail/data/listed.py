"""Which columns list a value for every label of a row?"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from calibrail.data.paths import value_at
from calibrail.data.texts import parse_cell

# Whose labels they are is no thing that is labelled.
_OF_PEOPLE: Final = re.compile(r"annotat|worker|rater|judge|people|author|user", re.IGNORECASE)


def beside_labels(
    rows: Sequence[Mapping[str, object]], label_columns: Sequence[str], cells: bool
) -> list[str]:
    """Return the columns with a list as long as that of the labels, in most rows that list labels.

    Parameters
    ----------
    rows : sequence of mapping
        The first rows.
    label_columns : sequence of str
        Where labels are; several columns list nothing.
    cells : bool
        Whether a list may be spelt in a text, as in CSV.

    Examples
    --------
    >>> row = {"replies": ["a", "b"], "annotators": ["x", "y"], "docs": ["c"], "labels": [1, 0]}
    >>> beside_labels([row], ["labels"], cells=False)
    ['replies']
    """
    fitting: Counter[str] = Counter()
    n = 0
    for row in rows if len(label_columns) == 1 else ():
        labels = _list(value_at(row, label_columns[0]), cells)
        if not labels or any(isinstance(label, Mapping) for label in labels):
            continue
        n += 1
        for name, value in row.items():
            items = None if name == label_columns[0] else _list(value, cells)
            fitting[name] += items is not None and len(items) == len(labels)
    return [name for name, k in fitting.items() if 2 * k > n and not _OF_PEOPLE.search(name)]


def _list(value: object, cells: bool) -> list[object] | None:
    if cells and isinstance(value, str):
        value = parse_cell(value)
    return value if isinstance(value, list) else None
