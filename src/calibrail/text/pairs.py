"""Which pieces of a line stand within one pair of quotation marks, brackets or emphasis?"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

_MARK = re.compile(
    r"`[^`]*`|\*\*|__|[()\[\]\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f\"]"
)
_CLOSES: Final = {
    ")": "(",
    "]": "[",
    "\u201d": "\u201c",
    "\u00bb": "\u00ab",
    "\u300d": "\u300c",
    "\u300f": "\u300e",
}
_OPENS: Final = frozenset({*_CLOSES.values(), "\u201e"})


def spanning(text: str, start: int, end: int, borders: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last piece of each pair that spans more than one piece.

    What opens and never closes, or closes and never opened, makes no pair. Time is linear.

    Parameters
    ----------
    text : str
        The text.
    start, end : int
        The line, as half open characters of it.
    borders : sequence of int
        Where its second, third, ... piece starts.

    >>> list(spanning("(A. B.) C.", 0, 10, [4, 8]))
    [(0, 1)]
    """
    stack: list[tuple[str, int]] = []
    waiting: Counter[str] = Counter()
    for match in _MARK.finditer(text, start, end):
        mark = match[0]
        if mark.startswith("`"):
            continue
        opener = _CLOSES.get(mark, mark)
        if mark == "\u201c" and waiting["\u201e"]:
            opener = "\u201e"
        elif mark in _OPENS or (mark not in _CLOSES and not waiting[mark]):
            # A mark that may do either opens where something follows it, or nothing stands before
            # it ('music. " The Thicket" is'): behind a word it closes, or means inches.
            before = text[match.start() - 1 : match.start()]
            if (
                mark in _OPENS
                or not text[match.end() : match.end() + 1].isspace()
                or (mark == '"' and before.isspace())
            ):
                stack.append((mark, match.start()))
                waiting[mark] += 1
            continue
        if not waiting[opener]:
            continue
        while True:
            opened, place = stack.pop()
            waiting[opened] -= 1
            if opened == opener:
                break
        pieces = bisect_right(borders, place), bisect_right(borders, match.start())
        if pieces[0] < pieces[1]:
            yield pieces
