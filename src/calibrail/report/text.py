"""Phrases, safe excerpts, character figures."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final, TypeGuard

from calibrail import formatting
from calibrail.formatting import floor_percent, lower_percent, outward, percent, upper_percent
from calibrail.report.document import Cell, Json, Tile, Verdict

#: Warnings under which a certificate holds only for what was fixed before anyone saw results.
CONDITIONS: Final = {"others_tried", "tested_beside", "calibrated_before", "judged_before"}
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
    """Return the score's name with the parameters that are set, those of files without folders."""
    score = report["score"]
    if score.get("key"):
        return named(plain(score["key"]))
    params = score.get("params") or {}
    listed = ",".join(f"{key}={value}" for key, value in params.items() if value is not None)
    return named(plain(f"{score['name']}:{listed}" if listed else score["name"]))


def share(value: Json | None) -> str:
    """Return a share's estimate in percent, what is proven of it, or that it is unknown.

    Examples
    --------
    >>> share({"estimate": 0.934}), share({"estimate": None}), share(None)
    ('93.4%', 'unknown', 'unknown')
    >>> share({"estimate": None, "lower": 0.9, "method": "rank"})
    'at least 90%'
    >>> share({"estimate": None, "lower": 0.0, "method": "rank"})
    'not promised for all'
    """
    if is_proven(value):
        low = value["lower"]
        return f"at least {lower_percent(low)}" if low else "not promised for all"
    if value is None or value["estimate"] is None:
        return "unknown"
    return percent(value["estimate"])


def is_proven(value: Json | None) -> TypeGuard[Json]:
    """Return whether the rank of a threshold proves a share that nothing measures."""
    return value is not None and value.get("method") == "rank"


def warned(result: Json) -> list[str]:
    """Return the codes of warnings: of a report, which has them whole, or of a guardrail."""
    return [it["code"] if isinstance(it, dict) else it for it in result.get("warnings", ())]


def conditional(codes: Iterable[str]) -> bool:
    """Return whether a certificate under these warnings hangs on what was fixed before."""
    return not CONDITIONS.isdisjoint(codes)


def tone(result: Json) -> Verdict:
    """Return as what a verdict is shown: a certificate on a condition is no full one."""
    verdict: Verdict = result["verdict"]
    return "conditional" if verdict == "certified" and conditional(warned(result)) else verdict


def required(relation: str, limit: float | None) -> str:
    """Return what is required of a share, never rounded inwards; nothing where nothing is.

    >>> required(">=", 0.81256), required("<=", 0.1001), required("<=", None)
    ('>= 81.2%', '<= 10.1%', '')
    """
    end = floor_percent if relation == ">=" else formatting.ceiling_percent
    return "" if limit is None else f"{relation} {end(limit)}"


def interval(value: Json | None) -> str:
    """Return ``91.7 to 96%`` for a share's interval in percent, nothing without one.

    Examples
    --------
    >>> interval({"lower": 0.917, "upper": 0.96}), interval({"lower": 0.917, "upper": None})
    ('91.7 to 96%', 'at least 91.7%')
    """
    if value is None or value["lower"] is None or is_proven(value):
        return ""
    if value["upper"] is None:
        return f"at least {lower_percent(value['lower'])}"
    return f"{lower_percent(value['lower']).removesuffix('%')} to {upper_percent(value['upper'])}"


def count_of(value: Json) -> str:
    """Return the counts behind a share; that it is proven, where none are.

    Examples
    --------
    >>> count_of({"count": 1200, "n": 1500})
    '1,200 of 1,500'
    >>> count_of({"method": "rank", "confidence": 0.9})
    'proven by its rank'
    """
    if is_proven(value):
        return "proven by its rank" if value.get("lower", 1.0) else "some groups have no promise"
    return f"{value['count']:,} of {value['n']:,}"


def tile_line(tile: Tile) -> str:
    """Return a number with its bounds and what is required of it, in one phrase."""
    inside = (tile.interval, f"required {tile.asked}" if tile.asked else "")
    told = "; ".join(plain(item) for item in inside if item)
    return f"{tile.name} {tile.value}{f' ({told})' if told else ''}" if tile.value else ""


def share_cell(value: Json | None) -> Cell:
    """Return a share with its interval below."""
    return Cell(share(value), interval(value))


def share_with_bounds(value: Json) -> str:
    """Return ``93.4% (91 to 96)``, or a word where there is no share."""
    if value["estimate"] is None:
        return share(value)
    lower = outward(value["lower"], 2, upper=False)
    upper = outward(value["upper"], 2, upper=True)
    return f"{share(value)} ({100 * float(lower):.0f} to {100 * float(upper):.0f})"


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
        return f"at most {outward(value['upper'], digits, upper=True)}"
    lower = outward(value["lower"], digits, upper=False)
    return f"{lower} to {outward(value['upper'], digits, upper=True)}"


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


def p_value(value: float) -> str:
    """Return a p-value with two digits, rounded up: ``p = 0.013``, or ``p < 0.001``.

    Examples
    --------
    >>> p_value(0.0123), p_value(1e-9), p_value(1.0)
    ('p = 0.013', 'p < 0.001', 'p = 1')
    """
    return "p < 0.001" if value < 0.001 else f"p = {formatting.upward(value)}"


