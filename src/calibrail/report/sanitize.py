"""How does text that somebody else wrote become safe to show on a page?"""

import unicodedata
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

#: Format characters that letters of some scripts need: joiners, and the marks of right to left.
_NEEDED: Final = "\u200c\u200d"
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

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
            kept.append(_REPLACEMENT)
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
