"""Which sentences does a string hold, and where?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from nupunkt import PunktSentenceTokenizer

# A bullet or a number that opens a list item. One capital letter with a point is left alone, since
# it is more often an initial ("J. K. Rowling"), and so are four digits with a point, a year.
_NUMBERING = (
    r"(?:\((?:\d{1,3}|[A-Za-z]|[ivxIVX]{2,5})\)"
    r"|(?:\d{1,3}(?:\.\d{1,2})*|[A-Za-z]|[ivxIVX]{2,5})\)"
    r"|(?:\d{1,3}(?:\.\d{1,2})*|[a-z]|[ivx]{2,5})\.)(?=\s|$)"
)
_UNSPACED_NUMBERING = r"[\u2460-\u2473]|\d{1,3}(?:\u3001|\uff0e(?!\d))"
_NUMBER = rf"(?:{_NUMBERING}|{_UNSPACED_NUMBERING})"
_BULLETS = (
    r"(?:(?:[-+*\u00b7\u2010-\u2015\u25a0-\u25ff]+(?=\s|$)"
    r"|[\u2022\u2023\u2043\u2219\u25aa\u25ab\u25cf\u25e6\u25b6\u25ba\u27a4\u2713\u2714]+)\s*)+"
)
# A number after a bullet is a marker only where something follows: "- 7." is an item of its own.
_ITEM = re.compile(rf"{_BULLETS}(?:{_NUMBER}\s*(?=\S))?|{_NUMBER}\s*(?:{_BULLETS})?")
_HEADING = re.compile(r"#{1,6}(?=\s|$)\s*")

# Full stops of scripts other than Latin; nupunkt knows none of them. Most stand without a space.
_STOPS = (
    "\u3002\uff61\ufe12\uff01\uff1f\ufe56\ufe57\u203c\u2047-\u2049"  # Chinese, Japanese
    "\u0964\u0965\u0df4\u104b\u17d4\u17d5\u0f0e"  # Indic, Sinhala, Burmese, Khmer, Tibetan
    "\u061f\u06d4\u0700-\u0702\u0589\u1362\u1367\u1368\u1803\u1809\u037e"
    # Arabic, Urdu, Syriac, Armenian, Ethiopic, Mongolian, Greek (question mark)
)
_CLOSING = "\u300d\u300f\uff09\u3015\uff3d\uff5d\u3009\u300b\u3011\u201d\u2019\u00bb)\\]"
#: A full stop that ends a sentence of such a script.
STOP: Final = re.compile(
    # Not within a run of stops: what is behind it is the same from each of its places.
    rf"(?<![{_STOPS}\uff0e])(?:[{_STOPS}]|\uff0e(?!\d))[{_STOPS}\uff0e!?.\u2026]*+"
    # Inside a quotation that the sentence goes on after, as a Japanese particle or a comma shows.
    rf"(?:[{_CLOSING}]++(?![\u3040-\u309f\u3001\uff0c,;:\uff1a\uff1b]))?(?![{_CLOSING}])"
)
#: What may stand within and behind such a full stop without its end being certain.
STOPPING: Final = re.compile(rf"[{_STOPS}\uff0e!?.\u2026]*+[{_CLOSING}]*")

# A source named after the full stop ("It rained. (Passage 1)") belongs to the sentence before it.
ASIDE: Final = re.compile(r"[(\[][^()\[\].!?]{1,40}[)\]][.;,]?")
CITED: Final = re.compile(
    r"(?:\[[\d,;\s-]{1,20}\]"
    r"|\((?:see )?(?:passage|source|document|context|article)[^().!?]{1,40}\))[.;,]?\s+",
    re.IGNORECASE,
)

# The sentence goes on after a quoted one: 'The song "Who Are You?", of 1978, is long.'
_GOES_ON = re.compile(r"[\"'\u201d\u2019)\]]*[,;:]")
# And after letters with points, in small letters: "The Leeds R.L.F.C. home stadium".
_INITIALS = re.compile(r"(?:[^\W\d_]\.){2,}\s{1,3}$")

# nupunkt's abbreviations hold ordinary words ("cancer", "series", "art"). In small letters and
# before a capital only these are ones.
_ABBREVIATED = re.compile(
    "approx|assn|ave|blvd|cert|chap|comp|corp|dept|dist|eds|esp|est|etc|excl|fig|figs|gen|gov|hon"
    "|inc|incl|lit|misc|mrs|nos|orig|par|para|pres|prof|pub|publ|rep|resp|rev|sec|sen|sgt|ssp|subsp"
    "|temp|trans|univ|var|vol|vols"
)
_WORD_END = re.compile(
    r"(?<![\w.'\u2019-])([a-z]{3,})\.[\"')\]\u201d\u2019]*\s+(?=[\"'(\u201c\u2018]?[A-Z])"
)

# nupunkt looks at the whole run of letters around each stop, again for each stop: quadratic time on
# a run without spaces. The inside of a long one (a link, a table, code) is hidden from it.
_LONG_RUN = re.compile(r"\S{200,}")
_SEEN = 50

# Without one of these nupunkt sees no end: most lines of a list or a table need not go there.
_ENDS = re.compile("[.!?\u2026]")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


class Sentence(NamedTuple):
    """A sentence with its place.

    Attributes
    ----------
    text : str
        The characters ``[start:end]`` of the original string, unchanged.
    start, end : int
        Character offsets into the original string, end exclusive.
    """

    text: str
    start: int
    end: int


class Line(NamedTuple):
    """A line that holds a letter or digit, without its list marker and outer white space.

    Attributes
    ----------
    start, end : int
        Character offsets of what remains, end exclusive.
    indent : int
        Number of white space characters before the line or its marker.
    kind : str
        "item" after a bullet or a number, "heading" after ``#``, "plain" otherwise.
    """

    start: int
    end: int
    indent: int
    kind: str


@cache
def sentences_version() -> str:
    """Return what pins the result of `sentences`: its own version and that of nupunkt."""
    return f"calibrail-sentences/1 nupunkt/{version('nupunkt')}"


def sentences(text: str) -> list[Sentence]:
    r"""Return the sentences of a string in order.

    A sentence never crosses a line break. Bullets and numbers that open a line belong to none, and
    what holds neither a letter nor a digit of any script is none. Within a line nupunkt decides
    (Punkt with a trained model: abbreviations, initials, decimals, quotes), and the full stops of
    other scripts end a sentence too.

    Notes
    -----
    Scripts without any full stop (Thai, Lao) give one sentence a line.

    >>> [s.text for s in sentences("Dr. Wu left at 5 p.m. on foot. It rained:\n1. hard\n2. long")]
    ['Dr. Wu left at 5 p.m. on foot.', 'It rained:', 'hard', 'long']
    """
    return [sentence for line in lines(text) for sentence in line_sentences(text, line)]


def lines(text: str) -> list[Line]:
    """Return the lines of a string that hold a letter or digit beside a list marker.

    Where no line does, a marker is all there is to say ("7." as an answer), and stays.
    """
    return list(_lines(text, marked=True)) or list(_lines(text, marked=False))


def marker(text: str, start: int, end: int) -> tuple[int, str]:
    """Return where the text of a line begins behind its list marker or ``#``, and its kind.

    Parameters
    ----------
    text : str
        The string.
    start, end : int
        The line without outer white space.
    """
    heading = _HEADING.match(text, start, end)
    mark = heading or _ITEM.match(text, start, end)
    if mark is None or mark.end() == start:
        return start, "plain"
    return mark.end(), "heading" if heading else "item"


def line_sentences(text: str, line: Line) -> Iterator[Sentence]:
    """Yield the sentences of one of the `lines` of a string, with offsets into that string."""
    starts = [*_starts(text[line.start : line.end]), line.end - line.start]
    begin = end = line.start
    for left, right in pairwise(starts):
        first, last = _trimmed(text, line.start + left, line.start + right)
        if not speaks(text, first, last):
            continue
        if begin == end:
            begin = first
        elif not ASIDE.fullmatch(text, first, last):
            cited = CITED.match(text, first, last)
            if cited and not speaks(text, cited.end(), last):
                end = last
                continue
            if cited:
                end, first = first + len(cited[0].rstrip()), cited.end()
            yield Sentence(text[begin:end], begin, end)
            begin = first
        end = last
    if begin < end:
        yield Sentence(text[begin:end], begin, end)


def _lines(text: str, *, marked: bool) -> Iterator[Line]:
    offset = 0
    for whole in text.splitlines(keepends=True):
        first, end = _trimmed(text, offset, offset + len(whole))
        indent = first - offset
        offset += len(whole)
        start, kind = first, "plain"
        if marked and first < end:
            start, kind = marker(text, first, end)
        if speaks(text, start, end):
            yield Line(start, end, indent, kind)


def _starts(line: str) -> Iterator[int]:
    """Yield where the pieces of a line start, the first at 0."""
    borders = [0, len(line)]
    if not line.isascii():
        borders[1:1] = [match.end() for match in STOP.finditer(line) if match.end() < len(line)]
    for start, end in pairwise(borders):
        yield from (start + left for left in starts(line[start:end]))


def starts(piece: str) -> list[int]:
    """Return where sentences start in a part of a line without `STOP`, the first at 0."""
    if not _ENDS.search(piece):
        return [0]
    piece = _LONG_RUN.sub(_hidden, piece)
    spans = _tokenizer().span_tokenize(piece)
    found = {0, *(left for left, _ in spans if not _goes_on(piece, left))}
    for match in _WORD_END.finditer(piece):
        if not _ABBREVIATED.fullmatch(match[1]):
            found.add(match.end())
    return sorted(found)


def _goes_on(piece: str, at: int) -> bool:
    if _GOES_ON.match(piece, at):
        return True
    return piece[at].islower() and _INITIALS.search(piece, max(0, at - 20), at) is not None


def _hidden(run: re.Match[str]) -> str:
    return run[0][:_SEEN] + "x" * (len(run[0]) - 2 * _SEEN) + run[0][-_SEEN:]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    end = start + len(piece.rstrip())
    return end - len(text[start:end].lstrip()), end


def speaks(text: str, start: int, end: int) -> bool:
    """Return whether a part of a string holds a letter or a digit of any script."""
    return _LETTER_OR_DIGIT.search(text, start, end) is not None


@cache
def _tokenizer() -> PunktSentenceTokenizer:
    # Not nupunkt's shared one, to which any other code may add abbreviations.
    from nupunkt.models import load_default_model

    tokenizer = load_default_model()
    # "Yahoo! in 1995" is one sentence.
    tokenizer.EXCL_QUEST_LOWERCASE_CONTINUES = True
    tokenizer.add_abbreviations(["subsp", "ssp"])
    return tokenizer
