"""In which stretches is a long text read beside a short one, so that no word of it is missed?"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calibrail.errors import ModelError
from calibrail.models.layout import Tokens

#: Tokens that the long text gets at least, however long the short one is.
LEAST_LONG: Final = 64


@dataclass(frozen=True, slots=True)
class Window:
    """One pass: a stretch of the long text with the short text.

    Attributes
    ----------
    ids, types : list of int
        What the model reads.
    long, short : (int, int)
        From which of those tokens to which the two texts lie.
    first, first_short : int
        Which token of the long (the short) text comes first.
    start, end : int
        Characters of the long text that the stretch covers.
    """

    ids: list[int]
    types: list[int]
    long: tuple[int, int]
    short: tuple[int, int]
    first: int
    first_short: int
    start: int
    end: int


def cut(tokens: Tokens, max_length: int, window: int | None) -> tuple[list[Window], bool]:
    """Return the windows of a pair, and whether the short text had to be cut at its end.

    Parameters
    ----------
    tokens : Tokens
        The pair.
    max_length : int
        Tokens that the model takes at a time.
    window : int or None
        Most tokens of the long text at a time; None for what fits.

    Raises
    ------
    ModelError
        If the model takes fewer tokens than its own template has.
    """
    n_long, n_short = len(tokens.long), len(tokens.short)
    fixed = len(tokens.ids) - n_long - n_short
    least = min(n_long, LEAST_LONG, max_length // 2)
    kept = min(n_short, max_length - fixed - least)
    if kept < min(n_short, 1):
        raise ModelError(
            f"the model takes {max_length} tokens at a time, too few for a pair of texts "
            f"and the {fixed} tokens around them"
        )
    size = max_length - fixed - kept
    if window is not None:
        size = min(size, window)
    spans = stretches(n_long, size, tokens.long.words)
    return [assemble(tokens, span, (0, kept)) for span in spans], kept < n_short


def stretches(
    n: int, size: int, words: Sequence[int], *, overlapping: bool = True
) -> list[tuple[int, int]]:
    """Return from which token to which each window of a text of n tokens goes.

    Parameters
    ----------
    n, size : int
        Tokens of the text, and of a window at most (at least 1).
    words : sequence of int
        First tokens of words, increasing. Windows begin and end there where a word is not
        longer than an eighth of a window.
    overlapping : bool
        Whether windows overlap by a quarter and the last one is full. Any stretch of up to a
        quarter of a window is then whole in one of them.
    """
    if n <= size:
        return [(0, n)]
    slack = size // 8
    spans = []
    start = 0
    while start + size < n:
        end = _word_before(words, start + size, slack)
        spans.append((start, end))
        start = _word_before(words, end - size // 4, slack) if overlapping else end
    if overlapping:
        last = bisect_left(words, n - size)
        start = words[last] if last < len(words) and words[last] <= start else n - size
    spans.append((start, n))
    return spans


def assemble(tokens: Tokens, long: tuple[int, int], short: tuple[int, int]) -> Window:
    """Return the pass that reads these tokens of the two texts and all that stands around them."""
    ids: list[int] = []
    types: list[int] = []
    places: dict[str, tuple[int, int]] = {}
    position = 0
    parts = [("long", tokens.long, long), ("short", tokens.short, short)]
    for name, side, (first, last) in sorted(parts, key=lambda part: (part[1].first, part[1].stop)):
        around = slice(position, side.first)
        kept = slice(side.first + first, side.first + last)
        ids += tokens.ids[around] + tokens.ids[kept]
        types += tokens.types[around] + tokens.types[kept]
        places[name] = (len(ids) - (last - first), len(ids))
        position = side.stop
    first, last = long
    offsets = tokens.long.offsets
    return Window(
        ids + tokens.ids[position:],
        types + tokens.types[position:],
        long=places["long"],
        short=places["short"],
        first=first,
        first_short=short[0],
        start=0 if first == 0 else offsets[first][0],
        end=tokens.long.n_characters if last == len(tokens.long) else offsets[last - 1][1],
    )


def _word_before(words: Sequence[int], token: int, slack: int) -> int:
    """Return the last first token of a word at or before a token, if it is near; else the token."""
    index = bisect_right(words, token) - 1
    return words[index] if index >= 0 and words[index] >= token - slack else token
