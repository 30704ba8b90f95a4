"""How do measures, intervals and names read, in every document?"""

import re
from collections.abc import Callable
from typing import Final

from calibrail.phrases import number, percent
from calibrail.report.blocks import Cell, Json

#: Where a word that is too long for a line may go on in the next one.
JOINT: Final = re.compile(r"(?<=[/_.:,=-])(?=[^\s/_.:,=-])")


def plain(text: object) -> str:
    """Return text on one line without control characters, safe to print to a terminal."""
    joined = " ".join(str(text).split())
    return "".join(ch if ch.isprintable() else "\N{REPLACEMENT CHARACTER}" for ch in joined)


def group_label(name: object) -> str:
    """Return a group as it is shown; the number that a cell held, without a point where whole.

    >>> [group_label(name) for name in ("0.0", "-2.0", "0.5", "v1.0", "")]
    ['0', '-2', '0.5', 'v1.0', '(none)']
    """
    return re.sub(r"^(-?\d+)\.0$", r"\1", plain(name)) or "(none)"


def group_of(row: Json, named: Callable[[object], str] = group_label) -> str:
    """Return the group of a row as it is shown, with its column where several name groups.

    >>> group_of({"group": "law"}), group_of({"group": "law", "column": "topic"})
    ('law', 'topic: law')
    """
    name = named(row["group"])
    return f"{plain(row['column'])}: {name}" if "column" in row else name


def score_name(report: Json) -> str:
    """Return the score's name with the parameters that are set, as ``--score`` takes them."""
    score = report["score"]
    if score.get("key"):
        return plain(score["key"])
    params = score.get("params") or {}
    listed = ",".join(f"{key}={value}" for key, value in params.items() if value is not None)
    return plain(f"{score['name']}:{listed}" if listed else score["name"])


def share(value: Json | None) -> str:
    """Return a share's estimate in percent, or a word where there is none.

    Examples
    --------
    >>> share({"estimate": 0.934}), share({"estimate": None}), share(None)
    ('93.4%', 'none', 'none')
    """
    if value is None or value["estimate"] is None:
        return "none"
    return percent(value["estimate"])


def interval(value: Json | None) -> str:
    """Return ``91.7 to 96%`` for a share's interval in percent, nothing without one.

    Examples
    --------
    >>> interval({"lower": 0.917, "upper": 0.96}), interval({"lower": 0.917, "upper": None})
    ('91.7 to 96%', 'at least 91.7%')
    """
    if value is None or value["lower"] is None:
        return ""
    if value["upper"] is None:
        return f"at least {percent(value['lower'])}"
    return f"{percent(value['lower']).removesuffix('%')} to {percent(value['upper'])}"


def count_of(value: Json) -> str:
    """Return the counts behind a share.

    Examples
    --------
    >>> count_of({"count": 1200, "n": 1500})
    '1,200 of 1,500'
    """
    return f"{value['count']:,} of {value['n']:,}"


def share_cell(value: Json | None) -> Cell:
    """Return a share with its interval below."""
    return Cell(share(value), interval(value))


def share_with_bounds(value: Json) -> str:
    """Return ``93.4% (91 to 96)``, or a word where there is no share."""
    if value["estimate"] is None:
        return "none"
    return f"{share(value)} ({100 * value['lower']:.0f} to {100 * value['upper']:.0f})"


def estimate(value: Json | None, digits: int = 3) -> str:
    """Return a measure's estimate, or a word where there is none."""
    if not value or value["estimate"] is None:
        return "none"
    return f"{value['estimate']:.{digits}f}"


def bounds(value: Json | None, digits: int = 3) -> str:
    """Return a measure's interval, or its one bound; nothing where there is none.

    Examples
    --------
    >>> bounds({"lower": 0.4, "upper": 0.6}), bounds({"lower": None, "upper": 0.6})
    ('0.400 to 0.600', 'at most 0.600')
    """
    if not value or value["upper"] is None:
        return ""
    if value["lower"] is None:
        return f"at most {value['upper']:.{digits}f}"
    return f"{value['lower']:.{digits}f} to {value['upper']:.{digits}f}"


def with_bounds(value: Json, digits: int = 3) -> str:
    """Return a measure with its interval behind it.

    Examples
    --------
    >>> with_bounds({"estimate": 0.5, "lower": 0.4, "upper": 0.6})
    '0.500 (0.400 to 0.600)'
    """
    span = bounds(value, digits)
    return f"{estimate(value, digits)} ({span})" if span else estimate(value, digits)


def measure_cell(value: Json | None, digits: int = 3) -> Cell:
    """Return a measure with its interval below."""
    known = estimate(value, digits)
    return Cell(known, "" if known == "none" else bounds(value, digits))


def threshold(value: float | None) -> str:
    """Return a threshold, or a word where there is none."""
    return "none" if value is None else number(value)


def p_value(value: float) -> str:
    """Return a p-value with two digits, e.g. ``p = 0.012``, or ``p < 0.001``.

    Examples
    --------
    >>> p_value(0.0123), p_value(1e-9), p_value(1.0)
    ('p = 0.012', 'p < 0.001', 'p = 1')
    """
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def p_number(value: float | None) -> str:
    """Return what stands in a column of p-values.

    Examples
    --------
    >>> p_number(0.0123), p_number(1e-9), p_number(None)
    ('0.012', '< 0.001', 'none')
    """
    return "none" if value is None else p_value(value).removeprefix("p ").removeprefix("= ")


def capital(text: str) -> str:
    """Return a text that begins a sentence."""
    return text[:1].upper() + text[1:]


def named(name: str) -> str:
    """Return a score's name with the files that it names without their folders.

    >>> named("nli:model=../models/nli-small,batch=2")
    'nli:model=nli-small,batch=2'
    """
    return re.sub(r"=[.~]{0,2}/(?:[^,/]*/)*(?=[^,/])", "=", name)