def p_number(value: float | None) -> str:
    """Return what stands in a column of p-values.

    Examples
    --------
    >>> p_number(0.0123), p_number(1e-9), p_number(None)
    ('0.013', '< 0.001', 'none')
    """
    return "none" if value is None else p_value(value).removeprefix("p ").removeprefix("= ")


def capital(text: str) -> str:
    """Return a text that begins a sentence."""
    return text[:1].upper() + text[1:]


def named(name: str) -> str:
    """Return a score's name with the files and models that it names without their folders.

    >>> named("nli:model=../models/nli-small,batch=2"), named("judge:model=org/large")
    ('nli:model=nli-small,batch=2', 'judge:model=large')
    """
    return re.sub(r"=(?![a-z]+://)(?:[^=,/]*/)+(?=[^,/])", "=", name)


def last_part(path: str) -> str:
    """Return the last part of each of several paths, as titles name files.

    >>> last_part("/data/of one/a.csv, b/c.csv and 2 more"), last_part("example:facts")
    ('a.csv, c.csv and 2 more', 'example:facts')
    """
    return re.sub(r"(^|, )(?:[^,/\\]*[/\\])+(?=[^,/\\])", r"\1", path)


#: Format characters that letters of some scripts need: joiners, and the marks of right to left.
_NEEDED: Final = "\u200c\u200d"

#: Characters of the longest word that a cut spares.
_WORD: Final = 30

#: A stretch of a text, and whether it is marked.
Segment = tuple[str, bool]


def clean(text: str) -> str:
    r"""Return text without characters that are not seen but act.

    Control characters other than tab and line end, and format characters (those that turn the
    direction of what follows among them) are left out. What is no character at all (half of a
    surrogate pair, an unassigned code) becomes a replacement character.

    Examples
    --------
    >>> clean("a\x00b\u202ec\ud800")
    'abc\ufffd'
    """
    if text.isascii() and text.isprintable():
        return text
    kept = []
    for letter in text.replace("\r\n", "\n"):
        kind = unicodedata.category(letter)
        if letter in "\n\t" or letter in _NEEDED or kind[0] != "C":
            kept.append(letter)
        elif kind in ("Cs", "Cn"):
            kept.append("\N{REPLACEMENT CHARACTER}")
    return "".join(kept)


def short(text: object, most: int = 120) -> str:
    """Return one clean line of at most ``most`` characters.

    Examples
    --------
    >>> short("a  long name", 8)
    'a lon...'
    """
    # A text of any length is cut before it is looked at letter by letter.
    flat = " ".join(clean(str(text)[: 8 * most]).split())
    return flat if len(flat) <= most else flat[: most - 3] + "..."


def merged(spans: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Return places of a text in order, inside it, without overlap.

    Examples
    --------
    >>> merged([(5, 9), (0, 2), (1, 3), (8, 99), (4, 4), (-3, 1)], 10)
    [(0, 3), (5, 10)]
    """
    places: list[tuple[int, int]] = []
    for start, end in sorted((max(0, start), min(length, end)) for start, end in spans):
        if places and start <= places[-1][1] and start < end:
            places[-1] = (places[-1][0], max(places[-1][1], end))
        elif start < end:
            places.append((start, end))
    return places


def excerpt(
    text: str, spans: Iterable[tuple[int, int]], most: int
) -> tuple[list[Segment], bool, bool]:
    """Return about ``most`` characters of a text, from shortly before its first marked place.

    Parameters
    ----------
    text : str
        Of any length and content.
    spans : iterable of pairs of int
        Places of the text to mark.
    most : int
        Characters to keep.

    Returns
    -------
    segments : list of (str, bool)
        Clean stretches in order, each marked or not.
    before, after : bool
        Whether something is left out there.
    """
    places = merged(spans, len(text))
    first = places[0][0] if places else 0
    start = 0 if len(text) <= most else max(0, min(first - most // 4, len(text) - most))
    end = min(len(text), start + most)
    start, end = _at_words(text, start, end)
    return parted(text, start, end, places), start > 0, end < len(text)


def parted(text: str, start: int, end: int, spans: Iterable[tuple[int, int]]) -> list[Segment]:
    """Return a part of a text as clean stretches in order, each marked by a span or not.

    Examples
    --------
    >>> parted("It is red.", 0, 9, [(6, 99)])
    [('It is ', False), ('red', True)]
    """
    inside = merged(((max(start, a), min(end, b)) for a, b in spans), len(text))
    edges = sorted({start, end, *(edge for place in inside for edge in place)})
    marked = set(inside)
    segments = [(clean(text[a:b]), (a, b) in marked) for a, b in pairwise(edges)]
    return [segment for segment in segments if segment[0]]


def _at_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Return where to cut so that no short word is cut in two."""
    if start > 0:
        space = text.find(" ", start, start + _WORD)
        start = start if space < 0 else space + 1
    if end < len(text):
        space = text.rfind(" ", max(start, end - _WORD), end)
        end = end if space < 0 else space
    return start, end


def third(feature: str, name: str) -> str:
    """Return how a third of a feature is called.

    >>> third("length", "low"), third("theta_qc", "low")
    ('short', 'low')
    """
    if feature not in ("length", "question_length", "context_length"):
        return name
    return {"low": "short", "high": "long"}.get(name, name)


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield what mappings within mappings hold, each with its path: names with points between."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def by_sentence(content: Json) -> bool:
    """Return whether a report, a certificate or a guardrail is about removing sentences."""
    return "sentence" in (content.get("unit"), (content.get("promise") or {}).get("unit"))
