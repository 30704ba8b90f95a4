"""What names the groups of an answer, in one column or in several at once?"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from calibrail.errors import InputError
from calibrail.phrases import listed

#: Among several columns of groups: thirds of the answers' lengths, which no column holds.
LENGTH: Final = "length"
#: Names of the thirds, from short answers to long ones.
THIRDS: Final = ("short", "middle", "long")

#: The columns of a promise: one, or several whose groups overlap.
By = str | tuple[str, ...] | None


def group_name(value: object) -> str:
    """Return a group as the text that names it; nothing given is the empty name."""
    return "" if value is None else str(value)


def columns_of_groups(by: By) -> tuple[str, ...]:
    """Return the columns of the data that name an answer's groups.

    >>> columns_of_groups("topic"), columns_of_groups(("model", "length")), columns_of_groups(None)
    (('topic',), ('model',), ())
    """
    if isinstance(by, tuple):
        return tuple(name for name in by if name != LENGTH)
    return () if by is None else (by,)


def reads_length(by: By) -> bool:
    """Return whether groups are named by the length of the answer, so that its text is read."""
    return isinstance(by, tuple) and LENGTH in by


def spelled(by: By | list[str]) -> str:
    """Return what a reader is told of the columns.

    >>> spelled("topic"), spelled(("model", "topic", "length"))
    ('topic', 'model, topic and length')
    """
    return by or "" if by is None or isinstance(by, str) else listed(list(by))


def third(characters: float, cuts: Sequence[float]) -> str:
    """Return the third of the lengths that an answer is in.

    >>> third(90, (90, 200)), third(91, (90, 200)), third(201, (90, 200))
    ('short', 'middle', 'long')
    """
    return THIRDS[sum(characters > cut for cut in cuts)]


def group_key(
    by: By, columns: Mapping[str, Any], characters: float, cuts: Sequence[float] | None = None
) -> str:
    """Return the text that stands for all groups of an answer.

    Parameters
    ----------
    by : str or tuple of str
        The columns of the promise.
    columns : mapping
        Those of the answer; one that is missing is the group without a name.
    characters : float
        Length of the answer.
    cuts : sequence of float, optional
        Above which lengths the second and the last third begin.

    Examples
    --------
    >>> group_key("topic", {"topic": "law"}, 10), group_key("topic", {}, 10)
    ('law', '')
    >>> group_key(("topic", "length"), {"topic": "law"}, 10, (5, 20))
    '["law","middle"]'
    """
    if not isinstance(by, tuple):
        return group_name(columns.get(str(by)))
    parts = (third(characters, cuts or ()) if name == LENGTH else columns.get(name) for name in by)
    return joined([group_name(part) for part in parts])


def joined(parts: Sequence[str | None]) -> str:
    """Return one text for the groups of an answer, one a column; None is one nobody knows."""
    return json.dumps(list(parts), ensure_ascii=False, separators=(",", ":"))


def parted(key: str, n: int) -> list[str | None]:
    """Return the groups that a text stands for; those of a text that names none are unknown.

    >>> parted('["law",null]', 2), parted("", 2)
    (['law', None], [None, None])
    """
    if not isinstance(key, str):
        raise InputError(f"groups must hold strings, one per score; got {key!r:.80}")
    if not key:
        return [None] * n
    try:
        parts = json.loads(key)
    except ValueError:
        parts = None
    if not isinstance(parts, list) or len(parts) != n:
        raise InputError(f"groups must name one group a column, {n} in all; got {key!r:.80}")
    return [part if isinstance(part, str) else None for part in parts]
